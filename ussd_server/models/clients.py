"""Client companies, the people who sign in for them, their logins and what they did."""

from __future__ import annotations

from peewee import BigIntegerField, BlobField, BooleanField, CompositeKey, IntegerField, TextField

from ussd_server.database.tables import CentsField, IdField, MomentField, PeopleField, Table, fixed


class Client(Table):
    """A company that calls the API. Every call of an inactive client is refused.

    `requires_second_factor`: its people do nothing before they have one. `counts_readers`: people who
    read the secret of a key count as people behind it.
    """

    id = IdField(primary_key=True)
    name = TextField()
    is_active = BooleanField()
    requires_second_factor = BooleanField(default=False)
    counts_readers = BooleanField(default=True)
    created_at = MomentField()
    updated_at = MomentField()


def is_client_active(client_id: str) -> bool:
    return bool(Client.select(Client.id).where(Client.id == client_id, Client.is_active).exists())


class User(Table):
    """A person of a client. `role` is owner, admin, developer or viewer; `password_hash` is argon2id.

    `link_seen_by` and `password_seen_by` are ids of the people who could have opened the present password link, and the
    link that set the present password; null where there was none, and for a password that an operator set. `invited_by`
    are the people who gave this person their role, as whom the person counts until another one has confirmed them; null
    once confirmed, and for a person whom an operator made. The person chose `language` for pages and mails.
    """

    id = IdField(primary_key=True)
    client_id = IdField()
    email = TextField(unique=True)
    password_hash = TextField()
    role = TextField()
    is_active = BooleanField()
    created_at = MomentField()
    updated_at = MomentField()
    link_seen_by = PeopleField(null=True)
    password_seen_by = PeopleField(null=True)
    invited_by = PeopleField(null=True)
    language = TextField(null=True)


class UserFactor(Table):
    """The second factor of a person; a person without one has no row.

    `factor_sealed` is the encrypted secret; `last_step` the number of the last 30 seconds whose code was accepted,
    because a code is accepted once.
    """

    id = IdField(primary_key=True, column_name="user_id")
    factor_sealed = BlobField()
    last_step = BigIntegerField()
    created_at = MomentField()


class UserRecoveryCode(Table):
    """A code that replaces a second factor once. `code_digest` is a SHA-256 of the person's id and the code."""

    owner_id = IdField(column_name="user_id")
    code_digest = TextField()
    used_at = MomentField(null=True)

    class Meta:
        primary_key = CompositeKey("owner_id", "code_digest")


class Login(Table):
    """One login of one person. Ending the row ends every token that was issued for it, at once.

    `refresh_number` counts the refreshes: the only refresh token that works carries this number. `code_accepted_at` is
    when the person last gave a code of the second factor.
    """

    id = IdField(primary_key=True)
    user_id = IdField()
    client_id = IdField()
    address = TextField()
    refresh_number = IntegerField()
    created_at = MomentField()
    expires_at = MomentField()
    ended_at = MomentField(null=True)
    end_reason = TextField(null=True)
    code_accepted_at = MomentField(null=True)


class AuditEvent(Table):
    """Who did what to which object, and when. Examples of `action`: `api_key.deleted`, `login.succeeded`.

    `client_id` is empty for a login that failed under an unknown e-mail address. `key_id` is the API key that
    called. `operator` is the e-mail address of an operator who signed in, `reason` what the person gave as a reason.
    `amount_cents` and `phone_number` are those of a payment, `decided_by` the names of the two operators who decided.
    """

    id = fixed(IdField(primary_key=True))
    client_id = fixed(IdField(null=True))
    user_id = fixed(IdField(null=True))
    actor = fixed(TextField())
    action = fixed(TextField())
    object_id = fixed(TextField(null=True))
    address = fixed(TextField())
    request_id = fixed(TextField())
    created_at = fixed(MomentField())
    operator = fixed(TextField(null=True))
    reason = fixed(TextField(null=True))
    key_id = fixed(IdField(null=True))
    amount_cents = fixed(CentsField(null=True))
    phone_number = fixed(TextField(null=True))
    decided_by = fixed(TextField(null=True))
