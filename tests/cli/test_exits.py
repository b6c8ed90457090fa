"""The exit status of the command, which a script reads in place of the sentence."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli.command_line import unlabel

from unlabel.cli import exits
from unlabel.errors import CertificateError, DataError, SettingsError, UnlabelError


def test_a_status_says_how_a_command_ended(tmp_path: Path) -> None:
    assert unlabel("--version").code == exits.DONE
    assert unlabel("status", tmp_path / "nowhere").code == exits.ERROR
    for words in (["forgett"], ["audit", tmp_path, "--retrained", "many"], ["verify"]):
        assert unlabel(*words).code == exits.USAGE


def test_a_file_that_is_no_certificate_does_not_hold_and_one_that_is_missing_is_an_error(
    tmp_path: Path,
) -> None:
    path = tmp_path / "certificate.json"
    assert "Cannot read" in unlabel("verify", path).sentence
    path.write_text("{}")
    assert "does not hold: 1 thing does not match." in unlabel("verify", path).finding
    assert unlabel("verify", path, "--json").code == exits.NOT_PASSED


@pytest.mark.parametrize(
    ("error", "status"),
    [(CertificateError("no."), 3), (DataError("no."), 1), (SettingsError("no."), 1)],
)
def test_only_a_certificate_that_does_not_hold_is_an_answer(
    error: UnlabelError, status: int
) -> None:
    assert exits.status_of(error) == status


def test_an_interrupted_command_has_a_status_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("typer.echo", interrupted)
    assert unlabel("--version").code == exits.INTERRUPTED == 130
