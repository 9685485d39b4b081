"""Endpoints for monitoring: liveness, readiness and metrics."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import version

from flask import Response
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, Metric, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from ussd_server.api.endpoints import ApiBlueprint, allow_anyone, replies_in
from ussd_server.api.requests import services
from ussd_server.context import RequestContext
from ussd_server.metrics import count_requests
from ussd_server.services.operations.messages import Health, Readiness
from ussd_server.status import Code

_VERSION = version("ussd-server")

ops = ApiBlueprint("ops", allow_anyone, "Health and metrics", "For the operator.")


@ops.call("GET", "/health/live", message="Alive")
def show_liveness(_: RequestContext) -> Health:
    """Whether this process answers at all."""
    return Health("alive", _VERSION)


@ops.call("GET", "/health/ready", refuses=(Code.SERVICE_UNAVAILABLE,), message="Ready")
def show_readiness(_: RequestContext) -> Readiness:
    """Whether the service can answer calls; 503 names the part that is away."""
    return services().health.check()


@ops.get("/metrics")
@replies_in("text/plain")
def show_metrics() -> Response:
    """What all web processes counted, and what waits and works now, in the text format of Prometheus."""
    count_requests()
    folder = services().settings.metrics_dir
    counters = MultiProcessCollector(None, str(folder)) if folder.is_dir() else REGISTRY  # type: ignore[no-untyped-call]
    return Response(generate_latest(counters) + generate_latest(_Now()), content_type=CONTENT_TYPE_LATEST)


class _Now(Collector):
    """The measures that are read at each request for them."""

    def collect(self) -> Iterable[Metric]:
        """The version, and the measures as metrics, those of one name together."""
        build = Metric("ussd_build_info", "The version of the service.", "gauge")
        build.add_sample("ussd_build_info", {"version": _VERSION}, 1)
        families = {build.name: build}
        for measure in services().gauges.read():
            kind = "counter" if measure.name.endswith("_total") else "gauge"
            name = measure.name.removesuffix("_total")
            family = families.setdefault(name, Metric(name, measure.meaning, kind))
            family.add_sample(measure.name, dict(measure.labels), measure.value)
        return families.values()
