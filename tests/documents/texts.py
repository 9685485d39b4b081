"""The texts that are translated, found in the source, and the catalogs that hold their translations."""

from __future__ import annotations

import ast
import re
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
    "_effect": ({1, 2}, set()),
    "_effect_on_held": ({1}, set()),
    "MailText": ({0, 1, 2}, set()),
    "NavigationItem": ({0}, set()),
    "SearchHit": ({3, 4}, set()),
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
    "services/gates/given_back.py": {"RELEASED"},
    "services/gates/held.py": {"BOTH_AMOUNTS", "ONLY_IN_STATEMENT", "_outcome_of", "_why_held"},
    "services/incoming/booking.py": {"misfit_of"},
    "services/clients/keys/explanations.py": {"left", "sentence", "used_up"},
    "services/operators/actions.py": {
        "after",
        "state",
        "then",
        "_why_reviewed",
        "_written_line",
        "verb",
        "with_receipt",
    },
    "services/payouts/rounds.py": {"_fault_of", "fault", "refusal"},
    "services/providers/providers.py": {"why_not"},
    "services/search/hits.py": {"_DELIVERIES", "_ENDINGS", "sentence", "state", "title", "verb", "version"},
    "services/processing/outcomes.py": {
        "REVIEW_AMOUNT",
        "REVIEW_ANOTHER",
        "REVIEW_BESIDE",
        "REVIEW_CONTRADICTION",
        "REVIEW_LATE",
        "REVIEW_RELEASED",
        "REVIEW_RETRACTED",
        "REVIEW_ELSEWHERE",
        "REVIEW_SILENT",
        "REVIEW_TWICE",
    },
    "services/webhooks/messages.py": {"EVENT_TYPES"},
}
IN_THE_CONSOLE: Calls = {"fault_of": ({1}, set())}
# The sentences of refusals, which the console shows too; the field before a sentence is no part of it.
REFUSALS: Calls = {
    "AddressRefusedError": ({0}, set()),
    "ServiceError": ({1}, set()),
    "SpreadsheetError": ({0}, set()),
    "ValueError": ({0}, set()),
    "_refusal": ({0, 1}, set()),
    "bad_line": ({1}, set()),
    "line_refusal": ({0}, set()),
    "refusal": ({0}, set()),
    "_refuse": ({0}, set()),
}
# Only these are reached from the console, beside all of services.
WITH_REFUSALS = ("app.py", "console", "context.py", "outbound", "services", "spreadsheets")
_FIELD = re.compile(
    r"(?:%\(bad_body\)s: |Invalid request body: )?(?:[a-z_]+: |%\(\w*(?:place|part|field)\w*\)s(?:: )?)*"
)
# Constants and functions of problems, which have their field before them.
PROBLEMS = {
    "services/payouts/drafts/rows.py": {
        "AMOUNT_PROBLEM",
        "METADATA_PROBLEM",
        "PHONE_NUMBER_PROBLEM",
        "_CELL_WITHOUT_HEADING",
        "_amount",
        "_number",
        "_problem_of",
        "named",
    },
}
# What is kept as a sentence of ours in one of these is translated where it is shown.
SENTENCES = {"held_because", "state_after", "state_now"}
Text = tuple[str | tuple[str, str], str]
"""A text, or the one of a single thing and the one of many; and the file that it stands in."""


def texts() -> Iterator[Text]:
    """Every text of the source."""
    for path in sorted(SOURCE.rglob("*.py")):
        name, source = str(path.relative_to(SOURCE)), path.read_text(encoding="utf-8")
        folder = path.relative_to(SOURCE).parts[0]
        calls = CALLS | (IN_THE_CONSOLE if folder == "console" else {})
        calls |= REFUSALS if folder in WITH_REFUSALS else {}
        constants, problems = CONSTANTS.get(name, set()), PROBLEMS.get(name, set())
        if any(word in source for word in {*calls, *SENTENCES, *constants, *problems, ".problems"}):
            for text in _of_python(ast.parse(source), calls, constants, problems):
                yield text, f"ussd_server/{name}"
    options = {"newstyle_gettext": "true", "silent": "false"}
    for path in sorted((SOURCE / "console" / "templates").rglob("*.html")):
        name = str(path.relative_to(SOURCE.parent))
        found = babel_extract(BytesIO(path.read_bytes()), ("_", "gettext", "ngettext"), (), options)
        for _, function, text, _ in found:
            yield (text[:2] if function == "ngettext" else text if isinstance(text, str) else text[0]), name
    yield from ((word, "ussd_server/console/formats.py") for word in sorted(STATUS_WORDS))


def _of_python(
    tree: ast.Module, calls: Calls, constants: set[str], problems: set[str]
) -> Iterator[str | tuple[str, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name(name)]) | ast.AnnAssign(target=ast.Name(name)):
                yield from _strings(node.value) if name in constants else ()
                yield from _problems(node.value) if name in problems else ()
            case ast.Assign(targets=[ast.Attribute(attr=name)]) | ast.keyword(arg=name) if name in SENTENCES:
                yield from _strings(node.value)
            case ast.Call(func=ast.Attribute(value=ast.Attribute(attr="problems"), attr="append"), args=[problem]) if (
                "ServiceError" in calls
            ):
                yield from _problems(problem)
            case ast.FunctionDef(name=name) if name in constants | problems:
                read = _problems if name in problems else _strings
                for each in ast.walk(node):
                    yield from read(each.value) if isinstance(each, ast.Return) else ()
            case ast.Call(func=ast.Name("ngettext"), args=[one, many, *_]):
                yield ast.literal_eval(one), ast.literal_eval(many)
            case ast.Call(func=ast.Name(name)) if name in calls:
                positions, names = calls[name]
                given = [argument for position, argument in enumerate(node.args) if position in positions]
                for argument in given + [keyword.value for keyword in node.keywords if keyword.arg in names]:
                    yield from _refused(argument, tree) if name in REFUSALS else _strings(argument)


def _refused(node: ast.AST, tree: ast.Module) -> Iterator[str]:
    """The texts of a refusal, also where it is what the module calls or computes under a name."""
    match node:
        case ast.Name(id=named) | ast.Call(func=ast.Name(id=named)):
            for each in ast.walk(tree):
                match each:
                    case ast.Assign(targets=[ast.Name(id=name)], value=value) if name == named:
                        yield from _problems(value)
                    case ast.FunctionDef(name=name) if name == named:
                        yield from (text for part in ast.walk(each) for text in _returned(part))
        case _:
            yield from _problems(node)


def _returned(node: ast.AST) -> Iterator[str]:
    yield from _problems(node.value) if isinstance(node, ast.Return) else ()


def _problems(node: ast.AST | None) -> Iterator[str]:
    """The texts of a refusal or a problem, without the field before each."""
    for text in _strings(node):
        sentence = _FIELD.sub("", text, count=1)
        if " " in sentence or sentence.endswith("."):
            yield sentence


def _strings(node: ast.AST | None) -> Iterator[str]:
    """The texts of a constant, of one with values, of both ends of a condition, and of the values of a collection."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) > 1:
        yield node.value.replace("{}", "%(value)s")
    if isinstance(node, ast.JoinedStr) and re.search("[a-z]{2}", re.sub(r"%\(\w+\)s", "", text := _with_names(node))):
        yield text
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


def _with_names(node: ast.JoinedStr) -> str:
    """A text with values as the catalog has it, each as `%(name)s`."""
    names: list[str] = []
    parts: list[str] = []
    for part in node.values:
        if isinstance(part, ast.FormattedValue):
            name = (re.findall(r"[A-Za-z]\w*", ast.unparse(part.value)) or ["value"])[-1].lower()
            names.append(f"{name}{len(names)}" if name in names else name)
            parts.append(f"%({names[-1]})s")
        elif isinstance(part, ast.Constant):
            parts.append(str(part.value).replace("%", "%%").replace("{}", "%(value)s"))
    return "".join(parts)


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
