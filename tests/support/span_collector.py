"""A collector of spans for tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.services.webhooks.receivers import Receiver
from ussd_server.spans import end_export, export_spans


@contextmanager
def collecting_spans(monkeypatch: pytest.MonkeyPatch, process: str) -> Iterator[Receiver]:
    """Export this process's spans, under the name of a `process`, until the block ends; yields what receives them."""
    with Receiver() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url.removesuffix("/hook"))
        export_spans(process)
        yield receiver
        end_export()
