"""What partners learn against what is forgotten: as a table, a page and a picture."""

from __future__ import annotations

from typing import Any

from unlabel.audit.measures.probing import DRAWS
from unlabel_bench import markdown
from unlabel_bench.drawing import Panel, Picture, Series, colour, mark
from unlabel_bench.markdown import FIGURES, counted, interval, number, short_name
from unlabel_bench.registry import Result

HEADS = (
    *("method", "visibility", "label named", "nats told", "bound"),
    *(FIGURES["retained"], FIGURES["forgotten"], "probe", "residual knowledge", "rows (AUC)"),
)
#: Share of the axis by which each method steps aside: several tell nothing, or all there is.
ASIDE = 0.012


def table(result: Result) -> list[list[str]]:
    """Return the figures as rows for people."""
    return [list(HEADS), *(_row(entry) for entry in result["summary"])]


def _row(entry: dict[str, Any]) -> list[str]:
    left = entry["residual"]
    return [
        entry["method"],
        _visibility(entry),
        interval(entry.get("named"), 2),
        interval(entry.get("at_least"), 2),
        _bound(entry),
        *(markdown.figure(entry[name], scale=100) for name in ("retained", "forgotten", "probe")),
        "undefined" if left["value"] is None else interval(left, 2),
        number(entry["rows"].get("training rows"), 3),
    ]


def _visibility(entry: dict[str, Any]) -> str:
    """Return whether partners can tell; records of 0.7 and before have a mode of three words."""
    mode = str(entry.get("mode", ""))
    return str(entry.get("visibility", "open" if mode == "deep" else mode))


def _bound(entry: dict[str, Any]) -> str:
    if "proved" not in entry:
        return ""
    if entry["proved"] is None:
        return "none is proved"
    over = entry["most"] is not None and entry["proved"] >= entry["most"]
    return f"{entry['proved']:.3g}" + (" (no guarantee)" if over else "")


def page(result: Result) -> str:
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
    return markdown.page(
        "# What partners are told, against what is forgotten",
        f"{about['data']}, {about['model']}, {about['parties']} passive parties, "
        f"{about['epochs']} epochs; labels {labels}, each a request of its own, on "
        f"models of {counted(about['seeds'], 'seed')}. Retained and forgotten accuracy "
        f"(D_r and y_u in the paper) are those on test rows of the other labels and of the "
        f"forgotten one, in %, with their standard deviation.",
        about["note"],
        f"{how} The bound is the accountant's, in nats; where none is proved a request may tell "
        f"all there is to know.",
        f"The probe is a linear classifier on the frozen embeddings with one labelled sample a "
        f"class, averaged over {DRAWS} draws; residual knowledge is 1 where it does as well as on "
        f"the original model, and 0 where it does as well as on one that never saw the label. Rows "
        f"are training rows of the label, told from others by one party (AUC; 0.5 is a guess).",
        markdown.table(table(result)),
        f"Residual knowledge is undefined where {', or where '.join(notes)}." if notes else "",
        markdown.bullets(
            [
                f"{x['method']}: {len(x['failed'])} requests failed, the first with: "
                f"{x['failed'][0]}"
                for x in result["summary"]
                if x["failed"]
            ]
        ),
    )


def picture(result: Result) -> Picture:
    """Return a mark at what attacks on a method reach, and a line to what it may tell at most."""
    about = result["about"]
    entries = [x for x in result["summary"] if x.get("at_least") is not None]
    most = max((x["most"] for x in entries if x["most"]), default=1.0)
    original = next(x for x in result["summary"] if x["method"] == "original")["retained"]
    kept = [] if original is None else [(100 * original["mean"], "original")]
    panels = [
        _panel(entries, most, "residual knowledge", [(1.0, "original"), (0.0, "retrained")]),
        _panel(entries, most, "accuracy on retained labels, %", kept),
    ]
    return Picture(
        [
            [
                Panel(
                    **panels[0],
                    title=f"{about['data']}, {about['model']}: "
                    f"{counted(len(about['labels']), 'label')}, {counted(about['seeds'], 'seed')}",
                )
            ],
            [
                Panel(
                    **panels[1],
                    xlabel="nats told about the label: mark (moved aside a little), what attacks "
                    "reach;\nline, up to the bound; dotted, all",
                )
            ],
        ],
        (8, 8),
        legend={"loc": "outside lower center", "fontsize": "small", "ncols": 4},
        options={"sharex": True, "layout": "constrained"},
    )


def _panel(
    entries: list[dict[str, Any]], most: float, title: str, levels: list[tuple[float, str]]
) -> dict[str, Any]:
    """Return a panel's series and the levels of the original and the retrained model."""
    series: list[Series] = []
    for place, entry in enumerate(entries):
        value, low, high = _ends(entry, title)
        if value is None:
            continue
        reached = entry["at_least"]["value"] + (place - len(entries) / 2) * ASIDE * most
        bound = max(reached, min(entry["at_most"], most))
        faint = {"color": colour(place), "alpha": 0.4}
        end = {"color": colour(place), "marker": "|", "markersize": 9}
        look = {"color": colour(place), "marker": mark(place), "markersize": 6, "ls": "none"}
        reach = [[max(0.0, value - low)], [max(0.0, high - value)]]
        series += [
            Series([reached, bound], [value] * 2, options=faint),
            Series([bound], [value], options=end),
            Series(
                [reached],
                [value],
                short_name(entry["method"]),
                reach,
                options={**look, "capsize": 2},
            ),
        ]
    grey = {"color": "#999999", "linestyle": "--", "linewidth": 0.8}
    across = {"xycoords": ("axes fraction", "data"), "color": "#666666", "fontsize": "small"}
    return {
        "series": series,
        "ylabel": title,
        "lines": [
            *(("y", level, grey) for level, _ in levels),
            ("x", most, {"color": "#999999", "linestyle": ":"}),
        ],
        "texts": [(text, (0.25, level), {**across, "va": "bottom"}) for level, text in levels],
        "xlim": (-0.1 * most, 1.1 * most),
        "grid": {"alpha": 0.3},
    }


def _ends(entry: dict[str, Any], title: str) -> tuple[Any, Any, Any]:
    """Return value, lower and upper end in a panel; None where there is nothing to draw."""
    if title == "residual knowledge":
        value, low, high = (entry["residual"].get(name) for name in ("value", "low", "high"))
        return value, low, high
    if entry["retained"] is None:
        return None, None, None
    mean, deviation = (100 * entry["retained"][name] for name in ("mean", "deviation"))
    return mean, mean - deviation, mean + deviation
