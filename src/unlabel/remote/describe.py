"""What a kit is and allows, as plain data: `unlabel federation show`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from unlabel.config import Policy
from unlabel.config.loader import plain_settings
from unlabel.errors import RunError
from unlabel.models.registry import top_of
from unlabel.party.objective import OBJECTIVES
from unlabel.remote import revocation
from unlabel.remote.cautions import cautions
from unlabel.remote.certificates import moment, owner_of, read_certificate
from unlabel.remote.kit import Kit
from unlabel.remote.rules import ALLOWED, permissions
from unlabel.signing import KEY as SIGNING_KEY
from unlabel.signing import Signer, fingerprint
from unlabel.train.assembly import blind_policy


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
    agreed, role = kit.agreement, role_of(kit)
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
        "bottoms": role,
        "certificates": _certificates(kit),
        "signing_key": Signer(signer).public if is_signer else None,
        "fingerprints": {party: fingerprint(key) for party, key in agreed.trust.items()},
        "revoked": revocation.numbers(kit),
        "authority": kit.agreement.authority and fingerprint(kit.agreement.authority),
        "started": kit.state.exists(),
        "cautions": cautions(kit),
        "policy": None if kit.is_active else plain_settings(_policy(kit, role)),
        "rules": _rules(kit),
        "problem": problem,
        "kit": str(kit.folder),
    }


def role_of(kit: Kit) -> dict[str, Any]:
    """Return how the bottoms of a federation are made, and what that asks of a kit's party.

    kind             supervised, blind or tuned
    objective        by which they are made without labels, None where they learn with them
    gradients        whether gradients of the label holder may move the party's bottom
    kept_embeddings  whether the label holder keeps the embeddings of all rows
    """
    agreed = kit.agreement
    settings, blind = agreed.label_free, agreed.bottoms == "blind"
    return {
        "kind": agreed.bottoms,
        "objective": None if agreed.bottoms == "supervised" else settings.objective,
        "gradients": not blind or (OBJECTIVES.get(settings.objective).learns and settings.across),
        "kept_embeddings": blind,
    }


def in_words(role: dict[str, Any]) -> str:
    """Return what an operator should know of the way bottoms are made."""
    if role["kind"] == "supervised":
        return "Bottoms learn with labels: gradients of the label holder move this party's."
    if role["kind"] == "tuned":
        return (
            f"Bottoms are made without labels ({role['objective']}), kept in base/ for good, and "
            f"then tuned by gradients of the label holder."
        )
    moved = "gradients of the label holder move it meanwhile"
    alone = "no gradient is served, so no label can reach it"
    return (
        f"This party's bottom is made once, without labels ({role['objective']}), and kept for "
        f"good: {moved if role['gradients'] else alone}. The label holder keeps the embeddings of "
        f"all rows (`policy.kept_embeddings`), and asks again for new people only."
    )


def _policy(kit: Kit, role: dict[str, Any]) -> Policy:
    return blind_policy(kit.policy, role["gradients"]) if role["kind"] == "blind" else kit.policy


def _certificates(kit: Kit) -> dict[str, dict[str, str]]:
    """Return of whom each certificate is, and from when until when it holds."""
    dates = {}
    for each in kit.credentials():
        if each.certificate.is_file():
            certificate = read_certificate(each.certificate)
            dates[each.owner.name] = {
                "of": owner_of(certificate.subject)[1],
                "from": moment(certificate.not_valid_before_utc),
                "until": moment(certificate.not_valid_after_utc),
                "serial": f"{certificate.serial_number:x}",
            }
    return dates


def _rules(kit: Kit) -> dict[str, str]:
    """Return, for people to read, what the engine will be allowed here; nothing if none carries."""
    if kit.agreement.server.carrier != "flare":
        return {}
    role = "server" if kit.is_active else "client"
    granted = permissions(role)["permissions"]
    rights = {
        right: ", ".join(sorted({str(rules[right]) for rules in granted.values()}))
        for right in ("byoc", "shell_commands", "operate")
    }
    return {
        "who may start jobs": ", ".join(granted),
        "code in jobs": rights["byoc"],
        "shell commands": rights["shell_commands"],
        "control from afar": rights["operate"],
        "classes": f"{', '.join(ALLOWED[role])} (enforce)",
        "logs sent away": "no",
    }
