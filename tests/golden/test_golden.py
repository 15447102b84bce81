"""Golden files: transcripts of the command line, compared with what its commands print now.

A file has commands as lines that begin with `$ `; below each stand its standard output, its standard error with `2> `
before each line, and its exit code where that is not 0. `| keys` behind a command prints the keys of its JSON in the
stead of numbers, `| head -N` the first lines. To add a case, write its `$ ` line; `make golden` writes the rest.

    null/   commands that need no compiler
    cuda/   commands that compile, with the version of the wheels that made the file in its first line
    input/  the files that the commands read; they run in a copy of this folder

Version numbers, and the width that argparse takes from the terminal, are normalised.
"""

from __future__ import annotations

import difflib
import json
import re
import shlex
import shutil
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pytest

from warplens.cli import main
from warplens.core.version import __version__

FOLDER = Path(__file__).parent
FILES = sorted((*FOLDER.glob("null/*.txt"), *FOLDER.glob("cuda/*.txt")))
FILTER = re.compile(r" \| (keys|head -\d+)$")
PROGRESS = re.compile(r"\w+: [\d,]+ of [\d,]+")  # a line after ten seconds: how busy the machine is
SAME_HELP = (3, 11), (3, 12)  # Pythons whose argparse writes help as in the files


NAMED = {  # tables whose keys are names of things
    "by_registers", "by_shared_bytes", "changes", "files", "instructions", "limits_cycles", "models",
    "models_seconds", "needed_warps_per_sm", "parts_cycles", "predictions", "remarks", "rows", "sampled_fraction",
    "silent", "sources", "stalls", "stalls_cycles", "stalls_fraction", "steps", "terms", "values", "workloads",
}  # fmt: skip


def keys(node: Any, at: str = "") -> list[str]:
    """Return the paths of all keys of a tree, with the type of each leaf.

    The rows of a list count as one, and so do the entries of a table whose keys are names of things (`NAMED`).
    """
    last, tables = at.rpartition(".")[2], isinstance(node, dict) and all(isinstance(x, dict) for x in node.values())
    if isinstance(node, dict) and (last in NAMED or (last == "NAME" and tables)):
        found = [path for value in node.values() for path in keys(value, f"{at}.NAME")] or [f"{at}.NAME"]
        return list(dict.fromkeys(found))
    if isinstance(node, dict):
        return [path for key, value in node.items() for path in keys(value, f"{at}.{key}" if at else str(key))]
    if isinstance(node, list):
        found = [path for row in node for path in keys(row, f"{at}[]")] or [f"{at}[]"]
        return list(dict.fromkeys(found))
    kind = "number" if isinstance(node, (int, float)) and not isinstance(node, bool) else type(node).__name__
    return [f"{at}: {kind}"]


def plain(text: str) -> str:
    """Return a text without what depends on a version."""
    text = text.replace(f"warplens {__version__}", "warplens VERSION")
    text = re.sub(r"(NVRTC|nvdisasm|ptxas|nvcc) \d+\.\d+(\.\d+)?", r"\1 VERSION", text)
    return "\n".join(line.rstrip() for line in text.splitlines())


def answer(command: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Run a command; return its line and what it prints."""
    bare, chosen = FILTER.sub("", command), FILTER.search(command)
    try:
        code = main(shlex.split(bare)[1:])
    except SystemExit as ended:  # as argparse does
        code = int(ended.code or 0)
    out, err = capsys.readouterr()
    if chosen and chosen[1] == "keys":
        out = "\n".join(keys(json.loads(out)))
    elif chosen:
        out = "\n".join(out.splitlines()[: int(chosen[1].partition("-")[2])])
    errors = [f"2> {line}".rstrip() for line in plain(err).splitlines() if not PROGRESS.fullmatch(line)]
    parts = [f"$ {command}", *plain(out).splitlines(), *errors, *([f"[exit {code}]"] if code else [])]
    return "\n".join(parts) + "\n"


def toolkit() -> str:
    """Return the version of the compiler that `prefer_wheels` takes."""
    try:
        return f"nvidia-cuda-nvrtc {version('nvidia-cuda-nvrtc')}"
    except PackageNotFoundError:
        return "no wheel of NVRTC"


@pytest.mark.parametrize("file", FILES, ids=[f"{file.parent.name}/{file.stem}" for file in FILES])
def test_golden(
    file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    pytestconfig: pytest.Config,
) -> None:
    rewrite, kept = pytestconfig.getoption("--golden", default=False), file.read_text()
    if file.stem == "help" and sys.version_info[:2] not in SAME_HELP:
        pytest.skip("argparse of this Python writes help in another way")
    head = ""
    if file.parent.name == "cuda":
        head = f"# made with {toolkit()}\n\n"
        if not rewrite and not kept.startswith(head):
            pytest.skip(f"{kept.splitlines()[0]}, not with {toolkit()}")
    shutil.copytree(FOLDER / "input", tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "110")
    commands = [line.removeprefix("$ ") for line in kept.splitlines() if line.startswith("$ ")]
    now = head + "\n".join(answer(command, capsys) for command in commands)
    if rewrite:
        file.write_text(now)
        return
    differences = list(difflib.unified_diff(kept.splitlines(), now.splitlines(), str(file), "now", lineterm=""))
    if differences:
        pytest.fail("\n".join([*differences, "", "If this is what is meant: make golden, and read the diff"]), False)
