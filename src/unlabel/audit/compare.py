"""Every measure for every model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean, stdev

from unlabel.audit.figures import Measurement, ModelFigure, SeedFigure, estimate_of
from unlabel.audit.gate import NO_RETRAINED
from unlabel.audit.measure import MEASURES, Figure, Measure, Models
from unlabel.audit.observation import Observation
from unlabel.errors import DataError, UnlabelError, why
from unlabel.progress import Watch, watch_nothing
from unlabel.terms import DEPTHS

#: By how much a value that was computed in single precision may miss its bounds.
ROUNDING = 1e-5
#: Tops alone, on the embeddings of the model that is judged.
TOPS = "refitted"
NOT_TAKEN = f"T{NO_RETRAINED[1:]}."


def compare(
    models: Models,
    labels: Sequence[int],
    *,
    measures: Mapping[str, Measure] | None = None,
    watch: Watch = watch_nothing,
) -> dict[str, Measurement]:
    """Return each measure's figures by model, as `Verdict.measures` holds them.

    models    what was seen of each; several of one model, such as retrained seeds, are averaged.
              Of refitted tops only measures are taken that look at tops; where there are no
              retrained models, slow measures are not taken at all
    labels    those to be forgotten
    measures  by name; all that are registered, with their defaults, if None
    watch     called with the number of the next figure, how many there are, and its name

    What several of one model come to together stands in `ModelFigure`.
    """
    empty = [name for name, observed in models.items() if not observed]
    if empty:
        raise DataError(f"Expected something seen of model '{empty[0]}'; leave it out otherwise.")
    if measures is None:
        every = {name: MEASURES.get(name)() for name in MEASURES.names()}
        order = (None, *DEPTHS)  # from utility to the deepest depth
        measures = dict(sorted(every.items(), key=lambda item: order.index(item[1].depth)))
    taken = {name: _taken(measure, models) for name, measure in measures.items()}
    steps = sum(len(several) for some in taken.values() for several in some.values())
    measurements: dict[str, Measurement] = {}
    step = 0
    for name, measure in measures.items():
        known: dict[tuple[int, ...], Figure] = {}
        values = {}
        for model, several in taken[name].items():
            figures = []
            for observed in several:
                step += 1
                watch(step, steps, f"{name} of {model}")
                key = _read(measure, observed)
                if key not in known:
                    known[key] = _measured(name, measure, observed, tuple(labels), models)
                figures.append(known[key])
            values[model] = _together(figures, measure.bounds)
        if not values:
            values = {model: ModelFigure(None, note=NOT_TAKEN) for model in models if model != TOPS}
        measurements[name] = Measurement(
            measure.about, measure.depth, measure.higher_is_better, measure.unit, values
        )
    return measurements


def _taken(measure: Measure, models: Models) -> Models:
    """Return the models that a measure is taken of."""
    if measure.slow and "retrained" not in models:
        return {}
    return {name: some for name, some in models.items() if name != TOPS or measure.of_tops}


def _measured(
    name: str, measure: Measure, observed: Observation, labels: tuple[int, ...], models: Models
) -> Figure:
    """Return a measure's figure; one that is wrong ends the audit, with the measure's name."""
    try:
        figure = measure.beside(observed, labels, models)
        numbers = [x for x in (figure.value, figure.low, figure.high) if x is not None]
    except UnlabelError:
        raise
    except Exception as error:
        raise DataError(f"Measure '{name}' failed ({why(error)}); mend or remove it.") from error
    odd = [x for x in numbers if not isinstance(x, int | float)]
    if odd:
        kind = type(odd[0]).__name__
        raise DataError(f"Measure '{name}': expected plain numbers or None but got a {kind}.")
    low, high = measure.bounds
    if figure.value is not None and not low - ROUNDING <= figure.value <= high + ROUNDING:
        raise DataError(
            f"Measure '{name}': expected a value between its `bounds` {low:g} and {high:g} but got "
            f"{figure.value:g}."
        )
    return figure


def _read(measure: Measure, observed: Observation) -> tuple[int, ...]:
    """Return what a measure reads of a model, by identity.

    Below the output nothing depends on what is predicted, only on scores and embeddings, which a
    masked model shares with the one behind the mask.
    """
    if measure.depth not in ("top", "bottoms"):
        return (id(observed),)
    return tuple(
        id(thing)
        for rows in (observed.train, observed.test)
        for thing in (rows.labels, rows.scores, rows.embeddings)
    )


def _short(figure: Figure) -> SeedFigure:
    """Return one seed's figure, and what it says of each party, without the rest of its detail."""
    parties = figure.detail.get("parties", {}).items()
    alone = {party: estimate_of(each) for party, each in parties}
    return SeedFigure(figure.value, figure.low, figure.high, alone)


def _together(figures: Sequence[Figure], bounds: tuple[float, float]) -> ModelFigure:
    """Return one figure for several of one model."""
    values = tuple(figure.value for figure in figures)
    known = [value for value in values if value is not None]
    notes = list(dict.fromkeys(figure.note for figure in figures if figure.note))
    if len(values) > 1 and len(known) < len(values):
        notes.append(f"{len(values) - len(known)} of {len(values)} have no value.")
    lows = [figure.low for figure in figures if figure.low is not None]
    highs = [figure.high for figure in figures if figure.high is not None]
    if len(known) > 1:
        reach = 2 * stdev(known) / len(known) ** 0.5
        lows.append(max(bounds[0], mean(known) - reach))
        highs.append(min(bounds[1], mean(known) + reach))
    value = mean(known) if known else None
    interval = min(lows, default=None), max(highs, default=None)
    each = tuple(_short(figure) for figure in figures)
    return ModelFigure(value, *interval, figures[0].detail, " ".join(notes), values, each)
