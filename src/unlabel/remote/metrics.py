"""What a party counts, for Prometheus: `unlabel party start --metrics 127.0.0.1:9100`.

There is no label, no id and no request's name in it. What a passive party tells are counts of the
messages that it sees anyway, and these are the same whatever a hidden request was about. The label
holder's own versions and ledger could tell a decision about nothing from a real one, so they are
left out there.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unlabel.config.checks import is_this_machine
from unlabel.errors import RunError, UsageError
from unlabel.remote.health import PartyFacts
from unlabel.remote.request_stats import RequestStats

if TYPE_CHECKING:
    from unlabel.remote.operated import Operated

#: Seconds for which somebody who connects may say nothing, so that nobody takes all open files.
SILENT = 5.0
NO_METRICS = "Metrics need prometheus-client; run: pip install 'unlabel[metrics]'"


@dataclass(frozen=True)
class Address:
    """Where metrics are served."""

    host: str
    port: int

    @classmethod
    def of(cls, text: str, *, anywhere: bool = False) -> Address:
        """Read HOST:PORT; other hosts than this machine itself must be meant.

        >>> Address.of("127.0.0.1:9100")
        Address(host='127.0.0.1', port=9100)
        """
        host, _, port = text.rpartition(":")
        host = host.strip("[]")
        if not host or not port.isdecimal() or not 0 <= int(port) < 2**16:
            raise UsageError(
                f"Expected --metrics to be HOST:PORT, as 127.0.0.1:9100, not '{text}'."
            )
        if not anywhere and not is_this_machine(host):
            raise UsageError(
                f"Metrics are neither encrypted nor protected by a password; serve them on "
                f"127.0.0.1, or add --metrics-anywhere to serve them on '{host}'."
            )
        return cls(host, int(port))


@contextlib.contextmanager
def serving_metrics(operated: Operated, address: Address | None) -> Iterator[None]:
    """Serve a party's metrics over HTTP, inside the block."""
    if address is None:
        yield
        return
    try:
        from prometheus_client import CollectorRegistry, start_http_server
    except ImportError as error:
        raise RunError(NO_METRICS) from error
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Collector(operated))
    try:
        server, thread = start_http_server(address.port, address.host, registry)
    except OSError as error:
        raise RunError(
            f"Metrics cannot be served on {address.host}:{address.port} ({error.strerror}); "
            f"choose another port.",
            code="in-use",
        ) from error

    class Brief(server.RequestHandlerClass):  # type: ignore[name-defined, misc]
        timeout = SILENT

        def handle(self) -> None:
            with contextlib.suppress(TimeoutError):
                super().handle()

    server.RequestHandlerClass = Brief
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=5)


class Collector:
    """Makes metrics of what is known of a party, anew for each that asks."""

    def __init__(self, operated: Operated) -> None:
        self._operated = operated

    def describe(self) -> list[Any]:
        """Return nothing: names do not depend on what there is to count."""
        return []

    def collect(self) -> Iterator[Any]:
        """Yield every metric."""
        yield from of_facts(self._operated.facts())
        yield from of_stats(self._operated.stats)


def of_facts(facts: PartyFacts) -> Iterator[Any]:
    """Yield the metrics of where a party stands."""
    from prometheus_client.core import GaugeMetricFamily

    contact = facts.contact
    gauges = {
        "registered": ("1 where it is registered, or listens for the others", contact.registered),
        "alarm": ("1 where another process came under a name that is taken", bool(contact.alarm)),
        "start_time_seconds": ("when its process started", facts.started),
        "turned_time_seconds": ("when its loop last came round", facts.turned),
        "last_contact_time_seconds": ("when anybody was last heard, 0 if never", contact.last),
        "certificate_end_time_seconds": (
            "when the first certificate ends",
            facts.certificate_ends,
        ),
        "disk_free_bytes": ("room where its state lies", facts.disk_free),
    }
    if not facts.is_active:
        gauges |= {
            "common_rows": ("rows that all parties share", facts.rows),
            "versions": ("versions it keeps", facts.versions),
            "ledger_lines": ("lines of its ledger", facts.ledger_lines),
        }
    for name, (about, value) in gauges.items():
        yield GaugeMetricFamily(f"unlabel_{name}", about, value=float(value))
    if facts.is_active:
        heard = GaugeMetricFamily(
            "unlabel_peer_last_contact_time_seconds",
            "when a party was last heard; a party that is not registered is missing",
            labels=["peer"],
        )
        for peer, last in contact.peers.items():
            heard.add_metric([peer], last)
        yield heard


def of_stats(stats: RequestStats) -> Iterator[Any]:
    """Yield the metrics of what a party was asked."""
    from prometheus_client.core import CounterMetricFamily

    figures = {
        "messages": ("requests received", "times"),
        "rows": ("rows asked for", "rows"),
        "received_bytes": ("bytes of requests", "received"),
        "sent_bytes": ("bytes of answers", "sent"),
    }
    # Copies: the party goes on counting in another thread.
    counts, codes = dict(stats.counts), dict(stats.codes)
    for name, (about, field) in figures.items():
        family = CounterMetricFamily(f"unlabel_{name}", about, labels=["kind"])
        for kind, count in counts.items():
            family.add_metric([kind], getattr(count, field))
        yield family
    refusals = CounterMetricFamily("unlabel_refusals", "requests refused", labels=["code"])
    for code, times in codes.items():
        refusals.add_metric([code], times)
    yield refusals
