-- Menus, channels and sessions.

CREATE TABLE menus (
    id uuid PRIMARY KEY,
    client_id uuid NOT NULL REFERENCES clients (id),
    name text NOT NULL,
    draft text NOT NULL,
    draft_saved_at timestamptz NOT NULL,
    published_version integer,
    UNIQUE (client_id, name)
);

CREATE TABLE menu_versions (
    menu_id uuid NOT NULL REFERENCES menus (id),
    version integer NOT NULL CHECK (version > 0),
    client_id uuid NOT NULL,
    document text NOT NULL,
    published_at timestamptz NOT NULL,
    key_id uuid,
    user_id uuid,
    PRIMARY KEY (menu_id, version)
);

CREATE TABLE service_codes (
    code text PRIMARY KEY,
    client_id uuid NOT NULL REFERENCES clients (id),
    menu_id uuid REFERENCES menus (id),
    created_at timestamptz NOT NULL
);
CREATE INDEX service_codes_client ON service_codes (client_id);

CREATE TABLE channels (
    id uuid PRIMARY KEY,
    client_id uuid REFERENCES clients (id),
    name text NOT NULL,
    adapter text NOT NULL,
    secret_digest bytea NOT NULL UNIQUE,
    secret_sealed bytea NOT NULL,
    codes text,
    settings text NOT NULL,
    is_active boolean NOT NULL,
    created_at timestamptz NOT NULL
);

-- Links to operators by SMPP, and the state of each bind as its process wrote it last.
CREATE TABLE smpp_links (
    id uuid PRIMARY KEY REFERENCES channels (id),
    url text NOT NULL,
    system_id text NOT NULL,
    password_sealed bytea NOT NULL,
    dialect text NOT NULL,
    binds integer NOT NULL CHECK (binds BETWEEN 1 AND 16),
    submit_window integer NOT NULL CHECK (submit_window BETWEEN 1 AND 1000),
    authority text
);

CREATE TABLE smpp_binds (
    id text PRIMARY KEY,
    channel_id uuid NOT NULL REFERENCES channels (id),
    process text NOT NULL,
    number integer NOT NULL,
    state text NOT NULL,
    reason text NOT NULL,
    since timestamptz NOT NULL,
    seen_at timestamptz NOT NULL,
    counts text NOT NULL
);

-- PostgreSQL compresses only longer conversations: compressing at every step would cost more than writing.
CREATE TABLE ussd_sessions (
    id uuid PRIMARY KEY,
    client_id uuid NOT NULL REFERENCES clients (id),
    key_id uuid,
    channel_id uuid,
    provider_session_id text,
    phone_number text NOT NULL,
    service_code text NOT NULL,
    network text NOT NULL,
    status text NOT NULL CHECK (status IN
        ('active', 'completed', 'timed_out', 'ended_by_user', 'ended_by_client', 'invalidated', 'failed')),
    end_reason text,
    menu_id uuid NOT NULL REFERENCES menus (id),
    menu_version integer NOT NULL,
    node text NOT NULL,
    language text NOT NULL,
    turn integer NOT NULL,
    state text NOT NULL,
    turns text NOT NULL,
    action text NOT NULL CHECK (action IN ('continue', 'end')),
    message text NOT NULL,
    transaction_id uuid,
    working_token text,
    working_until timestamptz,
    created_at timestamptz NOT NULL,
    last_seen_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    ended_at timestamptz,
    due_at timestamptz NOT NULL DEFAULT '2000-01-01T00:00:00.000Z',
    traceparent text,
    CHECK ((ended_at IS NULL) = (status = 'active'))
);
ALTER TABLE ussd_sessions SET (fillfactor = 50, toast_tuple_target = 4080); -- PostgreSQL
CREATE INDEX ussd_sessions_newest ON ussd_sessions (client_id, id);
CREATE INDEX ussd_sessions_ended_at_gateway ON ussd_sessions (channel_id, provider_session_id, id);
CREATE INDEX ussd_sessions_of_phone ON ussd_sessions (client_id, phone_number, id);
CREATE INDEX ussd_sessions_of_key ON ussd_sessions (key_id) WHERE key_id IS NOT NULL AND status = 'active';
CREATE INDEX ussd_sessions_due ON ussd_sessions (due_at) WHERE status = 'active';
CREATE UNIQUE INDEX ussd_sessions_at_channel ON ussd_sessions (channel_id, provider_session_id, phone_number)
    WHERE channel_id IS NOT NULL AND status = 'active';
-- No index begins with the service code, or with the client and the status: a connection that planned its queries while
-- the table was small would use that index for each dial.
CREATE INDEX ussd_sessions_by_status ON ussd_sessions (status, client_id, id);

CREATE TABLE subscriber_languages (
    client_id uuid NOT NULL REFERENCES clients (id),
    phone_number text NOT NULL,
    language text NOT NULL,
    PRIMARY KEY (client_id, phone_number)
);

CREATE TABLE shown_outcomes (
    transaction_id uuid NOT NULL PRIMARY KEY REFERENCES transactions (id),
    session_id uuid NOT NULL,
    shown_at timestamptz NOT NULL
); -- by key
CREATE INDEX shown_outcomes_of_session ON shown_outcomes (session_id);

-- PINs of subscribers: the argon2 hash, encrypted, with the wrong tries and locks of a number.
CREATE TABLE subscriber_pins (
    id uuid PRIMARY KEY,
    client_id uuid NOT NULL REFERENCES clients (id),
    phone_number text NOT NULL,
    pin_sealed bytea,
    wrong_tries integer NOT NULL,
    last_step text,
    locked_at timestamptz,
    locked_until timestamptz,
    changed_at timestamptz NOT NULL,
    UNIQUE (client_id, phone_number)
);
