"""Programs that we start: a limit of time and memory each, and no shell.

What runs past its limit goes with all that it started.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from warplens.errors import WarplensError

TOO_LONG = -24  # the exit code of a program that SIGXCPU ends, past its limit
_BUSY = 4  # a machine that does other things too: the clock may run this much faster than the processor's time


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
    given: bytes = b"",
) -> tuple[int, bytes, bytes]:
    """Run a program and return its exit code, output and errors; past its time, the code is TOO_LONG.

    Time is that of the processor, so that a busy machine does not matter; a limit of memory may be set too. The
    program works in `folder` and leaves its own temporary files there. When it takes too long or we are
    interrupted, its process group goes.
    """
    try:
        with running(command, folder) as process:
            return finished(process, limit_seconds, limit_bytes, given)
    except subprocess.TimeoutExpired:
        return TOO_LONG, b"", b""


@contextlib.contextmanager
def running(command: Sequence[str], folder: str | Path | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """Start a program in a folder, and yield its process; behind that it has ended, or its process group goes."""
    surroundings = {**os.environ, "TMPDIR": str(folder)} if folder else None
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, stdin=pipe, stdout=pipe, stderr=pipe, cwd=folder, env=surroundings, start_new_session=True
    ) as process:
        ended = False
        try:
            yield process
            ended = process.poll() is not None
        finally:
            if not ended:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)


def finished(
    process: subprocess.Popen[bytes], limit_seconds: float, limit_bytes: int | None = None, given: bytes = b""
) -> tuple[int, bytes, bytes]:
    """Let a program finish within its limits, of processor time and memory; return its exit code, output and errors."""
    _limit(process.pid, limit_seconds, limit_bytes)
    out, err = process.communicate(given, timeout=_BUSY * limit_seconds)
    return process.returncode, out, err


def _limit(process: int, seconds: float, size: int | None) -> None:
    """Limit a process's time on the processor and its memory, where the system can."""
    with contextlib.suppress(ImportError, AttributeError, OSError, ValueError):
        import resource

        whole = int(-(-seconds // 1))
        resource.prlimit(process, resource.RLIMIT_CPU, (whole, whole + 1))
        if size is not None:
            resource.prlimit(process, resource.RLIMIT_AS, (size, size))
