-- What keeps the service running.

CREATE TABLE worker_heartbeats (
    id text PRIMARY KEY,
    started_at timestamptz NOT NULL,
    seen_at timestamptz NOT NULL,
    measures text NOT NULL,
    is_taken_over boolean NOT NULL DEFAULT FALSE
);

-- How far the service's time is ahead of the database's clock.
CREATE TABLE service_clock (
    id integer PRIMARY KEY CHECK (id = 1),
    ahead_ms bigint NOT NULL,
    decided_at timestamptz NOT NULL,
    last_seen_at timestamptz
);
INSERT INTO service_clock (id, ahead_ms, decided_at) VALUES (1, 0, '2026-01-01T00:00:00.000Z');

CREATE TABLE examinations (
    kind text PRIMARY KEY CHECK (kind IN ('doctor', 'check')),
    ended_at timestamptz NOT NULL,
    machine text NOT NULL,
    operator text,
    result text NOT NULL
);
