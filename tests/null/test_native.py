"""Functions that are compiled once: later processes load them without Numba, and what is out of date is replaced."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

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


def _run(program: Path, source: Path, kept: Path) -> str:
    surroundings = {**os.environ, "NUMBA_CACHE_DIR": str(kept)}
    command = [sys.executable, str(program), str(source)]
    done = subprocess.run(command, env=surroundings, capture_output=True, text=True, check=False)
    assert done.stderr == ""
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


def test_what_allocates_finds_numba_which_does_it(tmp_path: Path) -> None:
    """It was called with nothing behind the name in every process but the one that compiled it, and died."""
    program, source, kept = tmp_path / "program.py", tmp_path / "source.py", tmp_path / "kept"
    program.write_text(ALLOCATING)
    source.write_text("one")
    assert _run(program, source, kept) == "True"
    assert _run(program, source, kept) == "True"
