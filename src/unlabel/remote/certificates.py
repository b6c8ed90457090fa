"""Certificates: how a party shows on the wire who it is.

One authority, made when a federation is set up, signs a certificate for each party. Both ends of
every connection show theirs (mutual TLS). Names in a certificate are read by the engine:

    common name        the party; at the active party the host of the server, or the user who leads
    organisation       the party
    unstructured name  the user's role, where there is one

A passive party's certificate is good for calling only, so that it cannot pose as the server.
"""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from unlabel.errors import RunError

#: The engine signs with RSA, so that the keys must be of that kind.
KEY_BITS = 3072
#: For how long the authority itself may sign; certificates of parties are renewed meanwhile.
AUTHORITY_DAYS = 3650
#: Clocks of two organisations may be apart by so much.
CLOCKS_APART = datetime.timedelta(hours=1)
ROLE = "lead"


@dataclass(frozen=True)
class Identity:
    """Whom a certificate is for.

    name          common name
    organisation  the party
    role          of a user, None for a site
    host          under which a server is reached, None for who only calls
    """

    name: str
    organisation: str
    role: str | None = None
    host: str | None = None


@dataclass(frozen=True)
class Authority:
    """The key that signs certificates, and the certificate under which they are checked."""

    certificate: x509.Certificate
    key: rsa.RSAPrivateKey

    @classmethod
    def make(cls, federation: str, now: datetime.datetime | None = None) -> Authority:
        """Return a new authority for a federation."""
        start = _start(now)
        key = make_key()
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, federation)])
        certificate = (
            _begin(name, name, key.public_key(), key, start, AUTHORITY_DAYS)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .sign(key, hashes.SHA256())
        )
        return cls(certificate, key)

    def certify(
        self,
        identity: Identity,
        public: rsa.RSAPublicKey,
        days: int,
        now: datetime.datetime | None = None,
    ) -> x509.Certificate:
        """Return a certificate for a public key; it does not outlive the authority's own."""
        start = _start(now)
        left = (self.certificate.not_valid_after_utc - start).days
        if left < 1:
            raise RunError(
                f"The authority's own certificate ended on "
                f"{moment(self.certificate.not_valid_after_utc)}; set the federation up anew."
            )
        names = [
            x509.NameAttribute(NameOID.COMMON_NAME, identity.name),
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, identity.organisation),
        ]
        if identity.role is not None:
            names.append(x509.NameAttribute(NameOID.UNSTRUCTURED_NAME, identity.role))
        uses = [ExtendedKeyUsageOID.CLIENT_AUTH]
        if identity.host is not None:
            uses.append(ExtendedKeyUsageOID.SERVER_AUTH)
        issuer = self.certificate.subject
        return (
            _begin(x509.Name(names), issuer, public, self.key, start, min(days, left))
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
            .add_extension(
                x509.SubjectAlternativeName([_alternative(identity.host or identity.name)]),
                critical=False,
            )
            .sign(self.key, hashes.SHA256())
        )


def make_key() -> rsa.RSAPrivateKey:
    """Return a new private key."""
    return rsa.generate_private_key(public_exponent=65_537, key_size=KEY_BITS)


def key_bytes(key: rsa.RSAPrivateKey) -> bytes:
    """Return a private key as PEM, in the form that the engine reads."""
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )


def certificate_bytes(certificate: x509.Certificate) -> bytes:
    """Return a certificate as PEM."""
    return certificate.public_bytes(serialization.Encoding.PEM)


def read_certificate(path: Path) -> x509.Certificate:
    """Read one certificate."""
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except OSError as error:
        raise RunError(
            f"Certificate '{path}' cannot be read ({error.strerror}); ask whoever set the "
            f"federation up for a new one."
        ) from error
    except ValueError as error:
        raise RunError(
            f"'{path}' is not a certificate; ask whoever set the federation up for a new one."
        ) from error


def read_key(path: Path) -> rsa.RSAPrivateKey:
    """Read a private key, which nobody but its owner may be able to read."""
    try:
        expect_private(path)
        key = serialization.load_pem_private_key(path.read_bytes(), None)
    except OSError as error:
        raise RunError(f"Key '{path}' cannot be read ({error.strerror}).") from error
    except (ValueError, TypeError) as error:
        raise RunError(f"Key '{path}' is truncated or was changed; renew it.") from error
    if not isinstance(key, rsa.RSAPrivateKey):
        raise RunError(f"Key '{path}' is not an RSA key; renew it.")
    return key


def expect_private(path: Path) -> None:
    """Raise where others than its owner can read a key."""
    if path.stat().st_mode & 0o077:
        raise RunError(f"Key '{path}' can be read by others; run `chmod 600 {path}`.")


def check_certificate(
    path: Path, key: Path, root: Path, identity: Identity, now: datetime.datetime | None = None
) -> x509.Certificate:
    """Return a certificate that is good now, of the authority `root`, for `identity` and `key`."""
    certificate, authority = read_certificate(path), read_certificate(root)
    moment_now = now or datetime.datetime.now(datetime.UTC)
    try:
        certificate.verify_directly_issued_by(authority)
    except (InvalidSignature, ValueError, TypeError) as error:
        raise RunError(
            f"Certificate '{path}' was not signed by the authority of this federation ({root.name})"
            f"; use the one that was made with this kit.",
            code="untrusted",
        ) from error
    owner = owner_of(certificate.subject)
    if owner != (identity.name, identity.organisation):
        raise RunError(
            f"Certificate '{path}' is for '{owner[0]}' of '{owner[1]}', but this kit is for "
            f"'{identity.name}' of '{identity.organisation}'; use its own.",
            code="other-party",
        )
    if moment_now < certificate.not_valid_before_utc:
        raise RunError(
            f"Certificate '{path}' is valid from {moment(certificate.not_valid_before_utc)}, but "
            f"this machine's clock says {moment(moment_now)}; set the clock.",
            code="not-valid-now",
        )
    ends = min(certificate.not_valid_after_utc, authority.not_valid_after_utc)
    if moment_now > ends:
        raise RunError(
            f"Certificate '{path}' ended on {moment(ends)} and this machine's clock says "
            f"{moment(moment_now)}; have it renewed (`unlabel federation renew`) or set the clock.",
            code="not-valid-now",
        )
    if read_key(key).public_key() != certificate.public_key():
        raise RunError(
            f"Key '{key.name}' and certificate '{path}' do not belong together; put both files of "
            f"one renewal in place.",
            code="wrong-key",
        )
    return certificate


def owner_of(subject: x509.Name) -> tuple[str, str]:
    """Return the common name and the organisation of a subject, "" for one that is missing."""
    name = subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    organisation = subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    return str(name[0].value) if name else "", str(organisation[0].value) if organisation else ""


def moment(when: datetime.datetime) -> str:
    """Return a time as people everywhere read it.

    >>> moment(datetime.datetime(2026, 11, 16, 9, 5, tzinfo=datetime.UTC))
    '2026-11-16 09:05 UTC'
    """
    return when.astimezone(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")


def _start(now: datetime.datetime | None) -> datetime.datetime:
    return (now or datetime.datetime.now(datetime.UTC)) - CLOCKS_APART


def _begin(
    subject: x509.Name,
    issuer: x509.Name,
    public: rsa.RSAPublicKey,
    signer: rsa.RSAPrivateKey,
    start: datetime.datetime,
    days: int,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + CLOCKS_APART + datetime.timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        )
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=not signs_certificates,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
