"""What the gate of money on its way out has to know: who set a key's bounds, who pays, and who published a menu.

Keys: `transactions:write` no longer sends money. It gains `transactions:send` where the person behind the key may give
that now, or an operator made the key; of others, null and `transactions:*` become what a developer may give.
"""

from ussd_server.database.schema import execute_statements
from ussd_server.database.unit_of_work import is_postgres

_COLUMNS = """
ALTER TABLE api_keys ADD COLUMN bounds_set_by text;

ALTER TABLE transactions ADD COLUMN user_id uuid; -- fixed by transactions_sender

ALTER TABLE transactions ADD COLUMN menu_id uuid; -- fixed by transactions_sender

ALTER TABLE transactions ADD COLUMN menu_version integer; -- fixed by transactions_sender

ALTER TABLE payouts ADD COLUMN key_limit_cents bigint;

ALTER TABLE menu_versions ADD COLUMN key_id uuid;

ALTER TABLE menu_versions ADD COLUMN user_id uuid;
"""

# The person behind a key made it, or rotated it last; a key of the operator's has none.
_BEHIND = """coalesce((
    SELECT user_id FROM audit_events AS rotated
    WHERE rotated.client_id = api_keys.client_id AND rotated.action = 'api_key.rotated'
        AND rotated.object_id = CAST(api_keys.id AS text)
    ORDER BY rotated.id DESC LIMIT 1), created_by)"""
_MAY_SEND = f"""({_BEHIND} IS NULL OR EXISTS (
    SELECT 1 FROM users WHERE users.id = {_BEHIND} AND users.is_active AND users.role IN ('owner', 'admin')))"""
# What a developer may give, in the form in which a new key stores it.
_WITHOUT_SENDING = (
    "ussd:* menus:* transactions:read transactions:write balance:* collection:* webhooks:* payouts:read payouts:write "
    "statements:* messages:*"
)
# Every process reads its cached keys anew, also those that still run the version before.
_KEYS = f"""
UPDATE api_keys SET scopes = replace(' ' || scopes || ' ', ' transactions:write ',
        ' transactions:write transactions:send ')
    WHERE ' ' || scopes || ' ' LIKE '% transactions:write %' AND {_MAY_SEND};

UPDATE api_keys SET scopes = replace(' ' || scopes || ' ', ' transactions:* ', ' transactions:read transactions:write ')
    WHERE ' ' || scopes || ' ' LIKE '% transactions:* %' AND NOT {_MAY_SEND};

UPDATE api_keys SET scopes = '{_WITHOUT_SENDING}' WHERE scopes IS NULL AND NOT {_MAY_SEND};

UPDATE api_keys SET scopes = trim(scopes) WHERE scopes LIKE ' %';

UPDATE unseen_changes SET number = number + 1 WHERE EXISTS (SELECT 1 FROM api_keys);
"""

_POSTGRES = """
CREATE OR REPLACE FUNCTION keys_spend(spending jsonb) RETURNS void LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
BEGIN
    INSERT INTO key_spending AS kept (key_id, day, spent_cents)
        SELECT key_id, day, sum(cents)
        FROM jsonb_to_recordset(spending) AS paid (key_id uuid, day text, cents bigint)
        GROUP BY key_id, day ORDER BY key_id, day
        ON CONFLICT (key_id, day) DO UPDATE SET spent_cents = kept.spent_cents + excluded.spent_cents;
    IF EXISTS (
        SELECT 1 FROM jsonb_to_recordset(spending) AS paid (key_id uuid, day text, limit_cents bigint)
        WHERE (SELECT spent_cents FROM key_spending AS kept WHERE kept.key_id = paid.key_id AND kept.day = paid.day)
            > least(limit_cents, (SELECT daily_limit_cents FROM api_keys WHERE id = paid.key_id))
    ) THEN
        RAISE EXCEPTION 'daily_limit_reached' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
END $$;

CREATE FUNCTION guard_sender() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'who sends a payment is never edited' USING ERRCODE = 'integrity_constraint_violation';
END $$;

CREATE TRIGGER transactions_sender BEFORE UPDATE OF user_id, menu_id, menu_version ON transactions
    FOR EACH ROW WHEN (
        (NEW.user_id, NEW.menu_id, NEW.menu_version) IS DISTINCT FROM (OLD.user_id, OLD.menu_id, OLD.menu_version))
    EXECUTE FUNCTION guard_sender();

CREATE TRIGGER payouts_key_limit BEFORE UPDATE OF key_limit_cents ON payouts
    FOR EACH ROW WHEN (
        OLD.approved_at IS NOT NULL AND NEW.approved_at IS NOT NULL
        AND NEW.key_limit_cents IS DISTINCT FROM OLD.key_limit_cents)
    EXECUTE FUNCTION guard_sender();
"""

_SQLITE = """
CREATE TRIGGER transactions_sender BEFORE UPDATE OF user_id, menu_id, menu_version ON transactions
WHEN (NEW.user_id, NEW.menu_id, NEW.menu_version) IS NOT (OLD.user_id, OLD.menu_id, OLD.menu_version)
BEGIN SELECT RAISE(ABORT, 'who sends a payment is never edited'); END;

CREATE TRIGGER payouts_key_limit BEFORE UPDATE OF key_limit_cents ON payouts
WHEN OLD.approved_at IS NOT NULL AND NEW.approved_at IS NOT NULL AND NEW.key_limit_cents IS NOT OLD.key_limit_cents
BEGIN SELECT RAISE(ABORT, 'who sends a payment is never edited'); END;
"""


def up(migrator, db):
    execute_statements(db, _COLUMNS)
    execute_statements(db, _KEYS)
    execute_statements(db, _POSTGRES if is_postgres() else _SQLITE)
