"""Words of code and documents: names, first words of docstrings, phrases, and lengths of pages (docs/glossary.md)."""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import warplens as wl
from tests.null.test_house import COMPILED
from warplens.cli.parser import parser

ROOT = Path(__file__).parents[2]
SOURCE, DOCS = ROOT / "src" / "warplens", ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))

ROOMS = sorted({p.relative_to(SOURCE).parts[0].removesuffix(".py") for p in SOURCE.rglob("*.py")} - {"__init__"})

# Not names of things here: the glossary has the words in their place.
NAMES = {
    "front", "fronts", "turn", "turns", "place", "places", "way", "ways", "hold", "holds", "held", "room", "rooms",
    "latch", "latches", "burst", "bursts", "laid", "handed", "drawn", "chance", "chances", "alike", "apart", "lives",
    "made", "crowding", "crowded", "eased", "brisk",
}  # fmt: skip
FILE_KEYS = {"bytes_apart"}  # of users' files
OPENINGS = {"What", "Whether", "How", "Let", "Who"}
PHRASES = [
    r"handed out|hands? out (the )?blocks",
    r"by chance",
    r"drawn (blocks|from the grid)",
    r"ways? of (a |the )?warps?",
    r"turns? of (a |the )?(loop|warp)s?",
    r"(?<!in )(?<!in the )places? (for|of) (a |an |the )?(warp|block|instruction)s?\b",
    r"\bfronts\b",
    r"\blatch(es)?\b",
    r"\bbursts?\b",
    r"\b(crowding|crowded|eased|brisk)\b",
    r"\bholds? (the issue|up the)",
    r"\bwho (asks|comes|goes|waits)\b",
    r"\bwhat (stands|comes of)\b",
    r"\(mended",
    # history: it is in git and in CHANGELOG.md
    r"\b(was|were) [\d.,]+( %| points| us| cycles)?( \w+)? before\b",
    r"\b(before|since) (that|then) (was|it|they)\b",
    r"\bused to be\b",
    r"\buntil (now|recently)\b",
]
UNWANTED = re.compile("|".join(PHRASES), re.IGNORECASE)


@pytest.mark.parametrize("room", ROOMS)
def test_names_are_of_the_field(room: str) -> None:
    found = [
        f"{file.relative_to(SOURCE)}:{line}: {name}"
        for file in _files(room)
        for name, line in _defined(ast.parse(file.read_text()))
        if name not in FILE_KEYS and NAMES & set(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().split("_"))
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("room", ROOMS)
def test_docstrings_name_a_thing_or_say_what_to_do(room: str) -> None:
    found = [
        f"{file.relative_to(SOURCE)}:{line}: {text.splitlines()[0]}"
        for file in _files(room)
        for text, line in _docstrings(ast.parse(file.read_text()))
        if text.split()[0] in OPENINGS or UNWANTED.search(text)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("page", [*PAGES, ROOT / "README.md"], ids=str)
def test_pages_have_no_phrase_that_is_not_ours(page: Path) -> None:
    text = page.read_text()
    if page == DOCS / "glossary.md":  # its last column has the words that are not used
        text = re.sub(r"\|[^|\n]*\|$", "|", text, flags=re.MULTILINE)
    found = [" ".join(text[max(0, m.start() - 40) : m.end() + 40].split()) for m in UNWANTED.finditer(text)]
    assert not found, found


def test_help_texts_have_no_phrase_that_is_not_ours() -> None:
    found = [text for text in _help(parser()) if UNWANTED.search(text)]
    assert not found, found


def test_the_documents_are_short() -> None:
    assert sum(_words(page.read_text()) for page in PAGES) <= 35_000
    assert _words((ROOT / "README.md").read_text()) <= 900
    for folder, most in (("howto", 300), ("explain", 1500)):
        long = {page.name: _words(page.read_text()) for page in (DOCS / folder).glob("*.md")}
        assert not {name: words for name, words in long.items() if words > most}, folder
    long = {page.name: _words(page.read_text()) for page in (DOCS / "notes").glob("0*.md")}
    assert not {name: words for name, words in long.items() if words > 150}


@pytest.mark.parametrize("page", [*PAGES, ROOT / "README.md"], ids=str)
def test_paragraphs_and_list_items_are_short(page: Path) -> None:
    for text, is_item in _blocks(page.read_text()):
        assert _words(text) <= (60 if is_item else 120), text


@pytest.mark.parametrize("page", [page for page in PAGES if page.parent.name == "notes" and page.name != "README.md"])
def test_a_note_has_its_four_parts(page: Path) -> None:
    assert re.findall(r"^## (.*)$", page.read_text(), re.M) == ["Seen", "Cause", "Fix", "Status"]
    assert page.name in (DOCS / "notes" / "README.md").read_text()


@pytest.mark.parametrize("page", [*PAGES, ROOT / "README.md"], ids=str)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    links = re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r'(?:src|srcset)="([^"]+)"', text)
    for link in links:
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in _anchors(target.read_text()), link


def test_every_page_is_reached_from_the_index() -> None:
    seen, todo = set[Path](), [DOCS / "README.md"]
    while todo:
        page = todo.pop()
        if page not in seen:
            seen.add(page)
            links = re.findall(r"\]\(([^)#\s:]+\.md)", page.read_text())
            todo += [target for link in links if (target := (page.parent / link).resolve()).is_relative_to(DOCS)]
    assert seen >= set(PAGES), sorted(set(PAGES) - seen)


def test_pages_that_code_names_exist() -> None:
    files = [*SOURCE.rglob("*.py"), *SOURCE.rglob("*.toml"), ROOT / "Makefile"]
    for folder in ("tests", "bench", "data", "examples"):
        files += [*(ROOT / folder).rglob("*.py"), *(ROOT / folder).rglob("*.md")]
    named = {(name, file.name) for file in files for name in re.findall(r"\bdocs/[\w/-]+\.md", file.read_text())}
    assert not [pair for pair in sorted(named) if not (ROOT / pair[0]).exists()]


def test_paths_that_pages_name_exist() -> None:
    named = {
        (path.rstrip("."), page.name) for page in PAGES for path in re.findall(r"\bsrc/[\w/.-]+", page.read_text())
    }
    assert not [pair for pair in sorted(named) if not (ROOT / pair[0]).exists()]


def test_names_of_the_python_interface_that_pages_use_exist() -> None:
    if not hasattr(wl, "count"):
        pytest.skip("analyze does not return an Analysis yet")
    named = {name for page in [*PAGES, ROOT / "README.md"] for name in re.findall(r"\bwl\.(\w+)", page.read_text())}
    assert not [name for name in sorted(named) if not hasattr(wl, name)]


@pytest.mark.parametrize("section", ["chip", "sm", "memory", "cache", "shared_memory"])
def test_the_page_on_machine_files_has_every_key(section: str) -> None:
    text = (DOCS / "reference" / "machine-file.md").read_text()
    rows = text.partition(f"### `[{section}]`")[2].partition("\n### ")[0]
    stated = {key for row in re.findall(r"^\|([^|]*`[^|]*)\|", rows, re.M) for key in re.findall(r"`(\w+)`", row)}
    found = set(getattr(wl.load_machine("h200"), section).__struct_fields__)
    assert stated <= found, stated - found
    assert found <= stated, found - stated


def _files(room: str) -> list[Path]:
    """Return the Python files of a room, a package or a module, but those that Numba compiles."""
    files = sorted((SOURCE / room).rglob("*.py")) or [SOURCE / f"{room}.py"]
    return [file for file in files if file.relative_to(SOURCE).as_posix() not in COMPILED]


def _defined(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Yield every name that a module defines, with its line."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name, node.lineno
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name, node.lineno


def _docstrings(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Yield every docstring of a module, with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            text = ast.get_docstring(node)
            if text:
                yield text, node.body[0].lineno


def _help(command: argparse.ArgumentParser) -> Iterator[str]:
    """Yield every help text of a command and of the commands below it."""
    yield from (text for text in (command.description, command.epilog) if text)
    for action in command._actions:
        if action.help:
            yield action.help
        if isinstance(action, argparse._SubParsersAction):
            yield from (choice.help or "" for choice in action._choices_actions)
            for below in action.choices.values():
                yield from _help(below)


def _blocks(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the paragraphs and list items of a page, and whether each is a list item; no code, tables or headings."""
    lines: list[str] = []
    item = fenced = False
    for line in [*text.splitlines(), ""]:
        if line.lstrip().startswith("```"):
            fenced = not fenced
        begins = re.match(r"\s*([-*]|\d+\.) ", line) is not None
        ends = fenced or not line.strip() or begins or line.startswith(("#", "|", "```", "    $", "<"))
        if ends and lines:
            yield " ".join(lines), item
            lines = []
        if begins and not fenced:
            lines, item = [line], True
        elif not ends:
            if not lines:
                item = False
            if lines or not line.startswith("    "):
                lines.append(line)


def _anchors(text: str) -> set[str]:
    """Return the anchors that GitHub gives the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def _words(text: str) -> int:
    """Count the words of a text."""
    return len(text.split())
