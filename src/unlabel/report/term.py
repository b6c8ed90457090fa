"""The one-month term in which a demand has to be answered (Article 12(3) of the GDPR)."""

from __future__ import annotations

import calendar
from datetime import date, datetime


def due_day(received: date) -> date:
    """Return the same day of the next month, or that month's last day where it is shorter.

    >>> due_day(date(2026, 1, 15)).isoformat(), due_day(date(2027, 1, 31)).isoformat()
    ('2026-02-15', '2027-02-28')
    >>> due_day(date(2026, 12, 31)).isoformat()
    '2027-01-31'
    """
    year, month = received.year + received.month // 12, received.month % 12 + 1
    return date(year, month, min(received.day, calendar.monthrange(year, month)[1]))


def day_of(moment: str) -> date:
    """Return the day on which a moment of a ledger lies."""
    return datetime.fromisoformat(moment).date()
