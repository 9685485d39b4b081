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
    kind text PRIMARY KEY CHECK (kind IN ('doctor', 'check', 'full_check')),
    ended_at timestamptz NOT NULL,
    machine text NOT NULL,
    operator text,
    result text NOT NULL
);

-- Requests that were refused or changed something. Nothing depends on them, and no foreign key slows their writing.
-- On PostgreSQL the worker adds a partition for each day; what has none lies in `api_requests_rest`.
CREATE TABLE api_requests (
    id uuid PRIMARY KEY,
    request_id text NOT NULL,
    client_id uuid NOT NULL,
    key_id uuid,
    at timestamptz NOT NULL,
    method text NOT NULL,
    path text NOT NULL,
    status integer NOT NULL,
    code text NOT NULL,
    message text NOT NULL,
    took_ms integer NOT NULL,
    address text NOT NULL,
    object_id text,
    body text,
    user_id uuid
) PARTITION BY RANGE (id); -- PostgreSQL
); -- SQLite
CREATE TABLE api_requests_rest PARTITION OF api_requests DEFAULT; -- PostgreSQL
CREATE INDEX api_requests_newest ON api_requests (client_id, id);
CREATE INDEX api_requests_of_key ON api_requests (key_id, id) WHERE key_id IS NOT NULL;
CREATE INDEX api_requests_request_id ON api_requests (request_id);

CREATE TABLE key_usage (
    key_id uuid NOT NULL,
    day text NOT NULL,
    endpoint text NOT NULL,
    status integer NOT NULL,
    code text NOT NULL,
    scope text NOT NULL,
    count bigint NOT NULL,
    last_at timestamptz NOT NULL,
    last_address text NOT NULL,
    PRIMARY KEY (key_id, day, endpoint, status, code)
); -- by key
CREATE INDEX key_usage_oldest ON key_usage (day);
CREATE INDEX key_usage_elsewhere ON key_usage (day) WHERE code = 'ADDRESS_NOT_ALLOWED';

-- What only the service changes has a row here: an HMAC of its columns under a master key.
CREATE TABLE row_signatures (
    id text PRIMARY KEY,
    digest text NOT NULL
); -- by key
