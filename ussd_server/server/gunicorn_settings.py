"""How gunicorn serves the application, the same under `ussd-server run` and under systemd."""

from __future__ import annotations

# isort: off
import ussd_server.server.patched  # noqa: F401 - before everything else that is imported

# isort: on
import gc
import os
import resource
import shutil
import sys
from pathlib import Path
from typing import Any

from ussd_server.logs import JsonLines
from ussd_server.server.running import Announcement
from ussd_server.settings import read_settings

_OURS = frozenset({"schemas", "ussd_server", "wsgi"})
# The description of the API, and a page of the console.
_FIRST_REPLIES = ("/openapi.json", "/console/sign-in")
_MOST_FILES = 16_384
_MOST_CONNECTIONS = 4000
# Files beside client connections and what requests open: databases, Redis, metrics, logs.
_OTHER_FILES = 256

_settings = read_settings()

_soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
_files = _MOST_FILES if _hard == resource.RLIM_INFINITY else min(_hard, _MOST_FILES)
if _soft not in (resource.RLIM_INFINITY,) and _soft < _files:
    resource.setrlimit(resource.RLIMIT_NOFILE, (_files, _hard))
# All workers write their metrics to this folder. The library reads its name from the environment at its import.
os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(_settings.metrics_dir)

wsgi_app = "wsgi:app"
bind = _settings.bind
workers = _settings.workers
# Each worker opens its own connections after it was forked; a preloaded application would share them.
preload_app = False
threads = _settings.threads
worker_class = "ussd_server.server.gevent_worker.GeventWebWorker"
# Each request may open one more file: a connection to a client's server.
worker_connections = max(threads + 16, min(_MOST_CONNECTIONS, (_files - _OTHER_FILES) // 2))

# A request may wait 25 s for its payment; a stop lets it finish.
graceful_timeout = 30
# Replies are complete before they are sent.
sendfile = False
# A worker that sends no heartbeat for this long is killed. It does not limit a single request.
timeout = 60
# Longer than a proxy's keep-alive, so that the proxy closes idle connections first and loses no request.
keepalive = 75

# No header of a caller changes the path or the scheme. The application itself reads what a trusted proxy says.
forwarder_headers = ""
secure_scheme_headers: dict[str, str] = {}
# Without such headers gunicorn trusts no address more than another, so it need not parse that of each caller (12 us).
forwarded_allow_ips = "*"

limit_request_line = 4094
limit_request_fields = 64
limit_request_field_size = 8190

# gunicorn kills a worker whose heartbeat waits for a busy disk, so the heartbeat file is in memory.
worker_tmp_dir = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108
control_socket_disable = True
proc_name = "ussd-server"
loglevel = "warning"
logger_class = "ussd_server.server.gevent_worker.WebLog"
# gunicorn's own log lines are JSON too, and repeat nothing that a caller sent.
logconfig_dict = {
    "root": {"level": "WARNING", "handlers": ["error_console"]},
    "loggers": {"gunicorn.error": {"level": "WARNING", "handlers": [], "propagate": True}},
    "formatters": {"generic": {"()": JsonLines}},
}


def on_starting(server: Any) -> None:
    """Reset the metrics, because files of earlier processes would be added to ours, and announce this process."""
    shutil.rmtree(_settings.metrics_dir, ignore_errors=True)
    _settings.metrics_dir.mkdir(mode=0o700, parents=True)
    server.announcement = Announcement(_settings, "web")


def on_exit(server: Any) -> None:
    server.announcement.close()


def on_reload(server: Any) -> None:
    """Let the present workers serve until new ones, which first load the application, accept connections."""
    from ussd_server.server.gevent_worker import REPLACEMENT

    REPLACEMENT.begin(server.worker_age)


def post_fork(_server: Any, _worker: Any) -> None:
    """Make a new worker load our code from disk: after an upgrade the main process still holds the old code."""
    # What an import makes stays, and is a tenth slower to make when it is looked through for garbage.
    gc.disable()
    for name in [name for name in sys.modules if name.partition(".")[0] in _OURS]:
        del sys.modules[name]


def post_worker_init(worker: Any) -> None:
    """Make the first replies that take long, and leave what was made out of every later garbage collection."""
    make_first_replies(worker.wsgi)
    gc.freeze()
    gc.enable()


def make_first_replies(app: Any) -> None:
    """Make the replies whose first takes 100 to 200 ms, so that no request waits for it. `app` need not be of Flask."""
    for path in _FIRST_REPLIES if hasattr(app, "test_client") else ():
        app.test_client().get(path)


def worker_exit(_server: Any, _worker: Any) -> None:
    """Export the last spans."""
    from ussd_server.spans import end_export

    end_export()


def child_exit(_server: Any, worker: Any) -> None:
    """Remove a dead worker's gauges from the metrics."""
    from prometheus_client import multiprocess

    multiprocess.mark_process_dead(worker.pid)  # type: ignore[no-untyped-call]
