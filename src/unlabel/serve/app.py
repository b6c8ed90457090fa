"""The routes: POST /predict, GET /healthz, GET /metrics.

The model is asked in one thread, request by request, since a model uses all cores that it has by
itself. Everything else waits for the network in the event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Annotated, TypeVar

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field, model_validator
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from unlabel.errors import RunError, UnlabelError
from unlabel.federation import Federation
from unlabel.serve.exported import ServedTop
from unlabel.serve.failures import failure, response_of
from unlabel.serve.figures import Figures
from unlabel.serve.limits import Limits
from unlabel.serve.model import Answer, ServedModel
from unlabel.serve.shield import Shield

T = TypeVar("T")

#: Seconds between two looks at which version is decided, where nobody asks.
LOOK = 1.0
#: Whole numbers that every reader of JSON has exactly.
EXACT = 2**53

Whole = Annotated[int, Field(ge=-EXACT, le=EXACT)]
Id = Annotated[str, Field(min_length=1, max_length=1000)] | Whole
Cell = str | Whole | float | bool | None


class Question(BaseModel):
    """What /predict is asked: people by their ids, or new rows, or embeddings, by party.

    ids         of people whom all parties know
    rows        by party, a list of rows each: column by column, the id among them
    embeddings  by party, a list of rows each: of an exported top
    """

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)

    ids: list[Id] | None = None
    rows: dict[str, list[dict[str, Cell]]] | None = None
    embeddings: dict[str, list[list[float]]] | None = None

    @model_validator(mode="after")
    def _one_of_them(self) -> Question:
        if [self.ids, self.rows, self.embeddings].count(None) != 2:
            raise ValueError("expected one of `ids`, `rows` and `embeddings`")
        return self

    def count(self) -> int:
        """Return how many rows of a party are asked for at most."""
        by_party = self.rows or self.embeddings
        return max(map(len, by_party.values()), default=0) if by_party else len(self.ids or ())


class Handed(Response):
    """An answer that keeps decisions out until it is handed over to the connection."""

    def __init__(self, answer: Answer, seconds: float) -> None:
        super().__init__(answer.body, media_type="application/json")
        self._answer, self._seconds = answer, seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it; where the other side does not read, the connection ends."""
        try:
            async with asyncio.timeout(self._seconds):
                await super().__call__(scope, receive, send)
        finally:
            self._answer.hold.release()


class Queue:
    """One thread that asks the model, and a bounded number of requests that wait for it."""

    def __init__(self, most: int) -> None:
        self._most, self._waiting = most, 0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="model")

    async def run(self, act: Callable[[], T], drop: Callable[[T], None] = lambda _: None) -> T:
        """Do something in the thread; `drop` is given what comes of it once nobody waits for it."""

        def drop_result(done: Future[T]) -> None:
            if not done.cancelled() and done.exception() is None:
                drop(done.result())

        if self._waiting >= self._most:
            raise RunError(f"{self._most} requests are waiting already; ask again.", code="busy")
        future = self._thread.submit(act)
        self._waiting += 1
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:  # what the thread has begun goes on all the same
            future.add_done_callback(drop_result)
            raise
        finally:
            self._waiting -= 1

    def end(self, act: Callable[[], None]) -> None:
        """Let the thread end, with one thing to do last."""
        self._thread.shutdown(wait=True, cancel_futures=True)
        act()


def app(
    federation: Federation | ServedModel | ServedTop,
    *,
    token: str | None = None,
    hosts: tuple[str, ...] = (),
    limits: Limits | None = None,
) -> FastAPI:
    """Return the application that answers for a federation; run it with any ASGI server.

    federation  or an exported top; it is the application's from now on
    token       that requests must bring (`Authorization: Bearer ...`), all but /healthz
    hosts       names under which it may be asked, any if empty
    limits      how much may be asked for
    """
    model = ServedModel(federation) if isinstance(federation, Federation) else federation
    limits, figures = limits or Limits(), Figures(model)
    queue = Queue(limits.waiting)

    @contextlib.asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        looking = asyncio.create_task(_keep_looking(queue, model))
        yield
        looking.cancel()
        queue.end(model.close)

    served = FastAPI(
        title="unlabel", lifespan=life, docs_url=None, redoc_url=None, redirect_slashes=False
    )
    served.add_middleware(Shield, limits=limits, figures=figures, token=token, hosts=hosts)
    for kind in (UnlabelError, HTTPException, RequestValidationError):
        served.add_exception_handler(kind, _answered)

    @served.post("/predict", response_class=Response)
    async def predict(question: Question) -> Response:
        """Predict people by their ids, or new rows."""
        if question.count() > limits.rows:
            raise HTTPException(413, f"Expected at most {limits.rows} rows in one request.")
        answer = await queue.run(lambda: _ask(model, question), lambda late: late.hold.release())
        figures.rows.inc(answer.rows)
        return Handed(answer, limits.handing)

    @served.get("/healthz", response_class=Response)
    async def healthz() -> Response:
        """Tell whether a question would be answered now, and by which version."""
        source = await queue.run(model.look)
        return response_of(200, {"status": "ok", "version": source.version})

    @served.get("/metrics", response_class=Response)
    async def metrics() -> Response:
        """Return figures for Prometheus."""
        return Response(figures.text(), media_type=figures.media_type)

    return served


def _ask(model: ServedModel | ServedTop, question: Question) -> Answer:
    if question.embeddings is not None:
        return model.by_embeddings(question.embeddings)
    if question.rows is not None:
        return model.by_rows(question.rows)
    return model.by_ids([str(who) for who in question.ids or ()])


async def _keep_looking(queue: Queue, model: ServedModel | ServedTop) -> None:
    """Take a new version up soon, also where nobody asks: older weights leave the memory then."""
    while True:
        with contextlib.suppress(UnlabelError):
            await queue.run(model.look)
        await asyncio.sleep(LOOK)


async def _answered(request: Request, error: Exception) -> Response:  # noqa: ARG001
    return failure(error)
