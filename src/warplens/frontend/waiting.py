"""nvdisasm, started before there is code for it.

It spends a third of a second on its tables before it reads a byte: while the compiler works, if it began with it. Of
bare machine code it is told the architecture on the command line, looks at its file once, makes its tables and opens
the file again. Both times the file is one that we hold a lease of, so that nobody can open it until we let go: at the
first opening another, empty file takes its name, and that one is let go when the code is in it. Nothing depends on
which of us is quicker. Where the system has no leases, or the tool does otherwise one day, there is no answer, and the
kernel is disassembled as usual.
"""

from __future__ import annotations

import contextlib
import re
import signal
import struct
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from warplens.frontend import toolchain

Disassembler = Callable[[bytes], str | None]  # machine code to text, once; nothing where that failed

_INSTRUCTION_BYTES = 16
# What tells us: unlike SIGIO, one that ends nobody who does not wait for it. (Who lacks it lacks leases.)
_OPENED = getattr(signal, "SIGURG", signal.SIGTERM)
_SET_OWNER, _THREAD = 15, 0  # F_SETOWN_EX, F_OWNER_TID: whom it tells
_OPENING_SECONDS = 2.0  # to start a process that opens a file, on a busy machine
_WORD = re.compile(r"/\* 0x([0-9a-f]{16}) \*/")


@contextmanager
def waiting(arch: str) -> Iterator[Disassembler]:
    """Start nvdisasm for an architecture, and yield what gives it the machine code."""
    with contextlib.ExitStack() as stack:
        ready: Disassembler = _nothing
        with contextlib.suppress(ImportError, AttributeError, OSError, toolchain.ToolError):
            ready = stack.enter_context(_started(arch))
        yield ready


def _nothing(_: bytes) -> None:
    return None


@contextmanager
def _started(arch: str) -> Iterator[Disassembler]:
    told = {_OPENED, signal.SIGCHLD}  # that somebody opens what is leased, or that the tool has ended
    before = signal.pthread_sigmask(signal.SIG_BLOCK, told)
    try:
        with tempfile.TemporaryDirectory(prefix="warplens-") as folder:
            file, follower = Path(folder) / "code", Path(folder) / "follower"
            command = [str(toolchain.tool("nvdisasm")), "-b", arch.replace("sm_", "SM"), "-hex", str(file)]
            with _leased(file) as ahead, _leased(follower) as code, toolchain.running(command, folder) as process:
                signal.sigtimedwait(told, _OPENING_SECONDS)
                follower.rename(file)
                _fill(ahead, bytes(_INSTRUCTION_BYTES))
                yield lambda data: _text(process, code, data)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _leased(path: Path) -> Iterator[BinaryIO]:
    """Make a file that nobody else can open until it is let go, and yield it."""
    import fcntl

    with path.open("wb") as file:
        fcntl.fcntl(file, _SET_OWNER, struct.pack("ii", _THREAD, threading.get_native_id()))
        fcntl.fcntl(file, fcntl.F_SETSIG, _OPENED)
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        yield file


def _fill(file: BinaryIO, data: bytes) -> None:
    """Write a leased file and let it go."""
    import fcntl

    file.write(data)
    file.flush()
    fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)


def _text(process: subprocess.Popen[bytes], file: BinaryIO, code: bytes) -> str | None:
    """Give the tool its code; return what it makes of it, unless that is not of this code."""
    try:
        _fill(file, code)
        failed, out, _ = toolchain.finished(process, *toolchain.disassembler_limits(len(code)))
    except (OSError, subprocess.TimeoutExpired):
        return None
    text = out.decode("utf-8", "replace")
    words = [int(word, 16) for word in _WORD.findall(text)]
    return text if not failed and struct.pack(f"<{len(words)}Q", *words) == code else None
