"""What a method says it tells, held against what every passive party received."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace

import pytest
import torch
from cli.command_line import one_thread
from coded import coded
from forget.one_piece import KEY, NAMES, PUBLIC, ROWS, TRAIN, features, federation, widths
from unlabel_bench.methods.amnesiac import Amnesiac
from unlabel_bench.methods.boundary import Boundary
from unlabel_bench.methods.delete import Delete
from unlabel_bench.methods.finetune import Finetune
from unlabel_bench.methods.fisher import Fisher
from unlabel_bench.methods.scrub import Scrub
from unlabel_bench.methods.ssd import SelectiveDampening
from unlabel_bench.methods.unsir import Unsir

from unlabel.data import Features
from unlabel.errors import ForgetError
from unlabel.federation import Federation
from unlabel.forget import METHODS, ForgetSettings, Method, PublicSet, plan
from unlabel.forget.method import Disclosure
from unlabel.forget.methods.ascent import Ascent
from unlabel.forget.methods.deep import Deep
from unlabel.forget.methods.hidden import Hidden
from unlabel.forget.methods.mask import Mask
from unlabel.forget.methods.mixup_ascent import MixupAscent
from unlabel.forget.methods.renormalise import Renormalise
from unlabel.forget.methods.retrain import Retrain
from unlabel.wire import (
    AccumulateFisher,
    Embed,
    Gradients,
    Message,
    Prepare,
    SyntheticInputs,
    Transport,
    kind_of,
)
from unlabel.wire.messages import MESSAGES, PLAIN, tensors_of

__all__ = ["one_thread"]  # a fixture for every test here

#: Our methods in every form in which they tell something else, with little to do.
LISTED_FORMS: dict[str, Method] = {
    "amnesiac": Amnesiac(epochs=1),
    "amnesiac-subtract": Amnesiac(variant="subtract", epochs=1),
    "ascent": Ascent(epochs=2),
    "ascent-frozen": Ascent(epochs=2, batchnorm="frozen"),
    "ascent-recovery": Ascent(epochs=2, recovery=True),
    "ascent-all": Ascent(samples="all", epochs=2),
    "ascent-all-recovery": Ascent(samples="all", epochs=2, recovery=True),
    "boundary": Boundary(epochs=1, batch=6),
    "boundary-expand": Boundary(variant="expand", epochs=1, batch=6),
    "deep": Deep(epochs=1),
    "deep-all": Deep(epochs=1, rows="all"),
    "delete": Delete(epochs=1),
    "finetune": Finetune(epochs=1),
    "fisher": Fisher(),
    "fisher-all": Fisher(labels="all"),
    "hidden": Hidden(epochs=1),
    "hidden-public": Hidden(samples="public", steps=3),
    "hidden-noise": Hidden(epochs=1, noise=2.0, moves=2),
    "hidden-public-noise": Hidden(samples="public", noise=2.0, moves=2, steps=3),
    "mask": Mask(),
    "mixup-ascent": MixupAscent(epochs=2),
    "renormalise": Renormalise(steps=3),
    "retrain": Retrain(),
    "scrub": Scrub(epochs=2, climbs=1),
    "ssd": SelectiveDampening(),
    "unsir": Unsir(noise_batch=4, noise_steps=2, copies=2, retained=5),
}
_TYPES = {type(method) for method in LISTED_FORMS.values()}
#: A method that is not listed is tested in its default form, so that its file alone suffices.
FORMS = LISTED_FORMS | {
    name: METHODS.get(name)() for name in METHODS.names() if METHODS.get(name) not in _TYPES
}
#: The first training row has label 0, so that it is among the forgotten ones of the second.
GONE = ((1,), (0, 3))
LISTED = ("12", "40")


class Keeping(Transport):
    """Passes messages on and keeps those that go to each party."""

    def __init__(self, inner: Transport) -> None:
        super().__init__(inner.parties)
        self._inner = inner
        self.received: dict[str, list[Message]] = {party: [] for party in inner.parties}

    def exchange(self, requests: Mapping[str, Message]) -> dict[str, Message]:
        for party, message in requests.items():
            self.received[party].append(message)
        return self._inner.exchange(requests)


class Eavesdropper:
    """Knows whose sample every row is, and reads one party's messages."""

    def __init__(self, forgotten: Sequence[int], listed: Sequence[int], public: PublicSet) -> None:
        self.labels = torch.arange(ROWS) % len(NAMES)
        self.forgotten, self.listed, self.public = list(forgotten), list(listed), public

    def whose(self, table: str, row: int) -> tuple[str, bool]:
        """Return the kind of a sample, and whether it is one of those to be forgotten."""
        if table == "synthetic" and row >= ROWS:
            return "synthetic", False
        if table == "public":
            return "public", int(self.public.labels[row]) in self.forgotten
        chosen = row in self.listed if self.listed else int(self.labels[row]) in self.forgotten
        if row >= TRAIN:
            assert row < TRAIN + PUBLIC
            return "public", chosen
        return ("forgotten" if chosen else "retained"), chosen

    def hears(self, messages: Sequence[Message]) -> Disclosure:
        rows: set[str] = set()
        gradients: set[str] = set()
        kinds: set[str] = set()
        alone, pending = False, {}
        for message in messages:
            if not isinstance(message, Embed | Gradients):
                kinds.add(kind_of(message))
            if isinstance(message, Embed | SyntheticInputs | Prepare):
                table = message.table if isinstance(message, Embed) else "main"
                # Who asks for all rows there are asks for test rows too.
                every = table == "main" and message.rows.tolist() == list(range(ROWS))
                named = message.rows[: TRAIN + PUBLIC] if every else message.rows
                asked = [self.whose(table, row) for row in named.tolist()]
                rows |= {kind for kind, _ in asked}
                alone |= bool(asked) and all(chosen for _, chosen in asked)
            if isinstance(message, SyntheticInputs) and message.noise:
                rows.add("synthetic")
            if isinstance(message, Embed) and message.mode != "predict":
                pending = {message.step: {kind for kind, _ in asked}}
            if isinstance(message, Gradients | AccumulateFisher):
                gradients |= pending.pop(message.step)
        return Disclosure(frozenset(rows), frozenset(gradients), alone, frozenset(kinds))


def listen(
    method: Method,
    forgotten: tuple[int, ...],
    *,
    table: bool = False,
    active_part: bool = False,
    people: bool = False,
) -> Iterator[tuple[Disclosure, list[Message]]]:
    """Run a method by itself; yield what each passive party can tell from its messages."""
    fed = federation(parties=2, active_part=active_part, remember=forgotten, epochs=2)
    fed.train()
    what = {"ids": LISTED} if people else {"labels": list(forgotten)}
    settings = ForgetSettings(method=method, few_shot=4, retained=2, key=KEY, allow_collapse=True)
    work = plan(fed, settings=settings, **what)
    if table:
        work = replace(work, public=public_table(fed))
    assert work.samples.rows is not None  # drawn before anybody listens
    plain, saved = fed.active.transport, fed.active.versions.snapshot()
    keeping = fed.active.transport = Keeping(plain)
    try:
        method.run(work)
    finally:
        fed.active.transport = plain
        work.undo(saved)
    assert all(keeping.received.values())
    heard = Eavesdropper(work.request.labels, work.request.rows, work.public)
    for messages in keeping.received.values():
        yield heard.hears(messages), messages


def public_table(fed: Federation) -> PublicSet:
    """Hand every party the public rows in a table of their own, in another order."""
    rows = torch.arange(TRAIN + PUBLIC - 1, TRAIN - 1, -1)
    parts = features("table")[rows].split(widths("table", len(fed.holdings.features)), -1)
    names = list(fed.holdings.features)
    fed.hand_over("public", {n: Features(p) for n, p in zip(names, parts, strict=True)})
    ids = tuple(f"p{row}" for row in rows.tolist())
    return PublicSet("public", torch.arange(PUBLIC), rows % len(NAMES), ids, False, "a table")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("forgotten", GONE)
def test_a_method_tells_exactly_what_it_says(form: str, forgotten: tuple[int, ...]) -> None:
    method = FORMS[form]
    parties = list(listen(method, forgotten, active_part=forgotten == GONE[1]))
    assert len(parties) == 2
    for heard, _ in parties:
        assert heard == method.disclosure


@pytest.mark.parametrize("form", [f for f, m in FORMS.items() if m.people])
def test_of_people_it_tells_the_same(form: str) -> None:
    for heard, _ in listen(FORMS[form], (), people=True):
        assert heard == FORMS[form].disclosure


@pytest.mark.parametrize("form", [f for f, m in FORMS.items() if "public" in m.disclosure.rows])
def test_public_samples_in_a_table_of_their_own_are_told_alike(form: str) -> None:
    for heard, messages in listen(FORMS[form], GONE[0], table=True):
        assert heard == FORMS[form].disclosure
        asked = [message for message in messages if isinstance(message, Embed)]
        # All training rows are in the main table, and then the public ones are not asked for.
        named = any(message.table == "public" for message in asked)
        assert named == (form != "hidden")


@pytest.mark.parametrize("form", FORMS)
def test_no_message_has_room_for_a_label(form: str) -> None:
    for _, messages in listen(FORMS[form], GONE[1]):
        for message in messages:
            kind = kind_of(message)
            assert type(message) is MESSAGES[kind]
            tensors = tensors_of(message)
            assert {f.name for f in fields(message)} == {*PLAIN[kind], *tensors}
            # Whole numbers come as rows, as the kind of step, and as how many; text names a
            # request, a table or a sum, and none of them after a label.
            assert all(name == "rows" or t.is_floating_point() for name, t in tensors.items())
            counts = {n for n in PLAIN[kind] if isinstance(getattr(message, n), int | tuple)}
            assert counts <= {"step", "steps", "noise", "version"}
            assert getattr(message, "version", 2) == 2  # which the training left, of whatever label
            texts = [getattr(message, n) for n in PLAIN[kind]]
            words = [text for text in texts if isinstance(text, str)]
            assert not any(name in word for name in NAMES for word in words)


@pytest.mark.parametrize("form", FORMS)
def test_what_is_needed_is_what_is_asked_for(form: str) -> None:
    method = FORMS[form]
    disclosure, needs = method.disclosure, method.needs
    trained = {"forgotten", "retained"} & disclosure.rows
    expected = {
        "few-shot": set(),
        "public": set(),
        "forgotten": {"forgotten"},
        "retained": {"retained"},
        "all": {"forgotten", "retained"},
        "nothing": set(),
    }
    assert trained == expected[needs]
    assert "public" in disclosure.rows or needs not in ("few-shot", "public")
    assert form not in LISTED_FORMS or ("public" in disclosure.rows) == (
        needs in ("few-shot", "public")
        or getattr(method, "recovery", False)
        or isinstance(method, Hidden)  # all rows there are, the public ones among them
    )
    assert ("synthetic" in disclosure.rows) == ("SyntheticInputs" in disclosure.messages)
    assert bool(disclosure.rows) == (needs != "nothing")
    assert disclosure.gradients <= disclosure.rows


def test_few_methods_leave_the_rows_unnamed() -> None:
    quiet = {form for form, method in LISTED_FORMS.items() if not method.disclosure.names_rows()}
    hidden = {form for form, method in LISTED_FORMS.items() if isinstance(method, Hidden)}
    assert quiet == hidden | {"amnesiac", "deep-all", "mask", "renormalise"}


@pytest.mark.parametrize("form", [f for f, m in FORMS.items() if m.disclosure.names_rows()])
def test_a_secret_request_is_refused_where_the_rows_are_named(form: str) -> None:
    method = FORMS[form]
    fed = federation(parties=1, epochs=1, remember=(1,))
    fed.train()
    with pytest.raises(ForgetError, check=coded("not-secret")):
        fed.forget([1], settings=ForgetSettings(method=method, few_shot=2, retained=1, secret=True))


@pytest.mark.parametrize("form", [f for f, m in FORMS.items() if m.visibility == "hidden"])
def test_a_hidden_method_asks_for_the_same_whatever_is_forgotten(form: str) -> None:
    """The rows of every message, its kind and its settings; gradients are those of the noise."""
    heard = []
    for forgotten in GONE:
        messages = [m for _, messages in listen(FORMS[form], forgotten) for m in messages]
        heard.append(
            [
                (kind_of(m), *(getattr(m, n) for n in PLAIN[kind_of(m)] if n != "request"))
                + ((m.rows.tolist(),) if isinstance(m, Embed) else ())
                for m in messages
            ]
        )
    assert heard[0] == heard[1]
    assert heard[0]
