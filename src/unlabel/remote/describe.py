"""What a kit is and allows, as plain data: `unlabel federation show`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from unlabel.config.loader import plain_settings
from unlabel.errors import RunError
from unlabel.models.registry import top_of
from unlabel.remote.certificates import moment, owner_of, read_certificate
from unlabel.remote.kit import Kit
from unlabel.remote.rules import AUTHORIZATION, RESOURCES
from unlabel.signing import KEY as SIGNING_KEY
from unlabel.signing import Signer, fingerprint


def describe_kit(folder: str | Path) -> dict[str, Any]:
    """Return whose kit it is, what its parties agreed on, what it allows, and until when.

    Where the kit cannot be used now, `problem` says why.
    """
    kit = Kit.read(folder)
    problem = None
    try:
        kit.check()
    except RunError as error:
        problem = str(error)
    agreed = kit.agreement
    top = {"top": top_of(agreed.model)} if kit.is_active else {}
    # Where the agreement names no keys, a party makes its own when it first signs something.
    signer = kit.folder if agreed.trust else kit.home
    is_signer = (signer / SIGNING_KEY).is_file()
    return {
        "federation": agreed.name,
        "party": kit.name,
        "parties": agreed.parties,
        "server": f"{agreed.server.host}:{agreed.server.port}",
        "agreement": kit.digest,
        "model": {"bottom": agreed.model.bottom_of(kit.name), **top},
        "certificates": _certificates(kit),
        "signing_key": Signer(signer).public if is_signer else None,
        "fingerprints": {party: fingerprint(key) for party, key in agreed.trust.items()},
        "policy": None if kit.is_active else plain_settings(kit.policy),
        "rules": _rules(kit.engine / "local"),
        "problem": problem,
        "kit": str(kit.folder),
    }


def _certificates(kit: Kit) -> dict[str, dict[str, str]]:
    """Return of whom each certificate is, and from when until when it holds."""
    dates = {}
    for folder, base, owner in kit.certificates():
        path = folder / f"{base}.crt"
        if path.is_file():
            certificate = read_certificate(path)
            dates[owner.name] = {
                "of": owner_of(certificate.subject)[1],
                "from": moment(certificate.not_valid_before_utc),
                "until": moment(certificate.not_valid_after_utc),
            }
    return dates


def _rules(local: Path) -> dict[str, str]:
    """Return, for people to read, what a kit's files allow the engine."""
    try:
        granted = json.loads((local / AUTHORIZATION).read_bytes())["permissions"]
        content = json.loads((local / RESOURCES).read_bytes())
        rights = {
            right: ", ".join(sorted({str(rules[right]) for rules in granted.values()}))
            for right in ("byoc", "shell_commands", "operate")
        }
        classes, mode = content["class_allow_list"], content["class_list_enforcement_mode"]
        streams = bool(content.get("allow_log_streaming", True))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise RunError(
            f"The engine's rules in '{local}' cannot be read; take them from the kit as it was "
            f"handed out."
        ) from error
    return {
        "who may start jobs": ", ".join(granted),
        "code in jobs": rights["byoc"],
        "shell commands": rights["shell_commands"],
        "control from afar": rights["operate"],
        "classes": f"{', '.join(classes)} ({mode})",
        "logs sent away": "yes" if streams else "no",
    }
