"""The texts that are translated, found in the source, and the catalogs that hold their translations."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from io import BytesIO
from pathlib import Path

from babel.messages import Catalog
from babel.messages.pofile import read_po, write_po
from jinja2.ext import babel_extract

from ussd_server.console.formats import STATUS_WORDS
from ussd_server.languages import FOLDER

SOURCE = FOLDER.parent
Calls = dict[str, tuple[set[int], set[str]]]
# A call of these names gives texts: the positions and the names of the arguments that hold them.
CALLS: Calls = {
    "Column": ({1}, {"missing"}),
    "DataTable": ({0}, {"empty_title", "empty_text"}),
    "FailureKind": ({0}, set()),
    "MailText": ({0, 1, 2}, set()),
    "NavigationItem": ({0}, set()),
    "TableFilter": ({1}, set()),
    "done": ({0}, set()),
    "flash": ({0}, set()),
    "gettext": ({0}, set()),
    "marked": ({0}, set()),
}
# Constants whose texts are translated where they are shown.
CONSTANTS = {
    "console/blueprint.py": {"_ADVICE"},
    "console/pages/clients/api_keys.py": {"_GRACE", "_STATES"},
    "console/pages/clients/people.py": {"ROLES"},
    "console/pages/clients/webhooks.py": {"_GRACE"},
    "console/pages/money/reconciliation.py": {"VERDICTS"},
    "console/pages/money/statement_reading.py": {"FIELDS"},
    "console/pages/phone/menus.py": {"_REPLAY_RESULTS"},
    "console/pages/phone/messages.py": {"_RECEIPTS"},
    "console/pages/phone/sessions.py": {"_WHY"},
    "console/pages/service/overview.py": {"QUEUES"},
    "console/timeline.py": {"_SOURCES", "_TITLES"},
    "senders/messages.py": {"SMS_FAILURES"},
    "services/mail/messages.py": {"TROUBLES"},
    "services/search/hits.py": {"_DELIVERIES", "_ENDINGS"},
    "services/processing/outcomes.py": {
        "REVIEW_ANOTHER",
        "REVIEW_CONTRADICTION",
        "REVIEW_LATE",
        "REVIEW_RETRACTED",
        "REVIEW_SILENT",
    },
    "services/webhooks/messages.py": {"EVENT_TYPES"},
}
IN_THE_CONSOLE: Calls = {"ServiceError": ({1}, set()), "fault_of": ({1}, set())}
Text = tuple[str | tuple[str, str], str]
"""A text, or the one of a single thing and the one of many; and the file that it stands in."""


def texts() -> Iterator[Text]:
    """Every text of the source."""
    for path in sorted(SOURCE.rglob("*.py")):
        name, source = str(path.relative_to(SOURCE)), path.read_text(encoding="utf-8")
        calls = CALLS | (IN_THE_CONSOLE if "console" in path.relative_to(SOURCE).parts else {})
        constants = CONSTANTS.get(name, set())
        if constants or any(f"{call}(" in source for call in calls):
            for text in _of_python(ast.parse(source), calls, constants):
                yield text, f"ussd_server/{name}"
    options = {"newstyle_gettext": "true", "silent": "false"}
    for path in sorted((SOURCE / "console" / "templates").rglob("*.html")):
        name = str(path.relative_to(SOURCE.parent))
        found = babel_extract(BytesIO(path.read_bytes()), ("_", "gettext", "ngettext"), (), options)
        for _, function, text, _ in found:
            yield (text[:2] if function == "ngettext" else text if isinstance(text, str) else text[0]), name
    yield from ((word, "ussd_server/console/formats.py") for word in sorted(STATUS_WORDS))


def _of_python(tree: ast.Module, calls: Calls, constants: set[str]) -> Iterator[str | tuple[str, str]]:
    for statement in tree.body:
        target = statement.targets[0] if isinstance(statement, ast.Assign) else getattr(statement, "target", None)
        if isinstance(target, ast.Name) and target.id in constants:
            yield from _strings(statement.value)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        if node.func.id == "ngettext":
            one, many = map(ast.literal_eval, node.args[:2])
            yield one, many
        positions, names = calls.get(node.func.id, (set(), set()))
        given = [argument for position, argument in enumerate(node.args) if position in positions]
        for argument in given + [keyword.value for keyword in node.keywords if keyword.arg in names]:
            yield from _strings(argument)


def _strings(node: ast.AST) -> Iterator[str]:
    """The texts of a constant, of both ends of a condition, and of the values of a dictionary, a tuple or a list."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) > 1:
        yield node.value
    inner: Iterable[ast.AST] = ()
    if isinstance(node, ast.IfExp):
        inner = (node.body, node.orelse)
    elif isinstance(node, ast.Dict):
        # The key of a choice may be its text: the values are no texts then.
        inner = node.values if any(text for value in node.values for text in _strings(value)) else node.keys
    elif isinstance(node, ast.Tuple | ast.List):
        inner = node.elts
    for each in inner:
        yield from _strings(each)


def template() -> Catalog:
    """A catalog of all texts, without translations."""
    catalog = Catalog()
    for text, name in texts():
        catalog.add(text, locations=[(name, 0)])
    return catalog


def catalog_of(language: str) -> Catalog:
    """The catalog of a language as its file has it."""
    with path_of(language).open("rb") as file:
        return read_po(file, locale=language)


def path_of(language: str) -> Path:
    """The file of a language's catalog."""
    return FOLDER / language / "LC_MESSAGES" / "messages.po"


def update(language: str) -> tuple[int, int]:
    """Write new texts into a language's file and remove old ones. Returns how many texts lack a translation, of all."""
    path = path_of(language)
    catalog = catalog_of(language) if path.exists() else Catalog(locale=language)
    # With the date of the first time, a file changes with its texts only.
    created_at = catalog.creation_date
    catalog.update(template(), no_fuzzy_matching=True)
    catalog.creation_date = created_at
    catalog.obsolete.clear()
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        write_po(file, catalog, width=120, sort_output=True, include_lineno=False, omit_header=False)
    missing = sum(1 for message in catalog if message.id and not is_translated(message.string))
    return missing, len(catalog)


def is_translated(string: str | Iterable[str] | None) -> bool:
    """Whether each form of a translation is given."""
    return all((string,) if string is None or isinstance(string, str) else string)


if __name__ == "__main__":
    for code in sys.argv[1:] or sorted(path.parts[-3] for path in FOLDER.glob("*/LC_MESSAGES/messages.po")):
        print("{}: {} of {} texts lack a translation.".format(code, *update(code)))
