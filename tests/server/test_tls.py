"""TLS to Redis and PostgreSQL from a process that gevent patched."""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

import psycopg

from testbed.ports import free_port
from testbed.postgres import PostgresServer
from testbed.valkey import Server
from tests.outbound.certificates import Authority
from tests.support.cooperative import run_cooperatively


@contextmanager
def encrypted(port: int, certificate: Path) -> Iterator[int]:
    """A port where TLS is spoken, and led on to another port without it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    def lead(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while more := source.recv(65_536):
                target.sendall(more)
        with suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)

    def serve(plain: socket.socket) -> None:
        with (
            suppress(OSError),
            context.wrap_socket(plain, server_side=True) as caller,
            socket.create_connection(("127.0.0.1", port)) as server,
        ):
            back = threading.Thread(target=lead, args=(server, caller))
            back.start()
            lead(caller, server)
            back.join()

    def accept() -> None:
        with suppress(OSError):
            while True:
                serving.submit(serve, listener.accept()[0])

    with ThreadPoolExecutor(8) as serving, socket.create_server(("127.0.0.1", 0)) as listener:
        accepting = threading.Thread(target=accept)
        accepting.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            accepting.join()


def test_redis_and_postgresql_are_reached_over_tls_from_many_greenlets(tmp_path: Path) -> None:
    authority, trusted = Authority(), tmp_path / "authority.pem"
    trusted.write_text(authority.pem)
    with TemporaryDirectory(prefix="postgres-", ignore_cleanup_errors=True) as folder, ExitStack() as stack:
        postgres, redis = PostgresServer(Path(folder)), Server(tmp_path, port=free_port())
        stack.callback(postgres.stop)
        stack.callback(redis.stop)
        pem = Path(folder) / "server.pem"
        authority.certify(pem, "localhost", "127.0.0.1")
        with psycopg.connect(postgres.url, autocommit=True) as hand:
            for name, value in (("ssl_cert_file", str(pem)), ("ssl_key_file", str(pem)), ("ssl", "on")):
                hand.execute(f"ALTER SYSTEM SET {name} = '{value}'")
            if os.getuid() == 0:
                shutil.chown(pem, "nobody")
            hand.execute("SELECT pg_reload_conf()")
        with encrypted(redis.port, pem) as port:
            results = run_cooperatively(
                """
                import json, sys, gevent
                from ussd_server.database.opening import open_database
                from ussd_server.database.unit_of_work import close_connections, database
                from ussd_server.redis.client import connect
                from ussd_server.redis.pipeline import RedisPipeline
                client = connect(sys.argv[1], timeout_seconds=5)
                pipeline = RedisPipeline(lambda: client)
                open_database(sys.argv[2], 3)
                ask = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
                asked = [gevent.spawn(pipeline.execute, "INCR", "x") for _ in range(5)]
                asked += [gevent.spawn(lambda: database.execute_sql(ask).fetchone()[0]) for _ in range(5)]
                gevent.joinall(asked)
                close_connections()
                print(json.dumps([each.value for each in asked]))
                """,
                f"rediss://127.0.0.1:{port}?ssl_ca_certs={trusted}",
                f"postgresql://postgres@localhost:{urlsplit(postgres.url).port}/postgres"
                f"?sslmode=verify-full&sslrootcert={trusted}",
            )
    assert results == [1, 2, 3, 4, 5] + [True] * 5
