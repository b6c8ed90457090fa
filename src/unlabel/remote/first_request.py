"""A party's keys before it has a kit: made by itself, so that nobody else ever holds them.

    the party                                  whoever sets the federation up
    ---------                                  ------------------------------
    request: keys into a new folder, and a
    file that asks to certify them          -> init --request: a kit without private keys
    install: the kit into that folder       <-

The file holds a certificate request for each key, signed with it: those for connections first, the
one of the key that the party signs its statements with (Ed25519) last. A certificate authority of
an organisation takes the first; what it signs goes to `init --certificate`.
"""

from __future__ import annotations

import shutil
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

from unlabel.config import ServerSettings
from unlabel.errors import RunError
from unlabel.files import OWNER_ONLY, sync_folder, write_atomically, writing
from unlabel.remote.certificate_requests import read_requests, request_for
from unlabel.remote.certificates import (
    Identity,
    key_bytes,
    make_key,
    owner_of,
)
from unlabel.remote.kit import Kit
from unlabel.remote.kit_files import AGREEMENT, CERTIFICATES, identities
from unlabel.remote.manifest import STATE
from unlabel.signing import KEY as SIGNING_KEY
from unlabel.signing import Signer

#: Bytes of the longest kit once it is unpacked.
MOST_UNPACKED = 2**24


@dataclass(frozen=True)
class FirstRequest:
    """What a party asks for before it has a kit.

    party    who asks
    keys     to be certified, by the common names of the certificates
    signing  the public key that it signs its statements with, in hexadecimal
    """

    party: str
    keys: dict[str, rsa.RSAPublicKey]
    signing: str


def make_request(folder: Path, party: str, server: ServerSettings, out: Path) -> FirstRequest:
    """Make a party's keys in a new folder, and write the request to `out`."""
    if folder.exists() and any(folder.iterdir()):
        raise RunError(f"'{folder}' is not empty; give a new folder for the party's keys.")
    parts = []
    for owner, name in zip(identities(party, server), ("party", "admin"), strict=False):
        key = make_key()
        write_atomically(folder / CERTIFICATES / f"{name}.key", key_bytes(key), OWNER_ONLY)
        parts.append(request_for(owner).sign(key, hashes.SHA256()).public_bytes(Encoding.PEM))
    Signer(folder)  # which makes the key
    signing = load_pem_private_key((folder / SIGNING_KEY).read_bytes(), None)
    assert isinstance(signing, ed25519.Ed25519PrivateKey)
    statement = request_for(Identity(party, party)).sign(signing, None)
    parts.append(statement.public_bytes(Encoding.PEM))
    for path in (folder, *(each for each in folder.rglob("*") if each.is_dir())):
        path.chmod(0o700)
    write_atomically(out, b"".join(parts))
    return read_request(out)


def read_request(path: Path) -> FirstRequest:
    """Read a request; every key in it must have signed its own part."""
    requests = read_requests(path)
    parties = {owner_of(each.subject)[1] for each in requests}
    certified = {
        owner_of(each.subject)[0]: key
        for each in requests
        if isinstance(key := each.public_key(), rsa.RSAPublicKey)
    }
    signing = [
        key for each in requests if isinstance(key := each.public_key(), ed25519.Ed25519PublicKey)
    ]
    if not (len(parties) == 1 and certified and len(signing) == 1):
        raise RunError(
            f"'{path}' is not a party's first request; have it made with `unlabel federation "
            f"request KIT --party NAME`."
        )
    return FirstRequest(parties.pop(), certified, signing[0].public_bytes_raw().hex())


def put_together(folder: Path, handed: Path) -> Kit:
    """Put a kit without private keys into the folder of the keys that it was made for.

    It is tried within the folder first, which may be a file system of its own, so that a wrong one
    changes nothing.

    handed  the kit, as a folder or in one file
    """
    with writing(folder), tempfile.TemporaryDirectory(dir=folder) as place:
        draft = Path(place) / "kit"
        _unpack(handed, draft)
        keys = [path for path in draft.rglob("*.key") if path.is_file()]
        if keys:
            raise RunError(
                f"'{handed}' holds private keys ({keys[0].name}), though this party made its own; "
                f"ask for a kit that was made with its request.",
                code="wrong-key",
            )
        if (draft / STATE).exists():  # which would choose a seed and a table in the party's place
            raise RunError(
                f"'{handed}' comes with a {STATE}/, though this party was never started; ask for "
                f"the kit as it was made.",
                code="kit-changed",
            )
        ours = (*folder.glob(f"{CERTIFICATES}/*.key"), folder / SIGNING_KEY)
        for path in ours:
            target = draft / path.relative_to(folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target)
        Kit.open(draft)  # raises where anything does not fit
        for path in sorted(draft.rglob("*")):
            target = folder / path.relative_to(draft)
            if path.is_dir():
                target.mkdir(mode=0o700, exist_ok=True)
            elif path.relative_to(draft) not in {each.relative_to(folder) for each in ours}:
                path.chmod(OWNER_ONLY)
                path.replace(target)
        sync_folder(folder)
    return Kit.open(folder)


def is_waiting(folder: Path) -> bool:
    """Return whether a folder holds keys that wait for their kit."""
    return (folder / SIGNING_KEY).is_file() and not (folder / AGREEMENT).exists()


def _unpack(handed: Path, draft: Path) -> None:
    """Copy a kit out of a folder, or out of one file."""
    try:
        if handed.is_dir():
            shutil.copytree(handed, draft, symlinks=True)
            return
        with zipfile.ZipFile(handed) as archive:
            if sum(each.file_size for each in archive.infolist()) > MOST_UNPACKED:
                raise ValueError("too long")
            archive.extractall(draft.parent / "all")
        (inner,) = (draft.parent / "all").iterdir()
        inner.rename(draft)
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise RunError(
            f"'{handed}' is no kit, neither a folder nor one file of it; give what `unlabel "
            f"federation init` made for this party.",
            code="no-kit",
        ) from error
