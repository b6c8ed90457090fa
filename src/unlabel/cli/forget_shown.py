"""What `unlabel forget` prints of a request, before and after."""

from __future__ import annotations

from typing import Any

from rich.text import Text

from unlabel.cli.output import messages, percent, print_json, print_table
from unlabel.forget import Change, Result, Work
from unlabel.words import amount

#: What each mode means to the partners.
MODES = {
    "open": "partners can tell what is forgotten",
    "deep": "partners can tell what is forgotten, and their own models forget it too",
    "hidden": "partners cannot tell what is forgotten beyond what is said here",
}


def explain(work: Work, *, json: bool) -> None:
    """Say what would be done."""
    method, request, shots = work.method, work.request, work.shots
    told = method.account()
    asked = len(work.public.even()) if method.needs() == "public" else 0
    found: dict[str, Any] = {
        "method": work.name,
        "mode": method.mode(),
        "labels": list(request.names),
        "people": len(request.rows),
        "few_shot": shots.forgotten,
        "retained_samples": len(shots.rows) - shots.forgotten,
        "public_samples": asked,
        "public": work.public.source,
        "disclosed": work.public.disclosed,
        "duplicates": shots.duplicates,
        "suspects": [{"id": s.id, "score": s.score} for s in shots.suspects],
        "cover": len(work.among),
        "tells_partners": method.told(),
        "privacy": told.to_json(len(work.names)) if told is not None else None,
        "staged": False,
        "dry_run": True,
    }
    if json:
        print_json(found)
        return
    proved = told.guarantee(len(work.names)) if told is not None else "none"
    rows = [["what", "would be"], *_would_be(found), ["proved bound", proved]]
    print_table("Dry run: nothing was changed", rows)


def _would_be(found: dict[str, Any]) -> list[list[str]]:
    """Return what would be done, in words; what has no part in this request is left out."""
    people = found["people"]
    whom = ["labels", ", ".join(found["labels"])] if not people else ["people", str(people)]
    rows = [["method", found["method"]], ["mode", found["mode"]], whom]
    if people:
        rows.append(["cover", f"{found['cover']} rows" if found["cover"] else "none"])
    if found["few_shot"]:
        kinds = f"{found['few_shot']} of the label, {found['retained_samples']} of others"
        rows.append(["samples", kinds])
    if found["public_samples"]:
        rows.append(["public samples", f"{found['public_samples']}, of all labels alike"])
    rows.append(["public", found["public"]])
    if found["disclosed"]:
        rows.append(["disclosed", "yes: the public samples are training rows"])
    if found["duplicates"]:
        rows.append(["duplicates", f"{found['duplicates']}, left out"])
    if found["suspects"]:
        named = ", ".join(f"{s['id']} ({s['score']:.2f})" for s in found["suspects"])
        rows.append(["suspects", named])
    return [*rows, ["partners learn", found["tells_partners"]]]


def show(result: Result, run: object, *, committed: bool) -> None:
    """Say what a request came to, what it told the partners, and what to do next."""
    what = (
        f"the labels of {result.people} people"
        if result.people
        else f"label{'s' * (len(result.labels) > 1)} {', '.join(result.labels)}"
    )
    rows = [["", "before", "after"]]
    rows.append(["accuracy on retained labels", *_both(result.retained_accuracy)])
    subject = (
        "old labels of these people"
        if result.people
        else f"the forgotten label{'s' * (len(result.labels) > 1)}"
    )
    rows.append([f"accuracy on {subject}", *_both(result.forgotten_accuracy)])
    if result.confidence is not None:
        rows.append(["confidence in their old labels", *_both(result.confidence)])
    steps, crossed = result.steps, amount(result.transcript_bytes)
    used = f"{result.method}: {steps} joint steps, {crossed} on the wire"
    if result.few_shot:
        used += f", {result.few_shot} + {result.retained_samples} samples from {result.public}"
    print_table(f"{what[0].upper()}{what[1:]}: before and after", rows, used)
    if result.still_known:
        left = percent(result.forgotten_accuracy.after)
        sentence = (
            f": {left} of the test rows are still called by the label. "
            f"Roll back and try another setting or method."
        )
        messages.print(Text.assemble(("Not forgotten", "bold"), sentence), soft_wrap=True)
    if result.drift_share is not None:
        messages.print(f"{percent(result.drift_share)} of it is drift of the normalisation.")
    if result.suspects:
        messages.print(
            f"{len(result.suspects)} public samples may carry a wrong label; the worst is "
            f"'{result.suspects[0]['id']}' (score {result.suspects[0]['score']:.2f}). "
            f"--robust drop leaves them out."
        )
    if result.warning:
        messages.print(f"Careful: {result.warning}")
    if result.disclosed:
        messages.print("The public samples are training rows, so partners learn who they are.")
    messages.print(f"Mode {result.mode}: {MODES[result.mode]}.", soft_wrap=True)
    messages.print(f"Partners learn: {result.tells_partners}.", soft_wrap=True)
    if result.privacy is not None:
        messages.print(result.privacy["sentence"], soft_wrap=True)
    messages.print(_next(result, run, committed=committed), soft_wrap=True)


def _next(result: Result, run: object, *, committed: bool) -> Text:
    """Return what to do now; people have no audit, so theirs is decided by the table above."""
    if result.failed:
        said = f": {result.failed} Next: unlabel rollback {run}"
        return Text.assemble(("Failed", "bold"), said)
    if result.control:
        return Text(f"Nothing was forgotten: this is a control. Next: unlabel rollback {run}")
    if committed:
        return Text(f"Committed. Next: unlabel purge {run}, then unlabel certificate {run}")
    undo = f"or unlabel rollback {run}"
    if result.people:
        return Text(
            f"Staged. People have no audit. Next: unlabel commit {run}, "
            f"then unlabel certificate {run}, {undo}"
        )
    return Text(f"Staged. Next: unlabel audit {run}, then unlabel commit {run}, {undo}")


def _both(change: Change) -> list[str]:
    return [percent(change.before), percent(change.after)]
