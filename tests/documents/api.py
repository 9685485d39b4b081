"""What is written from the OpenAPI document of a service that is made for it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from tests.documents.javascript_library import javascript_files
from tests.documents.permissions import write_permissions
from tests.documents.postman import postman_files
from tests.documents.python_library import python_files
from tests.support.real_service.service import environment
from ussd_server.api.document import api_document
from ussd_server.api.document_examples import examples
from ussd_server.app import create_app
from ussd_server.bootstrap import Services, build_services
from ussd_server.clock import Clock
from ussd_server.database.schema import migrate
from ussd_server.database.unit_of_work import close_connections
from ussd_server.settings import read_settings


@contextmanager
def new_services(clock: Clock | None = None, **settings: str) -> Iterator[Services]:
    """Make services with a database of their own; they are closed after the block."""
    with tempfile.TemporaryDirectory() as folder:
        with mock.patch.dict(os.environ, environment(Path(folder), **settings), clear=True):
            read = read_settings()
        services = build_services(read, clock)
        migrate()
        try:
            yield services
        finally:
            services.close()
            close_connections()


def write_files_of_the_api() -> None:
    """Write the client libraries, the Postman collection and the page of permissions."""
    examples.cache_clear()
    with new_services() as services:
        app = create_app(services)
        files = files_of_the_api(api_document(app))
        write_permissions(app)
    for path, text in files.items():
        Path(path).write_text(text, encoding="utf-8")


def files_of_the_api(document: dict[str, Any]) -> dict[str, str]:
    """Return the text of each file that is written from the document, by its path."""
    return {**python_files(document), **javascript_files(document), **postman_files(document)}
