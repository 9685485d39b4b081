"""Each attempt of a delivery: what was sent and what came back."""

from ussd_server.database.schema import execute_all

_TABLE = """
CREATE TABLE delivery_attempts (
    id {id} PRIMARY KEY,
    delivery_id {id} NOT NULL REFERENCES deliveries (id) ON DELETE CASCADE,
    webhook_id {id} NOT NULL,
    number integer NOT NULL,
    headers text NOT NULL,
    answer_status integer,
    answer text,
    trouble text,
    took_ms integer NOT NULL,
    attempted_at {moment} NOT NULL,
    UNIQUE (delivery_id, number)
) {strict};;
CREATE INDEX delivery_attempts_of_webhook ON delivery_attempts (webhook_id, id)
"""


def up(migrator, db):
    execute_all(db, _TABLE)
