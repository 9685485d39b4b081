"""Rules against edits at the database prompt: what never changes is refused, what may change has a signature."""

from ussd_server.database.fixed_columns import refuse, with_lists
from ussd_server.database.schema import execute_statements
from ussd_server.database.unit_of_work import is_postgres

# What only the service changes has a row here: an HMAC of its columns under a master key.
_TABLE = """
CREATE TABLE row_signatures (
    id text PRIMARY KEY,
    digest text NOT NULL
); -- by key
"""

# These rows are never removed, and what is marked in these tables never changes.
_KEPT = ("audit_events", "closed_days", "row_signatures")
_MARKED = ("api_keys", "audit_events", "bank_accounts", "payment_code_prefixes", "payment_codes")
# Changes that the service never makes; `{differs}` compares with null as a value.
_REFUSED = {
    "transactions_fixed": (
        "transactions",
        "(NEW.callback_url, NEW.description, NEW.metadata) {differs} (OLD.callback_url, OLD.description, OLD.metadata)",
    ),
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
        refuse(db, f"{table}_keep", "DELETE", table)
        if is_postgres():
            db.execute_sql(
                f"CREATE TRIGGER {table}_keep_all BEFORE TRUNCATE ON {table} EXECUTE FUNCTION refuse_change()"
            )
    for table in _MARKED:
        differs = with_lists(f"(fixed(NEW, {table})) {{differs}} (fixed(OLD, {table}))")
        refuse(db, f"{table}_fixed", "UPDATE", table, differs)
    for name, (table, condition) in _REFUSED.items():
        refuse(db, name, "UPDATE", table, condition)
    if not is_postgres():
        for table, same in _UNREPLACED.items():
            refuse(db, f"{table}_unreplaced", "INSERT", table, f"EXISTS (SELECT 1 FROM {table} WHERE {same})")
