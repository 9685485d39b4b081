"""Every operation of the data API. scripts/document writes this file from the OpenAPI document."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from ussd_client.models import (
    Amount,
    ApprovePayoutBody,
    Balance,
    BeginSessionBody,
    BindCodeBody,
    CancelPayoutBody,
    CheckReport,
    Code,
    CodeItems,
    CreateMessageBody,
    CreatePayoutBody,
    CreateRefundBody,
    CreateTransactionBody,
    CreateWebhookBody,
    DailyReport,
    DeletionResult,
    EnterTextBody,
    Event,
    EventPage,
    Graph,
    History,
    HistoryEntry,
    MenuSummary,
    MenuSummaryItems,
    OwnKey,
    PaymentCode,
    PaymentCodePage,
    Payout,
    PayoutItem,
    PayoutItemPage,
    PayoutItemState,
    PayoutPage,
    PayoutStatus,
    PinReset,
    ProviderList,
    PutPaymentCodeBody,
    RedeliverEventsBody,
    Redelivery,
    ReplayBody,
    ReplayItemItems,
    RetryPayoutBody,
    RollBackBody,
    RotatedSecret,
    RotateSecretBody,
    SearchReply,
    Session,
    SessionPage,
    SessionStatus,
    Sms,
    SmsPage,
    SmsStatus,
    Statement,
    StatementLine,
    Subscriber,
    Transaction,
    TransactionPage,
    TransactionStatus,
    TransactionType,
    Version,
    VersionItems,
    Webhook,
    WebhookPage,
)
from ussd_client.transport import Transport


class Operations(Transport):
    """One method for each operation; those with pages have an iterator too."""

    def create_transaction(self, body: CreateTransactionBody, *, wait: int | None = None) -> Transaction:
        """Take money from a subscriber, send money to one, or move it between two accounts kept here.

        Permission: `transactions:write` or `transactions:send`.
        """
        return cast("Transaction", self._call("POST", "/api/transactions", body=body, query={"wait": wait}))

    def list_transactions(
        self,
        *,
        status: TransactionStatus | None = None,
        type: TransactionType | None = None,
        phone_number: str | None = None,
        amount: Amount | str | None = None,
        reference: str | None = None,
        provider_transaction_id: str | None = None,
        payout_id: str | None = None,
        key_id: str | None = None,
        from_: str | None = None,
        to: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> TransactionPage:
        """The client's transactions, newest first.

        Permission: `transactions:read`.
        """
        return cast(
            "TransactionPage",
            self._call(
                "GET",
                "/api/transactions",
                query={
                    "status": status,
                    "type": type,
                    "phone_number": phone_number,
                    "amount": amount,
                    "reference": reference,
                    "provider_transaction_id": provider_transaction_id,
                    "payout_id": payout_id,
                    "key_id": key_id,
                    "from": from_,
                    "to": to,
                    "limit": limit,
                    "cursor": cursor,
                },
            ),
        )

    def iterate_transactions(
        self,
        *,
        status: TransactionStatus | None = None,
        type: TransactionType | None = None,
        phone_number: str | None = None,
        amount: Amount | str | None = None,
        reference: str | None = None,
        provider_transaction_id: str | None = None,
        payout_id: str | None = None,
        key_id: str | None = None,
        from_: str | None = None,
        to: str | None = None,
        limit: int | None = None,
    ) -> Iterator[Transaction]:
        """Iterate over all pages of `list_transactions`."""
        return self._pages(
            lambda cursor: self.list_transactions(
                cursor=cursor,
                status=status,
                type=type,
                phone_number=phone_number,
                amount=amount,
                reference=reference,
                provider_transaction_id=provider_transaction_id,
                payout_id=payout_id,
                key_id=key_id,
                from_=from_,
                to=to,
                limit=limit,
            )
        )

    def create_refund(self, transaction_id: str, body: CreateRefundBody, *, wait: int | None = None) -> Transaction:
        """Give a succeeded collection back to its payer, wholly or in part.

        Permission: `transactions:send`.
        """
        return cast(
            "Transaction",
            self._call("POST", "/api/transactions/{}/refunds", transaction_id, body=body, query={"wait": wait}),
        )

    def get_transaction(self, transaction_id: str, *, wait: int | None = None) -> Transaction:
        """One transaction with its status history; `wait` holds the reply until its status changes.

        Permission: `transactions:read`.
        """
        return cast("Transaction", self._call("GET", "/api/transactions/{}", transaction_id, query={"wait": wait}))

    def list_collected(
        self,
        *,
        status: TransactionStatus | None = None,
        type: TransactionType | None = None,
        phone_number: str | None = None,
        amount: Amount | str | None = None,
        reference: str | None = None,
        provider_transaction_id: str | None = None,
        payout_id: str | None = None,
        key_id: str | None = None,
        from_: str | None = None,
        to: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> TransactionPage:
        """The client's collected payments, newest first.

        Permission: `collection:read`.
        """
        return cast(
            "TransactionPage",
            self._call(
                "GET",
                "/data/collection",
                query={
                    "status": status,
                    "type": type,
                    "phone_number": phone_number,
                    "amount": amount,
                    "reference": reference,
                    "provider_transaction_id": provider_transaction_id,
                    "payout_id": payout_id,
                    "key_id": key_id,
                    "from": from_,
                    "to": to,
                    "limit": limit,
                    "cursor": cursor,
                },
            ),
        )

    def iterate_collected(
        self,
        *,
        status: TransactionStatus | None = None,
        type: TransactionType | None = None,
        phone_number: str | None = None,
        amount: Amount | str | None = None,
        reference: str | None = None,
        provider_transaction_id: str | None = None,
        payout_id: str | None = None,
        key_id: str | None = None,
        from_: str | None = None,
        to: str | None = None,
        limit: int | None = None,
    ) -> Iterator[Transaction]:
        """Iterate over all pages of `list_collected`."""
        return self._pages(
            lambda cursor: self.list_collected(
                cursor=cursor,
                status=status,
                type=type,
                phone_number=phone_number,
                amount=amount,
                reference=reference,
                provider_transaction_id=provider_transaction_id,
                payout_id=payout_id,
                key_id=key_id,
                from_=from_,
                to=to,
                limit=limit,
            )
        )

    def get_balance(self, *, phone_number: str | None = None) -> Balance:
        """The balance of the main account, or of the account kept for a subscriber.

        Permission: `balance:read`.
        """
        return cast("Balance", self._call("GET", "/api/balance", query={"phone_number": phone_number}))

    def list_payment_codes(self, *, limit: int | None = None, cursor: str | None = None) -> PaymentCodePage:
        """The codes with which payers pay the client by themselves, newest first.

        Permission: `collection:read`.
        """
        return cast(
            "PaymentCodePage", self._call("GET", "/api/payment-codes", query={"limit": limit, "cursor": cursor})
        )

    def iterate_payment_codes(self, *, limit: int | None = None) -> Iterator[PaymentCode]:
        """Iterate over all pages of `list_payment_codes`."""
        return self._pages(lambda cursor: self.list_payment_codes(cursor=cursor, limit=limit))

    def put_payment_code(self, code: str, body: PutPaymentCodeBody) -> PaymentCode:
        """Create a payment code, or replace what it says. It begins with the prefix that the operator gave the
        client.

        Permission: `collection:write`.
        """
        return cast("PaymentCode", self._call("PUT", "/api/payment-codes/{}", code, body=body))

    def get_payment_code(self, code: str) -> PaymentCode:
        """One payment code.

        Permission: `collection:read`.
        """
        return cast("PaymentCode", self._call("GET", "/api/payment-codes/{}", code))

    def delete_payment_code(self, code: str) -> DeletionResult:
        """Remove a payment code; what comes with it from now on is held for the operators.

        Permission: `collection:write`.
        """
        return cast("DeletionResult", self._call("DELETE", "/api/payment-codes/{}", code))

    def create_payout(
        self,
        body: CreatePayoutBody | bytes,
        *,
        reference: str | None = None,
        description: str | None = None,
        send_at: str | None = None,
        content_type: str = "application/json",
    ) -> Payout:
        """Judge every row of a payout, in JSON or in a file; nothing is sent before it is approved.

        Permission: `payouts:write`.
        """
        return cast(
            "Payout",
            self._call(
                "POST",
                "/api/payouts",
                body=body,
                content_type=content_type,
                query={"reference": reference, "description": description, "send_at": send_at},
            ),
        )

    def list_payouts(
        self,
        *,
        status: PayoutStatus | None = None,
        reference: str | None = None,
        from_: str | None = None,
        to: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> PayoutPage:
        """The client's payouts, newest first.

        Permission: `payouts:read`.
        """
        return cast(
            "PayoutPage",
            self._call(
                "GET",
                "/api/payouts",
                query={
                    "status": status,
                    "reference": reference,
                    "from": from_,
                    "to": to,
                    "limit": limit,
                    "cursor": cursor,
                },
            ),
        )

    def iterate_payouts(
        self,
        *,
        status: PayoutStatus | None = None,
        reference: str | None = None,
        from_: str | None = None,
        to: str | None = None,
        limit: int | None = None,
    ) -> Iterator[Payout]:
        """Iterate over all pages of `list_payouts`."""
        return self._pages(
            lambda cursor: self.list_payouts(
                cursor=cursor, status=status, reference=reference, from_=from_, to=to, limit=limit
            )
        )

    def retry_payout(self, payout_id: str, body: RetryPayoutBody | None = None) -> Payout:
        """Open the next round of a payout: a draft of rows that failed, or were cancelled unsent.

        Permission: `payouts:write`.
        """
        return cast("Payout", self._call("POST", "/api/payouts/{}/retry", payout_id, body=body))

    def get_payout(self, payout_id: str) -> Payout:
        """One payout, with counts and sums of its rows by state.

        Permission: `payouts:read`.
        """
        return cast("Payout", self._call("GET", "/api/payouts/{}", payout_id))

    def list_payout_items(
        self,
        payout_id: str,
        *,
        state: PayoutItemState | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> PayoutItemPage:
        """The rows of a payout in the order of their lines; with `Accept: text/csv` all of them.

        Permission: `payouts:read`.
        """
        return cast(
            "PayoutItemPage",
            self._call(
                "GET", "/api/payouts/{}/items", payout_id, query={"state": state, "limit": limit, "cursor": cursor}
            ),
        )

    def list_payout_items_csv(self, payout_id: str, *, state: PayoutItemState | None = None) -> Iterator[bytes]:
        """Yield the parts of the same as `text/csv`, all of it."""
        return self._stream("/api/payouts/{}/items", payout_id, query={"state": state}, accept="text/csv")

    def iterate_payout_items(
        self, payout_id: str, *, state: PayoutItemState | None = None, limit: int | None = None
    ) -> Iterator[PayoutItem]:
        """Iterate over all pages of `list_payout_items`."""
        return self._pages(lambda cursor: self.list_payout_items(payout_id, cursor=cursor, state=state, limit=limit))

    def approve_payout(self, payout_id: str, body: ApprovePayoutBody | None = None) -> Payout:
        """Reserve the sum and the fees of all ready rows and send them; by another key or person than the maker.

        Permission: `payouts:approve`.
        """
        return cast("Payout", self._call("POST", "/api/payouts/{}/approve", payout_id, body=body))

    def cancel_payout(self, payout_id: str, body: CancelPayoutBody | None = None) -> Payout:
        """Cancel what was not sent and release its reservation.

        Permission: `payouts:write`.
        """
        return cast("Payout", self._call("POST", "/api/payouts/{}/cancel", payout_id, body=body))

    def get_statement(
        self,
        *,
        account: str | None = None,
        from_: str | None = None,
        to: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Statement:
        """What moved in an account within a period, oldest first, with the balances before and after it.

        Permission: `statements:read`.
        """
        return cast(
            "Statement",
            self._call(
                "GET",
                "/api/statements",
                query={"account": account, "from": from_, "to": to, "limit": limit, "cursor": cursor},
            ),
        )

    def get_statement_csv(
        self, *, account: str | None = None, from_: str | None = None, to: str | None = None
    ) -> Iterator[bytes]:
        """Yield the parts of the same as `text/csv`, all of it."""
        return self._stream("/api/statements", query={"account": account, "from": from_, "to": to}, accept="text/csv")

    def iterate_statement(
        self, *, account: str | None = None, from_: str | None = None, to: str | None = None, limit: int | None = None
    ) -> Iterator[StatementLine]:
        """Iterate over all pages of `get_statement`."""
        return self._pages(
            lambda cursor: self.get_statement(cursor=cursor, account=account, from_=from_, to=to, limit=limit)
        )

    def get_daily_report(self, *, date: str | None = None) -> DailyReport:
        """What became final on a day in Kampala: counts, sums, fees and times by type, provider and status.

        Permission: `statements:read`.
        """
        return cast("DailyReport", self._call("GET", "/api/reports/daily", query={"date": date}))

    def find(self, *, q: str) -> SearchReply:
        """The client's objects that a whole value names: an id, a reference, a provider's receipt or a phone
        number.
        """
        return cast("SearchReply", self._call("GET", "/api/search", query={"q": q}))

    def get_own_key(self) -> OwnKey:
        """Show a key what it may do, and what is left of its limits."""
        return cast("OwnKey", self._call("GET", "/api/key"))

    def list_providers(self) -> ProviderList:
        """The providers of this server and whether they take payments, from our own calls of the last 15 minutes.

        Permission: `transactions:read`.
        """
        return cast("ProviderList", self._call("GET", "/api/providers"))

    def get_subscriber(self, *, phone_number: str) -> Subscriber:
        """Return the name to which its provider has registered a phone number; kept for a day.

        Permission: `transactions:read`.
        """
        return cast("Subscriber", self._call("GET", "/api/subscribers", query={"phone_number": phone_number}))

    def get_subscriber_history(
        self, phone_number: str, *, limit: int | None = None, cursor: str | None = None
    ) -> History:
        """Payments, refunds and sessions of a phone number on one time line, newest first.

        Permission: `transactions:read`.
        """
        return cast(
            "History",
            self._call("GET", "/api/subscribers/{}/history", phone_number, query={"limit": limit, "cursor": cursor}),
        )

    def iterate_subscriber_history(self, phone_number: str, *, limit: int | None = None) -> Iterator[HistoryEntry]:
        """Iterate over all pages of `get_subscriber_history`."""
        return self._pages(lambda cursor: self.get_subscriber_history(phone_number, cursor=cursor, limit=limit))

    def reset_pin(self, phone_number: str) -> PinReset:
        """Remove the PIN that a subscriber has in your menus, with its lock. The subscriber may choose another.

        Permission: `transactions:send`.
        """
        return cast("PinReset", self._call("DELETE", "/api/subscribers/{}/pin", phone_number))

    def list_webhooks(self) -> WebhookPage:
        """All webhooks of the client, oldest first.

        Permission: `webhooks:read`.
        """
        return cast("WebhookPage", self._call("GET", "/api/webhooks"))

    def create_webhook(self, body: CreateWebhookBody) -> Webhook:
        """Add an address to be called; the answer alone shows the secret that signs the calls.

        Permission: `webhooks:write`.
        """
        return cast("Webhook", self._call("POST", "/api/webhooks", body=body))

    def get_webhook(self, webhook_id: str) -> Webhook:
        """One webhook, and since when it fails.

        Permission: `webhooks:read`.
        """
        return cast("Webhook", self._call("GET", "/api/webhooks/{}", webhook_id))

    def delete_webhook(self, webhook_id: str) -> DeletionResult:
        """Remove a webhook; what still waited for it is not sent any more.

        Permission: `webhooks:write`.
        """
        return cast("DeletionResult", self._call("DELETE", "/api/webhooks/{}", webhook_id))

    def rotate_webhook(self, webhook_id: str, body: RotateSecretBody | None = None) -> RotatedSecret:
        """Give a webhook another secret; for a while its calls carry the signatures of both.

        Permission: `webhooks:write`.
        """
        return cast("RotatedSecret", self._call("POST", "/api/webhooks/{}/rotate", webhook_id, body=body))

    def rotate_callbacks(self, body: RotateSecretBody | None = None) -> RotatedSecret:
        """Give another secret, or the first one, for calls to the `callback_url` of single transactions.

        Permission: `webhooks:write`.
        """
        return cast("RotatedSecret", self._call("POST", "/api/webhooks/callbacks/rotate", body=body))

    def enable_webhook(self, webhook_id: str) -> Webhook:
        """Switch a webhook on again that was switched off because nothing was taken there.

        Permission: `webhooks:write`.
        """
        return cast("Webhook", self._call("POST", "/api/webhooks/{}/enable", webhook_id))

    def test_webhook(self, webhook_id: str) -> Event:
        """Send a test event to one webhook; `GET /api/events/{id}` shows what became of it.

        Permission: `webhooks:write`.
        """
        return cast("Event", self._call("POST", "/api/webhooks/{}/test", webhook_id))

    def list_events(
        self,
        *,
        type: str | None = None,
        from_: str | None = None,
        to: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> EventPage:
        """The client's events, newest first.

        Permission: `webhooks:read`.
        """
        return cast(
            "EventPage",
            self._call(
                "GET", "/api/events", query={"type": type, "from": from_, "to": to, "limit": limit, "cursor": cursor}
            ),
        )

    def iterate_events(
        self, *, type: str | None = None, from_: str | None = None, to: str | None = None, limit: int | None = None
    ) -> Iterator[Event]:
        """Iterate over all pages of `list_events`."""
        return self._pages(lambda cursor: self.list_events(cursor=cursor, type=type, from_=from_, to=to, limit=limit))

    def get_event(self, event_id: str) -> Event:
        """One event with its deliveries: their status, the time taken and the first KiB of the answer.

        Permission: `webhooks:read`.
        """
        return cast("Event", self._call("GET", "/api/events/{}", event_id))

    def redeliver_event(self, event_id: str) -> Redelivery:
        """Send one event again to every webhook that takes its type.

        Permission: `webhooks:write`.
        """
        return cast("Redelivery", self._call("POST", "/api/events/{}/redeliver", event_id))

    def redeliver_events(self, body: RedeliverEventsBody) -> Redelivery:
        """Send the events of a period again, in their order; at most 1000 at a time.

        Permission: `webhooks:write`.
        """
        return cast("Redelivery", self._call("POST", "/api/events/redeliver", body=body))

    def create_message(self, body: CreateMessageBody) -> Sms:
        """Send a text to a phone, once for each reference.

        Permission: `messages:write`.
        """
        return cast("Sms", self._call("POST", "/api/messages", body=body))

    def list_messages(
        self,
        *,
        status: SmsStatus | None = None,
        phone_number: str | None = None,
        from_: str | None = None,
        to: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> SmsPage:
        """The client's messages, newest first.

        Permission: `messages:read`.
        """
        return cast(
            "SmsPage",
            self._call(
                "GET",
                "/api/messages",
                query={
                    "status": status,
                    "phone_number": phone_number,
                    "from": from_,
                    "to": to,
                    "limit": limit,
                    "cursor": cursor,
                },
            ),
        )

    def iterate_messages(
        self,
        *,
        status: SmsStatus | None = None,
        phone_number: str | None = None,
        from_: str | None = None,
        to: str | None = None,
        limit: int | None = None,
    ) -> Iterator[Sms]:
        """Iterate over all pages of `list_messages`."""
        return self._pages(
            lambda cursor: self.list_messages(
                cursor=cursor, status=status, phone_number=phone_number, from_=from_, to=to, limit=limit
            )
        )

    def get_message(self, message_id: str) -> Sms:
        """One message, and whether it was delivered.

        Permission: `messages:read`.
        """
        return cast("Sms", self._call("GET", "/api/messages/{}", message_id))

    def begin_session(self, body: BeginSessionBody) -> Session:
        """Dial a service code; returns the first screen.

        Permission: `ussd:write`.
        """
        return cast("Session", self._call("POST", "/api/ussd/sessions", body=body))

    def list_sessions(
        self,
        *,
        status: SessionStatus | None = None,
        phone_number: str | None = None,
        service_code: str | None = None,
        from_: str | None = None,
        to: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> SessionPage:
        """Return the client's sessions, newest first.

        Permission: `ussd:read`.
        """
        return cast(
            "SessionPage",
            self._call(
                "GET",
                "/api/ussd/sessions",
                query={
                    "status": status,
                    "phone_number": phone_number,
                    "service_code": service_code,
                    "from": from_,
                    "to": to,
                    "limit": limit,
                    "cursor": cursor,
                },
            ),
        )

    def iterate_sessions(
        self,
        *,
        status: SessionStatus | None = None,
        phone_number: str | None = None,
        service_code: str | None = None,
        from_: str | None = None,
        to: str | None = None,
        limit: int | None = None,
    ) -> Iterator[Session]:
        """Iterate over all pages of `list_sessions`."""
        return self._pages(
            lambda cursor: self.list_sessions(
                cursor=cursor,
                status=status,
                phone_number=phone_number,
                service_code=service_code,
                from_=from_,
                to=to,
                limit=limit,
            )
        )

    def enter_text(self, session_id: str, body: EnterTextBody) -> Session:
        """Answer a screen; the number of the last answered turn repeats its answer.

        Permission: `ussd:write`.
        """
        return cast("Session", self._call("POST", "/api/ussd/sessions/{}/input", session_id, body=body))

    def get_session(self, session_id: str) -> Session:
        """Return a session with its transcript.

        Permission: `ussd:read`.
        """
        return cast("Session", self._call("GET", "/api/ussd/sessions/{}", session_id))

    def end_session(self, session_id: str) -> Session:
        """End an active session.

        Permission: `ussd:write`.
        """
        return cast("Session", self._call("DELETE", "/api/ussd/sessions/{}", session_id))

    def list_menus(self) -> MenuSummaryItems:
        """Return the client's menus, by name.

        Permission: `menus:read`.
        """
        return cast("MenuSummaryItems", self._call("GET", "/api/ussd/menus"))

    def save_draft(
        self, menu_id: str, body: dict[str, Any] | bytes | None = None, *, content_type: str = "application/json"
    ) -> CheckReport:
        """Save the draft of a menu; returns the report of its check.

        Permission: `menus:write`.
        """
        return cast(
            "CheckReport", self._call("PUT", "/api/ussd/menus/{}", menu_id, body=body, content_type=content_type)
        )

    def get_menu(self, menu_id: str) -> MenuSummary:
        """Return a menu with its draft and its published document.

        Permission: `menus:read`.
        """
        return cast("MenuSummary", self._call("GET", "/api/ussd/menus/{}", menu_id))

    def check_menu(
        self, menu_id: str, body: dict[str, Any] | bytes | None = None, *, content_type: str = "application/json"
    ) -> CheckReport:
        """Check a menu's draft, or the document in the body, which is not saved.

        Permission: `menus:read`.
        """
        return cast(
            "CheckReport", self._call("POST", "/api/ussd/menus/{}/check", menu_id, body=body, content_type=content_type)
        )

    def publish_menu(self, menu_id: str) -> Version:
        """Publish the draft as a new version.

        Permission: `menus:write`.
        """
        return cast("Version", self._call("POST", "/api/ussd/menus/{}/publish", menu_id))

    def list_versions(self, menu_id: str) -> VersionItems:
        """Return every published version of a menu, newest first.

        Permission: `menus:read`.
        """
        return cast("VersionItems", self._call("GET", "/api/ussd/menus/{}/versions", menu_id))

    def roll_back_menu(self, menu_id: str, body: RollBackBody) -> Version:
        """Publish an earlier version again.

        Permission: `menus:write`.
        """
        return cast("Version", self._call("POST", "/api/ussd/menus/{}/rollback", menu_id, body=body))

    def get_graph(self, menu_id: str, *, version: int | None = None) -> Graph:
        """Return the nodes and edges of a menu, and its diagram; only the diagram with `Accept: image/svg+xml`.

        Permission: `menus:read`.
        """
        return cast("Graph", self._call("GET", "/api/ussd/menus/{}/graph", menu_id, query={"version": version}))

    def get_graph_svg(self, menu_id: str, *, version: int | None = None) -> Iterator[bytes]:
        """Yield the parts of the same as `image/svg+xml`, all of it."""
        return self._stream("/api/ussd/menus/{}/graph", menu_id, query={"version": version}, accept="image/svg+xml")

    def replay_menu(self, menu_id: str, body: ReplayBody | None = None) -> ReplayItemItems:
        """Replay past conversations through the draft, without paying or calling anything. Needs `ussd:read` as
        well.

        Permission: `menus:read`.
        """
        return cast("ReplayItemItems", self._call("POST", "/api/ussd/menus/{}/replay", menu_id, body=body))

    def list_codes(self) -> CodeItems:
        """Return the client's service codes and their menus.

        Permission: `menus:read`.
        """
        return cast("CodeItems", self._call("GET", "/api/ussd/codes"))

    def bind_code(self, service_code: str, body: BindCodeBody) -> Code:
        """Bind a code to a menu. The path may leave out the closing hash of the code.

        Permission: `menus:write`.
        """
        return cast("Code", self._call("PUT", "/api/ussd/codes/{}", service_code, body=body))
