"""What `unlabel forget` prints of a request, before and after."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from unlabel.cli.output import messages, percent, print_json, print_table
from unlabel.forget import Change, Method, Mode, Request, Result, Task
from unlabel.words import amount

#: What each mode means to the partners.
MODES: dict[Mode, str] = {
    "open": "partners can tell what is forgotten",
    "deep": "partners can tell what is forgotten, and their own models forget it too",
    "hidden": "partners cannot tell what is forgotten beyond what is said here",
}


def explain(task: Task, request: Request, name: str, method: Method, *, json: bool) -> None:
    """Say what would be done."""
    shots, told = task.shots(request, method), method.account()
    asked = len(task.public.even()) if method.needs() == "public" else 0
    found: dict[str, Any] = {
        "method": name,
        "mode": method.mode(),
        "labels": list(request.names),
        "people": len(request.rows),
        "few_shot": shots.forgotten,
        "retained_samples": len(shots.rows) - shots.forgotten,
        "public_samples": asked,
        "public": task.public.source,
        "disclosed": task.public.disclosed,
        "duplicates": shots.duplicates,
        "suspects": [{"id": s.id, "score": s.score} for s in shots.suspects],
        "cover": len(task.covers(request)[0]),
        "tells_partners": method.told(),
        "privacy": told.to_json(len(task.names)) if told is not None else None,
        "staged": False,
        "dry_run": True,
    }
    if json:
        print_json(found)
        return
    found["privacy"] = told.guarantee(len(task.names)) if told is not None else "nothing is proved"
    rows = [["what", "would be"], *([k.replace("_", " "), str(v)] for k, v in found.items())]
    print_table("Dry run: nothing was changed", rows)


def show(
    result: Result, method: Method, labels: Sequence[str], run: object, *, committed: bool
) -> None:
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
        messages.print(
            f"[bold]Not forgotten[/bold]: {left} of the test rows are still called by the label. "
            f"Roll back and try another setting or method."
        )
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
    messages.print(f"Mode {result.mode}: {MODES[method.mode()]}.")
    messages.print(f"Partners learn: {result.tells_partners}.")
    told = method.account()
    for sentence in told.sentences(len(labels)) if told is not None else []:
        messages.print(sentence)
    total = (result.privacy or {}).get("total")
    if told is not None and total and total["information"] != told.information:
        messages.print(total["sentence"])
    if result.failed:
        messages.print(f"[bold]Failed[/bold]: {result.failed} Next: unlabel rollback {run}")
        return
    if result.control:
        messages.print(f"Nothing was forgotten: this is a control. Next: unlabel rollback {run}")
        return
    if committed:
        messages.print(f"Committed. Next: unlabel purge {run}")
    else:
        messages.print(
            f"Staged. Next: unlabel audit {run}, then unlabel commit {run}, "
            f"or unlabel rollback {run}"
        )


def _both(change: Change) -> list[str]:
    return [percent(change.before), percent(change.after)]
