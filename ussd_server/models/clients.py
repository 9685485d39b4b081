"""Client companies, the people who sign in for them, their logins and what they did."""

from __future__ import annotations

from peewee import BooleanField, IntegerField, TextField

from ussd_server.database.columns import IdField, MomentField, PeopleField, Table


class Client(Table):
    """A company that calls the API. Every call of an inactive client is refused."""

    id = IdField(primary_key=True)
    name = TextField()
    is_active = BooleanField()
    created_at = MomentField()
    updated_at = MomentField()

    class Meta:
        table_name = "clients"


class User(Table):
    """A person of a client. `role` is owner, admin, developer or viewer; `password_hash` is argon2id.

    `link_seen_by` and `password_seen_by` are ids of the people who could have opened the present password link, and the
    link that set the present password; null for a link by mail and for a password that an operator set.
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

    class Meta:
        table_name = "users"


class Login(Table):
    """One login of one person. Ending the row ends every token that was issued for it, at once.

    `refresh_number` counts the refreshes: the only refresh token that works carries this number.
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

    class Meta:
        table_name = "logins"


class AuditEvent(Table):
    """Who did what to which object, and when. Examples of `action`: `api_key.deleted`, `login.succeeded`.

    `client_id` is empty for a login that failed under an e-mail address that nobody has. `operator` is the e-mail
    address of an operator who signed in, `reason` what that operator gave as a reason.
    """

    id = IdField(primary_key=True)
    client_id = IdField(null=True)
    user_id = IdField(null=True)
    actor = TextField()
    action = TextField()
    object_id = TextField(null=True)
    address = TextField()
    request_id = TextField()
    created_at = MomentField()
    operator = TextField(null=True)
    reason = TextField(null=True)

    class Meta:
        table_name = "audit_events"
