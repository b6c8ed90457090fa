"""Certificates: how a party shows on the wire who it is.

One authority, made when a federation is set up, signs a certificate for each party. Both ends of
every connection show theirs (mutual TLS). Names in a certificate are read by the engine:

    common name        the party; at the active party the host of the server, or the user who leads
    organisation       the party
    unstructured name  the user's role, where there is one

A passive party's certificate is good for calling only, so that it cannot pose as the server. One
that is no longer to be taken stands in a list (`revocation.py`), which the authority signs too.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
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
        uses = [ExtendedKeyUsageOID.CLIENT_AUTH]
        if identity.host is not None:
            uses.append(ExtendedKeyUsageOID.SERVER_AUTH)
        issuer = self.certificate.subject
        return (
            _begin(subject(identity), issuer, public, self.key, start, min(days, left))
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
            .add_extension(
                x509.SubjectAlternativeName([alternative(identity.host or identity.name)]),
                critical=False,
            )
            .sign(self.key, hashes.SHA256())
        )

    def revoke(
        self, serials: Iterable[int], number: int, now: datetime.datetime | None = None
    ) -> x509.CertificateRevocationList:
        """Return the list of all certificates that are no longer to be taken.

        number  of the list; each later one has a higher
        """
        moment_now = now or datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(self.certificate.subject)
            .last_update(_start(moment_now))
            # A list holds until there is a newer one: parties go on refusing what it names.
            .next_update(self.certificate.not_valid_after_utc)
            .add_extension(x509.CRLNumber(number), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()),
                critical=False,
            )
        )
        for serial in serials:
            revoked = x509.RevokedCertificateBuilder().serial_number(serial)
            builder = builder.add_revoked_certificate(revoked.revocation_date(moment_now).build())
        return builder.sign(self.key, hashes.SHA256())


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
    """Read one certificate, the first where a file holds several."""
    return read_chain(path)[0]


def read_chain(path: Path) -> list[x509.Certificate]:
    """Read a certificate, and those between it and the authority's where there are any."""
    try:
        return x509.load_pem_x509_certificates(path.read_bytes())
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
    certificate = check_chain(path, root, identity, now)
    if read_key(key).public_key() != certificate.public_key():
        raise RunError(
            f"Key '{key.name}' and certificate '{path}' do not belong together; put both files of "
            f"one renewal in place.",
            code="wrong-key",
        )
    return certificate


def check_chain(
    path: Path, root: Path, identity: Identity, now: datetime.datetime | None = None
) -> x509.Certificate:
    """Return a certificate that is good now, of the authority `root`, for `identity`."""
    chain, authority = read_chain(path), read_certificate(root)
    certificate = chain[0]
    moment_now = now or datetime.datetime.now(datetime.UTC)
    issuers = [each for each in chain[1:] if each != authority] + [authority]
    try:
        for issued, issuer in pairwise([certificate, *issuers]):
            issued.verify_directly_issued_by(issuer)
            if not may_certify(issuer):
                raise ValueError("it may not sign certificates")
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
    starts = max(each.not_valid_before_utc for each in (certificate, *issuers))
    if moment_now < starts:
        raise RunError(
            f"Certificate '{path}' is valid from {moment(starts)}, but this machine's clock says "
            f"{moment(moment_now)}; set the clock.",
            code="not-valid-now",
        )
    ends = min(each.not_valid_after_utc for each in (certificate, *issuers))
    if moment_now > ends:
        raise RunError(
            f"Certificate '{path}' ended on {moment(ends)} and this machine's clock says "
            f"{moment(moment_now)}; have it renewed (`unlabel federation renew`) or set the clock.",
            code="not-valid-now",
        )
    return certificate


def subject(identity: Identity) -> x509.Name:
    """Return for whom a certificate is made out, as it names them."""
    names = [
        x509.NameAttribute(NameOID.COMMON_NAME, identity.name),
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, identity.organisation),
    ]
    if identity.role is not None:
        names.append(x509.NameAttribute(NameOID.UNSTRUCTURED_NAME, identity.role))
    return x509.Name(names)


def owner_of(name: x509.Name) -> tuple[str, str]:
    """Return the common name and the organisation of a subject, "" for one that is missing."""
    common = name.get_attributes_for_oid(NameOID.COMMON_NAME)
    organisation = name.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    return str(common[0].value) if common else "", str(
        organisation[0].value if organisation else ""
    )


def may_certify(certificate: x509.Certificate) -> bool:
    """Return whether a certificate is one of an authority."""
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False


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


def alternative(host: str) -> x509.GeneralName:
    """Return a host as certificates name it beside their common name."""
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
