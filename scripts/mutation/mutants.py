"""Mutants: small changes of a module that a test should notice, made from its syntax tree."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path

_OTHER: dict[type[ast.AST], type[ast.AST]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
# What they lock is read without a lock instead.
_LOCKING = {"for_update": "{0}", "skip_locked": "{0}", "lock_row": "{0}.get_by_id({1})", "lock_imports": "None"}
# As conditions these are changed by themselves.
_CHANGED_BY_THEMSELVES = (ast.Compare, ast.BoolOp, ast.UnaryOp)
# Arguments of these are conditions that a query loses.
_CONDITIONS = ("where", "filter")
# No test has to notice what is logged or counted.
_UNSEEN = ("log.", "count_", "self._count_", "now_about", "note_")


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change: which part of a file becomes which text."""

    file: Path
    function: str
    start: int
    end: int
    before: str
    after: str
    same: int = 0
    """How many mutants of the file have the same name before it."""

    @property
    def name(self) -> str:
        """The place and the change, in one line; without the line's number, which other changes of the file move."""
        before, after = (" ".join(each.split()) for each in (self.before, self.after))
        again = f" ({self.same + 1})" if self.same else ""
        return f"{self.file.relative_to('ussd_server')}, {self.function}: {before} -> {after}{again}"

    @property
    def is_of_lock(self) -> bool:
        """Whether it takes a lock away."""
        return self.before.startswith(tuple(f"{name}(" for name in _LOCKING))

    def applied(self, source: bytes) -> bytes:
        """The file with the change."""
        return source[: self.start] + self.after.encode() + source[self.end :]


def mutants_of(root: Path, file: Path) -> Iterator[Mutant]:
    """Every mutant of a file, whose path is relative to `root`, in the order of its text.

    Values of modules and classes, assertions, annotations and what is logged stay as they are.
    """
    source = (root / file).read_bytes()
    named: Counter[str] = Counter()
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for function in ast.walk(ast.parse(source)):
        # Without its parts a service does nothing at all: mutants of constructors would flatter the score.
        if not isinstance(function, ast.FunctionDef) or function.name == "__init__":
            continue
        for statement in function.body:
            for node in _walk(statement):
                for replaced, after in _changes(node):
                    start = starts[replaced.lineno - 1] + replaced.col_offset
                    end = starts[(replaced.end_lineno or 0) - 1] + (replaced.end_col_offset or 0)
                    mutant = Mutant(file, function.name, start, end, source[start:end].decode(), after)
                    yield replace(mutant, same=named[mutant.name])
                    named[mutant.name] += 1


def _walk(node: ast.AST) -> Iterator[ast.expr | ast.stmt]:
    """A statement or expression and all below it, without functions, which come by themselves."""
    if isinstance(node, ast.FunctionDef | ast.Assert | ast.Raise):
        return
    if isinstance(node, ast.keyword) and node.arg == "strict":
        # As an assertion: what is zipped has one length.
        return
    if isinstance(node, ast.Expr) and (
        isinstance(node.value, ast.Constant) or ast.unparse(node.value).startswith(_UNSEEN)
    ):
        return
    if isinstance(node, ast.expr | ast.stmt):
        yield node
    for name, value in ast.iter_fields(node):
        if name not in ("annotation", "returns"):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from _walk(child)


def _changes(node: ast.expr | ast.stmt) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    """What of a node a mutant replaces, and by which text."""
    match node:
        case ast.Compare() | ast.BoolOp() | ast.BinOp():
            yield from ((node, text) for text in _with_other_operators(node))
        case ast.UnaryOp(ast.Not() | ast.Invert()):
            yield node, f"({ast.unparse(node.operand)})"
        case ast.If(test) | ast.IfExp(test) | ast.While(test) if not isinstance(test, _CHANGED_BY_THEMSELVES):
            yield test, f"(not {ast.unparse(test)})"
        case ast.Constant(bool() as value):
            yield node, str(not value)
        case ast.Constant(int() as value):
            yield node, str(value + 1)
        case ast.Call():
            yield from ((node, text) for text in _with_other_calls(node))
        case ast.Expr(ast.Call()) | ast.Assign([ast.Attribute()]):
            yield node, "pass"


def _with_other_operators(node: ast.Compare | ast.BoolOp | ast.BinOp) -> Iterator[str]:
    if isinstance(node, ast.Compare):
        for place, operator in enumerate(node.ops):
            changed = deepcopy(node)
            changed.ops[place] = _OTHER[type(operator)]()  # type: ignore[call-overload]
            yield f"({ast.unparse(changed)})"
    elif type(node.op) in _OTHER:
        other = deepcopy(node)
        other.op = _OTHER[type(node.op)]()  # type: ignore[assignment]
        yield f"({ast.unparse(other)})"


def _with_other_calls(node: ast.Call) -> Iterator[str]:
    name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
    if name in _LOCKING:
        yield f"({_LOCKING[name].format(*map(ast.unparse, node.args))})"
    if name in _CONDITIONS and len(node.args) > 1:
        for place in range(len(node.args)):
            changed = deepcopy(node)
            del changed.args[place]
            yield ast.unparse(changed)
