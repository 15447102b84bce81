"""Functions that are compiled once: later processes load them without Numba, and what is out of date is replaced."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from warplens.core import native
from warplens.core import progress as notice
from warplens.core.progress import waiting

PROGRAM = """
import sys
from pathlib import Path
import numpy as np
from warplens.core.native import Entry, Function

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
from warplens.core.native import Entry

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


def test_what_allocates_finds_numba_which_does_it(tmp_path: Path) -> None:
    """It was called with nothing behind the name in every process but the one that compiled it, and died."""
    program, source, kept = tmp_path / "program.py", tmp_path / "source.py", tmp_path / "kept"
    program.write_text(ALLOCATING)
    source.write_text("one")
    assert _run(program, source, kept, compiles=True) == "True"
    assert _run(program, source, kept, compiles=False) == "True"


def _kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> native.Kept:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(folder))
    monkeypatch.setattr(native, "loaded", lambda kept: len(kept.code))
    return native.Kept("engine.run", folder, "stamp")


def _compiled() -> tuple[bytes, str, bool]:
    return bytes(range(256)), "run", True


def _never() -> tuple[bytes, str, bool]:
    raise AssertionError("compiled again")


def test_a_damaged_file_is_compiled_anew_and_never_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 60 damaged files 9 ended the process by a signal, and at every later start again."""
    first = _kept(tmp_path, monkeypatch)
    first.address(_compiled)
    (file,) = tmp_path.iterdir()
    whole = file.read_bytes()
    assert _kept(tmp_path, monkeypatch).address(_never) == 256
    damaged = [whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :] for at in range(len(whole))]
    for content in (*damaged, whole[:-1], whole + b"\0", b"", bytes(100)):
        file.write_bytes(content)
        assert _kept(tmp_path, monkeypatch).found is None
    again = _kept(tmp_path, monkeypatch)
    assert again.address(_compiled) == 256
    assert file.read_bytes() == whole


def test_of_several_starts_at_once_one_compiles_and_the_others_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    native._say_once.cache_clear()
    starts, compiled = [_kept(tmp_path, monkeypatch) for _ in range(6)], list[int]()

    def compile(number: int) -> tuple[bytes, str, bool]:
        time.sleep(0.3)
        compiled.append(number)
        return b"code", "run", True

    with ThreadPoolExecutor(6) as pool:
        addresses = list(pool.map(lambda i: starts[i].address(lambda: compile(i)), range(6)))
    assert addresses == [4] * 6 and len(compiled) == 1
    assert "waiting for another process, which compiles" in capsys.readouterr().err
    assert [file.suffix for file in tmp_path.iterdir()] == [".code"]  # and no lock is left


def test_a_lock_that_a_process_left_blocks_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is there, but the system has unlocked it; one that is locked for ever is passed after a while."""
    kept = _kept(tmp_path, monkeypatch)
    lock = kept.files[0].with_suffix(".lock")
    lock.write_bytes(b"")
    monkeypatch.setattr(native, "_LONGEST_WAIT_SECONDS", 0.3)
    start = time.monotonic()
    with native._alone(kept.files):
        assert time.monotonic() - start < 0.2
        with native._alone(kept.files):
            assert 0.3 <= time.monotonic() - start < 1
    assert not lock.exists()


def test_the_command_line_obeys_signals_while_it_compiles_and_other_programs_keep_their_own() -> None:
    code = """
import signal, os, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started us may ignore it
from warplens import cli
from warplens.core import native
if len(sys.argv) > 1:
    cli.main(["models", "--json"])
    sys.stdout.flush()
before = signal.getsignal(signal.SIGTERM)
with native._obeying_signals():
    print(signal.getsignal(signal.SIGTERM) is not before, signal.getsignal(signal.SIGINT) is signal.SIG_DFL)
assert signal.getsignal(signal.SIGTERM) is before and signal.getsignal(signal.SIGINT) is signal.default_int_handler
"""
    for arguments, said in (([], "False False"), (["cli"], "True True")):
        done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
        assert done.stdout.splitlines()[-1] == said


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


WITHOUT_LOCKS = """
import sys
from pathlib import Path
sys.modules["fcntl"] = None  # as on Windows
import warplens
from warplens.core import native
with native._alone([Path(sys.argv[1])]):
    print("compiles")
"""


def test_a_system_without_locks_compiles_without_them(tmp_path: Path) -> None:
    run = [sys.executable, "-c", WITHOUT_LOCKS, str(tmp_path / "kept.code")]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "compiles\n", "")
    assert list(tmp_path.iterdir()) == []


def test_numba_is_for_every_system_and_compilers_for_linux() -> None:
    """Without Numba a saved workload is answered by a paper's model, and `advise` refuses it."""
    needs = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]["dependencies"]
    assert {need.split(">=")[0]: "linux" in need for need in needs if "numba" in need or "linux" in need}.items() >= {
        "numba": False, "nvidia-cuda-nvcc": True,
    }.items()  # fmt: skip
