"""Webhooks with deliveries that are due and not sent."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from peewee import fn

from ussd_server.models.clients import Client
from ussd_server.models.sending import Delivery, Webhook
from ussd_server.services.pages import MOST_COUNTED
from ussd_server.services.webhooks.messages import LateWebhook
from ussd_server.wire import view_of_row


def late_webhooks(now: datetime) -> list[LateWebhook]:
    """The webhooks with a due delivery that no worker has, the latest first.

    `under_way` of their deliveries are being sent. A webhook that fails (`failing_since`) gets one at a time, so it is
    late because of its own server.
    """
    of_webhook = Delivery.webhook_id == Webhook.id
    waiting = of_webhook & (Delivery.due_at <= now) & Delivery.lease_token.is_null()
    under_way = of_webhook & Delivery.lease_token.is_null(False) & (Delivery.leased_until > now)
    rows: Any = (
        Webhook.select(
            Webhook.id,
            Webhook.url,
            Webhook.failing_since,
            Client.name.alias("client"),
            Delivery.select(fn.MIN(Delivery.due_at)).where(waiting).alias("due_at"),
            Delivery.select(fn.COUNT(Delivery.id)).where(under_way).alias("under_way"),
        )
        .join(Client, on=(Client.id == Webhook.client_id))
        .where(Webhook.is_active, fn.EXISTS(Delivery.select(Delivery.id).where(waiting)))
        .limit(MOST_COUNTED)
        .objects()
    )
    late = (
        view_of_row(LateWebhook, row, webhook_id=row.id, due_at=Delivery.due_at.python_value(row.due_at))
        for row in rows
    )
    return sorted(late, key=lambda each: (each.due_at, each.webhook_id))
