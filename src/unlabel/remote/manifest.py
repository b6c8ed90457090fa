"""The files of a kit as they were handed out: a list of digests, signed by whoever made the kit.

    manifest.json   {"what", "federation", "party", "agreement", "files", "settings", "signature"}

The agreement names the public key of that signature, so that two people who compare the digest of
the agreement compare this key too. Every file of a kit must be as listed, but for three kinds:

    party.yaml               its operator may edit it; the settings that differ are told
    certificates, keys       renewed now and then; each is checked by what it is
    files of the operator    a module of a model, say: accepted one by one, by their digests

What lies in state/ is the party's own and not looked at, but for the list of accepted files, which
the party's own key signs. The maker's signature does not bind whoever made the kit, who can sign
anything; it shows what others changed on the way, and what was changed since.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unlabel.config.loader import read_yaml
from unlabel.config.plain_yaml import plain_yaml
from unlabel.errors import RunError
from unlabel.files import OWNER_ONLY, sha256, write_atomically
from unlabel.remote.kit_files import CERTIFICATES, PARTY
from unlabel.signing import KEY, SIGNATURE, Signer, canonical, is_signed

if TYPE_CHECKING:
    from unlabel.remote.kit import Kit

MANIFEST, STATE, ACCEPTED = "manifest.json", "state", "accepted.json"
WHAT, ACCEPTANCE = "unlabel kit manifest 1", "unlabel accepted files 1"
#: Bytes of the longest manifest that is read.
MOST_BYTES = 2**20
#: What of a kit is not as it was handed out for ever.
PARTYS = (
    *(PARTY, MANIFEST, KEY.as_posix()),
    *(f"{CERTIFICATES}/{name}.{kind}" for name in ("party", "admin") for kind in ("crt", "key")),
)
#: Endings of files that a renewal, or a write that broke off, leaves beside these.
BESIDE = (".waiting", ".incoming", ".part")


def write_manifest(folder: Path, federation: str, party: str, digest: str, signer: Signer) -> None:
    """List and sign the files of a kit that is about to be handed out.

    digest  of the agreement
    """
    content = {
        "what": WHAT,
        "federation": federation,
        "party": party,
        "agreement": digest,
        "files": {
            name: sha256((folder / name).read_bytes())
            for name in _files(folder)
            if name not in PARTYS
        },
        "settings": (folder / PARTY).read_text(encoding="utf-8"),
    }
    _write_signed(folder / MANIFEST, content, signer)


def _write_signed(path: Path, content: Mapping[str, Any], signer: Signer) -> None:
    signed = {**content, "signature": signer.sign(canonical(content))}
    text = json.dumps(signed, indent=2, sort_keys=True) + "\n"
    write_atomically(path, text.encode(), mode=OWNER_ONLY)


def read_manifest(kit: Kit) -> dict[str, Any]:
    """Return the manifest of a kit, or raise unless the agreement's key has signed it for it."""
    path = kit.folder / MANIFEST
    try:
        data = path.read_bytes()[: MOST_BYTES + 1]
        content = json.loads(data)
        signature = content.pop("signature")
        files, settings = content["files"], content["settings"]
        if len(data) > MOST_BYTES or not isinstance(settings, str):
            raise ValueError("no manifest")
        signed = is_signed(kit.agreement.authority, canonical(content), str(signature)[:SIGNATURE])
        about = [content[name] for name in ("what", "party", "agreement")]
        known = {str(name): str(digest) for name, digest in files.items()}
    except OSError as error:
        raise _changed(MANIFEST, f"cannot be read ({error.strerror})") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _changed(MANIFEST, "is damaged") from error
    if not signed:
        raise _changed(MANIFEST, "was not signed by whoever made the kits of this agreement")
    if about != [WHAT, kit.name, kit.digest]:
        raise RunError(
            f"'{MANIFEST}' is that of another kit (party '{about[1]}'), not of party '{kit.name}' "
            f"under this agreement; take the kit anew.",
            code="other-party",
        )
    return {**content, "files": known}


def check_files(kit: Kit) -> None:
    """Raise unless every file of a kit is as it was handed out, or accepted since.

    A kit whose agreement names no key, as those up to 0.10, has no manifest.
    """
    if not kit.agreement.authority:
        return
    listed, accepted = read_manifest(kit)["files"], accepted_files(kit)
    present = set(_files(kit.folder))
    for name in sorted(listed.keys() - present):
        raise _changed(name, "is missing")
    for name in sorted(present - set(PARTYS)):
        if name.endswith(BESIDE) and name.rpartition(".")[0] in (*PARTYS, *listed):
            continue
        path = kit.folder / name
        if path.is_symlink():
            raise _changed(name, "is a link")
        digest = sha256(path.read_bytes())
        if name in listed and digest != listed[name]:
            raise _changed(name, "is not as it was handed out")
        if name not in listed and accepted.get(name) != digest:
            raise RunError(
                f"'{kit.folder / name}' did not come with this kit, or was changed since it was "
                f"accepted; remove it, or read it and run `unlabel federation accept {kit.folder} "
                f"{name}`.",
                code="kit-changed",
            )


def accept(kit: Kit, name: str) -> str:
    """Take a file of the operator's for a part of the kit, as it is now; return its digest."""
    path = (kit.folder / name).resolve()
    inside = path.is_relative_to(kit.folder) and path.is_file()
    place = path.relative_to(kit.folder).as_posix() if inside else ""
    if not inside or place in PARTYS or place.startswith(f"{STATE}/"):
        raise RunError(f"'{name}' is no file that an operator adds to the kit '{kit.folder}'.")
    if place in read_manifest(kit)["files"]:
        raise _changed(place, "came with the kit, and nothing else is accepted for it")
    digest = sha256(path.read_bytes())
    content = _acceptance(kit, {**accepted_files(kit), place: digest})
    kit.prepare()
    _write_signed(kit.state / ACCEPTED, content, Signer(kit.folder))
    return digest


def accepted_files(kit: Kit) -> dict[str, str]:
    """Return the files that an operator has accepted, with their digests.

    The list is signed with the party's own key: whoever has the kit on its way, without that key,
    accepts nothing in the party's name.
    """
    path = kit.state / ACCEPTED
    try:
        content = json.loads(path.read_bytes())
        files = {str(name): str(digest) for name, digest in content["files"].items()}
        signature = str(content["signature"])[:SIGNATURE]
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise RunError(
            f"'{path}' is damaged; remove it, and accept anew.", code="kit-changed"
        ) from error
    signed = canonical(_acceptance(kit, files))
    if not is_signed(kit.agreement.trust.get(kit.name, ""), signed, signature):
        raise RunError(
            f"'{path}' was not signed by party '{kit.name}' under this agreement; remove it, and "
            f"accept what you have read anew.",
            code="kit-changed",
        )
    return files


def _acceptance(kit: Kit, files: Mapping[str, str]) -> dict[str, Any]:
    """Return what a party signs of the files that it accepts."""
    return {"what": ACCEPTANCE, "party": kit.name, "agreement": kit.digest, "files": dict(files)}


def changed_settings(kit: Kit) -> dict[str, tuple[Any, Any]]:
    """Return what party.yaml says otherwise than as handed out: before and now, by setting."""
    if not kit.agreement.authority:
        return {}
    before = dict(_settings(plain_yaml(read_manifest(kit)["settings"], f"'{MANIFEST}'")))
    now = dict(_settings(read_yaml(kit.folder / PARTY)))
    names = sorted(before.keys() | now.keys())
    return {
        name: (before.get(name), now.get(name))
        for name in names
        if before.get(name) != now.get(name)
    }


def _settings(raw: object, within: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in raw.items() if isinstance(raw, Mapping) else ():
        if isinstance(value, Mapping):
            yield from _settings(value, f"{within}{name}.")
        else:
            yield f"{within}{name}", value


def _files(folder: Path) -> Iterator[str]:
    """Yield every file and link of a kit outside of state/, as a path within it."""
    for place, folders, files in os.walk(folder):
        inside = Path(place).relative_to(folder)
        if inside == Path() and STATE in folders:
            folders.remove(STATE)
        links = [name for name in folders if (Path(place) / name).is_symlink()]
        for name in (*files, *links):
            yield (inside / name).as_posix()


def _changed(name: str, how: str) -> RunError:
    return RunError(
        f"'{name}' of this kit {how}; take it from the kit as it was handed out.",
        code="kit-changed",
    )
