"""`unlabel train` with defences: kept with the run, repeated on resume, explained where wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli.command_line import QUICK, nothing_written, one_thread, unlabel

from unlabel.config.loader import read_run_folder

__all__ = ["one_thread"]  # a fixture for every test here

FLAGS = (
    *("--defend-gradients", "gaussian:clip=0.1:sigma=0.001"),
    *("--defend-gradients", "top-k:keep=0.5"),
    *("--defend-embeddings", "quantise:bits=8"),
)


@pytest.fixture(autouse=True)
def stand_in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_defences_are_kept_with_a_run_and_hold_when_it_is_resumed() -> None:
    assert unlabel("train", *QUICK, *FLAGS, "--out", "run", "--json").json["accuracy"] > 0.1
    kept = read_run_folder(Path("run")).defend
    assert kept.gradients == ["gaussian:clip=0.1:sigma=0.001", "top-k:keep=0.5"]
    assert kept.embeddings == ["quantise:bits=8"]
    assert kept.seed is None
    assert unlabel("train", *QUICK, *FLAGS, "--out", "run", "--resume").code == 0
    sentence = unlabel("train", *QUICK, "--out", "run", "--resume").sentence
    assert sentence.startswith("Run 'run' was made with defend.embeddings.0 = quantise:bits=8")
    assert unlabel("evaluate", "run", "--json").json["accuracy"] > 0.1


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--defend-gradients", "topk"), "`defend.gradients` cannot be topk: Unknown defence"),
        (("--defend-embeddings", "top-k"), "which is for gradients."),
        (("--defend-gradients", "gaussian:sigma=much"), "Expected `sigma` to be float"),
    ],
)
def test_a_defence_that_cannot_be_is_explained(words: tuple[str, ...], sentence: str) -> None:
    with nothing_written(Path.cwd()):
        assert sentence in unlabel("train", *QUICK, *words, "--out", "run").sentence
