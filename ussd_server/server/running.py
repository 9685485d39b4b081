"""The processes of the service that run now, and the settings with which each was started.

Each process keeps a private, locked file in the data folder while it runs. The lock ends with the process, however it
ends, so a file that is left over counts for nothing.
"""

from __future__ import annotations

import fcntl
import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from ussd_server.logs import Logger
from ussd_server.settings import Settings
from ussd_server.settings.shown import shown_settings
from ussd_server.values import iso_milliseconds

OF_PROCESSES_ALONE = frozenset({"USSD_BIND", "USSD_LOG_LEVEL", "USSD_THREADS", "USSD_WORKERS", "USSD_WORKER_THREADS"})
"""Settings that no command uses: a shell may have others than the service."""

_FOLDER = "running"

log = Logger(__name__)


@dataclass(frozen=True, slots=True)
class RunningProcess:
    """A process of the service. `settings` hold no secrets."""

    process: str
    pid: int
    started_at: str
    settings: dict[str, str]

    def differences(self, settings: Settings) -> dict[str, str]:
        """Return a sentence for each setting of this process that differs from `settings`, by its name."""
        here = shown_settings(settings)
        return {
            name: f"{name} is {self.settings.get(name, 'not set')} there and {here.get(name, 'not set')} here"
            for name in {**self.settings, **here}
            if self.settings.get(name, "not set") != here.get(name, "not set")
        }


class Announcement:
    """A locked file that tells `doctor` that this process runs, and with which settings. `close` removes it.

    A folder that cannot be written to is logged.
    """

    def __init__(self, settings: Settings, process: str) -> None:
        folder, pid = settings.data_dir / _FOLDER, os.getpid()
        document = RunningProcess(process, pid, iso_milliseconds(datetime.now(UTC)), shown_settings(settings))
        self._path, self._file = folder / f"{process}-{pid}.json", None
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _remove_left_over(folder)
            self._file = _locked(self._path, json.dumps(asdict(document), indent=2))
        except OSError as error:
            log.warning("`doctor` will not see this process", process=process, error=type(error).__name__)

    def close(self) -> None:
        """Remove the file."""
        if self._file is not None:
            self._path.unlink(missing_ok=True)
            self._file.close()


def running_processes(settings: Settings) -> list[RunningProcess]:
    """Return the processes that run with the data folder of `settings`, web processes first.

    Raises OSError when their files cannot be read.
    """
    announcements = [_read(path) for path in sorted((settings.data_dir / _FOLDER).glob("*.json"))]
    return sorted((each for each in announcements if each), key=lambda each: (each.process, each.started_at))


def _locked(path: Path, text: str) -> IO[str]:
    """Return a new file with `text`, locked. It gets its name when it is complete and locked."""
    unnamed = path.with_suffix(".new")
    file = os.fdopen(os.open(unnamed, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8")
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(text)
        file.flush()
        unnamed.replace(path)
    except BaseException:
        file.close()
        raise
    return file


def _read(path: Path) -> RunningProcess | None:
    """Return the process of a file; None when it ended."""
    try:
        with path.open(encoding="utf-8") as file:
            return None if _is_free(file) else RunningProcess(**json.load(file))
    except (FileNotFoundError, ValueError, TypeError):
        return None


def _remove_left_over(folder: Path) -> None:
    for path in folder.glob("*.json"):
        with suppress(FileNotFoundError), path.open(encoding="utf-8") as file:
            if _is_free(file):
                path.unlink()


def _is_free(file: IO[str]) -> bool:
    """Return whether the process that locked a file has ended."""
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
