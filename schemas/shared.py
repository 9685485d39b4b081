"""Schemas that several parts of the API have in common."""

from __future__ import annotations

from schemas.fields import Body, PhoneNumber, Text, Timestamp, Whole

PAGE_CURSOR = Text(longest=512, metadata={"description": "The `next_cursor` of the page before."})
PAGE_LIMIT = Whole(lowest=1, highest=100, metadata={"description": "The most entries of a page. Default: 50."})
PERIOD_BEGIN = Timestamp(data_key="from", metadata={"description": "The first moment of the period, inclusive."})
PERIOD_END = Timestamp(data_key="to", metadata={"description": "The end of the period, exclusive."})
SUBSCRIBER = PhoneNumber(metadata={"description": "The subscriber: `+256` and nine digits."})
REQUIRED_SUBSCRIBER = PhoneNumber(required=True, metadata=SUBSCRIBER.metadata)
ACCOUNT_PATTERN = r"main|\+256[0-9]{9}"
REFERENCE = {"description": "The client's own reference, unique for ever. Repeating a request with it is safe."}
"""The metadata of the reference of a transaction or a payout."""


class RotateSecretBody(Body):
    """How long the present secret stays valid after the new one is made."""

    grace_period_seconds = Whole(
        lowest=0,
        highest=604_800,
        load_default=86_400,
        metadata={
            "description": "How long the old secret stays valid beside the new one, in seconds. Default: one day."
        },
    )
