"""The people behind keys, payouts and passwords: nobody approves a payout of their own.

Keys and passwords of before get theirs from the audit trail, as far as it reaches.
"""

from ussd_server.database.schema import execute_all
from ussd_server.database.unit_of_work import is_postgres

# The newest event of a key is about its present secret, the one before about its previous secret.
_PEOPLE_OF_KEYS = """
        UPDATE api_keys SET {column} = CAST(made.user_id AS text)
        FROM (SELECT object_id, user_id, row_number() OVER (PARTITION BY object_id ORDER BY id DESC) AS place
            FROM audit_events WHERE action IN ('api_key.created', 'api_key.rotated')) AS made
        WHERE made.object_id = CAST(api_keys.id AS text) AND made.place = {place}"""


def up(migrator, db):
    unless_there = "IF NOT EXISTS" if is_postgres() else ""
    execute_all(
        db,
        f"""
        ALTER TABLE users ADD COLUMN {unless_there} link_seen_by text;;
        ALTER TABLE users ADD COLUMN {unless_there} password_seen_by text;;
        ALTER TABLE api_keys ADD COLUMN {unless_there} people text;;
        ALTER TABLE api_keys ADD COLUMN {unless_there} previous_people text;;
        ALTER TABLE payouts ADD COLUMN {unless_there} people text;;
        {_PEOPLE_OF_KEYS.format(column="people", place=1)};;
        {_PEOPLE_OF_KEYS.format(column="previous_people", place=2)};;
        UPDATE users SET password_seen_by = CAST(chosen.shown_to AS text)
        FROM (SELECT object_id, action, row_number() OVER (PARTITION BY object_id ORDER BY id DESC) AS place,
                (SELECT shown.user_id FROM audit_events AS shown
                    WHERE shown.client_id = passwords.client_id AND shown.object_id = passwords.object_id
                        AND shown.action IN ('user.invited', 'user.link_made') AND shown.id < passwords.id
                    ORDER BY shown.id DESC LIMIT 1) AS shown_to
            FROM audit_events AS passwords
            WHERE action IN ('user.created', 'user.password_chosen', 'user.password_changed')) AS chosen
        WHERE chosen.object_id = CAST(users.id AS text) AND chosen.place = 1 AND chosen.action = 'user.password_chosen'
        """,
    )
