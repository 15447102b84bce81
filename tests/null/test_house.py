"""House rules of the sources: sizes, docstrings, and no circle of imports.

Files that Numba compiles are free in their sizes and words: house.toml lists them.
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
from msgspec import Struct

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src" / "warplens"
EXCEPTIONS = Path(__file__).with_name("house.toml")
FILE_LINES, FUNCTION_LINES, ROOM_LINES = 400, 60, 10
OPENINGS = frozenset(("How", "Let", "What", "Whether", "Which", "Who"))
PARAMETERS = 8  # ruff's max-args
COMPILED = frozenset(tomllib.loads(EXCEPTIONS.read_text())["compiled"])
DECORATORS = {
    "warplens.emulator.bits": ("compiled", "entry", "inlined", "intrinsic"),
    "warplens.emulator.handlers": ("handler", "service"),
    "warplens.simulator.compiled": ("called", "entry", "folded", "inlined"),
}
RULES = (
    "file too long", "function too long", "room's docstring too short", "opening is no noun phrase", "import cycle",
)  # fmt: skip


class Source(Struct):
    """What the rules ask of a file: its lines, its docstring, its functions' lines and parameters, what it imports.

    Imports are those that run, at its start or within a function; names that come from a module follow a colon.
    """

    lines: int
    docstring: str
    functions: list[tuple[int, int]]
    imports: set[str]


@cache
def _files() -> dict[str, Source]:
    found = sorted(SOURCES.rglob("*.py"))
    return {file.relative_to(SOURCES).as_posix(): _source(file.read_text()) for file in found}


def _source(text: str) -> Source:
    tree = ast.parse(text)
    source = Source(len(text.splitlines()), ast.get_docstring(tree) or "", [], set())
    nodes: list[ast.AST] = [tree]
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            continue  # what only types need is no import
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            taken = (node.args.posonlyargs, node.args.args, node.args.kwonlyargs)
            source.functions.append(((node.end_lineno or 0) - node.lineno + 1, sum(map(len, taken))))
        elif isinstance(node, ast.Import):
            source.imports |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            source.imports |= {f"{node.module}:{each.name}" for each in node.names}
        if isinstance(node, ast.stmt | ast.Module | ast.excepthandler | ast.match_case):
            nodes.extend(ast.iter_child_nodes(node))
    return source


@cache
def _with_many_parameters() -> frozenset[str]:
    """Return the files whose functions may have more than eight parameters: those that pyproject.toml lists."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    ignored = settings["tool"]["ruff"]["lint"]["per-file-ignores"]
    patterns = [p for p, codes in ignored.items() if p.startswith("src/warplens/") and "PLR0913" in codes]
    named = {pattern: {f.relative_to(SOURCES).as_posix() for f in _matching(pattern)} for pattern in patterns}
    assert not (missing := [p for p, files in named.items() if not files]), f"pyproject.toml: no file is {missing}"
    return frozenset(file for files in named.values() for file in files)


def _matching(pattern: str) -> Iterable[Path]:
    folder, star, _ = pattern.partition("/**")
    return (ROOT / folder).rglob("*.py") if star else [f for f in [ROOT / pattern] if f.is_file()]


def _too_long_files() -> Iterator[str]:
    return (name for name in _files().keys() - COMPILED if _files()[name].lines > FILE_LINES)


def _too_long_functions() -> Iterator[str]:
    for name in _files().keys() - COMPILED:
        if any(lines > FUNCTION_LINES for lines, _ in _files()[name].functions):
            yield name


def _short_rooms() -> Iterator[str]:
    for room in (name for name in _files() if name.count("/") == 1 and name.endswith("/__init__.py")):
        if len(_files()[room].docstring.splitlines()) < ROOM_LINES:
            yield room


def _wrong_openings() -> Iterator[str]:
    for name, source in _files().items():
        words = source.docstring.split(maxsplit=1)
        if not words or words[0].rstrip(":,") in OPENINGS:
            yield name


def _imports(name: str) -> set[str]:
    """Return the files of ours that a file imports: a module, or the package that a name comes from."""
    found = set[str]()
    for each in _files()[name].imports:
        module, _, member = each.partition(":")
        found.add(_file(f"{module}.{member}" if member else module) or _file(module))
    return found - {"", name}


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
    return {rule: set(check()) for rule, check in CHECKS.items()}


CHECKS = dict(
    zip(RULES, (_too_long_files, _too_long_functions, _short_rooms, _wrong_openings, _in_circles), strict=True)
)


def known() -> dict[str, set[str]]:
    """Return the exceptions that house.toml allows, by rule."""
    listed = tomllib.loads(EXCEPTIONS.read_text())
    return {rule: set(listed.get(rule, [])) for rule in RULES}


def test_files_that_are_listed_as_compiled_are() -> None:
    """Numba compiles functions of them, or of files that import them: decorators and constants."""
    names = {f"{module}:{name}" for module, found in DECORATORS.items() for name in found}
    compiled = {file for file, source in _files().items() if source.imports & names}
    used = compiled.union(*(_imports(file) for file in compiled & COMPILED))
    assert not (stale := sorted(COMPILED - used)), f"not compiled, take them from tests/null/house.toml: {stale}"


def test_only_files_that_need_it_may_have_functions_of_many_parameters() -> None:
    many = {name for name, source in _files().items() if any(taken > PARAMETERS for _, taken in source.functions)}
    stale = sorted(_with_many_parameters() - many)
    assert not stale, f"no function there has more than {PARAMETERS} parameters, take them from pyproject.toml: {stale}"


@pytest.mark.parametrize("rule", RULES)
def test_the_house_is_in_order(rule: str) -> None:
    found, allowed = set(CHECKS[rule]()), known()[rule]
    assert not (new := sorted(found - allowed)), f"{rule}: {new}"
    assert not (stale := sorted(allowed - found)), f"in order now, take them from tests/null/house.toml: {stale}"


def _write(exceptions: dict[str, set[str]]) -> None:
    lines = ["# Files that Numba compiles, free in their sizes and words (tests/null/test_house.py, test_words.py)."]
    lines += _listed("compiled", COMPILED)
    lines += ["# Files that break a rule of tests/null/test_house.py. The lists may only get shorter."]
    for rule, files in exceptions.items():
        lines += _listed(f'"{rule}"', files)
    EXCEPTIONS.write_text("\n".join(lines) + "\n")


def _listed(key: str, files: Iterable[str]) -> list[str]:
    return [f"{key} = [", *[f'    "{file}",' for file in sorted(files)], "]"]


if __name__ == "__main__":
    allowed, found = known(), broken()
    _write({rule: allowed[rule] & found[rule] for rule in RULES})
