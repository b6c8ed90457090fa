"""Certificates that are no longer taken: a list signed by the authority, kept by every party.

    whoever holds the authority      the active party                 every other party
    ---------------------------      ----------------                 -----------------
    revoke: a list with the next
    number, signed                -> install, or the file in place  -> handed over when it connects,
                                     of the one before                 and while it is connected

The lists are X.509 revocation lists, so that a certificate authority of an organisation can sign
them as well. A list is taken up only if its issuer signed a certificate of the party's own or is
the authority, and never in place of one with a higher number. It holds until there is a newer one.
"""

from __future__ import annotations

import datetime
import functools
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from unlabel.errors import RunError, WireError
from unlabel.files import OWNER_ONLY, write_atomically
from unlabel.remote.certificates import CLOCKS_APART, moment, read_certificate, read_chain

if TYPE_CHECKING:
    from unlabel.remote.kit import Kit

#: Bytes of the longest list that is read: some ten thousand certificates.
MOST_BYTES = 2**20


def is_revoked(kit: Kit, serial: int) -> bool:
    """Return whether a party's lists name a certificate; they are read anew where they changed."""
    return any(
        each.get_revoked_certificate_by_serial_number(serial) is not None for each in lists(kit)
    )


def expect_not_revoked(kit: Kit, certificate: dict[str, Any] | None) -> None:
    """Raise `WireError` where a party's lists name the certificate that the other end shows.

    certificate  as `ssl` gives it, once the handshake has checked it
    """
    serial = (certificate or {}).get("serialNumber")
    if serial is not None and is_revoked(kit, int(str(serial), 16)):
        names = dict(pair for part in (certificate or {}).get("subject", ()) for pair in part)
        raise WireError(f"the certificate of '{names.get('commonName')}' was revoked")


def lists(kit: Kit) -> tuple[x509.CertificateRevocationList, ...]:
    """Return a party's lists, one of each issuer."""
    path = kit.revoked
    try:
        state = path.stat()
    except OSError:
        return ()
    return _read(path, state.st_mtime_ns, state.st_size, state.st_ino)


@functools.lru_cache(maxsize=8)
def _read(path: Path, *_: int) -> tuple[x509.CertificateRevocationList, ...]:
    return tuple(parse(path.read_bytes(), f"'{path}'"))


def take(kit: Kit, data: bytes, source: str, now: datetime.datetime | None = None) -> list[int]:
    """Keep the lists in `data` that are newer than those a party has; return their numbers.

    Raise `RunError`, with nothing changed, where one is not to be trusted.

    source  what the lists are called in errors
    """
    root, chain = read_certificate(kit.root), read_chain(kit.certificate)
    issuers = [root, *chain[1:]]
    kept = {each.issuer: each for each in lists(kit)}
    newer = []
    for each in parse(data, source):
        _expect_trusted(each, issuers, source, now)
        before = number_of(kept[each.issuer]) if each.issuer in kept else -1
        if number_of(each) > before:
            kept[each.issuer] = each
            newer.append(number_of(each))
    if newer:
        kit.prepare()
        write_atomically(kit.revoked, _bytes(kept.values()), mode=OWNER_ONLY)
    return newer


def _expect_trusted(
    revoked: x509.CertificateRevocationList,
    issuers: list[x509.Certificate],
    source: str,
    now: datetime.datetime | None,
) -> None:
    signed = any(
        revoked.issuer == each.subject and revoked.is_signature_valid(each.public_key())  # type: ignore[arg-type]
        for each in issuers
    )
    if not signed:
        raise RunError(
            f"The list of revoked certificates in {source} was not signed by the authority of "
            f"this federation; ask whoever holds it.",
            code="untrusted",
        )
    moment_now = now or datetime.datetime.now(datetime.UTC)
    if revoked.last_update_utc > moment_now + CLOCKS_APART:
        raise RunError(
            f"The list of revoked certificates in {source} is of "
            f"{moment(revoked.last_update_utc)}, but this machine's clock says "
            f"{moment(moment_now)}; set the clock.",
            code="not-valid-now",
        )


def parse(data: bytes, source: str) -> list[x509.CertificateRevocationList]:
    """Return the lists in a file of PEM; each must have a number."""
    begin = b"-----BEGIN X509 CRL-----"
    blocks = data[: MOST_BYTES + 1].split(begin)[1:]
    try:
        if not blocks or len(data) > MOST_BYTES:
            raise ValueError("no list, or one of no end")
        revoked = [x509.load_pem_x509_crl(begin + block) for block in blocks]
        for each in revoked:
            number_of(each)
    except (ValueError, x509.ExtensionNotFound) as error:
        raise RunError(
            f"{source} holds no list of revoked certificates that can be read; ask whoever holds "
            f"the authority for it once more."
        ) from error
    return revoked


def number_of(revoked: x509.CertificateRevocationList) -> int:
    """Return the number of a list."""
    return int(revoked.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number)


def numbers(kit: Kit) -> list[int]:
    """Return the numbers of a party's lists."""
    return [number_of(each) for each in lists(kit)]


def _bytes(revoked: Iterable[x509.CertificateRevocationList]) -> bytes:
    return b"".join(each.public_bytes(Encoding.PEM) for each in revoked)
