"""Spans of calls and of requests to other servers, which the OpenTelemetry SDK exports.

Nothing of it is loaded until `export_spans`. A span holds names, codes and ids that log lines may hold, and no path.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import TYPE_CHECKING, Any

from ussd_server.logs import Logger, continue_trace, current_traceparent

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span, Tracer

_LAST_SECONDS = 1.0

log = Logger(__name__)

tracer: Tracer | None = None
"""None while no spans are exported."""

_provider: TracerProvider | None = None


def export_spans(process: str) -> None:
    """Export spans of this process from now on. The SDK reads its settings (`OTEL_…`) from the environment itself."""
    global tracer, _provider
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        log.warning("no spans are exported: the libraries of the extra `otel` are missing", process=process)
        return
    resource = Resource.create({"service.name": f"ussd-server-{process}"})
    _provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    _provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    tracer = _provider.get_tracer("ussd_server")


def end_export() -> None:
    """Export what is left, and no more. A collector that does not answer holds up the process for a second at most."""
    global tracer, _provider
    if _provider is not None:
        last = Thread(target=_provider.shutdown, daemon=True)
        last.start()
        last.join(_LAST_SECONDS)
    tracer = _provider = None


def begin_call(endpoint: str) -> Span | None:
    """Begin the span of a call under the caller's trace. What the call does from now on is under this span."""
    return _begin(endpoint, "SERVER")


def end_call(span: Span, **attributes: str | int) -> None:
    span.set_attributes({f"ussd.{name}": value for name, value in attributes.items()})
    span.end()


@contextmanager
def request_span(method: str, host: str) -> Iterator[dict[str, Any]]:
    """Make a span of a request to another server, if it belongs to a trace. Yields where its attributes are put."""
    attributes: dict[str, Any] = {"server.address": host}
    parent = current_traceparent()
    span = None if parent is None else _begin(method, "CLIENT")
    if span is None:
        yield attributes
        return
    try:
        yield attributes
    except Exception as error:
        attributes["error.type"] = type(error).__name__
        raise
    finally:
        continue_trace(parent)
        span.set_attributes(attributes)
        span.end()


def _begin(name: str, kind: str) -> Span | None:
    if tracer is None:
        return None
    from opentelemetry.context import Context
    from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, TraceFlags, set_span_in_context

    context = Context()
    if (parent := current_traceparent()) is not None:
        _, trace_id, span_id, flags = parent.split("-")
        trace = SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=TraceFlags(int(flags, 16)))
        context = set_span_in_context(NonRecordingSpan(trace), context)
    span = tracer.start_span(name, context, kind=SpanKind[kind])
    own = span.get_span_context()
    continue_trace(f"00-{own.trace_id:032x}-{own.span_id:016x}-{own.trace_flags:02x}")
    return span
