"""Checks a certificate against the folders of a run: the parties' ledgers and files of weights."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from unlabel.audit.binding import noted_audit
from unlabel.data import ACTIVE
from unlabel.errors import CheckpointError
from unlabel.files import sha256
from unlabel.party import Ledger, LedgerEntry
from unlabel.party.attesting import DIGEST
from unlabel.party.checkpoint import STAGED
from unlabel.report.blinding import Blinding, blinded, key_that_opens, plain
from unlabel.report.certificate_form import Body, Part
from unlabel.report.checks import Checks
from unlabel.report.verify_bases import check_base_files
from unlabel.signing import is_hex


def check_run(body: Body, run: Path, request_blind: Blinding | None, checks: Checks) -> None:
    """Look at every party's folder that is there.

    request_blind  how the active party's digests are stated
    """
    check_base_files(body, run, checks)
    for party in [*body.parties, *body.not_signed, *(body.bases.keys() - body.parties.keys())]:
        folder = run / party
        if not folder.is_dir():
            checks.unchecked.append(
                f"The run has no folder of party '{party}', so its ledger and weights were not "
                f"looked at."
            )
            continue
        before = len(checks.faults)
        entries: list[LedgerEntry] | None = None
        try:
            entries = Ledger(folder).entries()
        except CheckpointError as error:
            checks.faults.append(str(error))
        signed = body.parties.get(party)
        if signed is None:
            continue
        blind = request_blind if party == ACTIVE else plain
        if entries is not None:
            check_ledger(signed.part, party, entries, blind, checks)
        if entries is not None and party == ACTIVE:
            check_audit(body, signed.part, entries, blind, checks)
        check_weights(signed.part, party, folder, blind, checks)
        if blind is None:
            checks.unchecked.append(
                f"The weights of party '{party}' were not checked: its digests stand under the key "
                f"of the request, which is not at hand; give --annex-key."
            )
        elif len(checks.faults) == before:
            checks.held.append(f"Ledger and weights of party '{party}' are those it signed.")


def blinding(body: Body, run: Path | None, checks: Checks) -> Blinding | None:
    """Return how the active party's digests are stated, None where the key is not at hand."""
    if not body.secret:
        return plain
    key = request_key(body, run, checks)
    return None if key is None else partial(blinded, key=key)


def request_key(body: Body, run: Path | None, checks: Checks) -> str | None:
    """Return the key of a request, None where it is not at hand.

    It lies in the active party's folder, and in an annex that was opened.
    """
    path = (run or Path()) / ACTIVE / "secrets" / f"{Path(body.request).name}.json"
    key = None
    if run is not None and path.exists():
        try:
            key = key_that_opens(body.commitment, json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, RecursionError):
            key = None
        checks.expect(
            key is not None,
            f"'{ACTIVE}/secrets/{path.name}' does not open the commitment of the certificate: it "
            f"was changed or cannot be read.",
        )
    if key is None and checks.annex is not None:
        asked = {**checks.annex.get("asked", {}), "key": checks.annex.get("key")}
        key = key_that_opens(body.commitment, asked)
    return key


def check_ledger(
    part: Part, party: str, entries: Sequence[LedgerEntry], blind: Blinding | None, checks: Checks
) -> None:
    """Check that a ledger whose chain is whole holds what the party signed."""
    lines = [e for e in entries if (e.event, e.request) == ("commit", part.request)]
    if not checks.expect(
        bool(lines),
        f"The ledger of party '{party}' has no commit of request {part.request}: the certificate "
        f"is of another run, or the ledger was cut off.",
    ):
        return
    checks.expect(
        lines[0].note.get("commitment") == part.commitment,
        f"The ledger of party '{party}' holds another commitment than the one it signed.",
    )
    checks.expect(
        lines[0].at == part.committed,
        f"The ledger of party '{party}' dates the commit {lines[0].at}, its part {part.committed}.",
    )
    # What was purged or trained on since can still be held against the ledger.
    noted, signed = lines[0].note, [part.weights.before or "", part.weights.after]
    checks.expect(
        "weights" not in noted
        or blind is None
        or (noted.get("version"), _stated(noted["weights"], blind)) == (part.version, signed),
        f"The ledger of party '{party}' holds another version or other weights than it signed.",
    )
    checks.expect(
        part.ledger in {e.hash for e in entries},
        f"The ledger of party '{party}' was cut off or changed: it lacks the line with which it "
        f"ended when the party signed.",
    )
    purge = part.purge
    checks.expect(
        purge is None
        or any(
            (e.event, e.note.get("version"), e.at) == ("purge", purge.version, purge.at)
            for e in entries
        ),
        f"The ledger of party '{party}' has no such purge as the party attests.",
    )


def check_audit(
    body: Body,
    part: Part,
    entries: Sequence[LedgerEntry],
    blind: Blinding | None,
    checks: Checks,
) -> None:
    """Check depth and figures against the active party's ledger as it was when it signed."""
    ends = [e.index for e in entries if e.hash == part.ledger]
    noted = noted_audit(entries[: ends[0] + 1], body.request) if ends else None
    stated: list[object] = [None, body.depth]
    if noted is not None and body.depth is None and body.figures is None:
        checks.unchecked.append(
            f"The ledger of party '{ACTIVE}' notes an audit of this request, depth "
            f"'{noted.get('depth')}'; the certificate states none: its figures were not at hand."
        )
        return
    if noted is not None:
        figures = body.figures or "" if blind is None else _stated([noted.get("figures")], blind)[0]
        stated = [figures, noted.get("depth")]
        judged = noted.get("weights")
        checks.expect(
            judged is None or blind is None or _stated([judged], blind)[0] == part.weights.after,
            "The audit judged other weights than those that were committed.",
        )
    checks.expect(
        not ends or stated == [body.figures, body.depth],
        f"The ledger of party '{ACTIVE}' holds another depth or other figures of an audit than the "
        f"certificate.",
    )


def _stated(digests: object, blind: Blinding) -> list[object]:
    """Return the digests of a ledger's line as a part states them."""
    each = digests if isinstance(digests, list) else []
    return [blind(digest) if is_hex(digest, DIGEST) else digest for digest in each]


def check_weights(
    part: Part, party: str, folder: Path, blind: Blinding | None, checks: Checks
) -> None:
    """Check the files of weights that are still there."""
    versions = folder / "versions"
    numbers = sorted(int(p.stem) for p in versions.glob("*.safetensors") if p.stem.isdecimal())
    path = versions / f"{part.version:06d}.safetensors"
    where = f"{party}/versions/{path.name}"
    if path.exists():
        checks.expect(
            blind is None or blind(sha256(path.read_bytes())) == part.weights.after,
            f"The weights '{where}' are not those that party '{party}' signed.",
        )
    elif numbers and numbers[-1] > part.version:
        checks.unchecked.append(
            f"Party '{party}' has newer weights only, so those of this request were not checked."
        )
    else:
        checks.faults.append(f"The weights '{where}', which party '{party}' signed, are missing.")
    if part.purge is not None:
        left = part.purge.version
        files = [p for s in ("versions", STAGED) for p in sorted((folder / s).glob("*"))]
        older = [p for p in files if p.stem.isdecimal() and int(p.stem) < left]
        # A hidden request leaves a party the weights it had, so that those may well be there.
        if blind is not None and part.weights.before != part.weights.after:
            older += [p for p in files if p not in older and _is_of(p, part.weights.before, blind)]
        for old in older:
            checks.faults.append(
                f"Party '{party}' attests a purge, but '{party}/{old.parent.name}/{old.name}' from "
                f"before it is still there."
            )
    elif blind is not None:
        _check_before(part, party, versions, blind, checks)


def _is_of(path: Path, digest: str | None, blind: Blinding) -> bool:
    """Tell whether a file holds certain weights, under whatever number it stands."""
    return path.suffix == ".safetensors" and blind(sha256(path.read_bytes())) == digest


def _check_before(part: Part, party: str, versions: Path, blind: Blinding, checks: Checks) -> None:
    """Check the weights from before the request, where nothing was purged."""
    for manifest in sorted(versions.glob("*.json")):
        path = manifest.with_suffix(".safetensors")
        try:
            noted = json.loads(manifest.read_text(encoding="utf-8")).get("sha256")
        except (OSError, ValueError, AttributeError, RecursionError):
            checks.faults.append(
                f"Manifest '{party}/versions/{manifest.name}' cannot be read or was changed."
            )
            continue
        stated = blind(noted) if is_hex(noted, DIGEST) else ""
        if stated == part.weights.before and path.exists():
            checks.expect(
                blind(sha256(path.read_bytes())) == part.weights.before,
                f"The weights '{party}/versions/{path.name}' from before the request are not "
                f"those that party '{party}' signed.",
            )
            return
    checks.unchecked.append(
        f"The weights of party '{party}' from before the request are not there to be checked."
    )
