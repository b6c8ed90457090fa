"""Figures of an audit: a value with its interval, of each model, of each seed and party alone.

`plain_data` of a `Measurement` is what `audit.json` holds of it:

    {"about": "..", "depth": "bottoms", "higher_is_better": null, "unit": "share",
     "values": {"forgotten": {"value": 0.6, "low": 0.5, "high": 0.7, "detail": {..}, "note": "",
                              "seeds": [0.6],
                              "each": [{"value": 0.6, "low": 0.5, "high": 0.7,
                                        "parties": {"bank": {"value": .., "low": .., "high": ..}}}]
                             }, ..}}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

from unlabel.terms import Depth

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

#: share is shown as a percentage, ratio as so many times.
Unit = Literal["share", "number", "ratio"]


@dataclass(frozen=True)
class Estimate:
    """A value and how sure it is.

    value      None where it is undefined
    low, high  a 95 % interval
    """

    value: float | None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Figure(Estimate):
    """One measured value.

    detail  plain data for pictures and tables, for example a confusion matrix; each measure says
            in its docstring what stands there
    note    a remark for people, empty where none is needed: why a value is undefined
    """

    detail: dict[str, Any] = field(default_factory=dict, repr=False)
    note: str = ""

    @property
    def parties(self) -> tuple[str, ...]:
        """The parties of which the measure also looked at each alone."""
        return tuple(self.detail.get("parties", ()))


@dataclass(frozen=True)
class SeedFigure(Estimate):
    """What a measure says of one seed of a model; `parties` has each party alone."""

    parties: Mapping[str, Estimate] = field(default_factory=dict)


@dataclass(frozen=True)
class ModelFigure(Figure):
    """What a measure says of a model, over all its seeds.

    value      of one seed its own, of several their mean
    low, high  of several what holds all their intervals, and the mean -+ 2 standard errors
    detail     that of the first seed
    seeds      the value of each
    each       the same with its interval, and what it says of every party
    """

    seeds: tuple[float | None, ...] = ()
    each: tuple[SeedFigure, ...] = field(default=(), repr=False)

    @property
    def known(self) -> tuple[float, ...]:
        """The values of the seeds that have one."""
        return tuple(value for value in self.seeds if value is not None)

    def estimates(self, party: str = "") -> list[Estimate]:
        """Return each seed's value where it has one: of all parties together, or of one alone."""
        each = [one.parties.get(party) if party else one for one in self.each]
        return [one for one in each if one is not None and one.value is not None]


@dataclass(frozen=True)
class Measurement:
    """One measure, over all models that were compared.

    about             what is measured, in one line
    depth             the depth of forgetting it speaks about; None where it is about utility
    higher_is_better  None where only the distance from the retrained model counts
    unit              share, number or ratio
    values            by the name of the model: original, mask, forgotten, retrained
    """

    about: str
    depth: Depth | None
    higher_is_better: bool | None
    unit: Unit
    values: Mapping[str, ModelFigure]

    def figure(self, model: str) -> ModelFigure:
        """Return what is said of a model, an undefined figure where it was not measured."""
        return self.values.get(model, ModelFigure(None))

    def value(self, model: str) -> float | None:
        """Return the value for a model, None where it was not measured or is undefined."""
        return self.figure(model).value

    @property
    def parties(self) -> tuple[str, ...]:
        """The parties of which the forgotten model's embeddings were also measured alone."""
        return self.figure("forgotten").parties


#: By the name of the measure.
Measurements = Mapping[str, Measurement]


def measurements_from_json(raw: Mapping[str, Any]) -> dict[str, Measurement]:
    """Return measurements from plain data.

    An entry needs its value; the rest may be missing, as in files that an earlier version wrote.
    What has another form raises one of ValueError, TypeError, AttributeError and LookupError.
    """
    return {str(name): _measurement(each) for name, each in raw.items()}


def _measurement(raw: Mapping[str, Any]) -> Measurement:
    values = {str(model): _model_figure(each) for model, each in raw["values"].items()}
    unit = raw.get("unit", "number")
    if unit not in get_args(Unit):
        raise ValueError(f"`unit` is none of {', '.join(get_args(Unit))}")
    about, depth, better = str(raw.get("about", "")), raw.get("depth"), raw.get("higher_is_better")
    return Measurement(about, depth, better, unit, values)


def _model_figure(raw: Mapping[str, Any]) -> ModelFigure:
    detail, note = dict(raw.get("detail", {})), str(raw.get("note", ""))
    seeds = tuple(number(value, "seeds") for value in raw.get("seeds", ()))
    each = tuple(_seed_figure(one) for one in raw.get("each", ()))
    return ModelFigure(*_ends(raw), detail, note, seeds, each)


def _seed_figure(raw: Mapping[str, Any]) -> SeedFigure:
    parties = raw.get("parties", {}).items()
    return SeedFigure(*_ends(raw), {str(party): estimate_of(each) for party, each in parties})


def estimate_of(raw: Mapping[str, Any]) -> Estimate:
    """Return a value with its interval from plain data.

    >>> estimate_of({"value": 0.5, "low": 0.4, "high": 0.6})
    Estimate(value=0.5, low=0.4, high=0.6)
    """
    return Estimate(*_ends(raw))


def _ends(raw: Mapping[str, Any]) -> tuple[float | None, float | None, float | None]:
    """Return value, low and high."""
    low, high = (number(raw.get(end), end) for end in ("low", "high"))
    return number(raw["value"], "value"), low, high


def number(value: Any, name: str) -> Any:
    """Return a number of plain data as it is, None where there is none."""
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value
    raise ValueError(f"`{name}` is no number")


def plain_data(instance: DataclassInstance) -> dict[str, Any]:
    """Return a dataclass, and all within it, as plain data with lists in place of tuples."""

    def listed(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: listed(each) for name, each in value.items()}
        return [listed(each) for each in value] if isinstance(value, list | tuple) else value

    return {name: listed(value) for name, value in asdict(instance).items()}
