"""What statements cover, their lines by day, and the proofs of closed days."""

from ussd_server.database.schema import execute_statements


def up(migrator, db):
    execute_statements(db, _TABLES)
    execute_statements(db, _RULES)


_TABLES = """
CREATE TABLE statement_coverages (
    id uuid PRIMARY KEY,
    statement_id uuid NOT NULL REFERENCES provider_statements (id),
    provider text NOT NULL,
    kind text NOT NULL CHECK (kind IN ('balance', 'lines', 'stated')),
    first_at timestamptz NOT NULL,
    last_at timestamptz NOT NULL,
    opening_cents bigint,
    closing_cents bigint,
    stated_by text,
    CHECK ((kind = 'balance') = (opening_cents IS NOT NULL AND closing_cents IS NOT NULL)),
    CHECK ((kind = 'stated') = (stated_by IS NOT NULL)),
    CHECK (first_at <= last_at)
);
CREATE INDEX statement_coverages_by_end ON statement_coverages (provider, last_at);
CREATE INDEX statement_coverages_of_statement ON statement_coverages (statement_id);

CREATE TABLE statement_days (
    id uuid PRIMARY KEY,
    statement_id uuid NOT NULL REFERENCES provider_statements (id),
    day text NOT NULL,
    line_count integer NOT NULL CHECK (line_count > 0),
    lines bytea NOT NULL
);
CREATE INDEX statement_days_of_statement ON statement_days (statement_id, day);
CREATE INDEX statement_days_of_day ON statement_days (day);

CREATE TABLE day_proofs (
    id uuid PRIMARY KEY,
    provider text NOT NULL,
    day text NOT NULL,
    statements text NOT NULL,
    first_at timestamptz,
    last_at timestamptz,
    content text NOT NULL,
    digest text NOT NULL,
    UNIQUE (provider, day),
    FOREIGN KEY (provider, day) REFERENCES closed_days (provider, day),
    CHECK ((first_at IS NULL) = (last_at IS NULL))
);

ALTER TABLE closed_days ADD COLUMN confirmed_by text;

ALTER TABLE differences_in_statements ADD COLUMN at timestamptz;
"""
# A closed day, what it was computed from, and the lines of its statements stay as they are. Only the digest of a proof
# may change, when a master key is rotated.
_RULES = """
CREATE FUNCTION keep_proven_lines() RETURNS trigger LANGUAGE plpgsql AS $$ -- PostgreSQL
BEGIN -- PostgreSQL
    IF EXISTS (SELECT 1 FROM day_proofs WHERE day = OLD.day -- PostgreSQL
        AND statements LIKE '%' || OLD.statement_id || '%') THEN -- PostgreSQL
        RAISE EXCEPTION 'rows of % are never removed once their day is closed', TG_TABLE_NAME -- PostgreSQL
            USING ERRCODE = 'integrity_constraint_violation'; -- PostgreSQL
    END IF; -- PostgreSQL
    RETURN OLD; -- PostgreSQL
END $$; -- PostgreSQL

CREATE TRIGGER closed_days_unedited BEFORE UPDATE ON closed_days -- PostgreSQL
    FOR EACH ROW EXECUTE FUNCTION refuse_change(); -- PostgreSQL

CREATE TRIGGER day_proofs_unedited BEFORE UPDATE ON day_proofs FOR EACH ROW WHEN ( -- PostgreSQL
    (NEW.id, NEW.provider, NEW.day, NEW.statements, NEW.first_at, NEW.last_at, NEW.content) -- PostgreSQL
    IS DISTINCT FROM -- PostgreSQL
    (OLD.id, OLD.provider, OLD.day, OLD.statements, OLD.first_at, OLD.last_at, OLD.content)) -- PostgreSQL
    EXECUTE FUNCTION refuse_change(); -- PostgreSQL

CREATE TRIGGER day_proofs_keep BEFORE DELETE ON day_proofs -- PostgreSQL
    FOR EACH ROW EXECUTE FUNCTION refuse_change(); -- PostgreSQL

CREATE TRIGGER day_proofs_keep_all BEFORE TRUNCATE ON day_proofs EXECUTE FUNCTION refuse_change(); -- PostgreSQL

CREATE TRIGGER statement_days_unedited BEFORE UPDATE ON statement_days -- PostgreSQL
    FOR EACH ROW EXECUTE FUNCTION refuse_change(); -- PostgreSQL

CREATE TRIGGER statement_days_keep BEFORE DELETE ON statement_days -- PostgreSQL
    FOR EACH ROW EXECUTE FUNCTION keep_proven_lines(); -- PostgreSQL

CREATE TRIGGER statement_days_keep_all BEFORE TRUNCATE ON statement_days -- PostgreSQL
    EXECUTE FUNCTION refuse_change(); -- PostgreSQL

CREATE TRIGGER closed_days_unedited BEFORE UPDATE ON closed_days -- SQLite
BEGIN SELECT RAISE(ABORT, 'rows of closed_days are never changed'); END; -- SQLite

CREATE TRIGGER day_proofs_unedited BEFORE UPDATE ON day_proofs -- SQLite
WHEN (NEW.id, NEW.provider, NEW.day, NEW.statements, NEW.first_at, NEW.last_at, NEW.content) IS NOT -- SQLite
    (OLD.id, OLD.provider, OLD.day, OLD.statements, OLD.first_at, OLD.last_at, OLD.content) -- SQLite
BEGIN SELECT RAISE(ABORT, 'rows of day_proofs are never changed'); END; -- SQLite

CREATE TRIGGER day_proofs_keep BEFORE DELETE ON day_proofs -- SQLite
BEGIN SELECT RAISE(ABORT, 'rows of day_proofs are never removed'); END; -- SQLite

CREATE TRIGGER day_proofs_unreplaced BEFORE INSERT ON day_proofs -- SQLite
WHEN EXISTS (SELECT 1 FROM day_proofs WHERE id = NEW.id OR (provider = NEW.provider AND day = NEW.day)) -- SQLite
BEGIN SELECT RAISE(ABORT, 'rows of day_proofs are never replaced'); END; -- SQLite

CREATE TRIGGER statement_days_unedited BEFORE UPDATE ON statement_days -- SQLite
BEGIN SELECT RAISE(ABORT, 'rows of statement_days are never changed'); END; -- SQLite

CREATE TRIGGER statement_days_keep BEFORE DELETE ON statement_days -- SQLite
WHEN EXISTS ( -- SQLite
    SELECT 1 FROM day_proofs WHERE day = OLD.day AND statements LIKE '%' || OLD.statement_id || '%') -- SQLite
BEGIN SELECT RAISE(ABORT, 'rows of statement_days are never removed once their day is closed'); END; -- SQLite

CREATE TRIGGER statement_days_unreplaced BEFORE INSERT ON statement_days -- SQLite
WHEN EXISTS (SELECT 1 FROM statement_days WHERE id = NEW.id) -- SQLite
BEGIN SELECT RAISE(ABORT, 'rows of statement_days are never replaced'); END; -- SQLite
"""
