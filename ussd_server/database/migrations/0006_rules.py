"""Rules against edits at the database prompt: what never changes is refused, what may change has a signature."""

from ussd_server.database.schema import execute_statements
from ussd_server.database.unit_of_work import is_postgres

# What only the service changes has a row here: an HMAC of its columns under a master key.
_TABLE = """
CREATE TABLE row_signatures (
    id text PRIMARY KEY,
    digest text NOT NULL
); -- by key
"""

# These rows are never removed, and these columns never change.
_KEPT = ("audit_events", "closed_days", "row_signatures")
_FIXED = {
    "api_keys": ("id", "client_id", "apikey", "created_by"),
    "audit_events": (
        "id", "client_id", "user_id", "actor", "action", "object_id", "address", "request_id", "created_at", "operator",
        "reason", "key_id", "amount_cents", "phone_number", "decided_by",
    ),
    "bank_accounts": ("client_id",),
    "payment_code_prefixes": ("client_id", "prefix"),
    "payment_codes": ("id", "client_id", "code", "created_at"),
    "transactions": ("callback_url", "description", "metadata"),
}  # fmt: skip
# Changes that the service never makes; `{differs}` compares with null as a value.
_REFUSED = {
    "bank_accounts_confirmed": (
        "bank_accounts",
        "OLD.confirmed_at IS NOT NULL AND NEW.confirmed_at IS NOT NULL "
        "AND (NEW.bank, NEW.number, NEW.name, NEW.confirmed_by) {differs} "
        "(OLD.bank, OLD.number, OLD.name, OLD.confirmed_by)",
    ),
    "incoming_payments_decided": (
        "incoming_payments",
        "OLD.status <> 'held' AND (NEW.decided_by, NEW.reason) {differs} (OLD.decided_by, OLD.reason)",
    ),
    "payment_codes_used": ("payment_codes", "OLD.used_at IS NOT NULL AND NEW.used_at {differs} OLD.used_at"),
    "transactions_rest": (
        "transactions",
        "NEW.due_at IS NOT NULL AND ((NEW.status IN ('succeeded', 'reversed') AND NEW.status = OLD.status) "
        "OR (NEW.type = 'settlement' AND NEW.due_at <> '9999-01-01T00:00:00.000Z'))",
    ),
    "users_password_seen_by": (
        "users",
        "NEW.password_seen_by {differs} OLD.password_seen_by AND NEW.password_hash = OLD.password_hash",
    ),
}
# SQLite's REPLACE removes a row without calling triggers for deletions.
_UNREPLACED = {"audit_events": "id = NEW.id", "closed_days": "provider = NEW.provider AND day = NEW.day"}


def up(migrator, db):
    execute_statements(db, _TABLE)
    for table in _KEPT:
        _refuse(db, f"{table}_keep", "DELETE", table)
        if is_postgres():
            db.execute_sql(
                f"CREATE TRIGGER {table}_keep_all BEFORE TRUNCATE ON {table} EXECUTE FUNCTION refuse_change()"
            )
    for table, columns in _FIXED.items():
        new, old = (", ".join(f"{row}.{column}" for column in columns) for row in ("NEW", "OLD"))
        _refuse(db, f"{table}_fixed", "UPDATE", table, f"({new}) {{differs}} ({old})")
    for name, (table, condition) in _REFUSED.items():
        _refuse(db, name, "UPDATE", table, condition)
    if not is_postgres():
        for table, same in _UNREPLACED.items():
            _refuse(db, f"{table}_unreplaced", "INSERT", table, f"EXISTS (SELECT 1 FROM {table} WHERE {same})")


def _refuse(db, name, event, table, condition=""):
    """Create a trigger that refuses a change; without a condition, every one."""
    condition = condition.format(differs="IS DISTINCT FROM" if is_postgres() else "IS NOT")
    if is_postgres():
        when = f"WHEN ({condition}) " if condition else ""
        action = f"FOR EACH ROW {when}EXECUTE FUNCTION refuse_change()"
    else:
        when = f"WHEN {condition} " if condition else ""
        action = f"{when}BEGIN SELECT RAISE(ABORT, 'rows of {table} are never changed or removed'); END"
    db.execute_sql(f"CREATE TRIGGER {name} BEFORE {event} ON {table} {action}")
