"""`unlabel train`: train a federation and keep the run in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import unlabel as ul
from unlabel.cli.interrupts import on_interrupt, training
from unlabel.cli.output import Json, messages, percent, print_json, print_table, say
from unlabel.cli.progress import StepBar, TrainingBars
from unlabel.cli.target import Kit, Target
from unlabel.compat import run_file
from unlabel.errors import SettingsError, UsageError

if TYPE_CHECKING:
    from unlabel.runfolder import Overwrite
    from unlabel.train import Evaluation, Progress

DATA = "What to train on"
MODEL = "Models"
LABEL_FREE = "Bottoms made without labels"
DEFENCE = "What parties do to what they send"
TRAINING = "Training"
RUN = "The run"


def _flag(panel: str, about: str, *names: str) -> Any:
    return typer.Option(*names, help=about, rich_help_panel=panel, show_default=False)


def train(
    config: Annotated[
        Path | None, typer.Argument(help="YAML file with the run's settings; flags win over it.")
    ] = None,
    data: Annotated[
        str | None, _flag(DATA, "A built-in dataset, or an .npz, CSV, Parquet or Arrow file.")
    ] = None,
    folder: Annotated[Path | None, _flag(DATA, "Where the dataset's own files lie.")] = None,
    parties: Annotated[
        str | None,
        _flag(DATA, "Passive parties: 2, widths 20,8 or names left=10,right=18. Default 2."),
    ] = None,
    split: Annotated[str | None, _flag(DATA, "strips, views or columns.")] = None,
    active_part: Annotated[
        bool | None, _flag(DATA, "The active party has the first part.", "--active-part")
    ] = None,
    test: Annotated[float | None, _flag(DATA, "Share of test rows. Default 0.2.")] = None,
    validation: Annotated[
        float | None, _flag(DATA, "Share of validation rows. Default 0.1.")
    ] = None,
    model: Annotated[str | None, _flag(MODEL, "Bottom model: a name or module:function.")] = None,
    top: Annotated[
        str | None,
        _flag(MODEL, "Top model: a name or module:function; in a blind run also sklearn:CLASS."),
    ] = None,
    top_option: Annotated[
        list[str] | None, _flag(MODEL, "A setting of sklearn:CLASS, NAME=VALUE; repeat it.")
    ] = None,
    bottoms: Annotated[
        str | None,
        _flag(
            LABEL_FREE,
            "supervised: trained with labels (default); blind: never; tuned: without first, "
            "then with.",
        ),
    ] = None,
    objective: Annotated[
        str | None,
        _flag(LABEL_FREE, "components, pretrained or contrast. Default: what suits the data."),
    ] = None,
    width: Annotated[
        float | None,
        _flag(LABEL_FREE, "Components as a share of a party's columns. Default 0.5."),
    ] = None,
    views: Annotated[
        int | None,
        _flag(LABEL_FREE, "Views of each training row to fit the top to. Default 0."),
    ] = None,
    label_free_epochs: Annotated[
        int | None, _flag(LABEL_FREE, "Passes of contrast. Default 60.")
    ] = None,
    fit_epochs: Annotated[
        int | None, _flag(LABEL_FREE, "Passes over a blind run's top. Default: 10 to 300.")
    ] = None,
    epochs: Annotated[
        int | None, _flag(TRAINING, "Default: 20 to 100, by the training rows.")
    ] = None,
    batch: Annotated[int | None, _flag(TRAINING, "Rows a step. Default 64.")] = None,
    lr: Annotated[float | None, _flag(TRAINING, "Learning rate. Default 0.05.")] = None,
    optimiser: Annotated[str | None, _flag(TRAINING, "sgd (default) or adam.")] = None,
    schedule: Annotated[
        str | None, _flag(TRAINING, "cosine (default), linear or constant.")
    ] = None,
    warmup: Annotated[
        float | None, _flag(TRAINING, "Share of steps in which the rate rises.")
    ] = None,
    weight_decay: Annotated[float | None, _flag(TRAINING, "Default 0.0005.")] = None,
    patience: Annotated[
        int | None,
        _flag(
            TRAINING, "Stop early after so many idle epochs. Default: 0 where --epochs is given."
        ),
    ] = None,
    augment: Annotated[
        str | None, _flag(TRAINING, "auto (default), none, crop or crop-flip.")
    ] = None,
    seed: Annotated[int | None, _flag(TRAINING, "Default 0.")] = None,
    device: Annotated[str | None, _flag(TRAINING, "cpu (default), cuda or auto.")] = None,
    precision: Annotated[str | None, _flag(TRAINING, "float32 (default) or bf16.")] = None,
    defend_gradients: Annotated[
        list[str] | None,
        _flag(DEFENCE, "At the active party, like gaussian:clip=1:sigma=0.1 or top-k:keep=0.1."),
    ] = None,
    defend_embeddings: Annotated[
        list[str] | None,
        _flag(DEFENCE, "At passive parties, like gaussian:clip=10:sigma=0.1 or quantise:bits=8."),
    ] = None,
    out: Annotated[
        Path | None, _flag(RUN, "Folder of the run. Default runs/NAME OF THE DATA.")
    ] = None,
    resume: Annotated[bool, _flag(RUN, "Go on with the run in --out.", "--resume")] = False,
    overwrite: Annotated[bool, _flag(RUN, "Replace the run in --out.", "--overwrite")] = False,
    discard_forgotten: Annotated[
        bool,
        _flag(
            RUN,
            "With --overwrite: also a run that has forgotten something; is recorded.",
            "--discard-forgotten",
        ),
    ] = False,
    update: Annotated[
        bool,
        _flag(
            RUN,
            "Train the run in --out anew on its present tables; what was forgotten stays so.",
            "--update",
        ),
    ] = False,
    allow_disclosure: Annotated[
        bool,
        _flag(
            RUN,
            "Go on even where that shows partners what was forgotten in hiding.",
            "--allow-disclosure",
        ),
    ] = False,
    record: Annotated[
        bool, _flag(RUN, "Each passive party keeps a transcript.", "--record")
    ] = False,
    federation: Kit = None,
    json: Json = False,
) -> None:
    """Train a model between parties and keep the run in a folder.

    Example: unlabel train --data digits --model convnet --parties 2 --out runs/digits
    """
    from unlabel.cli.options import parse_options, parse_parties

    flags = {
        # A path on the command line starts where the user stands, one in the file beside it.
        "data": str(Path.cwd() / data) if data and data.endswith(".npz") else data,
        "folder": None if folder is None else Path.cwd() / folder,
        "parties": None if parties is None else parse_parties(parties),
        "split": split,
        "active_part": active_part,
        "model.bottom": model,
        "model.top": top,
        "model.options": parse_options(top_option or []),
        "bottoms": bottoms,
        "label_free.objective": objective,
        "label_free.width": width,
        "label_free.views": views,
        "label_free.epochs": label_free_epochs,
        "fit.epochs": fit_epochs,
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
    described = config is not None or any(value is not None for value in flags.values())
    if federation is not None:
        if described or out is not None or overwrite or record:
            raise SettingsError(
                "A federation trains as its parties agreed; with --federation, leave other "
                "settings out."
            )
        _train_remote(Target.of(None, federation), allow_disclosure=allow_disclosure, json=json)
        return
    if update:
        if described or out is None or overwrite or resume or record:
            raise UsageError(
                "`--update` takes the run's own settings; give --out RUN and no others."
            )
        with TrainingBars(messages) as bars:
            opened, progress = ul.Federation.update(
                out, watchers=[bars], allow_disclosure=allow_disclosure, watch=bars.watch
            )
        _show(opened, progress, opened.evaluate(), Target(out), json=json)
        return
    run = out or _default_run(config, data)
    command = Target(run).resume()
    with on_interrupt(training(run, command, resumed=resume)):
        replaced: Overwrite = "forgotten" if overwrite and discard_forgotten else overwrite
        opened = open_or_create(
            config, flags, run, resume=resume, overwrite=replaced, record=record
        )
        for note in opened.notes:
            say(f"Note: {note}")
        progress = _trained(opened, allow_disclosure=allow_disclosure)
        _show(opened, progress, opened.evaluate(), Target(run), json=json)


def _trained(opened: ul.Federation, *, allow_disclosure: bool) -> Progress:
    with TrainingBars(messages) as bars:
        return opened.train(watchers=[bars], watch=bars.watch, allow_disclosure=allow_disclosure)


def _train_remote(target: Target, *, allow_disclosure: bool, json: bool) -> None:
    """Train a federation, from where it stands."""
    with (
        target.open(resume=True) as opened,
        on_interrupt(training(target.folder, target.resume(), resumed=True)),
    ):
        progress = _trained(opened, allow_disclosure=allow_disclosure)
        evaluation = opened.evaluate()
    _show(opened, progress, evaluation, target, json=json)


def open_or_create(
    file: Path | None,
    flags: dict[str, Any],
    run: Path,
    *,
    resume: bool,
    overwrite: Overwrite,
    record: bool,
) -> ul.Federation:
    """Return the federation to train: a new one, or the one that a folder keeps."""
    from unlabel.cli.options import expect_same, make_config
    from unlabel.config.loader import read_run_folder

    if resume and overwrite:
        raise UsageError("Expected either --resume or --overwrite, not both.")
    described = file is not None or any(value is not None for value in flags.values())
    if resume and run_file(run).is_file():
        if described:
            base = file if file is not None or flags["data"] is not None else run_file(run)
            expect_same(make_config(base, flags), read_run_folder(run), run)
        return ul.Federation.open(run, record=record, resume=True)
    if not described:
        raise UsageError("Say what to train on: --data NAME, or a YAML file with tables.")
    settings = make_config(file, flags)
    with StepBar(messages, "reading") as bar:
        return ul.Federation.create(
            settings, run, overwrite=overwrite, record=record, watch=bar.step
        )


def _default_run(config: Path | None, data: str | None) -> Path:
    name = Path(data).stem if data else config.stem if config else ""
    if not name:
        raise UsageError("Say what to train on: --data NAME, or a YAML file with tables.")
    return Path("runs") / name


def _show(
    federation: ul.Federation,
    progress: Progress,
    evaluation: Evaluation,
    target: Target,
    *,
    json: bool,
) -> None:
    by_label = dict(zip(federation.labels, evaluation.per_label_accuracy, strict=True))
    partners = (federation.active.carrier or federation.active).parties
    if json:
        validated = progress.history[-1].validation_accuracy
        if federation.config.train.patience:  # then the best weights were kept
            validated = progress.best_accuracy
        facts = {
            "accuracy": evaluation.accuracy_on(evaluation.stay),
            "per_label_accuracy": by_label,
            "seconds": sum(epoch.seconds for epoch in progress.history),
            "parties": len(partners),
            "party_names": list(partners),
            **target.json(),
            "epochs": len(progress.history),
            "validation_accuracy": validated,
            "version": progress.version,
            "bottoms": federation.config.bottoms,
            **_label_free(federation),
            "notes": list(federation.notes),
            "advice": list(progress.advice),
        }
        print_json(facts)
        return
    rows = [["label", "test accuracy"], *([name, percent(a)] for name, a in by_label.items())]
    print_table(f"Test accuracy {percent(evaluation.accuracy_on(evaluation.stay))}", rows)
    for sentence in (*_kind(federation), *(f"Note: {advice}" for advice in progress.advice)):
        say(sentence)
    say(f"Kept in {target.folder}. Next: unlabel evaluate {target}")


def _label_free(federation: ul.Federation) -> dict[str, Any]:
    """Return what JSON says of bottoms that were made without labels."""
    config = federation.config
    if not config.is_label_free:
        return {}
    facts: dict[str, Any] = {"objective": config.label_free.objective}
    return facts | ({"views": config.label_free.views} if federation.is_blind else {})


def _kind(federation: ul.Federation) -> list[str]:
    """Say how bottoms were made, where that was without labels, and what it means."""
    config = federation.config
    if not config.is_label_free:
        return []
    from unlabel.party.objective import plan_of

    agreed = ""
    if plan_of(config).gradients and len(federation.active.embedded) > 1:
        agreed = " Gradients were sent of how far the parties agree, which no label enters."
    name = config.label_free.objective
    if federation.is_blind:
        return [
            f"Bottoms: blind, by {name}. The partners took part once; no gradient of a label was "
            f"sent.{agreed}"
        ]
    return [
        f"Bottoms: tuned, by {name}. They were made without labels, kept so at every party, and "
        f"then trained with labels: that sent gradients of labels.{agreed}"
    ]
