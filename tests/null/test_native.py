"""Functions that are compiled once: later processes load them without Numba, and what is out of date is replaced."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from warplens import notice
from warplens.notice import waiting

PROGRAM = """
import sys
from pathlib import Path
import numpy as np
from warplens.native import Entry, Function

def total(x, times, out):
    s = 0
    for row in range(x.shape[0]):
        for column in range(x.shape[1]):
            s += x[row, column]
            out[column] += 0.5 * x[row, column]
    return s * times

def double(a):
    return 2 * a

def signature():
    from numba import types
    return types.int64(types.int64)

sources = lambda: (Path(sys.argv[1]),)
x, out = np.arange(6, dtype=np.int32).reshape(2, 3), np.zeros(3)
assert Entry(total, {"error_model": "numpy"}, sources)(x, 10, out) == 150
assert out.tolist() == [1.5, 2.5, 3.5]
row = np.ones((1, 3), np.int32)  # of one row, not to be written, or empty: all by the same machine code
row.flags.writeable = False
assert [Entry(total, {"error_model": "numpy"}, sources)(a, 1, out) for a in (row, x[:0])] == [3, 0]
function = Function(double, signature, {}, sources)
ready = function.is_ready()
assert function.call(21) == 42
assert function.is_ready()
print(ready, "numba" in sys.modules)
"""
NOTICE = r"warplens: compiling a part of warplens for this machine, once: about 5 s \.*"
SAY = notice._say  # before the tests' own settings


def _run(program: Path, source: Path, kept: Path, compiles: bool | None = None) -> str:
    surroundings = {**os.environ, "NUMBA_CACHE_DIR": str(kept)}
    command = [sys.executable, str(program), str(source)]
    done = subprocess.run(command, env=surroundings, capture_output=True, text=True, check=False)
    said = done.stderr.splitlines()
    assert all(re.fullmatch(NOTICE, line) for line in said), done.stderr
    compiles = done.stdout.startswith("False") if compiles is None else compiles  # "False": was not ready
    assert bool(said) == compiles
    return done.stdout.strip()


def test_what_was_compiled_is_loaded_without_numba_until_it_is_out_of_date(tmp_path: Path) -> None:
    program, source, kept = tmp_path / "program.py", tmp_path / "source.py", tmp_path / "kept"
    program.write_text(PROGRAM)
    source.write_text("one")
    assert _run(program, source, kept) == "False True"
    assert _run(program, source, kept) == "True False"
    files = sorted(kept.iterdir())
    assert [file.name.split("-")[0].split(".cpython")[0] for file in files] == ["__main__.double", "__main__.total"]
    source.write_text("another")
    assert _run(program, source, kept) == "False True"
    for file in files:
        file.write_bytes(file.read_bytes()[:-100])
    assert _run(program, source, kept) == "False True"
    assert _run(program, source, kept) == "True False"
    assert sorted(kept.iterdir()) == files


def test_where_nothing_can_be_kept_it_is_compiled_again(tmp_path: Path) -> None:
    program, source, kept = tmp_path / "program.py", tmp_path / "source.py", tmp_path / "kept"
    program.write_text(PROGRAM)
    source.write_text("one")
    kept.write_text("a file where the folder would be")
    assert _run(program, source, kept) == "False True"
    assert kept.is_file() and sorted(tmp_path.iterdir()) == [kept, program, source]  # as before: so it will be again


ALLOCATING = """
import sys
from pathlib import Path
import numpy as np
from warplens.native import Entry

def doubled(x):
    return np.int64((x + x).sum())

assert Entry(doubled, {}, lambda: (Path(sys.argv[1]),))(np.arange(4)) == 12
print("numba" in sys.modules)
"""
WITHOUT_NUMBA = """
import importlib.util, sys
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "numba" else find(name, *rest)
from warplens.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    ("command", "what"),
    [
        (["simulate", "saxpy"], "the simulator"),
        (["analyze", "--launch", "examples/saxpy.toml"], "the emulator"),
        (["check", "examples/saxpy.toml", "--max-time", "1 s"], ""),
        (["predict", "saxpy"], ""),
        (["compare", "saxpy"], ""),
    ],
)
def test_without_numba_nothing_runs_as_plain_python(command: list[str], what: str) -> None:
    """`simulate` did, without a word and for hours."""
    root = Path(__file__).parents[2]
    run = [sys.executable, "-c", WITHOUT_NUMBA, *command]
    done = subprocess.run(run, cwd=root, capture_output=True, text=True, check=False, timeout=60)
    if what:
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == f"warplens: {what} needs Numba: pip install numba\n"
    else:
        assert done.returncode in (0, 2) and "interpreted" not in done.stderr and done.stderr.count("\n") <= 1


def test_what_takes_long_is_said_at_once_and_again(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notice, "_say", SAY)
    monkeypatch.setattr(notice, "_DOT_SECONDS", 0.2)
    monkeypatch.setattr(notice, "_SAID", set())
    with waiting("compiling it", "5 s"):
        assert capsys.readouterr().err == "warplens: compiling it: about 5 s "
        with waiting("a part of it", "1 s"):
            time.sleep(0.5)  # 2.5 dots
        assert capsys.readouterr().err == ".."
    assert capsys.readouterr().err == "\n"
    with waiting("compiling it", "2 s"):  # a second time, and quickly
        pass
    assert capsys.readouterr().err == ""
    with waiting("compiling it", "2 s"):
        time.sleep(0.3)
    assert capsys.readouterr().err == "warplens: compiling it: about 2 s .\n"
