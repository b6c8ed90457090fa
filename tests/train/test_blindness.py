"""Nothing that reaches a passive party of a blind run, or that it keeps, depends on a label."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from blind_runs import (
    FIT,
    IDS,
    NAMES,
    ROWS,
    Cells,
    answers_of,
    attested,
    blind_run,
    cells,
    passives_of,
    watching,
    without,
    write_files,
)
from cli.command_line import one_thread
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from unlabel import Federation
from unlabel.config import LabelFreeSettings, ModelSettings
from unlabel.data.cells import label_form
from unlabel.data.dataset import Array
from unlabel.errors import DataError, UnlabelError

__all__ = ["one_thread"]  # a fixture for every test here

PATCH = pytest.MonkeyPatch()
#: How bottoms can be made, and what of it a run's own settings decide.
FORMS: dict[str, dict[str, Any]] = {
    "components": {"objective": "components"},
    "components of ranks": {"objective": "components", "scale": "quantile", "views": 2},
    "contrast": {"objective": "contrast", "across": False},
    "contrast across": {"objective": "contrast", "views": 1},
    "pretrained": {"objective": "pretrained", "bottom": "blind_runs:scaled_by_two"},
    "label holder without features": {"active_part": False},
    "balance": {"balance": True},
    "boosted trees": {
        "top": "sklearn:HistGradientBoostingClassifier",
        "options": {"max_iter": 2},
    },
}
Seen = tuple[Any, ...]


def seen(labels: Cells, **form: Any) -> Seen:
    """Return all that passive parties received, answered, keep and signed in a training."""
    with watching(PATCH) as views:
        run = blind_run(labels, encoded=True, **form)
    assert views.count() >= 5 * len(run.passives)
    return views.received, answers_of(views), passives_of(run), attested(run)


def swapped(labels: Cells) -> Array:
    return np.random.default_rng(1).permutation(np.array(labels, dtype=object))


def one_of_a_kind(labels: Cells) -> Array:
    return np.where(np.arange(ROWS) == 4, "yew", np.array(labels, dtype=object))


CHANGES: dict[str, Callable[[Cells], Cells]] = {
    "permuted": swapped,
    "others, and more of them": lambda _: cells(9, ("fir", "oak", "pine", "yew", "zelkova")),
    "partly missing": lambda labels: without(labels, range(0, ROWS, 2)),
    "of a few people": lambda labels: without(labels, range(40, ROWS)),
    "one of a kind": one_of_a_kind,
    "one label alone but for two people": lambda _: np.where(
        np.isin(np.arange(ROWS), (3, 4)), "beech", "alder"
    ),
    "numbers": lambda labels: np.searchsorted(NAMES, np.array(labels, dtype=str)) + 0.5,
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_partners_see_the_same_bytes_whatever_the_labels_are(form: dict[str, Any]) -> None:
    first = seen(cells(), **form)
    for name, change in CHANGES.items():
        assert seen(change(cells()), **form) == first, name


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    labels=st.lists(
        st.sampled_from([None, "", "a", "b", "c", "1", "1.0"]), min_size=ROWS, max_size=ROWS
    ),
    across=st.booleans(),
)
def test_partners_see_the_same_bytes_for_drawn_labels(
    labels: Sequence[str | None], across: bool
) -> None:
    form = {"objective": "contrast" if across else "components"}
    try:
        drawn = seen(labels, **form)
    except DataError:  # fewer than two labels, which nobody else learns
        assert len({label_form(label or "") for label in labels} - {""}) < 3
        return
    assert drawn == seen(cells(), **form)


def test_images_between_parties_show_nothing_of_labels(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 255, (80, 8, 8), dtype=np.uint8), np.arange(80) % 4
    shown = []
    for number, labels in enumerate((y, rng.permutation(y), np.where(y == 3, 0, y))):
        path = tmp_path / f"{number}" / "images.npz"
        path.parent.mkdir()
        np.savez(path, x=x, y=labels, classes=np.array(["", "a", "b", "c"]))
        with watching(PATCH) as views:
            run = Federation.local(
                str(path),
                parties=2,
                model=ModelSettings(bottom="convnet", top="linear"),
                bottoms="blind",
                encoded=True,
                label_free=LabelFreeSettings(objective="contrast", epochs=1, batch=32, views=1),
                fit=FIT,
            )
            run.train()
        shown.append((views.received, answers_of(views), passives_of(run), attested(run)))
    assert shown[0] == shown[1] == shown[2]


@pytest.mark.parametrize(
    "form", [FORMS["components"], FORMS["contrast across"]], ids=["components", "contrast"]
)
def test_no_request_sends_a_message_or_touches_a_partners_folder(
    form: dict[str, Any], tmp_path: Path
) -> None:
    with watching(PATCH) as views:
        run = blind_run(cells(), tmp_path / "run", encoded=True, **form)
        trained, kept, done = views.count(), passives_of(run), []

        def expect_silence(what: str) -> None:
            done.append(what)
            assert views.count() == trained, what
            assert passives_of(run) == kept, what

        for refused in (
            lambda: run.forget(["oak"]),
            lambda: run.forget(["alder", "beech"]),
            lambda: run.forget(ids=["nobody"]),
            lambda: run.forget(["alder"], ids=["P001"]),
            lambda: run.queue(["alder"]),
            run.commit,
            run.purge,
        ):
            with pytest.raises(UnlabelError):
                refused()
        expect_silence("refusals")
        run.forget(["beech"])
        expect_silence("forget a label")
        run.audit(demand="none")
        expect_silence("audit")
        run.commit()
        expect_silence("commit")
        alders = IDS[np.flatnonzero(cells() == "alder")[:9]].tolist()
        run.forget(ids=alders[:1]).rollback()
        run.forget(ids=alders[:1]).commit()
        run.forget(ids=alders[1:]).commit()
        expect_silence("people")
        run.purge()
        expect_silence("purge")
        run.certificate()
        run.report()
        run.copies()
        run.status()
        run.evaluate()
        run.predict()
        run.recover()
        expect_silence("papers")
        run.train()
        expect_silence("a training that is done")
    # To open a run asks the parties what they have, and no more.
    with watching(PATCH) as views:
        reopened = Federation.open(tmp_path / "run")
        opened = views.count()
        assert len({tuple(set(each)) for each in views.received.values()}) == 1
        reopened.forget(
            ids=alders[9:] or [str(IDS[np.flatnonzero(cells() == "alder")[9]])]
        ).commit()
        reopened.purge()
        assert views.count() == opened
    assert passives_of(reopened) == kept


def test_files_show_partners_nothing_of_labels(tmp_path: Path) -> None:
    shown = []
    for number, labels in enumerate((cells(), without(cells(5), range(30)))):
        config = write_files(tmp_path / f"{number}", labels)
        with watching(PATCH) as views:
            run = Federation.create(config, tmp_path / f"{number}" / "run", encoded=True)
            run.train()
        shown.append((views.received, answers_of(views), passives_of(run), attested(run)))
    assert shown[0] == shown[1]
