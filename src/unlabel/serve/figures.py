"""What a server counts, for Prometheus: nothing of it names a person or a label."""

from __future__ import annotations

from unlabel.serve.exported import ServedTop
from unlabel.serve.model import ServedModel

ROUTES = ("/predict", "/healthz", "/metrics")


class Figures:
    """Counters of one server, in a registry of their own."""

    def __init__(self, model: ServedModel | ServedTop) -> None:
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
        from prometheus_client.exposition import CONTENT_TYPE_LATEST

        registry = self.registry = CollectorRegistry()
        self.media_type = CONTENT_TYPE_LATEST
        self.requests = Counter(
            "unlabel_serve_requests", "requests answered", ["route", "status"], registry=registry
        )
        self.rows = Counter("unlabel_serve_rows", "rows predicted", registry=registry)
        self.seconds = Histogram(
            "unlabel_serve_seconds", "seconds a prediction took", registry=registry
        )
        version = Gauge(
            "unlabel_serve_version",
            "version that is loaded, 0 while none can be answered for",
            registry=registry,
        )
        version.set_function(lambda: model.provenance.version if model.provenance else 0)

    def count(self, route: str, status: int, seconds: float) -> None:
        """Count a request; routes that do not exist are one, however many names they have."""
        known = route if route in ROUTES else "other"
        self.requests.labels(known, str(status)).inc()
        if known == "/predict":
            self.seconds.observe(seconds)

    def text(self) -> bytes:
        """Return all figures as Prometheus reads them."""
        from prometheus_client import generate_latest

        return generate_latest(self.registry)
