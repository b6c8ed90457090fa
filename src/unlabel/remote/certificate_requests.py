"""Requests to certify keys: what a party hands to whoever signs certificates; none is a secret."""

from __future__ import annotations

from pathlib import Path

from cryptography import x509

from unlabel.errors import RunError
from unlabel.remote.certificates import Identity, alternative, subject

#: Bytes of the longest file of requests that is read.
MOST_BYTES = 2**16
_BEGIN = b"-----BEGIN CERTIFICATE REQUEST-----"


def request_for(identity: Identity) -> x509.CertificateSigningRequestBuilder:
    """Return what asks for a certificate; whoever signs it as it stands names the right one."""
    names = x509.SubjectAlternativeName([alternative(identity.host or identity.name)])
    request = x509.CertificateSigningRequestBuilder().subject_name(subject(identity))
    return request.add_extension(names, critical=False)


def read_requests(path: Path) -> list[x509.CertificateSigningRequest]:
    """Read requests to certify keys; every key must have signed its own."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES)
        requests = [x509.load_pem_x509_csr(_BEGIN + block) for block in data.split(_BEGIN)[1:]]
        valid = all(each.is_signature_valid for each in requests)
    except OSError as error:
        raise RunError(f"Cannot read '{path}': {error.strerror}.") from error
    except ValueError as error:
        raise RunError(f"'{path}' is damaged; have the request made again.") from error
    if not valid:
        raise RunError(f"The request '{path}' is not signed by its own key; have it made again.")
    return requests
