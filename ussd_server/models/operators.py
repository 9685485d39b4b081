"""Operators, their second factors and logins, and decisions that take two of them."""

from __future__ import annotations

from peewee import BigIntegerField, BlobField, BooleanField, CompositeKey, TextField

from ussd_server.database.tables import IdField, MomentField, Table


class Operator(Table):
    """A person who runs the server and signs in to the console.

    `factor_sealed` is the encrypted secret of the second factor; `last_step` the number of the last 30 seconds whose
    code was accepted, because a code is accepted once. `language` is the one that the operator chose.
    """

    id = IdField(primary_key=True)
    email = TextField(unique=True)
    password_hash = TextField()
    factor_sealed = BlobField()
    last_step = BigIntegerField()
    is_active = BooleanField()
    created_at = MomentField()
    updated_at = MomentField()
    language = TextField(null=True)


class RecoveryCode(Table):
    """A code that replaces the second factor once. `code_digest` is a SHA-256 of the operator's id and the code."""

    owner_id = IdField(column_name="operator_id")
    code_digest = TextField()
    used_at = MomentField(null=True)

    class Meta:
        primary_key = CompositeKey("owner_id", "code_digest")


class OperatorLogin(Table):
    """One login of one operator. Ending the row ends it at once."""

    id = IdField(primary_key=True)
    operator_id = IdField()
    address = TextField()
    created_at = MomentField()
    expires_at = MomentField()
    ended_at = MomentField(null=True)
    end_reason = TextField(null=True)


class Proposal(Table):
    """What one operator proposed and another decides. `parameters` is JSON; `outcome` is confirmed or withdrawn."""

    id = IdField(primary_key=True)
    action = TextField()
    object_id = TextField()
    parameters = TextField()
    reason = TextField()
    proposed_by = TextField()
    created_at = MomentField()
    expires_at = MomentField()
    decided_by = TextField(null=True)
    decided_at = MomentField(null=True)
    outcome = TextField(null=True)
