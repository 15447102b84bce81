"""House rules of the sources: sizes, docstrings, and no circle of imports.

Compiled files, of those that pyproject.toml lets have more than eight parameters per function, are free in their sizes.
What breaks a rule today stands in house.toml, by file. An entry there that is not needed any more fails the test:
`python -m tests.null.test_house` drops such entries, and adds none.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src" / "warplens"
EXCEPTIONS = Path(__file__).with_name("house.toml")
FILE_LINES, FUNCTION_LINES, ROOM_LINES = 400, 60, 10
OPENINGS = frozenset(("How", "Let", "What", "Whether", "Which", "Who"))
PARAMETERS = 8  # ruff's max-args
DECORATORS = {"warplens.simulator.compiled": {"called", "entry", "folded", "inlined"}}
RULES = (
    "file too long", "function too long", "room's docstring too short", "opening is no noun phrase", "import cycle",
)  # fmt: skip


@cache
def _files() -> dict[str, ast.Module]:
    found = sorted(SOURCES.rglob("*.py"))
    return {f.relative_to(SOURCES).as_posix(): ast.parse(f.read_text(), str(f)) for f in found}


@cache
def _with_many_parameters() -> frozenset[str]:
    """Return the files whose functions may have more than eight parameters: those that pyproject.toml lists."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    ignored = settings["tool"]["ruff"]["lint"]["per-file-ignores"]
    patterns = [p for p, codes in ignored.items() if p.startswith("src/warplens/") and "PLR0913" in codes]
    named = {pattern: {f.relative_to(SOURCES).as_posix() for f in _matching(pattern)} for pattern in patterns}
    assert not (missing := [p for p, files in named.items() if not files]), f"pyproject.toml: no file is {missing}"
    return frozenset(file for files in named.values() for file in files)


def _is_compiled(name: str) -> bool:
    """Whether Numba compiles functions of a file: all of the emulator's, in the simulator those with a decorator."""
    imports = [node for node in ast.walk(_files()[name]) if isinstance(node, ast.ImportFrom)]
    used = {each.name for node in imports for each in node.names if node.module in DECORATORS}
    return name.startswith("emulator/") or bool(used & DECORATORS["warplens.simulator.compiled"])


@cache
def _compiled() -> frozenset[str]:
    return frozenset(name for name in _with_many_parameters() if _is_compiled(name))


def _matching(pattern: str) -> Iterable[Path]:
    folder, star, _ = pattern.partition("/**")
    return (ROOT / folder).rglob("*.py") if star else [f for f in [ROOT / pattern] if f.is_file()]


def _too_long_files() -> Iterator[str]:
    for name in _files().keys() - _compiled():
        if len((SOURCES / name).read_text().splitlines()) > FILE_LINES:
            yield name


def _too_long_functions() -> Iterator[str]:
    for name in _files().keys() - _compiled():
        for node in ast.walk(_files()[name]):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _length(node) > FUNCTION_LINES:
                yield name


def _length(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (node.end_lineno or 0) - node.lineno + 1


def _short_rooms() -> Iterator[str]:
    for room in (name for name in _files() if name.count("/") == 1 and name.endswith("/__init__.py")):
        if len((ast.get_docstring(_files()[room]) or "").splitlines()) < ROOM_LINES:
            yield room


def _wrong_openings() -> Iterator[str]:
    for name, tree in _files().items():
        words = (ast.get_docstring(tree) or "").split(maxsplit=1)
        if not words or words[0].rstrip(":,") in OPENINGS:
            yield name


def _imports(name: str) -> set[str]:
    """Return the modules of ours that a module imports anywhere, at its start or within a function."""
    found = set[str]()
    for node in _run(_files()[name]):
        if isinstance(node, ast.Import):
            found |= {_file(each.name) for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            parts = {_file(f"{node.module}.{each.name}") for each in node.names}
            found |= {part or _file(node.module) for part in parts}
    return found - {"", name}


def _run(node: ast.AST) -> Iterator[ast.AST]:
    """Walk a tree but for what only types need."""
    yield node
    for child in ast.iter_child_nodes(node):
        if not (isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING")):
            yield from _run(child)


def _file(module: str) -> str:
    """Return the file of a module of ours; nothing for what is none."""
    if module.partition(".")[0] != "warplens":
        return ""
    path = "/".join(module.split(".")[1:])
    return next((f for f in (f"{path}.py", f"{path}/__init__.py".lstrip("/")) if f in _files()), "")


def _circles() -> list[list[str]]:
    """Return the groups of modules that import one another in a circle (Tarjan's strongly connected components)."""
    index, low, stack, circles = dict[str, int](), dict[str, int](), list[str](), list[list[str]]()

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in sorted(graph[name]):
            if other not in index:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], index[other])
        if low[name] == index[name]:
            at = stack.index(name)
            group = stack[at:]
            del stack[at:]
            if len(group) > 1:
                circles.append(sorted(group))

    graph = {name: _imports(name) for name in _files()}
    for name in graph:
        if name not in index:
            visit(name)
    return circles


def _in_circles() -> Iterator[str]:
    for circle in _circles():
        yield from circle


def broken() -> dict[str, set[str]]:
    """Return the files that break each rule."""
    checks = (_too_long_files, _too_long_functions, _short_rooms, _wrong_openings, _in_circles)
    return {rule: set(check()) for rule, check in zip(RULES, checks, strict=True)}


def known() -> dict[str, set[str]]:
    """Return the exceptions that house.toml allows, by rule."""
    listed = tomllib.loads(EXCEPTIONS.read_text()) if EXCEPTIONS.is_file() else {}
    return {rule: set(listed.get(rule, [])) for rule in RULES}


def test_only_files_that_need_it_may_have_functions_of_many_parameters() -> None:
    functions = {name: [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)] for name, tree in _files().items()}
    many = {name for name, defined in functions.items() if any(_parameters(f) > PARAMETERS for f in defined)}
    stale = sorted(_with_many_parameters() - _compiled() - many)
    assert not stale, f"no function there has more than {PARAMETERS} parameters, take them from pyproject.toml: {stale}"


def _parameters(function: ast.FunctionDef) -> int:
    return sum(len(kind) for kind in (function.args.posonlyargs, function.args.args, function.args.kwonlyargs))


@pytest.mark.parametrize("rule", RULES)
def test_the_house_is_in_order(rule: str) -> None:
    found, allowed = broken()[rule], known()[rule]
    assert not (new := sorted(found - allowed)), f"{rule}: {new}"
    assert not (stale := sorted(allowed - found)), f"in order now, take them from tests/null/house.toml: {stale}"


def _write(exceptions: dict[str, set[str]]) -> None:
    lines = ["# Files that break a rule of tests/null/test_house.py. The lists may only get shorter."]
    for rule, files in exceptions.items():
        lines += [f'"{rule}" = [', *[f'    "{file}",' for file in sorted(files)], "]"]
    EXCEPTIONS.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    allowed, found = known(), broken()
    _write({rule: allowed[rule] & found[rule] for rule in RULES})
