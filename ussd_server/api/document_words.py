"""The words of the API document: groups of operations, variables of paths, headers."""

from __future__ import annotations

from typing import Any

TAGS = {
    "transactions": (
        "Payments",
        "Collect money from subscribers, pay it out, refund it, follow each payment, and read balances.",
    ),
    "payment_codes": (
        "Payment codes",
        "Codes with which payers pay by themselves, as at a till.",
    ),
    "payouts": ("Payouts", "Many disbursements at once: from a file, approved by another person."),
    "statements": ("Statements and reports", "Every movement of an account, and the totals of a day."),
    "search": ("Search", "Find an object by its id, reference, receipt or phone number."),
    "own_key": ("The calling key", "What the key of a call may do, and what is left of its limits."),
    "providers": ("Providers and subscribers", "The state of each provider, and the names of subscribers."),
    "webhooks": ("Webhooks and events", "Events, and the addresses that receive them."),
    "messages": ("Messages", "Texts to phones (SMS), and whether they were delivered."),
    "ussd": ("USSD sessions", "Conversations with phones, for a client that talks to a gateway itself."),
    "menus": ("USSD menus", "Drafts, checks, published versions and service codes."),
    "logins": ("Signing in", "Logins of users, for the management endpoints."),
    "client_payouts": ("Payouts, for users", "The payouts of a client, for the users who make and approve them."),
    "clients": ("API keys", "API keys, service identifier and audit events of a client, for users."),
    "client_settings": ("Settings", "What a client sets for itself, by its users: texts of receipts."),
    "gateways": ("Gateways", "The paths to which USSD gateways send steps."),
    "callbacks": ("Provider callbacks", "The paths to which providers send callbacks."),
    "ops": ("Health and metrics", "For the operator."),
    "openapi": ("This description", "The OpenAPI document and its page."),
}
"""The groups of operations in the order of their use: blueprint, title, description."""

VARIABLES = {
    "adapter": "The gateway's format.",
    "api_key_id": "The `id` of an API key.",
    "callback_secret": "The secret part of the path; it is the credential.",
    "channel_secret": "The secret part of the path; it is the credential.",
    "code": "The payment code, without regard to case, spaces and hyphens.",
    "event_id": "The `id` of an event.",
    "menu_id": "The menu, by the `id` in its document.",
    "message_id": "The message.",
    "payout_id": "The payout that it belongs to; null for none.",
    "phone_number": "The subscriber: `+256` and nine digits.",
    "provider": "The name of the provider.",
    "request_id": "The `X-Request-Id` of a call.",
    "secret": "The secret part of the path; it is the credential.",
    "service_code": "What the phone dials, such as `*165#`.",
    "session_id": "The USSD session.",
    "transaction_id": "The transaction.",
    "webhook_id": "The `id` of a webhook.",
}
"""The variables of paths, and what each names."""

HEADERS: dict[str, tuple[str, dict[str, Any]]] = {
    "X-Request-Id": ("The caller's own request id, or a new one", {"type": "string"}),
    "Location": ("The path of the new object", {"type": "string"}),
    "Retry-After": ("Whole seconds after which a call is accepted", {"type": "integer"}),
    "Idempotent-Replayed": ("`true`: this was recorded before, and nothing was done now", {"type": "string"}),
    "RateLimit-Policy": ("Both windows of the limit", {"type": "string"}),
    "RateLimit": ("The remaining calls of both windows", {"type": "string"}),
    "X-RateLimit-Limit": ("Calls that the tighter window allows", {"type": "integer"}),
    "X-RateLimit-Remaining": ("Remaining calls of the tighter window", {"type": "integer"}),
    "X-RateLimit-Reset": ("Seconds until the tighter window is whole again", {"type": "integer"}),
}
"""The headers of replies: what each means, and its schema."""
