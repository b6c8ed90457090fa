"""From federation.yaml to one kit for each party.

    OUT/active/      kit of the active party, which the others call
    OUT/PARTY/       kit of each passive party
    OUT/authority/   the key that signs certificates, to renew them later: keep it apart

A private key stands in its own kit and nowhere else; the authority keeps none but its own. The
public keys that parties sign with stand in every kit, as part of what all agreed on.

A party that handed in a request has its keys already, and its kit comes without any. Where an
organisation's own authority certifies, its key is never here: only what it has signed.
"""

from __future__ import annotations

import datetime
import shutil
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID

from unlabel.config import Agreement, FederationFile
from unlabel.config.loader import agreement_digest, dump, read_federation
from unlabel.errors import RunError
from unlabel.files import OWNER_ONLY, sync_folder, write_atomically, writing
from unlabel.remote.authority_folder import AUTHORITY, AUTHORITY_KEY, AuthorityFolder
from unlabel.remote.certificates import (
    Authority,
    alternative,
    certificate_bytes,
    check_chain,
    key_bytes,
    make_key,
    read_certificate,
    read_chain,
)
from unlabel.remote.first_request import FirstRequest, read_request
from unlabel.remote.kit import check_names
from unlabel.remote.kit_files import AGREEMENT, PARTY, ROOT, Credential, credentials
from unlabel.remote.manifest import write_manifest
from unlabel.signing import Signer

#: What a certificate must be good for, of a party that calls and of the one that is called.
USES = (ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH)


@dataclass(frozen=True)
class Outside:
    """Certificates that somebody else's authority has signed.

    root    file of its certificate
    chains  files of the parties' certificates, each with those between it and the root's
    """

    root: Path
    chains: Sequence[Path]

    def chain_of(self, key: rsa.RSAPublicKey) -> list[x509.Certificate] | None:
        """Return the certificate of a key, with those that follow in its file."""
        chains = map(read_chain, self.chains)
        return next((chain for chain in chains if chain[0].public_key() == key), None)


def provision(
    file: Path,
    out: Path,
    *,
    zipped: bool = False,
    requests: Sequence[Path] = (),
    outside: Outside | None = None,
) -> dict[str, Path]:
    """Make the kits of a federation; return where each lies, and the authority.

    Either all of them are there afterwards, or nothing is.

    requests  files of parties that made their keys themselves
    """
    settings = read_federation(file)
    asked = _requests(requests, settings)
    _expect_free(out)
    for party in settings.party_files("").values():
        check_names(settings.agreement(), party)
    with writing(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    try:
        with writing(out):
            write_kits(settings, draft, requests=asked, outside=outside)
            passive = settings.agreement().passive
            kits = {name: out / name for name in (*settings.agreement().parties, AUTHORITY)}
            if zipped:
                for name in passive:
                    kits[name] = out / _zip(draft / name).name
            for folder in (draft, *(path for path in draft.rglob("*") if path.is_dir())):
                folder.chmod(0o700)
            draft.rename(out)
            sync_folder(out.parent)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    return kits


def write_kits(
    settings: FederationFile,
    out: Path,
    now: datetime.datetime | None = None,
    requests: Mapping[str, FirstRequest] | None = None,
    outside: Outside | None = None,
) -> Authority | None:
    """Write the kits of all parties, and the authority's folder, into `out`; return the authority.

    now       when certificates are made
    requests  of parties that made their keys themselves, by their names
    """
    asked, signer = requests or {}, Signer(out / AUTHORITY)
    agreement = agreement_with_keys(settings, out, signer.public, asked)
    authority = None if outside else Authority.make(agreement.name, now)
    root = read_certificate(outside.root) if outside else cast("Authority", authority).certificate
    digest = agreement_digest(agreement)
    _write(out / AUTHORITY / AGREEMENT, dump(agreement))
    _write(out / AUTHORITY / ROOT, certificate_bytes(root))
    issued: list[x509.Certificate] = []
    for name, party in settings.party_files(digest).items():
        folder = out / name
        _write(folder / AGREEMENT, dump(agreement))
        _write(folder / PARTY, dump(party))
        for credential in credentials(folder, name, agreement.server):
            _write(credential.root, certificate_bytes(root))
            key = _key_of(credential, asked.get(name))
            if authority is not None:
                chain = [authority.certify(credential.owner, key, settings.days, now)]
            else:
                chain = _certified(credential, key, cast("Outside", outside))
            _write(credential.certificate, b"".join(map(certificate_bytes, chain)))
            check_chain(credential.certificate, credential.root, credential.owner, now)
            issued.append(chain[0])
        write_manifest(folder, agreement.name, name, digest, signer)
    if authority is not None:
        _write(out / AUTHORITY / AUTHORITY_KEY, key_bytes(authority.key))
        AuthorityFolder(out / AUTHORITY, agreement, authority).note(issued)
    return authority


def _key_of(credential: Credential, request: FirstRequest | None) -> rsa.RSAPublicKey:
    """Return the key to certify: that of a request, or a new one, which goes into the kit."""
    if request is None:
        key = make_key()
        _write(credential.key, key_bytes(key))
        return key.public_key()
    if credential.owner.name not in request.keys:
        raise RunError(
            f"The request of '{request.party}' is for {', '.join(request.keys)} in place of "
            f"{credential.owner.name}; have it made again for the `server` of federation.yaml."
        )
    return request.keys[credential.owner.name]


def _certified(
    credential: Credential, key: rsa.RSAPublicKey, outside: Outside
) -> list[x509.Certificate]:
    """Return the chain that an outside authority has signed for a key, if it is good for it."""
    owner, chain = credential.owner, outside.chain_of(key)
    if chain is None:
        raise RunError(
            f"No certificate that was given is for the key of '{owner.organisation}'; where an "
            f"outside authority certifies, every party hands in a request, and what was signed for "
            f"it is given with --certificate."
        )
    needed = USES[owner.host is not None]
    try:
        extensions = chain[0].extensions
        uses = set(extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)
        names = set(extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
    except x509.ExtensionNotFound:
        uses, names = set(), set()
    if needed not in uses or (owner.host and alternative(owner.host) not in names):
        what = f"a server of the name {owner.host}" if owner.host else "a client"
        raise RunError(
            f"The certificate of '{owner.organisation}' is not one of {what}; have it signed with "
            f"that use and name among its extensions.",
            code="untrusted",
        )
    return chain


def _requests(files: Sequence[Path], settings: FederationFile) -> dict[str, FirstRequest]:
    """Return requests by the names of their parties."""
    asked: dict[str, FirstRequest] = {}
    for file in files:
        request = read_request(file)
        if request.party not in settings.agreement().parties or request.party in asked:
            raise RunError(
                f"'{file}' is a request of '{request.party}', which is none of the federation's "
                f"parties or has another; give one request of each party."
            )
        asked[request.party] = request
    return asked


def agreement_with_keys(
    settings: FederationFile, out: Path, authority: str, requests: Mapping[str, FirstRequest]
) -> Agreement:
    """Return what all parties agree on, with their public signing keys and the authority's.

    Each key is made in its own kit under `out`, but for parties that made one themselves.
    """
    asked = {name: request.signing for name, request in requests.items()}
    trust = {
        name: settings.trust.get(name) or asked.get(name) or Signer(out / name).public
        for name in settings.agreement().parties
    }
    return settings.agreement(trust, authority)


def _expect_free(out: Path) -> None:
    if out.is_dir():
        if any(out.iterdir()):
            raise RunError(f"Folder '{out}' is not empty; choose another --out.")
    elif out.exists():
        raise RunError(f"'{out}' is a file; choose another --out.")


def _write(path: Path, content: bytes | str) -> None:
    data = content.encode() if isinstance(content, str) else content
    write_atomically(path, data, mode=OWNER_ONLY)


def _zip(folder: Path) -> Path:
    """Put a kit into one file, in place of its folder."""
    path = folder.with_name(f"{folder.name}.zip")
    path.touch(mode=OWNER_ONLY)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(folder.rglob("*")):
            archive.write(file, file.relative_to(folder.parent))
    shutil.rmtree(folder)
    return path
