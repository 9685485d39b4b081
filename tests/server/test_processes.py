"""The processes of `ussd-server run`, and the signals that end them."""

from __future__ import annotations

import subprocess
import sys

_PROGRAM = """
import os, signal, threading
from ussd_server.server.processes import Child, Family

# A library's thread, which takes the signals that the main thread does not wait for.
threading.Thread(target=threading.Event().wait, daemon=True).start()
child = Child("child", ["sleep", "60"], grace_seconds=60)


def is_ready():
    os.kill(os.getpid(), signal.{signal})
    return True


Family([child]).run(is_ready, lambda: print("ready", flush=True))
print("stopped")
"""


def test_a_signal_that_another_thread_takes_stops_all_processes_in_order() -> None:
    for name in ("SIGTERM", "SIGINT", "SIGHUP"):
        program = [sys.executable, "-c", _PROGRAM.replace("{signal}", name)]
        ended = subprocess.run(program, capture_output=True, text=True, timeout=60, check=False)
        assert (ended.stdout, ended.returncode) == ("ready\nstopped\n", 0), (name, ended.stderr)
