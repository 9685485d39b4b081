"""A worker whose webhook retries come quickly, to be killed by tests."""

from __future__ import annotations

import signal
import threading

from ussd_server.bootstrap import build_services
from ussd_server.outbound.addresses import AddressGuard
from ussd_server.outbound.transport import Transport
from ussd_server.services.webhooks.deliveries import DeliveryService, RetrySchedule
from ussd_server.settings import Settings
from ussd_server.worker import Worker

PACE = RetrySchedule(delays=(0.02,) * 40, timeout_seconds=1.0, lease_seconds=1.5)


def send(settings: Settings) -> None:
    """Work until SIGTERM, in a process of its own."""
    services = build_services(settings)
    transport = Transport(AddressGuard(allow_private=True))
    services.deliveries = DeliveryService(services.runtime, transport=transport, schedule=PACE)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    Worker(services).run(stop)
