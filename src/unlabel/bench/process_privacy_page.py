"""The frontier as a table and as a page."""

from __future__ import annotations

from typing import Any

from unlabel.audit.probing import DRAWS
from unlabel.bench.comparison_table import markdown
from unlabel.bench.process_privacy_picture import counted

HEADS = (
    *("method", "mode", "label named", "nats told", "bound", "D_r", "y_u", "probe"),
    *("residual knowledge", "rows (AUC)"),
)


def table(result: dict[str, Any]) -> list[list[str]]:
    """Return the figures as rows for people."""
    return [list(HEADS), *(_row(found) for found in result["summary"])]


def _row(found: dict[str, Any]) -> list[str]:
    named, told = found.get("named"), found.get("at_least")
    return [
        found["method"],
        found.get("mode", ""),
        "" if not named else f"{named['value']:.2f} ({named['low']:.2f} to {named['high']:.2f})",
        "" if not told else f"{told['value']:.2f} ({told['low']:.2f} to {told['high']:.2f})",
        _bound(found),
        *(_percent(found[name]) for name in ("retained", "forgotten", "probe")),
        _residual(found["residual"]),
        _number(found["rows"].get("training rows")),
    ]


def _bound(found: dict[str, Any]) -> str:
    if "proved" not in found:
        return ""
    if found["proved"] is None:
        return "none is proved"
    over = found["most"] is not None and found["proved"] >= found["most"]
    return f"{found['proved']:.3g}" + (" (no guarantee)" if over else "")


def _percent(spread: dict[str, float] | None) -> str:
    if spread is None:
        return ""
    return f"{100 * spread['mean']:.2f} ± {100 * spread['deviation']:.2f}"


def _residual(found: dict[str, Any]) -> str:
    if found["value"] is None:
        return "undefined"
    return f"{found['value']:.2f} ({found['low']:.2f} to {found['high']:.2f})"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def page(result: dict[str, Any]) -> str:
    """Return the figures as a page."""
    about = result["about"]
    labels = ", ".join(map(str, about["labels"]))
    how = (
        f"Labels are named by the best of our attacks, chosen on other requests than those it is "
        f"judged on: {about['requests']} requests a method at random labels. Nats told are a lower "
        f"bound that an attacker who learned from half of them reaches on the other half."
        if about["requests"]
        else "Labels are named by rules alone on these few requests, each by the rule that does "
        "best on the others; the nats told follow from the share of hits."
    )
    notes = sorted({x["residual"]["note"] for x in result["summary"] if "note" in x["residual"]})
    failed = [
        f"- {found['method']}: {len(found['failed'])} requests failed, the first with: "
        f"{found['failed'][0]}"
        for found in result["summary"]
        if found["failed"]
    ]
    parts = [
        "# What partners are told, against what is forgotten",
        f"{about['data']}, {about['model']}, {about['parties']} passive parties, "
        f"{about['epochs']} epochs; labels {labels}, each a request of its own, on "
        f"models of {counted(about['seeds'], 'seed')}. D_r and y_u are the accuracies on test rows "
        f"of the other labels and of the forgotten one, in %, with their standard deviation.",
        *([about["note"]] if about["note"] else []),
        f"{how} The bound is the accountant's, in nats; where none is proved a request may tell "
        f"all there is to know.",
        f"The probe is a linear classifier on the frozen embeddings with one labelled sample a "
        f"class, averaged over {DRAWS} draws; residual knowledge is 1 where it does as well as on "
        f"the original model, and 0 where it does as well as on one that never saw the label. Rows "
        f"are training rows of the label, told from others by one party (AUC; 0.5 is a guess).",
        markdown(table(result)),
        *([f"Residual knowledge is undefined where {', or where '.join(notes)}."] if notes else []),
        *(["\n".join(failed)] if failed else []),
    ]
    return "\n\n".join(parts) + "\n"
