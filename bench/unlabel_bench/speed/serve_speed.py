"""What serving predictions costs: `unlabel serve` beside a bare model behind the same route.

    served  the application of `unlabel serve`: limits, locks, the look at what is decided, parties
    bare    FastAPI with the same route and the same form of question and answer, whose one line of
            work is the parties' modules and the top in one piece, on tensors that lie ready

Each runs in a process of its own on this machine; one client asks them in turns, question by
question, over a connection that stays open. Their answers are compared first.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import multiprocessing
import os
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import numpy as np
import torch

from unlabel.config import expect
from unlabel.errors import TrainingError
from unlabel.federation import Federation
from unlabel_bench.registry import BENCHES, Bench, Result, Say

#: Questions of each kind before any is timed.
WARM_UP = 30
ID, LABEL = "id", "digit"
COLUMNS = 32


@dataclass(frozen=True)
class ServeSpeedSettings:
    """Settings of the bench.

    bottoms  how the run is made: supervised, blind or tuned
    calls    timed questions of one row, of each side and kind
    batch    rows of a large question
    batches  timed large questions, of each side and kind
    """

    bottoms: tuple[str, ...] = ("supervised", "blind")
    calls: int = 300
    batch: int = 512
    batches: int = 40

    def __post_init__(self) -> None:
        expect("calls", self.calls, self.calls >= 2, "at least 2")
        expect("batch", self.batch, 1 <= self.batch <= 1024, "from 1 to 1024")
        expect("batches", self.batches, self.batches >= 2, "at least 2")


def measure(settings: ServeSpeedSettings, say: Say) -> Result:
    """Time both sides for each kind of run."""
    load = os.getloadavg()[0]
    runs = {}
    for bottoms in settings.bottoms:
        say(f"training a {bottoms} run")
        with tempfile.TemporaryDirectory(prefix="unlabel-serve-") as folder:
            tables = _tables()
            more: dict[str, Any] = {} if bottoms == "blind" else {"epochs": 5}
            run = Federation.from_frames(
                tables,
                label=LABEL,
                folder=Path(folder) / "run",
                bottoms=bottoms,  # type: ignore[arg-type]
                **more,
            )
            run.train()
            with _asked(run, served) as ours, _asked(run, bare) as theirs:
                runs[bottoms] = _compared(settings, tables, ours, theirs, say)
    return {"cores": os.cpu_count(), "load": [load, os.getloadavg()[0]], "runs": runs}


def _tables() -> dict[str, dict[str, Any]]:
    """Return digits as two tables, half of the pixels each."""
    from sklearn.datasets import load_digits

    pixels, digits = load_digits(return_X_y=True)
    ids = [f"D{row}" for row in range(len(digits))]
    left = {f"l{place}": pixels[:, place] for place in range(COLUMNS)}
    right = {f"r{place}": pixels[:, COLUMNS + place] for place in range(COLUMNS)}
    return {"left": {ID: ids, LABEL: digits, **left}, "right": {ID: ids, **right}}


Ask = Callable[[bytes], bytes]


@contextlib.contextmanager
def _asked(run: Federation, serve: Callable[[Federation, socket.socket], None]) -> Iterator[Ask]:
    """Serve a run in a process of its own; give what asks it."""
    from unlabel.serve.listening import Address

    with Address(port=0).listen() as listener:
        process = multiprocessing.get_context("fork").Process(target=serve, args=(run, listener))
        process.start()
        connection = http.client.HTTPConnection("127.0.0.1", listener.getsockname()[1], timeout=60)

        def ask(question: bytes) -> bytes:
            connection.request("POST", "/predict", question, {"content-type": "application/json"})
            answer = connection.getresponse()
            text = answer.read()
            if answer.status != 200:
                raise TrainingError(f"A server answered with {answer.status}.")
            return text

        try:
            yield ask
        finally:
            connection.close()
            process.terminate()
            process.join()


def served(run: Federation, listener: socket.socket) -> None:
    """Serve as `unlabel serve` does."""
    from unlabel.serve import app
    from unlabel.serve.listening import Address, server_of

    torch.set_num_threads(1)
    server_of(app(Federation.open(run.folder)), Address(port=0)).run(sockets=[listener])


def bare(run: Federation, listener: socket.socket) -> None:
    """Serve the model in one piece, and nothing else."""
    import uvicorn
    from fastapi import FastAPI, Response

    from unlabel.serve.app import Question

    torch.set_num_threads(1)
    modules = [bottom.module.eval() for bottom in _bottoms(run)]
    top = run.active.top.module.eval()
    scalings = [bottom.scaling for bottom in _bottoms(run)]
    every = torch.arange(len(run.holdings.ids))
    ready = [bottom.inputs(every) for bottom in _bottoms(run)]
    places = {who: row for row, who in enumerate(run.holdings.ids.tolist())}
    application = FastAPI()

    async def predict(question: Question) -> Response:
        if question.rows is None:
            ids = [str(who) for who in question.ids or ()]
            rows = torch.tensor([places[who] for who in ids])
            inputs = [part[rows] for part in ready]
        else:
            ids = [str(row[ID]) for row in question.rows["left"]]
            parts = [
                [[row[name] for name in row if name != ID] for row in question.rows[party]]
                for party in ("left", "right")
            ]
            inputs = [
                scaling.apply(torch.tensor(part, dtype=torch.float64))
                for scaling, part in zip(scalings, parts, strict=True)
            ]
        with torch.no_grad():
            logits = top([module(x) for module, x in zip(modules, inputs, strict=True)])
        chances = logits.softmax(1).numpy().astype(np.float64).round(6).tolist()
        called = logits.argmax(1).tolist()
        answers = [
            {"id": who, "label": run.labels[label], "probabilities": some}
            for who, label, some in zip(ids, called, chances, strict=True)
        ]
        body = json.dumps({"labels": list(run.labels), "predictions": answers})
        return Response(body, media_type="application/json")

    # FastAPI reads annotations, and finds no name that is known in this function alone.
    predict.__annotations__ |= {"question": Question, "return": Response}
    application.post("/predict", response_class=Response)(predict)

    config = uvicorn.Config(
        application, http="h11", ws="none", access_log=False, log_config=None, lifespan="off"
    )
    uvicorn.Server(config).run(sockets=[listener])


def _bottoms(run: Federation) -> list[Any]:
    holder = run.active.carrier or run.active
    return [holder.bottom, run.passives["right"].bottom]


def _compared(
    settings: ServeSpeedSettings,
    tables: dict[str, dict[str, Any]],
    ours: Ask,
    theirs: Ask,
    say: Say,
) -> dict[str, Any]:
    """Return times and rows a second of both sides, asked in turns."""
    figures = {}
    for kind, question in (("ids", _by_ids), ("rows", _by_rows)):
        for name, rows, times in (
            ("one", 1, settings.calls),
            ("batch", settings.batch, settings.batches),
        ):
            say(f"asking by {kind}, {rows} at a time")
            _expect_same(question(tables, 0, rows), ours, theirs)
            taken: dict[str, list[float]] = {"served": [], "bare": []}
            for call in range(WARM_UP + times):
                asked = question(tables, call, rows)
                sides = [("served", ours), ("bare", theirs)]
                for side, ask in sides if call % 2 else reversed(sides):
                    started = time.perf_counter()
                    ask(asked)
                    if call >= WARM_UP:
                        taken[side].append(time.perf_counter() - started)
            figures[f"{kind}, {name}"] = _figures(taken, rows)
    return figures


def _figures(taken: dict[str, list[float]], rows: int) -> dict[str, Any]:
    p95 = {side: quantiles(times, n=20)[-1] for side, times in taken.items()}
    middle = {side: median(times) for side, times in taken.items()}
    return {
        "rows": rows,
        "median_ms": {side: round(1000 * each, 3) for side, each in middle.items()},
        "p95_ms": {side: round(1000 * each, 3) for side, each in p95.items()},
        "p95_ratio": round(p95["served"] / p95["bare"], 2),
        "median_ratio": round(middle["served"] / middle["bare"], 2),
        # Of all time that each side took, so that a pause of the machine counts where it fell.
        "rows_a_second_ratio": round(sum(taken["bare"]) / sum(taken["served"]), 2),
    }


def _expect_same(question: bytes, ours: Ask, theirs: Ask) -> None:
    one, other = (json.loads(ask(question))["predictions"] for ask in (ours, theirs))
    first, second = (np.array([each["probabilities"] for each in some]) for some in (one, other))
    named = [[(each["id"], each["label"]) for each in some] for some in (one, other)]
    if named[0] != named[1] or not np.allclose(first, second, atol=2e-5):
        raise TrainingError("The two sides answer differently, so their times mean nothing.")


def _by_ids(tables: dict[str, dict[str, Any]], first: int, rows: int) -> bytes:
    ids = tables["left"][ID]
    return json.dumps({"ids": [ids[(first + row) % len(ids)] for row in range(rows)]}).encode()


def _by_rows(tables: dict[str, dict[str, Any]], first: int, rows: int) -> bytes:
    count = len(tables["left"][ID])
    parts = {
        party: [
            {
                name: _plain(values[(first + row) % count])
                for name, values in table.items()
                if name != LABEL
            }
            for row in range(rows)
        ]
        for party, table in tables.items()
    }
    return json.dumps({"rows": parts}).encode()


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


def table(result: Result) -> list[list[str]]:
    """Return the ratios as rows for people."""
    rows = [["run", "asked", "rows", "p95 served", "p95 bare", "ratio", "rows a second, ratio"]]
    for bottoms, kinds in result["runs"].items():
        for kind, each in kinds.items():
            p95 = each["p95_ms"]
            rows.append(
                [
                    bottoms,
                    kind,
                    str(each["rows"]),
                    f"{p95['served']:.2f} ms",
                    f"{p95['bare']:.2f} ms",
                    f"{each['p95_ratio']:.2f}",
                    f"{each['rows_a_second_ratio']:.2f}",
                ]
            )
    return rows


BENCHES.add(
    "serve-speed",
    Bench(
        about="served predictions beside a bare model behind the same route",
        settings=ServeSpeedSettings,
        measure=measure,
        table=table,
    ),
)
