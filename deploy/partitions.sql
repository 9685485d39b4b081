-- Partitions the two largest tables, `events` and `transaction_events`, by months: psql -f partitions.sql
--
-- Existing rows stay one partition until the first of next month; from then on every month has its own. Ids begin with
-- their time, so a range of ids is a range of time. Run it once, in a quiet hour, as the service's own user, who then owns
-- the new tables; the worker adds further months. Services need no restart.
-- Given up: the database no longer refuses equal numbers of two events of one object in different months.

CREATE FUNCTION id_floor(moment timestamptz) RETURNS uuid LANGUAGE sql IMMUTABLE AS $$
    SELECT (substr(digits, 1, 8) || '-' || substr(digits, 9) || '-7000-8000-000000000000')::uuid
    FROM lpad(to_hex((extract(epoch FROM moment) * 1000)::bigint), 12, '0') AS digits
$$;

CREATE PROCEDURE add_partitions(big text, until date) LANGUAGE plpgsql AS $$
DECLARE
    begin_at timestamptz := date_trunc('month', now(), 'UTC') + interval '1 month';
    name text;
BEGIN
    WHILE begin_at < until LOOP
        name := big || to_char(begin_at AT TIME ZONE 'UTC', '"_"YYYY"_"MM');
        IF to_regclass(name) IS NULL THEN
            EXECUTE format('CREATE TABLE %I PARTITION OF %I FOR VALUES FROM (%L) TO (%L)',
                name, big, id_floor(begin_at), id_floor(begin_at + interval '1 month'));
            IF big = 'events' THEN
                EXECUTE format('CREATE UNIQUE INDEX ON %I (object_id, sequence)', name);
            END IF;
        END IF;
        begin_at := begin_at + interval '1 month';
    END LOOP;
END $$;

-- Before the exclusive lock: validate that existing rows fit the first partition, and build every index. Nothing is read or
-- built under the lock.
DO $$
DECLARE
    next_month uuid := id_floor(date_trunc('month', now(), 'UTC') + interval '1 month');
BEGIN
    EXECUTE format('ALTER TABLE events ADD CONSTRAINT events_first CHECK (id < %L) NOT VALID', next_month);
    EXECUTE format(
        'ALTER TABLE transaction_events ADD CONSTRAINT events_first CHECK (transaction_id < %L) NOT VALID', next_month);
END $$;
CREATE INDEX CONCURRENTLY events_of_object ON events (object_id, sequence);
ALTER TABLE events VALIDATE CONSTRAINT events_first;
ALTER TABLE transaction_events VALIDATE CONSTRAINT events_first;

-- Under the lock.
BEGIN;
SET LOCAL lock_timeout = '2s';
ALTER TABLE deliveries DROP CONSTRAINT deliveries_event_id_fkey;
ALTER TABLE events RENAME TO events_first;
ALTER TABLE transaction_events RENAME TO transaction_events_first;
DROP TRIGGER events_unedited ON events_first;
DROP TRIGGER events_keep ON events_first;
DROP TRIGGER events_queue ON events_first;
DROP TRIGGER transaction_events_follow ON transaction_events_first;
DROP TRIGGER transaction_events_keep ON transaction_events_first;

CREATE TABLE events (LIKE events_first INCLUDING DEFAULTS) PARTITION BY RANGE (id);
ALTER TABLE events ADD PRIMARY KEY (id), ADD FOREIGN KEY (client_id) REFERENCES clients (id),
    ADD CONSTRAINT events_sequence_check CHECK (sequence > 0);
CREATE INDEX ON events (client_id, id);
CREATE INDEX ON events (client_id, type, id);
CREATE INDEX ON events (object_id, sequence);
CREATE TABLE transaction_events (LIKE transaction_events_first INCLUDING DEFAULTS INCLUDING CONSTRAINTS)
    PARTITION BY RANGE (transaction_id);
ALTER TABLE transaction_events DROP CONSTRAINT events_first;
ALTER TABLE transaction_events ADD PRIMARY KEY (transaction_id, sequence),
    ADD FOREIGN KEY (transaction_id) REFERENCES transactions (id);
DO $$
DECLARE
    next_month uuid := id_floor(date_trunc('month', now(), 'UTC') + interval '1 month');
BEGIN
    EXECUTE format('ALTER TABLE events ATTACH PARTITION events_first FOR VALUES FROM (MINVALUE) TO (%L)', next_month);
    EXECUTE format(
        'ALTER TABLE transaction_events ATTACH PARTITION transaction_events_first FOR VALUES FROM (MINVALUE) TO (%L)',
        next_month);
END $$;
CREATE TRIGGER events_unedited BEFORE UPDATE ON events
    FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER events_keep BEFORE DELETE ON events
    FOR EACH ROW WHEN (OLD.type LIKE 'transaction.%') EXECUTE FUNCTION refuse_change();
CREATE TRIGGER events_queue AFTER INSERT ON events
    FOR EACH ROW EXECUTE FUNCTION queue_event();
CREATE TRIGGER events_keep_all BEFORE TRUNCATE ON events EXECUTE FUNCTION refuse_change();
CREATE TRIGGER transaction_events_follow BEFORE INSERT ON transaction_events
    FOR EACH ROW EXECUTE FUNCTION guard_history();
CREATE TRIGGER transaction_events_keep BEFORE UPDATE OR DELETE ON transaction_events
    FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER transaction_events_keep_all BEFORE TRUNCATE ON transaction_events EXECUTE FUNCTION refuse_change();
CALL add_partitions('events', (now() + interval '15 months')::date);
CALL add_partitions('transaction_events', (now() + interval '15 months')::date);
ALTER TABLE deliveries ADD CONSTRAINT deliveries_event_id_fkey FOREIGN KEY (event_id) REFERENCES events (id) NOT VALID;
COMMIT;
ALTER TABLE deliveries VALIDATE CONSTRAINT deliveries_event_id_fkey;
ANALYZE events, transaction_events;
