"""No answer is of an older version than the decided one, nor of halves of two: locks and deaths."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import httpx2
import pytest
from blind_runs import cells, tables, without

from serve.conftest import MakeRun
from serve.served import LABEL, MANY, TRUTH, serving
from unlabel import Federation
from unlabel.errors import RunError, UnlabelError
from unlabel.party import answering
from unlabel.party.answering import decided_in, hold_answers, without_answers
from unlabel.serve import ServedModel, app

PROGRAM = Path(__file__).parent / "dying.py"


def served(folder: Path) -> ServedModel:
    return ServedModel(Federation.open(folder, recovering=True))


def version_of(model: ServedModel) -> int:
    answer = model.by_ids(MANY)
    answer.hold.release()
    return int(json.loads(answer.body)["version"])


def hold_until_refused(home: Path) -> None:
    for _ in range(3000):
        hold_answers(home).release()
        time.sleep(0.01)


def test_a_decision_waits_for_an_answer_and_lets_no_other_begin(a_run: MakeRun) -> None:
    folder = a_run(staged=True)
    model, home = served(folder), folder / "active"
    before = decided_in(home)
    answer = model.by_ids(MANY)
    deciding = threading.Thread(target=Federation.open(folder).commit, kwargs={"force": True})
    deciding.start()
    with pytest.raises(RunError) as refused:
        hold_until_refused(home)
    assert refused.value.code == "deciding"
    time.sleep(0.3)
    assert decided_in(home) == before, "decided while an answer was under way"
    answer.hold.release()
    deciding.join()
    after = decided_in(home)
    assert before is not None
    assert after is not None
    assert after.number == before.number + 1
    assert version_of(model) == after.number


def test_a_decision_is_given_up_where_an_answer_is_never_handed_over(
    a_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = a_run(staged=True)
    monkeypatch.setattr(answering, "PATIENCE", 0.2)
    files = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    run = Federation.open(folder)
    hold = hold_answers(folder / "active")
    with pytest.raises(RunError) as refused:
        run.commit(force=True)
    assert refused.value.code == "in-use"
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == files
    hold.release()
    run.commit(force=True)


def test_an_answer_that_nobody_waits_for_any_more_keeps_no_decision_out(
    a_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an ASGI server may do it: one request is computed when it is cancelled, one waits."""
    folder = a_run()
    monkeypatch.setattr(answering, "PATIENCE", 0.5)
    begun, goes_on, predict = threading.Event(), threading.Event(), Federation.predict_rows

    def slow(*given: Any) -> Any:
        begun.set()
        assert goes_on.wait(30)
        return predict(*given)

    async def cancel_two_and_ask() -> int:
        application = app(served(folder))
        question, transport = {"ids": MANY}, httpx2.ASGITransport(application)
        client = httpx2.AsyncClient(transport=transport, base_url="http://localhost")
        async with application.router.lifespan_context(application), client:
            asked = [asyncio.create_task(client.post("/predict", json=question)) for _ in range(2)]
            await asyncio.to_thread(begun.wait, 30)
            for each in asked:
                each.cancel()
            await asyncio.wait(asked)
            goes_on.set()
            status = (await client.post("/predict", json=question)).status_code
            with without_answers(folder / "active"):
                return status

    monkeypatch.setattr(Federation, "predict_rows", slow)
    assert asyncio.run(cancel_two_and_ask()) == 200


def test_many_answers_at_once_keep_no_decision_out(a_run: MakeRun) -> None:
    home, stop = a_run() / "active", threading.Event()

    def answers() -> None:
        while not stop.is_set():
            try:
                hold = hold_answers(home)
            except RunError:
                continue
            time.sleep(0.005)
            hold.release()

    threads = [threading.Thread(target=answers) for _ in range(8)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(20):
            with without_answers(home):
                pass
    finally:
        stop.set()
        for thread in threads:
            thread.join()


@pytest.mark.parametrize("shared", [True, False])
def test_who_dies_holding_a_lock_keeps_nobody_out(
    a_run: MakeRun, shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answering, "PATIENCE", 0.1)
    home = a_run() / "active"
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        with contextlib.nullcontext(hold_answers(home)) if shared else without_answers(home):
            os.write(writing, b"held")
            time.sleep(60)
        os._exit(0)
    assert os.read(reading, 4) == b"held"
    if shared:
        with pytest.raises(RunError), without_answers(home):
            pass
    else:
        with pytest.raises(RunError):
            hold_answers(home)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(reading)
    os.close(writing)
    hold_answers(home).release()
    with without_answers(home):
        pass


@pytest.mark.parametrize(
    ("kind", "verb"),
    [
        ("blind", "commit"),
        pytest.param("supervised", "commit", marks=pytest.mark.long),
        pytest.param("tuned", "commit", marks=pytest.mark.long),
        pytest.param("supervised", "rollback", marks=pytest.mark.long),
    ],
)
def test_at_every_moment_at_which_a_decision_dies_answers_are_whole_or_paused(
    kind: str, verb: str, a_run: MakeRun, tmp_path: Path
) -> None:
    out = tmp_path / "out.json"
    words = [sys.executable, str(PROGRAM), str(a_run(kind, staged=True)), verb, str(out)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    deaths = json.loads(out.read_text())
    old, new = deaths["before"], deaths["after"]
    assert len(deaths["moments"]) > 5
    outcomes = set()
    for death in deaths["moments"]:
        is_decided = death["decided"] > old["version"]
        outcomes.add((is_decided, death["answer"].get("code", "")))
        if "code" in death["answer"]:
            assert is_decided, death
            assert death["answer"]["code"] == "interrupted", death
        else:
            expected = new if is_decided else old
            assert death["answer"] == expected, death
            assert not is_decided or death["settled"], death
        final = new if is_decided or death["recovered"]["version"] == new["version"] else old
        assert death["recovered"] == final, death
    if verb == "commit":
        assert (False, "") in outcomes
        assert (True, "interrupted") in outcomes
        assert (True, "") in outcomes


def test_an_answer_that_was_computed_when_the_disk_changes_is_not_given(
    a_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a file system knows no locks, the second look at the disk still sees a decision."""
    folder = a_run(staged=True)
    model = served(folder)
    version_of(model)
    predict, other = Federation.predict_rows, Federation.open(folder)
    monkeypatch.setattr("unlabel.party.answering.fcntl.flock", lambda *_: None)

    def slow(run: Federation, *given: object, **more: object) -> object:
        answered = predict(run, *given, **more)  # type: ignore[arg-type]
        if run is model._run:
            other.commit(force=True)
        return answered

    monkeypatch.setattr(Federation, "predict_rows", slow)
    with pytest.raises(RunError) as refused:
        model.by_ids(MANY)
    assert refused.value.code == "deciding"
    monkeypatch.undo()
    assert version_of(model) == other.version


def test_a_run_that_goes_back_is_not_answered_for(a_run: MakeRun, tmp_path: Path) -> None:
    import shutil

    folder = a_run(staged=True)
    shutil.copytree(folder, tmp_path / "backup")
    model = served(folder)
    Federation.open(folder).commit(force=True)
    newest = version_of(model)
    shutil.rmtree(folder)
    with pytest.raises(RunError) as missing:
        model.by_ids(MANY)
    shutil.copytree(tmp_path / "backup", folder)
    with pytest.raises(RunError) as older:
        model.by_ids(MANY)
    assert (missing.value.code, older.value.code) == ("no-run", "older-version")
    assert newest == 2


def test_an_update_puts_another_run_in_its_place(tmp_path: Path) -> None:
    from blind_runs import write_files

    config = write_files(tmp_path / "tables", cells())
    run = Federation.create(config, tmp_path / "run")
    run.train()
    with serving(tmp_path / "run") as client:
        before = client.ask({"ids": MANY})
        write_files(tmp_path / "tables", without(cells(), range(80, 90)))
        Federation.update(tmp_path / "run")
        after = client.ask({"ids": MANY})
    assert (before.body["version"], after.body["version"]) == (1, 2)
    assert before.body["predictions"] != after.body["predictions"]


def test_a_server_may_be_started_while_a_commit_is_interrupted(a_run: MakeRun) -> None:
    folder = a_run("supervised", staged=True)
    run = Federation.open(folder)
    child = os.fork()
    if child == 0:
        rename = os.replace

        def die(source: Any, target: Any) -> None:
            rename(source, target)
            if str(target).endswith("active/versions/000004.json"):
                os.kill(os.getpid(), signal.SIGKILL)

        setattr(os, "replace", die)  # noqa: B010
        run.commit(force=True)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    with serving(folder) as client:
        paused = client.ask({"ids": MANY})
        assert (paused.status, paused.code) == (503, "interrupted")
        assert paused.headers["retry-after"] == "1"
        assert client.send("GET", "/healthz").code == "interrupted"
        Federation.open(folder, recovering=True).recover()
        after = client.ask({"ids": MANY})
    assert (after.status, LABEL in after.body["labels"]) == (200, False)


def test_nothing_is_answered_before_a_training(tmp_path: Path) -> None:
    run = Federation.from_frames(tables(cells()), label=TRUTH, missing="flag", batch=16)
    with pytest.raises(UnlabelError) as refused:
        ServedModel(run).by_ids(MANY)
    assert refused.value.code == "no-run"
