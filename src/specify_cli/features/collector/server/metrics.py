"""What a collector counts of itself, for Prometheus: numbers and names of routes, nothing that was
sent."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

TYPE = CONTENT_TYPE_LATEST
RESULTS = ("stored", "duplicate", "conflict", "owned", "foreign-project", "invalid-event")


class Metrics:
    """The counters of one collector process."""

    def __init__(self, count_waiting: Callable[[], int]) -> None:
        self._registry = CollectorRegistry()
        self._events = Counter(
            "spec_kitty_collector_events",
            "Events by what became of them.",
            ["result"],
            registry=self._registry,
        )
        for result in RESULTS:
            self._events.labels(result)
        self._requests = Histogram(
            "spec_kitty_collector_request_seconds",
            "Time from a request's head to its answer's end.",
            ["method", "route", "status"],
            registry=self._registry,
        )
        Gauge(
            "spec_kitty_collector_waiting",
            "Requests whose body waits to be read or stored.",
            registry=self._registry,
        ).set_function(count_waiting)

    def count_event(self, result: str, times: int = 1) -> None:
        """Count one event, or several with the same result."""
        self._events.labels(result).inc(times)

    def observe_request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one request and the time it took."""
        self._requests.labels(method, route, str(status)).observe(seconds)

    def render(self) -> bytes:
        """Return everything in the text format of Prometheus."""
        return generate_latest(self._registry)
