"""What `unlabel forget` prints of a request, before and after."""

from __future__ import annotations

from typing import Any

from rich.text import Text

from unlabel.cli.output import percent, print_json, print_table, say
from unlabel.forget import Change, Result, Work
from unlabel.forget.exact_methods import EXACT_NAMES
from unlabel.terms import VISIBILITY_MEANS
from unlabel.words import amount

#: What is said before a request about people is carried out in a run with supervised bottoms.
TRAINS_AGAIN = (
    "All models are trained again without these labels: this takes as long as the training did, "
    "and the partners see which rows are left out. Cheaper: --defer DAY lets it wait for the next "
    "training; in a blind run (`unlabel train --bottoms blind`, docs/blind.md) it would be exact "
    "and hidden, in seconds and without a message."
)
#: What makes a request exact, by its method.
BY_CONSTRUCTION = {
    "refit": "no bottom ever saw a label, and the top was fitted anew to what stays",
    "restart": "all parties returned to bottoms that never saw a label, and were trained on what "
    "stays",
}


def explain(work: Work, *, json: bool) -> None:
    """Say what would be done."""
    method, request, samples = work.method, work.request, work.samples
    bound = method.account
    asked = len(work.public.balanced()) if method.needs == "public" else 0
    every = method.visibility == "hidden" and method.needs == "all"
    exact = work.name in EXACT_NAMES.values()
    facts: dict[str, Any] = {
        "method": work.name,
        "visibility": method.visibility,
        "depth": method.aim,
        "labels": list(request.names),
        "people": len(request.rows),
        "few_shot": samples.forgotten,
        "retained_samples": len(samples.rows) - samples.forgotten,
        "public_samples": asked,
        "rows_asked": len(work.active.labels) if every else 0,
        "public": work.public.source,
        "disclosed": work.public.disclosed,
        "duplicates": samples.duplicates,
        "suspects": [{"id": s.id, "score": s.score} for s in samples.suspects],
        "takes": method.takes,
        "tells_partners": method.tells_partners,
        "privacy": bound.to_json(len(work.names)) if bound is not None else None,
        "exact": exact,
        "staged": False,
        "dry_run": True,
    }
    if json:
        print_json(facts)
        return
    proved = bound.guarantee(len(work.names)) if bound is not None else "none"
    rows = [["what", "would be"], *_would_be(facts), ["proved bound", proved]]
    print_table("Dry run: nothing was changed", rows)


def _would_be(facts: dict[str, Any]) -> list[list[str]]:
    """Return what would be done, in words; what has no part in this request is left out."""
    people = facts["people"]
    whom = ["labels", ", ".join(facts["labels"])] if not people else ["people", str(people)]
    rows = [
        ["method", facts["method"]],
        ["visibility", facts["visibility"]],
        ["depth", facts["depth"]],
        whom,
    ]
    if facts["few_shot"]:
        kinds = f"{facts['few_shot']} of the label, {facts['retained_samples']} of others"
        rows.append(["samples", kinds])
    if facts["public_samples"]:
        rows.append(["public samples", f"{facts['public_samples']}, of all labels alike"])
    if facts["rows_asked"]:
        rows.append(["rows asked for", f"all {facts['rows_asked']}, in one order"])
    if facts["exact"]:
        rows.append(["guarantee", "exact, by construction"])
    else:
        rows.append(["public", facts["public"]])
    if facts["disclosed"]:
        rows.append(["disclosed", "yes: the public samples are training rows"])
    if facts["duplicates"]:
        rows.append(["duplicates", f"{facts['duplicates']}, left out"])
    if facts["suspects"]:
        named = ", ".join(f"{s['id']} ({s['score']:.2f})" for s in facts["suspects"])
        rows.append(["suspects", named])
    if facts["takes"]:
        rows.append(["takes", facts["takes"]])
    return [*rows, ["partners learn", facts["tells_partners"]]]


def show(result: Result, run: object, *, committed: bool) -> None:
    """Say what a request came to, what it told the partners, and what to do next."""
    exact = result.method in EXACT_NAMES.values()
    if result.people == 1:
        title, subject = "The label of one person", "the old label of this person"
    elif result.people:
        title, subject = f"The labels of {result.people} people", "old labels of these people"
    else:
        plural = "s" if len(result.labels) > 1 else ""
        title, subject = f"Label{plural} {', '.join(result.labels)}", f"the forgotten label{plural}"
    rows = [["", "before", "after"]]
    stays = "everybody else" if exact and result.people else "retained labels"
    rows.append([f"accuracy on {stays}", *_both(result.retained_accuracy)])
    rows.append([f"accuracy on {subject}", *_both(result.forgotten_accuracy)])
    if result.confidence is not None:
        rows.append(["confidence in their old labels", *_both(result.confidence)])
    steps, crossed = result.steps, amount(result.transcript_bytes)
    used = f"{result.method}: {steps} joint steps, {crossed} on the wire"
    if exact:
        sent = f"{crossed} on the wire" if result.transcript_bytes else "no message was sent"
        used = f"{result.method}: {result.seconds:.2f} s, {sent}"
    if result.few_shot:
        used += f", {result.few_shot} + {result.retained_samples} samples from {result.public}"
    print_table(f"{title}: before and after", rows, used)
    if result.still_known:
        left = percent(result.forgotten_accuracy.after)
        sentence = (
            f": {left} of the test rows are still called by the label. "
            f"Roll back and try another setting or method."
        )
        say(Text.assemble(("Not forgotten", "bold"), sentence))
    if result.drift_share is not None:
        say(f"{percent(result.drift_share)} of it is drift of the normalisation.")
    if result.suspects:
        count = len(result.suspects)
        several = "s" if count > 1 else ""
        say(
            f"{count} public sample{several} may carry a wrong label; the worst is "
            f"'{result.suspects[0]['id']}' (score {result.suspects[0]['score']:.2f}). "
            f"--robust drop leaves {'them' if count > 1 else 'it'} out."
        )
    if result.warning:
        say(f"Careful: {result.warning}")
    if result.disclosed:
        say("The public samples are training rows, so partners learn who they are.")
    if exact:
        say(
            f"Guarantee exact, by construction: {BY_CONSTRUCTION[result.method]}. It is the model "
            f"of a run whose forgotten label cells are empty."
        )
        say(
            f"Visibility {result.visibility}: {VISIBILITY_MEANS[result.visibility]}. Depth "
            f"{result.aim}."
        )
    else:
        say(
            f"Visibility {result.visibility}: {VISIBILITY_MEANS[result.visibility]}. It aims at "
            f"depth {result.aim}; how deep it went is for the audit to say."
        )
    if result.takes:
        say(f"It took {result.seconds:.1f} s: {result.takes}.")
    say(f"Partners learn: {result.tells_partners}.")
    if result.privacy is not None and not exact:
        say(result.privacy["sentence"])
    say(_next(result, run, committed=committed))


def _next(result: Result, run: object, *, committed: bool) -> Text:
    """Return what to do now."""
    if result.failed:
        reason = f": {result.failed} Next: unlabel rollback {run}"
        return Text.assemble(("Failed", "bold"), reason)
    if result.control:
        return Text(f"Nothing was forgotten: this is a control. Next: unlabel rollback {run}")
    if committed:
        return Text(
            f"Committed. Next: unlabel audit {run}, without which a certificate states no depth, "
            f"then unlabel purge {run} and unlabel certificate {run}"
        )
    undo = f"or unlabel rollback {run}"
    if result.people and result.method not in EXACT_NAMES.values():
        return Text(
            f"Staged. Next: unlabel commit {run}, {undo}. An audit trains five models more to "
            f"compare with: unlabel audit {run} --retrained 5"
        )
    return Text(f"Staged. Next: unlabel audit {run}, then unlabel commit {run}, {undo}")


def _both(change: Change) -> list[str]:
    return [percent(change.before), percent(change.after)]
