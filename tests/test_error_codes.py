"""No code reads English: errors have codes, and no source decides by the text of an error."""

from __future__ import annotations

import ast
import inspect
import pickle
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import unlabel
from unlabel import errors
from unlabel.errors import PartyLost, PartyRefused, UnlabelError, WireError

SOURCE = Path(unlabel.__file__).parent
CLASSES = {
    name: kind
    for name, kind in vars(errors).items()
    if inspect.isclass(kind) and issubclass(kind, UnlabelError)
}
CODE = re.compile(r"[a-z]+(-[a-z]+)*")


# --- codes -----------------------------------------------------------------------------------


def test_every_error_has_a_code_of_its_own_in_plain_letters() -> None:
    for name, kind in CLASSES.items():
        assert "code" in vars(kind), name
        assert CODE.fullmatch(kind.code), name
    codes = [kind.code for kind in CLASSES.values()]
    shared = {code for code in codes if codes.count(code) > 1}
    assert shared == {"not-finite"}  # of training and of forgetting alike


def test_the_tree_of_errors_is_the_one_in_their_documentation() -> None:
    assert errors.__doc__ is not None
    told = {m[1]: m[2] for m in re.finditer(r"(\w+)  +([a-z-]+)  ", errors.__doc__)}
    assert told == {name: kind.code for name, kind in CLASSES.items()}


def test_one_error_may_have_a_finer_code_and_keeps_it_when_it_is_copied() -> None:
    plain, finer = WireError("no."), WireError("no.", code="not-finite")
    assert (plain.code, finer.code, WireError.code) == ("wire", "not-finite", "wire")
    copied = pickle.loads(pickle.dumps(finer))
    assert (str(copied), copied.code) == ("no.", "not-finite")
    refused = pickle.loads(pickle.dumps(PartyRefused("no.", "policy")))
    assert (str(refused), refused.code) == ("no.", "policy")
    assert PartyLost("gone.", ["shop"]).code == "party-lost"


# --- no source reads what an error says ------------------------------------------------------

#: What looks into a text.
LOOKS = {"startswith", "endswith", "find", "index", "count", "removeprefix", "removesuffix"}
BY_VALUE = (ast.In, ast.NotIn, ast.Eq, ast.NotEq)
PATTERNS = {"match", "search", "fullmatch", "findall", "split", "sub"}


def caught(tree: ast.Module) -> Iterator[tuple[ast.AST, set[str]]]:
    """Yield every function, or the module, with the names of errors caught in it."""
    for scope in ast.walk(tree):
        if isinstance(scope, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef):
            handlers = (n for n in ast.walk(scope) if isinstance(n, ast.ExceptHandler))
            yield scope, {handler.name for handler in handlers if handler.name}


def is_words(node: ast.AST, names: set[str]) -> bool:
    """Return whether an expression is made of what an error says."""
    for part in ast.walk(node):
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Name):
            of_error = any(isinstance(a, ast.Name) and a.id in names for a in part.args)
            if part.func.id in ("str", "repr", "why") and of_error:
                return True
        shown = isinstance(part, ast.FormattedValue)
        words = isinstance(part, ast.Attribute) and part.attr in ("args", "message", "msg")
        held = getattr(part, "value", None) if shown or words else None
        if isinstance(held, ast.Name) and held.id in names:
            return True
    return False


def readings(source: str) -> list[int]:
    """Return the lines in which a source decides by the words of an error, or of a refusal."""
    found = set()
    for scope, names in caught(ast.parse(source)):
        texts = set()
        for node in ast.walk(scope):
            if isinstance(node, ast.Assign) and is_words(node.value, names):
                texts |= {target.id for target in node.targets if isinstance(target, ast.Name)}

        def reads(node: ast.AST, names: set[str] = names, texts: set[str] = texts) -> bool:
            named = isinstance(node, ast.Name) and node.id in texts
            refusal = isinstance(node, ast.Attribute) and node.attr == "reason"
            return named or refusal or is_words(node, names)

        for node in ast.walk(scope):
            if isinstance(node, ast.Compare):
                sides = (node.left, *node.comparators)
                if isinstance(node.ops[0], BY_VALUE) and any(reads(side) for side in sides):
                    found.add(node.lineno)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                if node.func.attr in LOOKS and reads(node.func.value):
                    found.add(node.lineno)
                if node.func.attr in PATTERNS and any(reads(a) for a in node.args):
                    found.add(node.lineno)
    return sorted(found)


def test_no_source_decides_by_the_words_of_an_error() -> None:
    found = [
        f"{path.relative_to(SOURCE)}, line {line}"
        for path in sorted(SOURCE.rglob("*.py"))
        for line in readings(path.read_text(encoding="utf-8"))
    ]
    assert found == [], "an error has a class and a code; decide by those"


@pytest.mark.parametrize(
    "line",
    [
        'if "finite" in str(error): pass',
        'if "finite" not in str(error).lower(): raise',
        'if str(error) == "no": pass',
        'if str(error).startswith("Party"): pass',
        'if error.args[0] == "no": pass',
        'found = "norm" in f"{error}"',
        'found = re.search("norm", str(error))',
        'said = str(error)\n    if "norm" in said: pass',
        'if "norm" in why(error): pass',
        'if "full" in answer.reason: pass',
    ],
)
def test_a_source_that_reads_an_error_is_found(line: str) -> None:
    source = f"def work():\n  try:\n    pass\n  except ValueError as error:\n    {line}\n"
    assert len(readings(source)) == 1


@pytest.mark.parametrize(
    "line",
    [
        'if error.code == "not-finite": raise',
        "if isinstance(error, OSError) and error.errno == 28: raise",
        "print(str(error))",
        "problem = str(error)\n    if problem is not None: print(problem)",
        'raise RuntimeError(f"{error}") from error',
        "first = str(error).splitlines()[0] if str(error) else repr(error)",
    ],
)
def test_a_source_that_repeats_an_error_is_fine(line: str) -> None:
    source = f"def work():\n  try:\n    pass\n  except ValueError as error:\n    {line}\n"
    assert readings(source) == []
