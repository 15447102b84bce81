"""A program that a forked process loads meanwhile: it arrives, or what is wrong with it, and the process ends."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

FORKED = """
import os, sys, time
from pathlib import Path
from warplens.cli.ahead import forked
from warplens.core.errors import FileError, WarplensError
from warplens.core import processes
from warplens.program import load_program

listing = Path(sys.argv[1])
with forked(lambda: load_program(listing)) as wait:
    assert wait() == load_program(listing)

later = Path(sys.argv[3])
with forked(lambda: load_program(listing), lambda: (time.sleep(0.2), later.write_text("kept"))) as wait:
    assert wait() is not None
    assert not later.exists()  # nobody waits for what is done behind the answer
assert later.read_text() == "kept"  # but it is done

with forked(lambda: load_program("nothing.sass")) as wait:
    try:
        wait()
    except WarplensError as error:
        assert str(error) == "nothing.sass: No such file or directory", error

with forked(lambda: os._exit(3)) as wait:
    assert wait() is None
with forked(lambda: 1 / 0) as wait:
    assert wait() is None

note = Path(sys.argv[2])
start = time.monotonic()
tool = f"import os, time; open({str(note)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
with forked(lambda: processes.execute([sys.executable, "-c", tool], 60)) as wait:
    while not note.exists() or not note.read_text():
        time.sleep(0.01)
state = Path(f"/proc/{note.read_text()}/stat")
while state.exists() and ") Z " not in state.read_text():
    assert time.monotonic() - start < 20
    time.sleep(0.01)
assert "numpy" not in sys.modules  # what is done before the fork is little
"""


def test_a_forked_process_answers_and_ends(tmp_path: Path) -> None:
    (tmp_path / "k.sass").write_text("loop: FADD R1, R1, R2;\n@P0 BRA loop;\nEXIT;\n")
    command = [sys.executable, "-c", FORKED, *(str(tmp_path / name) for name in ("k.sass", "note", "later"))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


LEFT = """
import os, signal, sys
from warplens.cli.ahead import forked
from warplens.core import processes

tool = f"import time; time.sleep(0.5); open({sys.argv[1]!r}, 'w').write('compiled')"
with forked(lambda: (print(os.getpid(), flush=True), processes.execute([sys.executable, "-c", tool], 60))):
    os.kill(os.getpid(), signal.SIGKILL)  # as SIGTERM does while LLVM compiles
"""


def test_a_forked_process_ends_by_itself_where_the_other_was_killed(tmp_path: Path) -> None:
    run = [sys.executable, "-c", LEFT, str(tmp_path / "note")]
    done = subprocess.run(run, capture_output=True, text=True, check=False)  # until both have closed standard output
    assert done.returncode == -signal.SIGKILL and (tmp_path / "note").read_text() == "compiled"
    state, start = Path(f"/proc/{int(done.stdout)}/stat"), time.monotonic()
    while state.exists() and ") Z " not in state.read_text():
        assert time.monotonic() - start < 20
        time.sleep(0.01)
