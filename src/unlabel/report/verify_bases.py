"""Checks what parties signed of bottoms made without labels, and whether `exact` rests on it."""

from __future__ import annotations

from pathlib import Path

from unlabel.audit.construction import gradients_fit
from unlabel.data import ACTIVE
from unlabel.errors import RunError, UnlabelError
from unlabel.files import sha256
from unlabel.party import Ledger
from unlabel.report.certificate_form import Body
from unlabel.report.checks import Checks
from unlabel.train.assembly import LABEL_FREE
from unlabel.train.label_free import Base

NOT_EXACT = "The certificate states guarantee 'exact', but "


def check_bases(body: Body, checks: Checks) -> None:
    """Check that attestations of bottoms fit the certificate, and that `exact` is supported."""
    before = len(checks.faults)
    replay = body.replay
    settings = {} if replay is None else replay.recipe.get("label_free")
    settings = settings if isinstance(settings, dict) else {}
    for party, signed in body.bases.items():
        part, beside = signed.part, body.parties.get(party)
        stated = None if replay is None else replay.bases.get(party)
        objective, across = settings.get("objective"), bool(settings.get("across"))
        for holds, what in (
            (part.party == party, f"is of party '{part.party}'"),
            (beside is None or beside.key == signed.key, "is signed with another key than its "
             "part of the request"),
            (replay is None or stated == part.weights, "names other weights than what the request "
             "was computed from"),
            (replay is None or part.objective == objective, f"names another objective than the "
             f"recipe, '{part.objective}'"),
            (gradients_fit(part.objective, part.gradients, across), f"states {part.gradients} "
             f"gradients that reached it, and none may: a label may have been in them"),
        ):  # fmt: skip
            checks.expect(holds, f"The attestation of the bottom of party '{party}' {what}.")
    if body.guarantee == "exact":
        _check_exact(body, checks)
    if body.bases and len(checks.faults) == before:
        received = [p for p, signed in body.bases.items() if signed.part.gradients]
        checks.held.append(
            f"Bottoms were made without labels: every party signed for its own, and "
            f"{', '.join(received)} for the digest of the gradients received; that no label was in "
            f"those is the label holder's word, replayable."
            if received
            else "Bottoms were made without labels: every party signed for its own, and that no "
            "gradient ever reached it."
        )


def _check_exact(body: Body, checks: Checks) -> None:
    """Name what `exact` lacks."""
    if body.replay is None:
        checks.faults.append(f"{NOT_EXACT}it does not say what the request was computed from.")
        return
    partners = {party for party in body.replay.bases if party != ACTIVE}
    partners |= body.parties.keys() - {ACTIVE}
    checks.expect(bool(partners), f"{NOT_EXACT}it names no partner's bottom.")
    for party in sorted(partners - body.bases.keys()):
        checks.faults.append(
            f"{NOT_EXACT}party '{party}' has not signed for the bottom that it made without labels."
        )
    expected = {"blind": "hidden", "tuned": "open"}.get(str(body.replay.recipe.get("bottoms")))
    checks.expect(
        expected == body.visibility and body.depth == "bottoms",
        f"{NOT_EXACT}its depth, its visibility and the kind of its bottoms do not go together.",
    )


def check_base_files(body: Body, run: Path, checks: Checks) -> None:
    """Hold what parties signed of their bottoms against the folders of a run that are there."""
    home, replay = run / ACTIVE / LABEL_FREE, body.replay
    if replay is not None and home.is_dir():
        try:
            base = Base.read(home)
        except RunError as error:
            checks.faults.append(str(error))
            base = None
        checks.expect(
            base is not None and dict(base.weights) == replay.bases,
            f"'{ACTIVE}/{LABEL_FREE}/base.json' names other bottoms than the certificate.",
        )
    for party, signed in body.bases.items():
        path = run / party / "base" / "000001.safetensors"
        if not (run / party).is_dir():
            continue
        before = len(checks.faults)
        checks.expect(
            path.exists() and sha256(path.read_bytes()) == signed.part.weights,
            f"The bottom '{party}/base/{path.name}' is missing, or not the one that party "
            f"'{party}' signed for.",
        )
        try:
            hashes = {entry.hash for entry in Ledger(run / party).entries()} | {""}
            checks.expect(
                signed.part.ledger in hashes,
                f"The ledger of party '{party}' lacks the line with which it ended when the party "
                f"signed for its bottom.",
            )
        except UnlabelError as error:
            checks.faults.append(str(error))
        if len(checks.faults) == before:
            checks.held.append(f"The bottom that party '{party}' keeps is the one it signed for.")
