"""Webhooks, and the deliveries of events to them."""

from ussd_server.database.schema import execute_all


def up(migrator, db):
    # At most one delivery of an object has a due date at each webhook: the database itself keeps the order.
    execute_all(
        db,
        """
        CREATE TABLE webhooks (
            id {id} PRIMARY KEY,
            client_id {id} NOT NULL REFERENCES clients (id),
            url text,
            types text,
            secret_sealed {bytes} NOT NULL,
            previous_secret_sealed {bytes},
            previous_secret_expires_at {moment},
            is_active {bool} NOT NULL,
            is_proven {bool} NOT NULL,
            failing_since {moment},
            disabled_at {moment},
            disabled_reason text,
            created_at {moment} NOT NULL,
            updated_at {moment} NOT NULL,
            CHECK (is_active = (disabled_at IS NULL)),
            CHECK ((previous_secret_sealed IS NULL) = (previous_secret_expires_at IS NULL))
        ) {strict};;
        CREATE INDEX webhooks_client ON webhooks (client_id, id);;
        CREATE UNIQUE INDEX webhooks_callbacks ON webhooks (client_id) WHERE url IS NULL;;
        CREATE TABLE deliveries (
            id {id} PRIMARY KEY,
            client_id {id} NOT NULL REFERENCES clients (id),
            event_id {id} NOT NULL REFERENCES events (id),
            webhook_id {id} NOT NULL,
            object_id text NOT NULL,
            sequence integer NOT NULL,
            url text NOT NULL,
            status text NOT NULL CHECK (status IN ('waiting', 'delivered', 'dead', 'cancelled')),
            attempts integer NOT NULL,
            due_at {moment},
            lease_token text,
            answer_status integer,
            answer text,
            trouble text,
            took_ms integer,
            created_at {moment} NOT NULL,
            attempted_at {moment},
            completed_at {moment},
            CHECK (due_at IS NULL OR status = 'waiting'),
            CHECK (lease_token IS NULL OR due_at IS NOT NULL),
            CHECK ((completed_at IS NULL) = (status = 'waiting'))
        ) {strict};;
        CREATE INDEX deliveries_event ON deliveries (event_id);;
        CREATE INDEX deliveries_waiting ON deliveries (webhook_id, object_id, sequence) WHERE status = 'waiting';;
        CREATE UNIQUE INDEX deliveries_heads ON deliveries (webhook_id, object_id) WHERE due_at IS NOT NULL;;
        CREATE INDEX deliveries_due ON deliveries (webhook_id, due_at) WHERE due_at IS NOT NULL;;
        CREATE INDEX deliveries_under_way ON deliveries (webhook_id) WHERE lease_token IS NOT NULL
        """,
    )
