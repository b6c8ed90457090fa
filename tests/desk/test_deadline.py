"""The legal clock: months as the law counts them, warnings, extensions."""

from __future__ import annotations

from datetime import date, timedelta

import pytest

from unlabel.desk.deadline import (
    WARNING,
    deadline,
    due,
    expect_receivable,
    expect_sent,
    extended,
)
from unlabel.errors import SettingsError

WHY = "Many demands came in at once."


@pytest.mark.parametrize(
    ("received", "last"),
    [
        ("2026-11-19", "2026-12-19"),
        ("2026-12-19", "2027-01-19"),
        ("2026-01-31", "2026-02-28"),
        ("2028-01-31", "2028-02-29"),  # a leap year
        ("2026-05-31", "2026-06-30"),
        ("2026-02-28", "2026-03-28"),
        ("2026-12-31", "2027-01-31"),
    ],
)
def test_a_demand_is_due_on_the_same_day_of_the_next_month_or_its_last(
    received: str, last: str
) -> None:
    assert due(date.fromisoformat(received)).isoformat() == last


@pytest.mark.parametrize(
    ("received", "last"),
    [
        ("2026-11-19", "2027-02-19"),
        # From the day of receipt, and not from the shorter day on which the first month ended.
        ("2026-01-31", "2026-04-30"),
        ("2026-11-30", "2027-02-28"),
        ("2027-11-30", "2028-02-29"),
    ],
)
def test_an_extended_demand_is_due_three_months_after_receipt(received: str, last: str) -> None:
    day = date.fromisoformat(received)
    assert due(day, extended(day, WHY, day)).isoformat() == last


def test_a_clock_is_calm_then_warns_seven_days_before_its_end_then_is_late() -> None:
    received = date(2026, 11, 2)
    last = date(2026, 12, 2)
    expected = {-1: "late", 0: "warning", WARNING: "warning", WARNING + 1: "calm"}
    for left, urgency in expected.items():
        stands = deadline(received, last - timedelta(days=left))
        assert (stands.due, stands.left, stands.urgency) == (last, left, urgency)
    assert WARNING == 7
    assert deadline(received, last).words == "due today, 2 December 2026"
    assert deadline(received, last, extension=WHY).urgency == "calm"


def test_the_clock_of_a_closed_request_stands() -> None:
    received, closed = date(2026, 11, 2), date(2026, 12, 5)
    for today in (closed, date(2028, 1, 1)):
        stands = deadline(received, today, ended=closed)
        assert (stands.urgency, stands.left) == ("ended", -3)
        assert stands.words == "ended 3 days late, on 5 December 2026"


def test_a_term_is_extended_once_within_the_first_month_and_with_a_reason() -> None:
    received = date(2026, 11, 2)
    assert extended(received, f" {WHY} ", due(received)) == WHY
    for reason, on, before in (
        ("  ", received, ""),
        (WHY, received - timedelta(days=1), ""),
        (WHY, due(received) + timedelta(days=1), ""),
        (WHY, received, WHY),
    ):
        with pytest.raises(SettingsError):
            extended(received, reason, on, before)


def test_a_demand_has_not_come_in_tomorrow() -> None:
    today = date(2026, 11, 19)
    expect_receivable(today, today)
    for day in (today + timedelta(days=1), date(1900, 1, 1)):
        with pytest.raises(SettingsError):
            expect_receivable(day, today)


def test_a_letter_was_sent_between_the_receipt_and_today() -> None:
    received, today = date(2026, 11, 2), date(2026, 11, 19)
    for day in (received, today):
        expect_sent(day, received, today)
    for day in (received - timedelta(days=1), today + timedelta(days=1)):
        with pytest.raises(SettingsError):
            expect_sent(day, received, today)
