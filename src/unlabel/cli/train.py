"""`unlabel train`: train a federation and keep the run in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import unlabel as ul
from unlabel.cli.deprecated import old_flag
from unlabel.cli.interrupts import on_interrupt, training
from unlabel.cli.output import Json, messages, percent, print_json, print_table
from unlabel.cli.progress import ProgressBar, StepBar
from unlabel.cli.target import Kit, Target
from unlabel.errors import SettingsError, UsageError

if TYPE_CHECKING:
    from unlabel.train import Evaluation, Progress

DATA = "What to train on"
MODEL = "Models"
DEFENCE = "What parties do to what they send"
TRAINING = "Training"
RUN = "The run"


def _flag(*names: str, panel: str, help_text: str) -> Any:
    return typer.Option(*names, help=help_text, rich_help_panel=panel, show_default=False)


def train(
    config: Annotated[
        Path | None,
        typer.Argument(help="YAML file with the run's settings; flags win over it."),
    ] = None,
    data: Annotated[
        str | None, _flag("--data", panel=DATA, help_text="A built-in dataset or an .npz file.")
    ] = None,
    folder: Annotated[
        Path | None, _flag("--folder", panel=DATA, help_text="Where the dataset's own files lie.")
    ] = None,
    parties: Annotated[
        str | None,
        _flag(
            "--parties",
            panel=DATA,
            help_text="Passive parties: 2, widths 20,8 or names left=10,right=18. Default 2.",
        ),
    ] = None,
    split: Annotated[
        str | None, _flag("--split", panel=DATA, help_text="strips, views or columns.")
    ] = None,
    active_part: Annotated[
        bool | None,
        _flag("--active-part", panel=DATA, help_text="The active party has the first part."),
    ] = None,
    test: Annotated[
        float | None, _flag("--test", panel=DATA, help_text="Share of test rows. Default 0.2.")
    ] = None,
    validation: Annotated[
        float | None,
        _flag("--validation", panel=DATA, help_text="Share of validation rows. Default 0.1."),
    ] = None,
    model: Annotated[
        str | None,
        _flag("--model", panel=MODEL, help_text="Bottom model: a name or module:function."),
    ] = None,
    top: Annotated[
        str | None, _flag("--top", panel=MODEL, help_text="Top model: a name or module:function.")
    ] = None,
    epochs: Annotated[
        int | None,
        _flag("--epochs", panel=TRAINING, help_text="Default: 20 to 100, by the training rows."),
    ] = None,
    batch: Annotated[
        int | None, _flag("--batch", panel=TRAINING, help_text="Rows a step. Default 64.")
    ] = None,
    lr: Annotated[
        float | None, _flag("--lr", panel=TRAINING, help_text="Learning rate. Default 0.05.")
    ] = None,
    optimiser: Annotated[
        str | None, _flag("--optimiser", panel=TRAINING, help_text="sgd (default) or adam.")
    ] = None,
    schedule: Annotated[
        str | None,
        _flag("--schedule", panel=TRAINING, help_text="cosine (default), linear or constant."),
    ] = None,
    warmup: Annotated[
        float | None,
        _flag("--warmup", panel=TRAINING, help_text="Share of steps in which the rate rises."),
    ] = None,
    weight_decay: Annotated[
        float | None, _flag("--weight-decay", panel=TRAINING, help_text="Default 0.0005.")
    ] = None,
    patience: Annotated[
        int | None,
        _flag(
            "--patience",
            panel=TRAINING,
            help_text="Stop early after so many idle epochs. Default: 0 where --epochs is given.",
        ),
    ] = None,
    augment: Annotated[
        str | None,
        _flag("--augment", panel=TRAINING, help_text="auto (default), none, crop or crop-flip."),
    ] = None,
    seed: Annotated[int | None, _flag("--seed", panel=TRAINING, help_text="Default 0.")] = None,
    device: Annotated[
        str | None, _flag("--device", panel=TRAINING, help_text="cpu (default), cuda or auto.")
    ] = None,
    precision: Annotated[
        str | None, _flag("--precision", panel=TRAINING, help_text="float32 (default) or bf16.")
    ] = None,
    defend_gradients: Annotated[
        list[str] | None,
        _flag(
            "--defend-gradients",
            panel=DEFENCE,
            help_text="At the active party, like gaussian:clip=1:sigma=0.1 or top-k:keep=0.1.",
        ),
    ] = None,
    defend_embeddings: Annotated[
        list[str] | None,
        _flag(
            "--defend-embeddings",
            panel=DEFENCE,
            help_text="At passive parties, like gaussian:clip=10:sigma=0.1 or quantise:bits=8.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        _flag("--out", panel=RUN, help_text="Folder of the run. Default runs/NAME OF THE DATA."),
    ] = None,
    resume: Annotated[
        bool, _flag("--resume", panel=RUN, help_text="Go on with the run in --out.")
    ] = False,
    overwrite: Annotated[
        bool, _flag("--overwrite", panel=RUN, help_text="Replace the run in --out.")
    ] = False,
    allow_disclosure: Annotated[
        bool,
        _flag(
            "--allow-disclosure",
            panel=RUN,
            help_text="Go on even where that shows partners what was forgotten in hiding.",
        ),
    ] = False,
    reveal: Annotated[bool, old_flag("--reveal", "--allow-disclosure")] = False,
    record: Annotated[
        bool,
        _flag("--record", panel=RUN, help_text="Each passive party keeps a transcript."),
    ] = False,
    federation: Kit = None,
    json: Json = False,
) -> None:
    """Train a model between parties and keep the run in a folder.

    Example: unlabel train --data digits --model convnet --parties 2 --out runs/digits
    """
    from unlabel.cli.options import parse_parties

    given = {
        # A path on the command line starts where the user stands, one in the file beside it.
        "data": str(Path.cwd() / data) if data and data.endswith(".npz") else data,
        "folder": None if folder is None else Path.cwd() / folder,
        "parties": None if parties is None else parse_parties(parties),
        "split": split,
        "active_part": active_part,
        "model.bottom": model,
        "model.top": top,
        "train.test": test,
        "train.validation": validation,
        "train.epochs": epochs,
        "train.batch": batch,
        "train.lr": lr,
        "train.optimiser": optimiser,
        "train.schedule": schedule,
        "train.warmup": warmup,
        "train.weight_decay": weight_decay,
        "train.patience": patience,
        "train.augment": augment,
        "train.seed": seed,
        "train.device": device,
        "train.precision": precision,
        "defend.gradients": defend_gradients or None,
        "defend.embeddings": defend_embeddings or None,
    }
    disclose = allow_disclosure or reveal
    if federation is not None:
        flags = {"overwrite": overwrite or None, "record": record or None}
        _train_far(federation, config, {**given, **flags}, out, disclose=disclose, json=json)
        return
    run = out or _default_run(config, data)
    again = Target(run).resume()
    with on_interrupt(training(run, again, resumed=resume)):
        made = open_or_create(config, given, run, resume=resume, overwrite=overwrite, record=record)
        for note in made.notes:
            messages.print(f"Note: {note}", soft_wrap=True)
        progress = made.train(watchers=[ProgressBar(messages)], allow_disclosure=disclose)
        _show(made, progress, made.evaluate(), Target(run), json=json)


def _train_far(
    kit: Path,
    config: Path | None,
    given: dict[str, Any],
    out: Path | None,
    *,
    disclose: bool,
    json: bool,
) -> None:
    """Train a federation, from where it stands."""
    if config is not None or out is not None or any(v is not None for v in given.values()):
        raise SettingsError(
            "A federation trains as its parties agreed; with --federation, leave other settings "
            "out."
        )
    target = Target.of(None, kit)
    with (
        target.open(resume=True) as opened,
        on_interrupt(training(target.folder, target.resume(), resumed=True)),
    ):
        progress = opened.train(watchers=[ProgressBar(messages)], allow_disclosure=disclose)
        found = opened.evaluate()
    _show(opened, progress, found, target, json=json)


def open_or_create(
    file: Path | None,
    given: dict[str, Any],
    run: Path,
    *,
    resume: bool,
    overwrite: bool,
    record: bool,
) -> ul.Federation:
    """Return the federation to train: a new one, or the one that a folder keeps."""
    from unlabel.cli.options import expect_same, make_config
    from unlabel.configfile import read_run_config

    if resume and overwrite:
        raise UsageError("Expected either --resume or --overwrite, not both.")
    described = file is not None or any(value is not None for value in given.values())
    if resume and (run / "config.yaml").is_file():
        if described:
            base = file if file is not None or given["data"] is not None else run / "config.yaml"
            expect_same(make_config(base, given), read_run_config(run), run)
        return ul.Federation.open(run, record=record, resume=True)
    if not described:
        raise UsageError("Say what to train on: --data NAME, or a YAML file with tables.")
    made = make_config(file, given)
    with StepBar(messages, "reading") as bar:
        return ul.Federation.create(made, run, overwrite=overwrite, record=record, watch=bar.step)


def _default_run(config: Path | None, data: str | None) -> Path:
    name = Path(data).stem if data else config.stem if config else ""
    if not name:
        raise UsageError("Say what to train on: --data NAME, or a YAML file with tables.")
    return Path("runs") / name


def _validated(federation: ul.Federation, progress: Progress) -> float | None:
    """Return the validation accuracy of the weights that were kept."""
    if federation.config.train.patience:
        return progress.best_accuracy
    return progress.history[-1].validation_accuracy


def _show(
    federation: ul.Federation, progress: Progress, found: Evaluation, target: Target, *, json: bool
) -> None:
    seconds = sum(epoch.seconds for epoch in progress.history)
    by_label = dict(zip(federation.labels, found.per_label_accuracy, strict=True))
    if json:
        print_json(
            {
                "accuracy": found.accuracy_on(found.stay),
                "per_label_accuracy": by_label,
                "seconds": seconds,
                "parties": len(federation.active.parties),
                "party_names": list(federation.active.parties),
                **target.json(),
                "epochs": len(progress.history),
                "validation_accuracy": _validated(federation, progress),
                "version": progress.version,
                "notes": list(federation.notes),
                "advice": list(progress.advice),
            }
        )
        return
    rows = [["label", "test accuracy"], *([name, percent(a)] for name, a in by_label.items())]
    print_table(f"Test accuracy {percent(found.accuracy_on(found.stay))}", rows)
    for sentence in progress.advice:
        messages.print(f"Note: {sentence}", soft_wrap=True)
    messages.print(f"Kept in {target.folder}. Next: unlabel evaluate {target}")
