"""Keeps the results of a comparison in a temporary file."""

from __future__ import annotations

from collections.abc import Iterator
from tempfile import SpooledTemporaryFile
from typing import IO

import orjson

from ussd_server.providers.statement_format import LineStatus
from ussd_server.services.reconciliation.matching import Match
from ussd_server.services.reconciliation.messages import ComparedLine, Verdict

_IN_MEMORY_BYTES = 4 * 1024 * 1024


class ResultsFile:
    """Results in a temporary file, so that memory does not grow with their number."""

    def __init__(self) -> None:
        self._file: IO[bytes] = SpooledTemporaryFile(_IN_MEMORY_BYTES)  # noqa: SIM115 - read as long as the result lives
        self.count = 0

    def __del__(self) -> None:
        self._file.close()

    def append(self, match: Match) -> None:
        """Add a result at the end."""
        self._file.write(orjson.dumps(match) + b"\n")
        self.count += 1

    def read(self) -> Iterator[Match]:
        """Yield the results in their order; several readers may read at once."""
        position = 0
        while True:
            self._file.seek(position)
            line = self._file.readline()
            if not line:
                return
            position = self._file.tell()
            values = orjson.loads(line)
            compared, unmoved = values["compared"], values["unmoved"]
            yield Match(
                ComparedLine(**(compared | {"verdict": Verdict(compared["verdict"])})),
                None if unmoved is None else LineStatus(unmoved),
                values["our_cents"],
            )
