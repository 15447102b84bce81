"""Programs that are started with limits of time and memory, without a shell.

One that runs past its limit is ended with all that it started.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from warplens.core.errors import WarplensError

TOO_LONG = -24  # the exit code of a program that SIGXCPU ends, past its limit
STALLED = -1000  # as an exit code: of a program that waited for so long that we ended it
IDLE_SECONDS = 20.0  # without any processor time: what waits for a pipe would wait for ever
_LOOKS = 10  # in that time
_BUSY = 4  # a machine that does other things too: the clock may run this much faster than the processor's time
# What a program says that one of its own programs ended by SIGXCPU, and that it got no memory.
_ENDED = re.compile(rb"^\S+: [a-z ]*error: CPU time limit exceeded|died due to signal 24\b", re.MULTILINE)
_REFUSED = re.compile(
    rb"^(\S+: out of memory|virtual memory exhausted|LLVM ERROR: out of memory|MemoryError\b|\S+ fatal +: Memory alloc"
    rb"|terminate called after throwing an instance of 'std::bad_alloc'|.*catastrophic error: out of memory)",
    re.MULTILINE,
)


class ToolError(WarplensError):
    """A tool that is missing, failed, or ran too long."""


class MissingTool(ToolError):
    """A tool that is not installed."""


def execute(
    command: Sequence[str],
    limit_seconds: float,
    limit_bytes: int | None = None,
    *,
    folder: str | Path | None = None,
    sent: bytes = b"",
) -> tuple[int, bytes, bytes]:
    """Run a program and return its exit code, output and errors; past its time, the code is TOO_LONG.

    Time is that of the processor, so that a busy machine does not matter; a limit of memory may be set too. A program
    that only waits is ended too, with the code STALLED; `excess` says all that in words. The program works in `folder`
    and leaves its temporary files there. When it takes too long or we are interrupted, its process group is ended.
    """
    surroundings = {**os.environ, "TMPDIR": str(folder)} if folder else None
    pipe, ended = subprocess.PIPE, False
    with subprocess.Popen(
        command, stdin=pipe, stdout=pipe, stderr=pipe, cwd=folder, env=surroundings, start_new_session=True
    ) as process:
        try:
            answer = _finished(process, limit_seconds, limit_bytes, sent)
            ended = process.poll() is not None
        except subprocess.TimeoutExpired:
            answer = TOO_LONG, b"", b""
        finally:
            if not ended:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
    return answer


def _finished(
    process: subprocess.Popen[bytes], limit_seconds: float, limit_bytes: int | None, sent: bytes
) -> tuple[int, bytes, bytes]:
    """Wait for a program within its limits, of processor time and memory; return its exit code, output and errors."""
    with contextlib.suppress(ImportError, AttributeError, OSError, ValueError):  # where the system can
        import resource

        whole = int(-(-limit_seconds // 1))
        resource.prlimit(process.pid, resource.RLIMIT_CPU, (whole, whole + 1))
        if limit_bytes is not None:
            resource.prlimit(process.pid, resource.RLIMIT_AS, (limit_bytes, limit_bytes))
    begun = moved = time.monotonic()
    used: int | None = 0
    while True:
        try:
            out, err = process.communicate(sent, timeout=min(_BUSY * limit_seconds, IDLE_SECONDS / _LOOKS))
        except subprocess.TimeoutExpired:
            sent, now, spent = b"", time.monotonic(), _spent(process.pid)
            if now - begun > _BUSY * limit_seconds:
                raise
            if spent is None or spent != used:
                used, moved = spent, now
            elif now - moved > IDLE_SECONDS:
                return STALLED, b"", b""
        else:
            return process.returncode, out, err


def excess(code: int, said: bytes, limit_seconds: float, limit_bytes: int | None = None) -> str:
    """Return which of our limits ended a program, or one that it started, in words; nothing if none did."""
    if code == TOO_LONG or (code and _ENDED.search(said)):
        return f"did not finish within {limit_seconds:.0f} s of processor time"
    if code == STALLED:
        return f"used no processor time for {IDLE_SECONDS:.3g} s: it waits, as for a pipe that nobody writes to"
    if code and limit_bytes is not None and _REFUSED.search(said):
        return f"needed more than {limit_bytes / 2**30:.3g} GiB of memory"
    return ""


def _spent(session: int) -> int | None:
    """Return the processor time of a session's processes, in the system's ticks; None where the system has no /proc."""
    total, looked = 0, False
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):  # processes come and go
            fields = stat.read_bytes().rpartition(b")")[2].split()
            looked = True
            total += sum(map(int, fields[11:15])) if int(fields[3]) == session else 0
    return total if looked else None
