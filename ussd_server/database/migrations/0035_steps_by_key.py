"""Steps and dials find their sessions by key, also on a connection whose plans were made beside a small table."""

from ussd_server.database.schema import build_index, drop_index, execute_all
from ussd_server.database.unit_of_work import is_postgres

# PostgreSQL builds an index beside writers outside of every transaction only.
atomic = not is_postgres()

# As 0013 made it. A connection keeps a plan until the statistics of its tables change, and in a small table every index
# looks alike: only the key may select a row. The status stands inside the CASE, because an index of active sessions
# would be read for it. `enable_seqscan` keeps a table of one page from being read whole.
_STEP = """
CREATE OR REPLACE FUNCTION ussd_step(steps jsonb) RETURNS SETOF bigint LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
    step record;
    next ussd_sessions;
BEGIN
    FOR step IN
        SELECT value, place, value ->> 'proof' AS proof
        FROM jsonb_array_elements(steps) WITH ORDINALITY AS brought (value, place)
        ORDER BY value ->> 'id', place
    LOOP
        next := jsonb_populate_record(NULL::ussd_sessions, step.value);
        IF step.proof = 'new' THEN
            INSERT INTO ussd_sessions SELECT next.* ON CONFLICT DO NOTHING;
        ELSE
            UPDATE ussd_sessions AS kept SET
                turns = next.turns, turn = next.turn, state = next.state, node = next.node, language = next.language,
                message = next.message, transaction_id = next.transaction_id, last_seen_at = next.last_seen_at,
                expires_at = next.expires_at, status = next.status, end_reason = next.end_reason,
                ended_at = next.ended_at, action = next.action, working_token = next.working_token,
                working_until = next.working_until
            WHERE kept.id = next.id
                AND CASE
                    WHEN kept.status <> 'active' THEN false
                    WHEN step.proof = 'claimed' THEN kept.working_token = step.value ->> 'my_token'
                    ELSE kept.turn = (step.value ->> 'turn_read')::integer
                        AND (kept.working_until IS NULL OR kept.working_until <= next.last_seen_at)
                    END
                AND (step.proof <> 'remembered' OR
                    EXISTS (SELECT 1 FROM channels WHERE channels.id = next.channel_id AND channels.is_active)
                    AND EXISTS (SELECT 1 FROM clients WHERE clients.id = next.client_id AND clients.is_active));
        END IF;
        CONTINUE WHEN NOT FOUND;
        RETURN NEXT step.place;
        IF step.value ? 'event' THEN
            INSERT INTO events (id, client_id, type, object_id, sequence, payload, created_at, is_pending)
            SELECT told.id, told.client_id, told.type, told.object_id,
                (SELECT coalesce(max(events.sequence), 0) + 1 FROM events WHERE events.object_id = told.object_id),
                told.payload, told.created_at, told.is_pending
            FROM jsonb_populate_record(NULL::events, step.value -> 'event') AS told;
        END IF;
        IF step.value ? 'language_chosen' THEN
            INSERT INTO subscriber_languages (client_id, phone_number, language)
            VALUES (next.client_id, next.phone_number, step.value ->> 'language_chosen')
            ON CONFLICT (client_id, phone_number) DO UPDATE SET language = excluded.language;
        END IF;
    END LOOP;
END $$
"""


def up(migrator, db):
    if is_postgres():
        execute_all(db, _STEP)
    # A dial knows the client and no status: an index that begins with the client would be read for it by mistake.
    build_index(db, "ussd_sessions_by_status", "ussd_sessions (status, client_id, id)")
    drop_index(db, "ussd_sessions_of_status")
