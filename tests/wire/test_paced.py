"""Paced messages leave at multiples of a pace, whatever was computed between them."""

from __future__ import annotations

import time
from collections.abc import Mapping

import pytest

from unlabel.errors import PartyLost
from unlabel.wire import Describe, Done, LocalTransport, Message, Paced, Transport
from unlabel.wire.paced import wait_until


class Hand:
    """A clock that is moved by hand, by sleeping, and by a microsecond whenever it is read.

    late  share of a sleep by which it ends later than it should
    """

    def __init__(self, late: float = 0.0) -> None:
        self.now = 1000.0
        self.late = late

    def read(self) -> float:
        self.now += 1e-6
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds >= 0
        self.now += seconds * (1 + self.late)


class Slow(Transport):
    """A party that notes when messages come, and answers after a while or never."""

    def __init__(self, clock: Hand) -> None:
        super().__init__(["shop"])
        self.clock = clock
        self.came: list[float] = []
        self.takes = 0.0
        self.lost = False

    def exchange(self, requests: Mapping[str, Message]) -> dict[str, Message]:
        self.came.append(round(self.clock.now - 1000, 5))
        self.clock.now += self.takes
        if self.lost:
            raise PartyLost("It did not answer.")
        return dict.fromkeys(requests, Done(0))


def paced(pace: float = 1.0, late: float = 0.0) -> tuple[Paced, Slow, Hand]:
    clock = Hand(late)
    party = Slow(clock)
    return Paced(party, pace, clock=clock.read, sleep=clock.sleep), party, clock


def test_messages_leave_at_the_next_multiple_whatever_was_computed() -> None:
    for work in (0.0, 0.2, 0.49, 0.9):
        transport, party, clock = paced()
        for _ in range(3):
            clock.now += work
            transport.ask(Describe(0))
        assert party.came == [1, 2, 3], work
        assert transport.late == 0


def test_messages_leave_on_time_though_a_sleep_ends_the_later_the_longer_it_was() -> None:
    for late in (0.0, 0.0003, 0.001):
        for work in (0.0, 0.2, 0.49):
            transport, party, clock = paced(late=late)
            for _ in range(3):
                transport.ask(Describe(0))
                clock.now += work
            assert party.came == [1, 2, 3], (late, work)
            assert transport.late == 0


def test_a_wait_ends_at_its_moment_at_once_where_that_has_passed_or_when_interrupted() -> None:
    clock = Hand(late=0.001)
    for moment in (1000.5, 1000.501, 1002.0):  # the second too near to sleep at all
        assert not wait_until(moment, clock=clock.read, sleep=clock.sleep)
        assert moment <= clock.now < moment + 1e-5
    assert not wait_until(1000.0, clock=clock.read, sleep=clock.sleep)
    assert wait_until(2000.0, clock=clock.read, sleep=lambda _: True)
    assert clock.now < 1002.001


def test_a_partner_that_answers_just_before_a_multiple_learns_no_more() -> None:
    """By the time that is left until the next multiple, it could tell short work from long."""
    for takes, expected in ((0.3, 2), (0.6, 3), (0.999, 3)):
        for work in (0.0, 0.002, 0.49):
            transport, party, clock = paced()
            party.takes = takes
            transport.ask(Describe(0))
            clock.now += work
            transport.ask(Describe(0))
            assert party.came == [1, expected], (takes, work)
            assert transport.late == 0


def test_a_message_that_is_not_ready_leaves_at_a_later_multiple_and_is_counted() -> None:
    transport, party, clock = paced(0.5)
    clock.now += 0.7
    transport.ask(Describe(0))
    clock.now += 0.1
    transport.ask(Describe(0))
    assert (party.came, transport.late) == ([1.0, 1.5], 1)
    clock.now += 1.9
    transport.wait()  # the end, which nobody is sent
    assert (round(clock.now - 1000, 5), transport.late) == (3.5, 2)


def test_the_time_that_a_lost_party_takes_is_no_late_message() -> None:
    transport, party, clock = paced()
    party.lost = True
    with pytest.raises(PartyLost):
        transport.ask(Describe(0))
    party.lost = False
    clock.now += 7.3
    transport.ask(Describe(0))
    assert (party.came, transport.late) == ([1, 9], 0)


def test_without_a_pace_messages_leave_at_once() -> None:
    transport, party, clock = paced(0.0)
    clock.now += 0.7
    transport.ask(Describe(0))
    transport.wait()
    assert (party.came, round(clock.now - 1000, 5), transport.late) == ([0.7], 0.7, 0)


def test_by_a_real_clock_no_message_leaves_early_and_order_is_kept() -> None:
    came: list[tuple[int, float]] = []

    class Party:
        def handle(self, message: Message) -> Message:
            came.append((message.step, time.monotonic()))
            return Done(message.step)

        def serve(self, data: bytes) -> bytes:
            raise NotImplementedError

    started = time.monotonic()
    transport = Paced(LocalTransport({"shop": Party()}), 0.03)
    for step in range(4):
        assert transport.ask(Describe(step))["shop"].step == step
    assert [step for step, _ in came] == [0, 1, 2, 3]
    for number, (_, at) in enumerate(came, 1):
        assert at - started >= number * 0.03 - 1e-3
