"""`unlabel demo`: two parties learn together, a label vanishes, and what is left is judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group
from rich.panel import Panel
from rich.text import Text

from unlabel.cli.output import Json, make_table, messages, percent, print_json, results, say, to_svg
from unlabel.cli.progress import ProgressBar, StepBar
from unlabel.compat import run_file
from unlabel.files import write_atomically
from unlabel.words import amount

if TYPE_CHECKING:
    from unlabel.audit import Measurement, Verdict
    from unlabel.config import RunConfig
    from unlabel.data import Features
    from unlabel.federation import Federation
    from unlabel.party import PassiveParty
    from unlabel.runfolder import Overwrite
    from unlabel.train import Holdings

EPOCHS = 15
FORGOTTEN = 3
#: Decides the draws of the request, so that the demo shows the same every time.
KEY = "2a" * 32
#: Models to retrain without the label, to compare with.
RETRAINED = 2
#: Rows of the table, by the name of the model behind each.
SHOWN = {
    "original": "before",
    "forgotten": "after `hidden` (committed)",
    "deep": "after `deep` instead",
    "mask": "control: output hidden, nothing forgotten",
    "retrained": "retrained without the label",
}
#: Columns of the table, and the measure behind each.
COLUMNS = {
    "retained": "retained-accuracy",
    "forgotten": "forgotten-accuracy",
    "probe": "probe-linear",
}


def demo(
    out: Annotated[Path, typer.Option(help="Folder of the run.")] = Path("runs/demo"),
    seed: Annotated[int, typer.Option(help="Names every random draw.")] = 0,
    picture: Annotated[
        Path | None, typer.Option(help="Also keep what is shown as an SVG picture.")
    ] = None,
    json: Json = False,
) -> None:
    """Train two parties on bundled data, forget a label, audit what is left; under a minute.

    A digit is cut in two: one party holds the left half of every image, another the right half,
    and a third the labels. They train one model without showing each other anything but
    embeddings and gradients. Then they forget one digit; an audit judges that beside models
    retrained without it, and every party signs what it did.
    """
    import torch

    from unlabel.config import ModelSettings, RunConfig, TrainSettings
    from unlabel.federation import Federation
    from unlabel.train import load_holdings

    torch.set_num_threads(1)  # models this small only wait for a second one
    config = RunConfig(
        data="digits",
        parties={"left": 4, "right": 4},
        model=ModelSettings(bottom="convnet"),
        train=TrainSettings(epochs=EPOCHS, seed=seed),
    )
    holdings = load_holdings(config)
    alone = {name: _train_alone(holdings, name) for name in holdings.features}
    # Another demo forgot something too; a run of somebody's own is not replaced then.
    replaced: Overwrite = "forgotten" if _is_demo(out, config) else True
    federation = Federation.create(config, out, overwrite=replaced, record=True)
    federation.train(watchers=[ProgressBar(messages, "left + right")])
    facts = {
        "accuracy": federation.evaluate().accuracy,
        "alone": alone,
        "wire": {name: _wire(party) for name, party in federation.passives.items()},
        "parties": len(alone),
        "forgotten": str(FORGOTTEN),
    }
    verdict, models = _forget(federation)
    facts |= {"depth": verdict.depth, "models": models, **_papers(federation, out), "run": str(out)}
    if json:
        print_json(facts)
        return
    page = _page(facts, verdict)
    results.print(page)
    if picture is not None:
        write_atomically(picture, to_svg(page, "unlabel demo").encode())


def _is_demo(out: Path, config: RunConfig) -> bool:
    """Return whether a folder has the run of another demo."""
    from unlabel.runfolder import read_config_of

    if not run_file(out).is_file():
        return False
    there = read_config_of(out)
    return (there.data, there.parties) == (config.data, config.parties)


def _train_alone(holdings: Holdings, name: str) -> float:
    """Return the accuracy the label holder reaches with one party's half only."""
    from unlabel.federation import Federation

    features: dict[str, Features] = {name: holdings.features[name]}
    federation = Federation.of(replace(holdings, features=features))
    federation.train(watchers=[ProgressBar(messages, f"{name} alone")])
    return federation.evaluate().accuracy


def _forget(federation: Federation) -> tuple[Verdict, dict[str, dict[str, Any]]]:
    """Forget a digit in depth, take that back, forget it in hiding and for good; judge both."""
    from unlabel.audit import MEASURES, compare, observe
    from unlabel.forget import ForgetSettings

    say(f"forgetting the digit {FORGOTTEN}: deep")
    outcome = federation.forget([FORGOTTEN], settings=ForgetSettings(method="deep", key=KEY))
    deep = observe(federation.active, federation.holdings.rows, federation.labels)
    outcome.rollback()
    say(f"forgetting the digit {FORGOTTEN}: hidden")
    outcome = federation.forget([FORGOTTEN], settings=ForgetSettings(key=KEY))
    say(f"auditing it beside {RETRAINED} models retrained without the digit")
    with StepBar(messages, "auditing") as bar:
        verdict = federation.audit(retrained=RETRAINED, watch=bar.step)
        measures = {name: MEASURES.get(name)() for name in _judged(verdict)}
        more = compare({"deep": [deep]}, [FORGOTTEN], measures=measures, watch=bar.step)
    # With another seed the audit may find less than is demanded; then this is on record.
    outcome.commit(force=not verdict.passed)
    federation.purge()
    every = {
        name: replace(measurement, values={**measurement.values, **more[name].values})
        for name, measurement in verdict.measures.items()
        if name in measures
    }
    same = {"forgotten": verdict.facts.unchanged}
    return verdict, {name: _model(name, every, federation, same.get(name, ())) for name in SHOWN}


def _judged(verdict: Verdict) -> list[str]:
    """Return the measures that decide a depth, and those that the table shows."""
    wanted = dict.fromkeys([*COLUMNS.values(), *(f.measure for f in verdict.findings)])
    return [name for name in wanted if name in verdict.measures]


def _model(
    name: str,
    measures: Mapping[str, Measurement],
    federation: Federation,
    unchanged: Sequence[str],
) -> dict[str, Any]:
    """Return the figures of one model, and the depth it reaches beside the retrained ones."""
    from unlabel.audit.gate import depth_of, judge

    figures: dict[str, Any] = {
        column: measures[measure].values[name].value for column, measure in COLUMNS.items()
    }
    if name == "retrained":  # what the others are held against
        return {**figures, "depth": None}
    beside_retrained = {
        measure: replace(each, values={**each.values, "forgotten": each.values[name]})
        for measure, each in measures.items()
    }
    findings = judge(beside_retrained, federation.config.audit, unchanged)
    return {**figures, "depth": depth_of(findings)}


def _papers(federation: Federation, out: Path) -> dict[str, str]:
    """Write the report and the certificate, and check the certificate as an outsider would."""
    from unlabel.report.service import CERTIFICATE, REPORT
    from unlabel.verification import verify

    federation.report()
    federation.certificate()
    checks = verify(out / CERTIFICATE, run=out)
    assert not checks.faults, checks.faults
    return {"report": str(out / REPORT), "certificate": str(out / CERTIFICATE)}


def _wire(party: PassiveParty) -> dict[str, Any]:
    assert party.transcript is not None
    return {
        "messages": len(party.transcript.entries),
        "bytes_received": party.transcript.total_bytes("received"),
        "bytes_sent": party.transcript.total_bytes("sent"),
        "kinds_sent": sorted({e.kind for e in party.transcript.entries if e.direction == "sent"}),
    }


def _page(facts: dict[str, Any], verdict: Verdict) -> Group:
    from unlabel.cli.audit import headline

    together, out = percent(facts["accuracy"]), facts["run"]
    who = [["who trains", "test accuracy"]]
    who += [[f"label holder + {name} half", percent(part)] for name, part in facts["alone"].items()]
    who.append(["[bold]label holder + left half + right half[/]", f"[bold]{together}[/]"])
    crossed = [["party", "messages", "received", "sent", "what it sent"]]
    for name, seen in facts["wire"].items():
        sizes = [amount(seen["bytes_received"]), amount(seen["bytes_sent"])]
        crossed.append([name, f"{seen['messages']:,}", *sizes, ", ".join(seen["kinds_sent"])])
    forgotten = [["model", "other digits", f"the {FORGOTTEN}", "probe", "depth"]]
    for name, title in SHOWN.items():
        figures = facts["models"][name]
        cells = [*(percent(figures[key]) for key in COLUMNS), figures["depth"] or "the aim"]
        bold = name == "forgotten"
        forgotten.append([f"[bold]{cell}[/]" if bold else cell for cell in (title, *cells)])
    about = Text(
        "Ten handwritten digits, each image cut in two. One party holds the left halves, one the "
        f"right halves, a third the labels. Nobody shows the others their data. Then the digit "
        f"{FORGOTTEN} has to go."
    )
    next_steps = Text(
        f"{facts['report']}        the audit as a page: open it in a browser\n"
        f"{facts['certificate']}   what every party signed; checked, it holds\n"
        f"{out} has one subfolder a party, with its checkpoint and its ledger; what stems from "
        f"before was purged.\n"
        f"unlabel status {out}                who is on which version\n"
        f"unlabel forget {out} --label 7      the next request"
    )
    return Group(
        Panel(about, title="unlabel demo", title_align="left"),
        make_table("Together they know more", who),
        make_table("What crossed each party's boundary in training", crossed),
        make_table(
            f"The digit {FORGOTTEN} is forgotten",
            forgotten,
            "probe: a linear classifier on the frozen embeddings, given one labelled sample a "
            f"digit; depth: the deepest that holds beside {RETRAINED} retrained models",
        ),
        headline(verdict),
        Panel(next_steps, title="Where to look", title_align="left"),
    )
