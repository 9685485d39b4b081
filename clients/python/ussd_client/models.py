"""What the API takes and returns. scripts/document writes this file from the OpenAPI document."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal, TypedDict

if TYPE_CHECKING:
    from typing_extensions import NotRequired  # noqa: UP035

Amount = int | Decimal
MONEY = frozenset(
    [
        "amount",
        "available",
        "balance",
        "closing_balance",
        "credit",
        "current",
        "daily_limit",
        "daily_remaining",
        "debit",
        "fee",
        "fees",
        "given_back_amount",
        "given_back_fees",
        "max_amount",
        "min_amount",
        "opening_balance",
        "refunded_amount",
        "reserved",
        "total_amount",
        "total_fee",
    ]
)
CreateTransactionBodyType = Literal["collection", "disbursement", "transfer"]


DeliveryStatus = Literal["waiting", "delivered", "dead", "cancelled"]


Effect = Literal["credit", "debit"]


Fault = Literal["payer", "payee", "client", "provider", "service"]


HistoryEntryKind = Literal["payment", "refund", "session", "message"]


JsonObject = dict[str, Any]


MadeByKind = Literal["key", "person", "menu", "payer", "operator"]


NameMatch = Literal["same", "similar", "different", "unknown"]


Origin = Literal["client", "ussd", "payer"]


PayoutItemState = Literal["ready", "invalid", "queued", "sent", "succeeded", "failed", "cancelled"]


PayoutStatus = Literal["draft", "approved", "running", "completed", "cancelled"]


Provider = Literal["airtel", "mtn", "sandbox"]


ProviderStateStatus = Literal["available", "degraded", "unavailable", "switched_off"]


Purpose = Literal["amount", "fee", "shortfall", "amount_reserved", "fee_reserved", "amount_released", "fee_released"]


ReplayItemResult = Literal["same", "other_screen", "dead_end", "not_found"]


Retry = Literal["no", "new_attempt", "after_user_action", "wait"]


SearchHitKind = Literal["transaction", "session", "event", "key", "payout", "menu", "webhook", "person"]


SessionAction = Literal["continue", "end"]


SessionStatus = Literal["active", "completed", "timed_out", "ended_by_user", "ended_by_client", "invalidated", "failed"]


SmsProblemCode = Literal["NUMBER_NOT_REACHABLE", "NUMBER_BLOCKED", "NOT_DELIVERED", "SENDER_REFUSED", "SENDER_AWAY"]


SmsStatus = Literal["queued", "sent", "delivered", "failed", "unknown"]


Source = Literal["submit", "callback", "poll", "operator"]


TransactionStatus = Literal["created", "submitted", "pending", "ambiguous", "succeeded", "failed", "reversed"]


TransactionType = Literal["collection", "disbursement", "transfer", "refund", "deposit", "settlement", "correction"]


MenuDocument = dict[str, Any]


class Approval(TypedDict):
    by: str
    at: str
    note: str | None


class ApprovePayoutBody(TypedDict):
    round: NotRequired[int]
    total_fee: NotRequired[Amount | str]
    note: NotRequired[str | None]


class Attempt(TypedDict):
    number: int
    transaction_id: str
    status: TransactionStatus
    failure: Failure | None
    at: str


class Balance(TypedDict):
    account: str
    currency: str
    current: Amount
    available: Amount
    reserved: Amount
    as_of: str


class BeginSessionBody(TypedDict):
    phone_number: str
    service_code: str
    network: NotRequired[str]
    text: NotRequired[str]


class BindCodeBody(TypedDict):
    menu_id: str


class Bounds(TypedDict):
    enabled: bool
    min_amount: Amount
    max_amount: Amount


class CancelPayoutBody(TypedDict):
    note: NotRequired[str | None]


class ChangeDetail(TypedDict):
    attempt: NotRequired[int]
    sent: NotRequired[str]
    left_machine: NotRequired[bool]
    provider_code: NotRequired[str]
    code: NotRequired[str]
    took_ms: NotRequired[int]
    note: NotRequired[str]


class CheckReport(TypedDict):
    menu_id: str
    passes: bool
    errors: list[Finding]
    warnings: list[Finding]


class Code(TypedDict):
    service_code: str
    menu_id: str | None
    created_at: str


class CodeItems(TypedDict):
    items: list[Code]


class CreateMessageBody(TypedDict):
    phone_number: str
    text: str
    reference: str


class CreatePayoutBody(TypedDict):
    reference: str
    description: NotRequired[str | None]
    send_at: NotRequired[str | None]
    items: list[dict[str, Any]]


class CreateRefundBody(TypedDict):
    amount: NotRequired[Amount | str | None]
    reference: str
    reason: NotRequired[str | None]


class CreateTransactionBody(TypedDict):
    phone_number: str
    to_phone_number: NotRequired[str | None]
    amount: Amount | str
    type: CreateTransactionBodyType
    currency: NotRequired[Literal["UGX"]]
    reference: str
    provider: NotRequired[Provider | None]
    account: NotRequired[str]
    description: NotRequired[str | None]
    metadata: NotRequired[JsonObject | None]
    callback_url: NotRequired[str | None]


class CreateWebhookBody(TypedDict):
    url: str
    types: NotRequired[list[str] | None]


class DailyReport(TypedDict):
    date: str
    rows: list[ReportRow]
    success_rate: int | Decimal | None


class DeletedApiKey(TypedDict):
    id: str
    apikey: str
    deleted_at: str


class DeletionResult(TypedDict):
    deleted_id: str
    deleted_at: str


class Delivery(TypedDict):
    id: str
    webhook_id: str | None
    url: str
    status: DeliveryStatus
    attempts: int
    answer_status: int | None
    answer: str | None
    trouble: str | None
    took_ms: int | None
    attempted_at: str | None
    next_attempt_at: str | None
    created_at: str
    completed_at: str | None


class EnterTextBody(TypedDict):
    text: str
    turn: NotRequired[int | None]


class Event(TypedDict):
    id: str
    type: str
    object_id: str
    sequence: int
    created_at: str
    data: (
        Transaction
        | Payout
        | Session
        | PinLocked
        | DeletedApiKey
        | ExpiringApiKey
        | RefusedAddress
        | WebhookDisabled
        | WebhookRecovered
        | WebhookTest
    )
    deliveries: NotRequired[list[Delivery]]


class EventPage(TypedDict):
    items: list[Event]
    next_cursor: str | None


class ExpiringApiKey(TypedDict):
    id: str
    apikey: str
    name: str | None
    expires_at: str
    days_left: int


class Failure(TypedDict):
    code: str
    message: str
    fault: Fault
    retry: Retry


class Finding(TypedDict):
    rule: str
    message: str
    node: str | None
    language: str | None
    network: str | None
    excess: int | None
    unit: str | None
    screen: str | None
    line: int | None
    column: int | None
    suggestion: str | None


class Graph(TypedDict):
    menu_id: str
    version: int | None
    nodes: list[GraphNode]
    edges: list[GraphEdge]
    svg: str


GraphEdge = TypedDict(
    "GraphEdge",
    {
        "from": "str",
        "to": "str",
        "label": "str",
    },
)


class GraphNode(TypedDict):
    id: str
    type: str
    text: str
    rank: int | None


class History(TypedDict):
    items: list[HistoryEntry]
    next_cursor: str | None


class HistoryEntry(TypedDict):
    kind: HistoryEntryKind
    id: str
    at: str
    title: str
    sentence: str
    amount: Amount | None
    status: str
    possible_double: bool


class LedgerEntry(TypedDict):
    account: str
    amount: Amount
    purpose: Purpose


class MadeBy(TypedDict):
    kind: MadeByKind
    id: str | None
    name: str | None
    via_menu: ViaMenu | None


class MenuSummary(TypedDict):
    menu_id: str
    title: str
    published_version: int | None
    draft_saved_at: str
    codes: list[str]
    draft: NotRequired[JsonObject]
    published: NotRequired[JsonObject | None]


class MenuSummaryItems(TypedDict):
    items: list[MenuSummary]


class OwnKey(TypedDict):
    key_id: str
    name: str | None
    scopes: str | None
    expires_at: str | None
    limits: dict[str, OwnWindow]
    daily_limit: Amount | None
    daily_remaining: Amount | None


class OwnWindow(TypedDict):
    limit: int
    remaining: int
    reset: int


class PaymentCode(TypedDict):
    code: str
    description: str
    account: str
    amount: Amount | None
    min_amount: Amount | None
    max_amount: Amount | None
    expires_at: str | None
    single_use: bool
    used_at: str | None
    created_at: str
    updated_at: str


class PaymentCodePage(TypedDict):
    items: list[PaymentCode]
    next_cursor: str | None


class Payout(TypedDict):
    payout_id: str
    reference: str
    description: str | None
    status: PayoutStatus
    item_count: int
    ready_count: int
    invalid_count: int
    succeeded_count: int
    failed_count: int
    queued_count: int
    total_amount: Amount
    total_fee: Amount
    created_by: str
    approved_by: str | None
    created_at: str
    approved_at: str | None
    completed_at: str | None
    send_at: str | None
    reserved_at: str | None
    needs_money_at: str | None
    approvals: list[Approval]
    withdrawn_at: str | None
    withdrawal_reason: str | None
    cancel_note: str | None
    round: Round
    states: NotRequired[dict[str, StateSum]]


class PayoutItem(TypedDict):
    line: int
    phone_number: str | None
    amount: Amount | None
    fee: Amount | None
    reference: str | None
    description: str | None
    name: str | None
    name_match: NameMatch | None
    state: PayoutItemState
    problems: list[str]
    transaction_id: str | None
    failure: Failure | None
    registered_name: str | None
    amount_text: str | None
    warning: str | None
    metadata: dict[str, str] | None
    round: int
    attempts: list[Attempt]
    retry_at: str | None


class PayoutItemPage(TypedDict):
    items: list[PayoutItem]
    next_cursor: str | None


class PayoutPage(TypedDict):
    items: list[Payout]
    next_cursor: str | None


class PinLocked(TypedDict):
    phone_number: str
    locked_until: str


class PinReset(TypedDict):
    phone_number: str
    had_pin: bool


class ProviderList(TypedDict):
    items: list[ProviderState]


class ProviderState(TypedDict):
    provider: Provider
    name: str
    status: ProviderStateStatus
    collections: Bounds
    disbursements: Bounds
    success_rate: int | Decimal | None
    median_seconds: int | Decimal | None
    since: str | None
    message: str


class PutPaymentCodeBody(TypedDict):
    description: str
    account: NotRequired[str]
    amount: NotRequired[Amount | str | None]
    min_amount: NotRequired[Amount | str | None]
    max_amount: NotRequired[Amount | str | None]
    expires_at: NotRequired[str | None]
    single_use: NotRequired[bool]


RedeliverEventsBody = TypedDict(
    "RedeliverEventsBody",
    {
        "from": "str",
        "to": "str",
        "type": "NotRequired[str | None]",
        "only": 'NotRequired[Literal["failed"]]',
    },
)


class Redelivery(TypedDict):
    events: int


class RefusedAddress(TypedDict):
    id: str
    apikey: str
    name: str | None
    day: str
    address: str
    refused_at: str


ReplayBody = TypedDict(
    "ReplayBody",
    {
        "session_ids": "NotRequired[list[str]]",
        "from": "NotRequired[str]",
        "to": "NotRequired[str]",
    },
)


ReplayItem = TypedDict(
    "ReplayItem",
    {
        "session_id": "str",
        "result": "ReplayItemResult",
        "turn": "int | None",
        "was": "str | None",
        "is": "str | None",
    },
)


class ReplayItemItems(TypedDict):
    items: list[ReplayItem]


class ReportRow(TypedDict):
    type: str
    provider: Provider | None
    status: str
    count: int
    amount: Amount
    fees: Amount
    median_seconds: int | Decimal
    given_back_count: int
    given_back_amount: Amount
    given_back_fees: Amount


class RetryPayoutBody(TypedDict):
    rows: NotRequired[list[str] | None]
    send_at: NotRequired[str | None]


class RollBackBody(TypedDict):
    version: int
    reason: NotRequired[str]


class RotateSecretBody(TypedDict):
    grace_period_seconds: NotRequired[int]


class RotatedSecret(TypedDict):
    secret: str
    previous_secret_expires_at: str | None


class Round(TypedDict):
    number: int
    item_count: int
    total_amount: Amount
    total_fee: Amount


class SearchHit(TypedDict):
    kind: SearchHitKind
    id: str
    title: str
    sentence: str
    created_at: str


class SearchReply(TypedDict):
    items: list[SearchHit]


class Session(TypedDict):
    session_id: str
    phone_number: str
    service_code: str
    network: str | None
    status: SessionStatus
    end_reason: str | None
    action: SessionAction
    message: str
    menu_id: str
    menu_version: int
    node: str
    language: str
    turn: int
    transaction_id: str | None
    created_at: str
    last_seen_at: str
    expires_at: str
    ended_at: str | None
    transcript: NotRequired[list[Turn]]


class SessionPage(TypedDict):
    items: list[Session]
    next_cursor: str | None


class Sms(TypedDict):
    message_id: str
    reference: str
    phone_number: str
    text: str
    parts: int
    status: SmsStatus
    failure: SmsProblem | None
    transaction_id: str | None
    created_at: str
    completed_at: str | None


class SmsPage(TypedDict):
    items: list[Sms]
    next_cursor: str | None


class SmsProblem(TypedDict):
    code: SmsProblemCode
    message: str


class StateSum(TypedDict):
    count: int
    amount: Amount
    fee: Amount


class Statement(TypedDict):
    opening_balance: Amount
    closing_balance: Amount
    items: list[StatementLine]
    next_cursor: str | None


class StatementLine(TypedDict):
    at: str
    kind: str
    transaction_id: str
    reference: str
    description: str | None
    debit: Amount | None
    credit: Amount | None
    balance: Amount


class Subscriber(TypedDict):
    phone_number: str
    provider: Provider | None
    name: str | None
    is_registered: bool | None


class Transaction(TypedDict):
    transaction_id: str
    reference: str
    type: TransactionType
    phone_number: str | None
    to_phone_number: str | None
    amount: Amount
    fee: Amount
    currency: str
    account: str
    provider: Provider | None
    provider_reference: str | None
    provider_transaction_id: str | None
    status: TransactionStatus
    failure: Failure | None
    late: bool
    session_id: str | None
    description: str | None
    metadata: JsonObject | None
    created_at: str
    updated_at: str
    completed_at: str | None
    next_check_at: str | None
    refund_of: str | None
    refunded_amount: Amount
    payout_id: str | None
    origin: Origin
    same_money_as: str | None
    effect: Effect | None
    corrects: str | None
    reason: str | None
    made_by: MadeBy
    request_id: str | None
    explanation: NotRequired[str]
    events: NotRequired[list[TransactionChange]]


class TransactionChange(TypedDict):
    status: TransactionStatus
    source: Source
    detail: ChangeDetail
    ledger: list[LedgerEntry]
    created_at: str


class TransactionPage(TypedDict):
    items: list[Transaction]
    next_cursor: str | None


class Turn(TypedDict):
    turn: int
    entry: str
    screen: str
    node: str
    septets: int
    took_ms: int
    at: str


class Version(TypedDict):
    menu_id: str
    version: int
    published_at: str
    in_force: bool


class VersionItems(TypedDict):
    items: list[Version]


class ViaMenu(TypedDict):
    id: str | None
    title: str | None


class Webhook(TypedDict):
    id: str
    url: str
    types: list[str] | None
    is_active: bool
    failing_since: str | None
    disabled_at: str | None
    disabled_reason: str | None
    created_at: str
    updated_at: str
    secret: NotRequired[str]


class WebhookDisabled(TypedDict):
    webhook_id: str
    url: str
    reason: str
    disabled_at: str


class WebhookPage(TypedDict):
    items: list[Webhook]
    next_cursor: str | None


class WebhookRecovered(TypedDict):
    webhook_id: str
    url: str
    missed_since: str


class WebhookTest(TypedDict):
    webhook_id: str
