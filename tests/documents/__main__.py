"""Writes what the documents take from the program: examples, commands, permissions, codes, libraries, menus."""

from __future__ import annotations

from tests.documents.api import write_files_of_the_api
from tests.documents.commands import write_commands
from tests.documents.error_codes import write_error_codes
from tests.documents.examples import played_examples, write_examples
from tests.documents.menus import write_menu_tables
from tests.documents.webhooks import played_events, write_event_types


def main() -> None:
    write_menu_tables()
    write_commands()
    write_error_codes()
    write_event_types()
    write_examples(played_examples() | {"webhooks": played_events()})
    write_files_of_the_api()


if __name__ == "__main__":
    main()
