"""Every measure for every model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean, stdev

from unlabel.audit.measure import LEVELS, MEASURES, Figure, Measure
from unlabel.audit.measurement import Measurement, ModelFigure, SeedFigure, estimate_of
from unlabel.audit.seen import Part, Seen
from unlabel.errors import DataError
from unlabel.forget import Watch, watch_nothing

__all__ = ["Watch", "compare", "watch_nothing"]


def compare(
    models: Mapping[str, Sequence[Seen]],
    labels: Sequence[int],
    *,
    measures: Mapping[str, Measure] | None = None,
    watch: Watch = watch_nothing,
) -> dict[str, Measurement]:
    """Return each measure's figures by model, as `Verdict.measures` holds them.

    models    what was seen of each; several of one model, such as retrained seeds, are averaged
    labels    those to be forgotten
    measures  by name; all that are registered, with their defaults, unless told
    watch     is told the number of the next figure, how many there are, and its name

    What several of one model come to together stands in `ModelFigure`.
    """
    empty = [name for name, seen in models.items() if not seen]
    if empty:
        raise DataError(f"Expected something seen of model '{empty[0]}'; leave it out otherwise.")
    chosen = _all() if measures is None else measures
    steps = len(chosen) * sum(len(seen) for seen in models.values())
    found: dict[str, Measurement] = {}
    step = 0
    for name, measure in chosen.items():
        known: dict[tuple[int, ...], Figure] = {}
        values = {}
        for model, several in models.items():
            figures = []
            for seen in several:
                step += 1
                watch(step, steps, f"{name} of {model}")
                key = _read(measure, seen)
                if key not in known:
                    known[key] = measure.measure(seen, tuple(labels))
                figures.append(known[key])
            values[model] = _together(figures, measure.bounds)
        found[name] = Measurement(
            about=measure.about,
            level=measure.level,
            higher_is_better=measure.higher_is_better,
            unit=measure.unit,
            values=values,
        )
    return found


def _all() -> dict[str, Measure]:
    """Return all measures with their defaults, from utility to the deepest level."""
    order = (None, *LEVELS)
    made = {name: MEASURES.get(name)() for name in MEASURES.names()}
    return dict(sorted(made.items(), key=lambda item: order.index(item[1].level)))


def _read(measure: Measure, seen: Seen) -> tuple[int, ...]:
    """Return what a measure reads of a model, by identity.

    Below the output nothing depends on what is predicted, only on scores and embeddings, which a
    masked model shares with the one behind the mask.
    """
    if measure.level not in ("top", "deep"):
        return (id(seen),)
    parts: tuple[Part, ...] = (seen.train, seen.test)
    return tuple(
        id(thing) for part in parts for thing in (part.labels, part.scores, part.embeddings)
    )


def _short(figure: Figure) -> SeedFigure:
    """Return one seed's figure, and what it says of each party, without the rest of its detail."""
    parties = figure.detail.get("parties", {}).items()
    alone = {party: estimate_of(each) for party, each in parties}
    return SeedFigure(figure.value, figure.low, figure.high, alone)


def _together(figures: Sequence[Figure], bounds: tuple[float, float]) -> ModelFigure:
    """Return one figure for several of one model."""
    first = figures[0]
    values = tuple(figure.value for figure in figures)
    each = tuple(_short(figure) for figure in figures)
    if len(figures) == 1:
        return ModelFigure(
            first.value, first.low, first.high, first.detail, first.note, seeds=values, each=each
        )
    known = [value for value in values if value is not None]
    notes = list(dict.fromkeys(figure.note for figure in figures if figure.note))
    if len(known) < len(values):
        notes.append(f"{len(values) - len(known)} of {len(values)} have no value.")
    lows = [figure.low for figure in figures if figure.low is not None]
    highs = [figure.high for figure in figures if figure.high is not None]
    if len(known) > 1:
        reach = 2 * stdev(known) / len(known) ** 0.5
        lows.append(max(bounds[0], mean(known) - reach))
        highs.append(min(bounds[1], mean(known) + reach))
    return ModelFigure(
        value=mean(known) if known else None,
        low=min(lows, default=None),
        high=max(highs, default=None),
        detail=first.detail,
        note=" ".join(notes),
        seeds=values,
        each=each,
    )
