"""New certificates before the old ones end.

    the party's operator             whoever holds the authority's key
    --------------------             ---------------------------------
    request: new keys, which stay
    here, and a request to sign  ->  renew: certificates for the keys in the request
    install: both into place     <-

Without a request `renew` makes the keys too; then they travel, and the file is as secret as a kit.

Signing keys are kept: they do not end, certificates of earlier requests are checked against them,
and every kit's agreement names them, so that another key takes new kits for all.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from unlabel.errors import RunError, SettingsError
from unlabel.files import OWNER_ONLY, sync_folder, write_atomically, writing
from unlabel.remote import revocation
from unlabel.remote.authority_folder import AuthorityFolder
from unlabel.remote.certificate_requests import read_requests, request_for
from unlabel.remote.certificates import (
    Identity,
    certificate_bytes,
    check_certificate,
    key_bytes,
    make_key,
    may_certify,
    owner_of,
    read_chain,
)
from unlabel.remote.kit import Kit

_BLOCK = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----\r?\n.*?-----END \1-----\r?\n?", re.DOTALL)
#: A new key that waits for its certificate, and files that are tried before they are put in place.
WAITING, INCOMING = ".waiting", ".incoming"


@dataclass(frozen=True)
class Renewal:
    """What a renewal holds, by the common name of each certificate.

    between  certificates of whoever stands between the parties' and the authority's
    """

    certificates: dict[str, x509.Certificate]
    keys: dict[str, rsa.RSAPrivateKey]
    between: tuple[x509.Certificate, ...] = ()


def request(kit: Kit, out: Path) -> None:
    """Make new keys, which stay in the kit, and write a request to have them certified."""
    parts = []
    for each in kit.credentials():
        key = make_key()
        write_atomically(_beside(each.key, WAITING), key_bytes(key), OWNER_ONLY)
        signed = request_for(each.owner).sign(key, hashes.SHA256())
        parts.append(signed.public_bytes(serialization.Encoding.PEM))
    write_atomically(out, b"".join(parts))


def renew(
    authority: Path, party: str, out: Path, *, days: int = 365, request_file: Path | None = None
) -> Renewal:
    """Certify a party anew: the keys in its request, or new ones where there is none."""
    if days < 1:
        raise SettingsError(f"Expected --days to be at least 1 but got {days}.")
    signer = AuthorityFolder.open(authority)
    owners = signer.owners(party)
    keys: dict[str, rsa.RSAPrivateKey] = {}
    if request_file is not None:
        public = _requested(request_file, party, owners)
    else:
        keys = {name: make_key() for name in owners}
        public = {name: key.public_key() for name, key in keys.items()}
    renewed = {
        name: signer.authority.certify(owners[name], key, days) for name, key in public.items()
    }
    text = b"".join(
        (key_bytes(keys[name]) if name in keys else b"") + certificate_bytes(certificate)
        for name, certificate in renewed.items()
    )
    signer.note(renewed.values())
    write_atomically(out, text, mode=OWNER_ONLY)
    return Renewal(renewed, keys)


def install(kit: Kit, file: Path) -> list[Path]:
    """Put renewed certificates, and the keys that belong to them, in place of the old ones.

    All are tried beside the old files first, so that a wrong file changes nothing.
    """
    renewal = _read(file)
    ready: list[tuple[Path, Path]] = []
    try:
        for each in kit.credentials():
            owner, certificate, key = each.owner, each.certificate, each.key
            if owner.name not in renewal.certificates:
                raise RunError(
                    f"'{file}' holds no certificate for '{owner.name}' but for "
                    f"{', '.join(renewal.certificates) or 'nobody'}; ask for this party's.",
                    code="other-party",
                )
            between = renewal.between or read_chain(certificate)[1:]
            chain = (renewal.certificates[owner.name], *between)
            parts = [(certificate, b"".join(map(certificate_bytes, chain)))]
            if owner.name in renewal.keys:
                parts.append((key, key_bytes(renewal.keys[owner.name])))
            for target, data in parts:
                ready.append((_beside(target, INCOMING), target))
                write_atomically(ready[-1][0], data, mode=OWNER_ONLY)
            if owner.name not in renewal.keys and _beside(key, WAITING).exists():
                ready.append((_beside(key, WAITING), key))
            # Where an earlier install broke off, the key may be in place already.
            new_key = next((draft for draft, target in ready if target == key), key)
            check_certificate(_beside(certificate, INCOMING), new_key, each.root, owner)
    except RunError:
        for draft, _ in ready:
            if draft.name.endswith(INCOMING):
                draft.unlink(missing_ok=True)
        raise
    for draft, target in ready:
        with writing(target):
            draft.replace(target)
            sync_folder(target.parent)
    return [target for _, target in ready]


def is_list(file: Path) -> bool:
    """Return whether a file holds lists of revoked certificates."""
    return any(kind == "X509 CRL" for kind, _ in _blocks(file))


def install_list(kit: Kit, file: Path) -> list[int]:
    """Keep the lists of a file that are newer than the party's; return their numbers."""
    data = b"".join(block for kind, block in _blocks(file) if kind == "X509 CRL")
    return revocation.take(kit, data, f"'{file}'")


def _requested(path: Path, party: str, owners: dict[str, Identity]) -> dict[str, rsa.RSAPublicKey]:
    """Return the keys of a request; each must be proved by a signature, and be this party's."""
    keys: dict[str, rsa.RSAPublicKey] = {}
    for asked in read_requests(path):
        key = asked.public_key()
        if not isinstance(key, rsa.RSAPublicKey):
            raise RunError(f"A key in the request '{path}' is no RSA key; have it made again.")
        keys[owner_of(asked.subject)[0]] = key
    if keys.keys() != owners.keys():
        raise RunError(
            f"'{path}' is no request of party '{party}': it is for "
            f"{', '.join(sorted(keys)) or 'nobody'} in place of {', '.join(sorted(owners))}."
        )
    return keys


def _read(path: Path) -> Renewal:
    certificates: dict[str, x509.Certificate] = {}
    between: list[x509.Certificate] = []
    private: list[rsa.RSAPrivateKey] = []
    try:
        for kind, block in _blocks(path):
            if kind == "CERTIFICATE":
                certificate = x509.load_pem_x509_certificate(block)
                if may_certify(certificate):
                    between.append(certificate)
                else:
                    certificates[owner_of(certificate.subject)[0]] = certificate
            elif kind.endswith("PRIVATE KEY"):
                key = serialization.load_pem_private_key(block, None)
                if isinstance(key, rsa.RSAPrivateKey):
                    private.append(key)
    except (ValueError, TypeError) as error:
        raise RunError(f"'{path}' is damaged; ask for the renewal once more.") from error
    keys = {
        name: key
        for name, certificate in certificates.items()
        for key in private
        if key.public_key() == certificate.public_key()
    }
    return Renewal(certificates, keys, tuple(between))


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)


def _blocks(path: Path) -> list[tuple[str, bytes]]:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise RunError(f"Cannot read '{path}': {error.strerror}.") from error
    return [(block[1].decode(), block[0]) for block in _BLOCK.finditer(data)]
