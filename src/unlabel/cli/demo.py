"""`unlabel demo`: parties learn without showing labels, one label vanishes, and all is judged."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group
from rich.panel import Panel
from rich.text import Text

from unlabel.cli.output import Json, make_table, messages, percent, print_json, results, say, to_svg
from unlabel.cli.progress import StepBar, TrainingBars
from unlabel.compat import run_file
from unlabel.files import write_atomically
from unlabel.words import amount

if TYPE_CHECKING:
    from unlabel.audit import Verdict
    from unlabel.config import BottomsKind, RunConfig
    from unlabel.data import Features
    from unlabel.federation import Federation
    from unlabel.party import PassiveParty
    from unlabel.runfolder import Overwrite
    from unlabel.train import Holdings

#: Passes of a training with labels, of one that starts from bottoms made without, and of these.
EPOCHS = 15
TUNED_EPOCHS = 6
LABEL_FREE_EPOCHS = 12
FORGOTTEN = 3
#: Decides the draws of the request, so that the demo shows the same every time.
KEY = "2a" * 32
#: Models to retrain without the label, to compare with where forgetting is not exact.
RETRAINED = 2
#: The partner whose view of a training is looked at.
CURIOUS = "left"


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
    and a third the labels. First a blind run: the two make their models without a label, and the
    label holder fits its own on top. Forgetting a digit then takes no message, and is exact. Then
    the same data is trained in the two other ways, so that you see what each costs and gives.
    """
    import torch

    from unlabel.federation import Federation
    from unlabel.train import load_holdings

    torch.set_num_threads(1)  # models this small only wait for a second one
    blind = demo_config("blind", seed)
    holdings = load_holdings(blind)
    alone = {name: _train_alone(holdings, name) for name in holdings.features}
    # Another demo forgot something too; a run of somebody's own is not replaced then.
    replaced: Overwrite = "forgotten" if _is_demo(out, blind) else True
    federation = Federation.create(blind, out, overwrite=replaced, record=True)
    kinds = {"blind": _shown(federation)}
    wire = {name: _wire(party) for name, party in federation.passives.items()}
    verdict = _forget(federation, kinds["blind"])
    assert verdict is not None
    papers = _papers(federation, out)
    supervised, tuned = (
        Federation.create(demo_config(kind, seed), record=True) for kind in ("supervised", "tuned")
    )
    kinds["supervised"] = _shown(supervised)
    _forget(supervised, kinds["supervised"], retrained=RETRAINED)
    kinds["tuned"] = _shown(tuned)
    _forget(tuned, kinds["tuned"], judged=False)  # exact as the first is; one audit is enough
    facts = {
        "accuracy": kinds["blind"].accuracy,
        "alone": alone,
        "wire": wire,
        "parties": len(alone),
        "forgotten": str(FORGOTTEN),
        "depth": verdict.depth,
        "kinds": {name: vars(kinds[name]) for name in ("supervised", "tuned", "blind")},
        **papers,
        "run": str(out),
    }
    if json:
        print_json(facts)
        return
    page = _page(facts, verdict)
    results.print(page)
    if picture is not None:
        write_atomically(picture, to_svg(page, "unlabel demo").encode())


def demo_config(kind: BottomsKind, seed: int) -> RunConfig:
    """Return a run of the demo whose bottoms are made in one of the three ways."""
    from unlabel.config import (
        FitSettings,
        LabelFreeSettings,
        ModelSettings,
        RunConfig,
        TrainSettings,
    )

    epochs = {"supervised": EPOCHS, "tuned": TUNED_EPOCHS}
    train = TrainSettings(seed=seed)
    if kind in epochs:
        train = replace(train, epochs=epochs[kind])
    return RunConfig(
        data="digits",
        parties={"left": 4, "right": 4},
        model=ModelSettings(bottom="convnet"),
        bottoms=kind,
        # Each party by itself, so that no gradient reaches it at all; digits have no mirror image.
        label_free=LabelFreeSettings(epochs=LABEL_FREE_EPOCHS, batch=256, across=False, flip=False),
        fit=FitSettings(epochs=60),
        train=train,
    )


@dataclass
class Kind:
    """What one way to train costs and gives.

    accuracy    on test rows, before anything is forgotten
    guess       share of its training rows that a curious partner groups by label, by what it
                looked at: gradients, embeddings or its own features
    training    messages that partners got in training
    seconds     that forgetting the digit took
    messages    that partners got for it, from the request to the commit
    retained    accuracy on the other digits afterwards
    visibility  and depth and guarantee: the three words of the request, as the audit has them
    """

    accuracy: float
    guess: Mapping[str, float | None]
    training: int
    seconds: float = 0.0
    messages: int = 0
    retained: float | None = None
    visibility: str = ""
    depth: str = ""
    guarantee: str = ""

    @property
    def best_guess(self) -> float:
        """The best of the partner's guesses."""
        return max(share for share in self.guess.values() if share is not None)


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
    config = replace(holdings.config, parties={name: 4})
    federation = Federation.of(replace(holdings, features=features, config=config))
    _train(federation, f"{name} alone")
    return federation.evaluate().accuracy


def _train(federation: Federation, title: str) -> None:
    with TrainingBars(messages, title) as bars:
        federation.train(watchers=[bars], watch=bars.watch)


def _shown(federation: Federation) -> Kind:
    """Train a federation, and look at what a curious partner saw of it."""
    from unlabel.cli.demo_guess import guesses
    from unlabel.wire import Recorder

    recorder = Recorder(federation.active.transport, keep_tensors=True)
    plain, federation.active.transport = federation.active.transport, recorder
    _train(federation, f"left + right, {federation.config.bottoms}")
    federation.active.transport = plain
    seen = recorder.transcripts[CURIOUS].entries if CURIOUS in recorder.transcripts else []
    return Kind(
        accuracy=federation.evaluate().accuracy,
        guess=guesses(federation, CURIOUS, seen),
        training=_messages(federation),
    )


def _messages(federation: Federation) -> int:
    """Return how many messages the partners have received so far."""
    return sum(
        entry.direction == "received"
        for party in federation.passives.values()
        if party.transcript is not None
        for entry in party.transcript.entries
    )


def _forget(
    federation: Federation, kind: Kind, *, retrained: int = 0, judged: bool = True
) -> Verdict | None:
    """Forget a digit, judge that, and commit it; note what it came to.

    retrained  models to compare with
    judged     whether there is an audit; an exact method has its words without one
    """
    from unlabel.forget import ForgetSettings
    from unlabel.forget.exact_methods import EXACT

    def counted(act: Callable[[], Any]) -> Any:
        before, started = _messages(federation), time.perf_counter()
        done = act()
        kind.seconds += time.perf_counter() - started
        kind.messages += _messages(federation) - before
        return done

    say(f"forgetting the digit {FORGOTTEN}: {federation.config.bottoms}")
    settings = ForgetSettings(key=KEY)
    outcome = counted(lambda: federation.forget([FORGOTTEN], settings=settings))
    kind.retained = outcome.result.retained_accuracy.after
    verdict: Verdict | None = None
    if judged:
        with StepBar(messages, "auditing") as bar:
            verdict = federation.audit(retrained=retrained, watch=bar.step)
    # With another seed the audit may find less than is demanded; then this is on record.
    force = verdict is not None and not verdict.passed
    counted(lambda: outcome.commit(force=force))
    if verdict is None:
        method = EXACT[federation.config.bottoms]()
        kind.visibility, kind.depth, kind.guarantee = method.visibility, method.aim, "exact"
    else:
        kind.visibility, kind.depth = verdict.visibility, verdict.depth
        kind.guarantee = verdict.guarantee
    return verdict


def _papers(federation: Federation, out: Path) -> dict[str, str]:
    """Write the report and the certificate, check the certificate, and compute the model again."""
    from unlabel.report.service import CERTIFICATE, REPORT
    from unlabel.verification import verify

    federation.purge()
    federation.report()
    federation.certificate()
    checks = verify(out / CERTIFICATE, replay=out)
    assert not checks.faults, checks.faults
    return {"report": str(out / REPORT), "certificate": str(out / CERTIFICATE)}


def _wire(party: PassiveParty) -> dict[str, Any]:
    assert party.transcript is not None
    return {
        "messages": len(party.transcript.entries),
        "bytes_received": party.transcript.total_bytes("received"),
        "bytes_sent": party.transcript.total_bytes("sent"),
        "kinds_received": sorted(
            {e.kind for e in party.transcript.entries if e.direction == "received"}
        ),
        "kinds_sent": sorted({e.kind for e in party.transcript.entries if e.direction == "sent"}),
    }


def _page(facts: dict[str, Any], verdict: Verdict) -> Group:
    from unlabel.cli.audit import headline

    together, out = percent(facts["accuracy"]), facts["run"]
    who = [["who trains, blind", "test accuracy"]]
    who += [[f"label holder + {name} half", percent(part)] for name, part in facts["alone"].items()]
    who.append(["[bold]label holder + left half + right half[/]", f"[bold]{together}[/]"])
    crossed = [["party", "messages", "received", "sent", "what it was asked"]]
    for name, seen in facts["wire"].items():
        sizes = [amount(seen["bytes_received"]), amount(seen["bytes_sent"])]
        asked = ", ".join(seen["kinds_received"])
        crossed.append([name, f"{seen['messages']:,}", *sizes, asked])
    about = Text(
        "Ten handwritten digits, each image cut in two. One party holds the left halves, one the "
        f"right halves, a third the labels. Nobody shows the others their data. Then the digit "
        f"{FORGOTTEN} has to go."
    )
    next_steps = Text(
        f"{facts['report']}        the audit as a page: open it in a browser\n"
        f"{facts['certificate']}   what every party signed; checked and replayed, it holds\n"
        f"{out} has one subfolder a party, with its model and its ledger; what stems from "
        f"before was purged.\n"
        f"unlabel status {out}                who is on which version\n"
        f"unlabel forget {out} --label 7      the next request"
    )
    return Group(
        Panel(about, title="unlabel demo", title_align="left"),
        make_table("Together they know more", who),
        make_table("What crossed each party's boundary: no gradient", crossed),
        _side_by_side(facts),
        headline(verdict),
        Panel(next_steps, title="Where to look", title_align="left"),
    )


def _side_by_side(facts: dict[str, Any]) -> Any:
    kinds = [Kind(**each) for each in facts["kinds"].values()]
    rows = [["", *facts["kinds"]]]
    rows += [
        ["test accuracy", *(percent(kind.accuracy) for kind in kinds)],
        ["messages to partners in training", *(f"{kind.training:,}" for kind in kinds)],
        ["a partner groups its rows by label", *(percent(kind.best_guess) for kind in kinds)],
        [f"forgetting the {FORGOTTEN}: seconds", *(f"{kind.seconds:.1f}" for kind in kinds)],
        ["messages to partners for it", *(f"{kind.messages:,}" for kind in kinds)],
        ["accuracy on the other digits after", *(percent(kind.retained) for kind in kinds)],
        *([word, *(getattr(k, word) for k in kinds)] for word in WORDS),
    ]
    shown = [*rows[:1], *([*row[:-1], f"[bold]{row[-1]}[/]"] for row in rows[1:])]
    alone = percent(kinds[-1].guess["features"])
    return make_table(
        f"Three ways to train, and to forget the {FORGOTTEN}",
        shown,
        f"how a partner groups: k-means of the gradients it got, its embeddings or its features, "
        f"whichever is best; with its own half alone {alone}. Supervised runs draw their test rows "
        f"by label, the others by id",
    )


#: The three words of a request.
WORDS = ("visibility", "depth", "guarantee")
