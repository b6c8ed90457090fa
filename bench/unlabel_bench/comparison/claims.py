"""What figures are to show of our default method, and whether they do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from unlabel.forget.settings import DEFAULT_METHOD
from unlabel_bench.markdown import plain_name
from unlabel_bench.summary import RETRAINED, find

#: Mean accuracy on the forgotten labels, in percent, up to which a method counts as one that
#: forgets.
GONE = 1.0
#: Points of retained accuracy within which methods are tied, and that may be lost.
TIE, LOSS = 0.5, 1.0
#: How many times faster our default is to be.
FASTER = 16.0
#: The least share of the attack's success on the retrained model that is still no sign of
#: forgetting too much.
LEAST = 0.5

Line = dict[str, Any]


@dataclass(frozen=True)
class Aim:
    """One aim: its name, whether it holds (None where it was not measured), and the figures."""

    name: str
    holds: bool | None
    sentence: str


def aims(summary: Sequence[Line], method: str = DEFAULT_METHOD) -> list[Aim]:
    """Return the aims for a method of a comparison, by means over seeds.

    retained accuracy    after >= before - 1 point
    forgotten accuracy   at most 1 %
    membership attack    between half and the whole of its success on the retrained model
    """
    ours = _named(summary, method) or find(summary, method)
    before, retrained = find(summary, "original"), find(summary, RETRAINED)
    kept, was, other = (_known(entry, "retained") for entry in (ours, before, retrained))
    left = _known(ours, "forgotten")
    attack, aim = _known(ours, "asr"), _known(retrained, "asr")
    results = {
        name: Aim(name, None, f"{name} of `{method}` is not in the record")
        for name in ("retained accuracy", "forgotten accuracy", "membership attack")
    }
    if kept is not None and was is not None:
        beside = "" if other is None else f", retrained {other:.2f}"
        text = f"retained accuracy {kept:.2f} after {was:.2f}{beside}: {kept - was:+.2f} points"
        results["retained accuracy"] = Aim("retained accuracy", kept >= was - LOSS, text)
    if left is not None:
        results["forgotten accuracy"] = Aim(
            "forgotten accuracy", left <= GONE, f"forgotten accuracy {left:.2f} %"
        )
    if attack is not None and aim is not None:
        text = f"membership attack {attack:.2f} where retrained models have {aim:.2f}"
        results["membership attack"] = Aim("membership attack", LEAST * aim <= attack <= aim, text)
    return list(results.values())


def _named(summary: Sequence[Line], method: str) -> Line | None:
    """Return the entry of exactly this name: a preset is not judged by the default beside it."""
    return next((x for x in summary if x["method"] == method and not x["tuned"]), None)


def missed(summary: Sequence[Line]) -> list[str]:
    """Return the names of the aims that were measured and do not hold."""
    return [aim.name for aim in aims(summary) if aim.holds is False]


def _known(entry: Line | None, figure: str) -> float | None:
    return float(entry[figure]["mean"]) if entry and entry.get(figure) else None


def headline(entries: Sequence[Line]) -> dict[str, Line]:
    """Return what the figures say of our default: each a claim that holds or not, with numbers.

    retained  no other method with a mean forgotten accuracy of 1 % at most has a mean retained
              accuracy more than 0.5 points above; controls, which forget nothing, do not count
    asr       the attack's mean success is not above that on the retrained model, and of the methods
              for which both hold (forgotten accuracy up to 1 %, attack not above) none is nearer
    time      it takes at most a sixteenth of the mean time of the fastest other method that needs
              rows of the other labels
    faster    and of the fastest that needs all rows of the forgotten labels, and no others

    `holds` is None where what it takes was not measured.
    """
    ours, retrained = find(entries, DEFAULT_METHOD), find(entries, RETRAINED)
    others = [
        entry
        for entry in entries
        if plain_name(entry["method"]) not in (DEFAULT_METHOD, "original")
        and not entry["control"]
        and entry["runs"]
    ]
    if ours is None or not ours["runs"] or not others:
        missing = {"holds": None, "sentence": f"Not measured: {DEFAULT_METHOD} beside others."}
        return dict.fromkeys(("retained", "asr", "time", "faster"), missing)
    forgetting = [entry for entry in others if _mean(entry, "forgotten") <= GONE]
    return {
        "retained": _retained(ours, forgetting),
        "asr": _asr(
            ours, [x for x in forgetting if plain_name(x["method"]) != RETRAINED], retrained
        ),
        "time": _time(ours, others, ("retained", "all"), "need rows of the other labels"),
        "faster": _time(ours, others, ("forgotten",), "need all rows of the label alone"),
    }


def _mean(entry: Line, figure: str) -> float:
    return float(entry[figure]["mean"]) if entry[figure] else float("inf")


def _retained(ours: Line, others: list[Line]) -> Line:
    kept, left = _mean(ours, "retained"), _mean(ours, "forgotten")
    text = f"`{ours['method']}` has retained accuracy {kept:.2f} at forgotten accuracy {left:.2f}"
    if not others:
        return _claim(
            left <= GONE,
            f"{text}, and no other method has forgotten accuracy of {GONE:g} % or less",
        )
    best = max(others, key=lambda entry: _mean(entry, "retained"))
    holds = left <= GONE and _mean(best, "retained") <= kept + TIE
    return _claim(
        holds,
        f"{text}; the best of the {len(others)} others with forgotten accuracy of "
        f"{GONE:g} % or less, "
        f"`{best['method']}`, has {_mean(best, 'retained'):.2f} (a tie is within {TIE:g} points)",
    )


def _asr(ours: Line, others: list[Line], retrained: Line | None) -> Line:
    if retrained is None or not retrained["asr"] or not ours["asr"]:
        return _claim(None, "the attack on a retrained model was not measured")
    aim, attack = _mean(retrained, "asr"), _mean(ours, "asr")
    text = f"`{ours['method']}` has membership attack {attack:.2f} where retrained models have "
    text += f"{aim:.2f}"
    below = [entry for entry in others if _mean(entry, "asr") <= aim]
    if not below:
        return _claim(attack <= aim, f"{text}, and no other method that forgets is below that")
    nearest = max(below, key=lambda entry: _mean(entry, "asr"))
    return _claim(
        _mean(ours, "forgotten") <= GONE and _mean(nearest, "asr") <= attack <= aim,
        f"{text}; the nearest from below among the {len(below)} others that forget and are not "
        f"above, `{nearest['method']}`, has {_mean(nearest, 'asr'):.2f}",
    )


def _time(ours: Line, others: list[Line], needs: Sequence[str], need: str) -> Line:
    full = [x for x in others if x["needs"] in needs and x["seconds"]]
    if not full:
        return _claim(None, f"no methods that {need} were measured")
    fastest = min(full, key=lambda entry: _mean(entry, "seconds"))
    ratio = _mean(fastest, "seconds") / _mean(ours, "seconds")
    return _claim(
        ratio >= FASTER,
        f"`{ours['method']}` takes {_mean(ours, 'seconds'):.3f} s, and the fastest of the "
        f"{len(full)} methods that {need}, `{fastest['method']}`, "
        f"{_mean(fastest, 'seconds'):.3f} s, which is {ratio:.1f} times as long "
        f"(at least {FASTER:g} is claimed)",
    )


def _claim(holds: bool | None, sentence: str) -> Line:
    return {"holds": holds, "sentence": f"{sentence[0].upper()}{sentence[1:]}."}
