"""Where the CUDA tools are: the pip wheels of the extra warplens[cuda], what is on the PATH, or /usr/local/cuda.

Nothing is run through a shell. Every run has a limit, and what runs past it goes with all that it started.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

from warplens.errors import WarplensError
from warplens.units import printable

_WHEEL = {
    "nvdisasm": "nvidia-cuda-nvdisasm",
    "cuobjdump": "nvidia-cuda-cuobjdump",
    "ptxas": "nvidia-cuda-nvcc",
    "nvcc": "nvidia-cuda-nvcc",
}
NEWEST_TESTED = (13, 5)  # of the CUDA toolkits
_NVIDIAS = re.compile(r"(?:NVRTC|nvcc|ptxas|nvlink|fatbinary|nvdisasm) (\d{1,4})\.(\d{1,4})")
INSTALLED = Path("/usr/local/cuda")  # where the CUDA toolkit installs itself
TOOL_SECONDS, COMPILER_SECONDS = 3.0, 60.0  # processor time; a large source takes long
TOOL_BYTES = 1 << 30  # of memory, a damaged file may make a tool ask for all there is
# What nvdisasm may take for a cubin: ten times the time and four times the memory of a healthy one.
_BYTES_PER_SECOND, _BYTES_PER_BYTE = 16000.0, 500
TOO_LONG = -24  # the exit code of a program that SIGXCPU ends, past its limit
_BUSY = 4  # a machine that does other things too: the clock may run this much faster than the processor's time
_LONGEST_MESSAGE = 1000


class ToolError(WarplensError):
    """A tool that is missing, failed, or ran too long."""


class MissingTool(ToolError):
    """A tool that is not installed."""


@cache
def wheel_folders() -> tuple[Path, ...]:
    """Return the folders of the CUDA wheels (site-packages/nvidia/cu13 and the like), newest first."""
    spec = importlib.util.find_spec("nvidia")
    roots = [Path(p) for p in spec.submodule_search_locations or []] if spec else []
    found = [folder for root in roots for folder in root.glob("cu[0-9]*") if folder.is_dir()]
    return tuple(sorted(found, key=lambda f: f.name, reverse=True))


@cache
def tool(name: str) -> Path:
    """Return the path of a CUDA tool, from the wheels first; a missing one is named with what brings it."""
    for folder in wheel_folders():
        path = folder / "bin" / name
        if path.is_file() and os.access(path, os.X_OK):
            return path
    found = shutil.which(name) or shutil.which(name, path=str(INSTALLED / "bin"))
    if found:
        return Path(found)
    raise MissingTool(
        f"{name} is not installed; `pip install 'warplens[cuda]'` brings it (wheel {_WHEEL.get(name, name)})"
    )


def include_folders() -> list[Path]:
    """Return the include folders of the wheels, for headers such as cuda_fp16.h."""
    places = [folder / part for folder in wheel_folders() for part in ("include", "include/cccl")]
    return [place for place in places if place.is_dir()]


def one_line(text: str) -> str:
    """Make a message one line of harmless characters, and not too long."""
    flat = printable(" ".join(text.split()))
    return flat if len(flat) <= _LONGEST_MESSAGE else flat[: _LONGEST_MESSAGE - 4] + " ..."


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


def disassembler_limits(size: int) -> tuple[float, int]:
    """Return the processor seconds and the bytes of memory that nvdisasm may take for a file of a size."""
    seconds = max(TOOL_SECONDS, min(COMPILER_SECONDS, size / _BYTES_PER_SECOND))
    return seconds, TOOL_BYTES + _BYTES_PER_BYTE * size


def _limit(process: int, seconds: float, size: int | None) -> None:
    """Limit a process's time on the processor and its memory, where the system can."""
    with contextlib.suppress(ImportError, AttributeError, OSError, ValueError):
        import resource

        whole = int(-(-seconds // 1))
        resource.prlimit(process, resource.RLIMIT_CPU, (whole, whole + 1))
        if size is not None:
            resource.prlimit(process, resource.RLIMIT_AS, (size, size))


def serve(module: str, given: bytes, limit_seconds: float) -> tuple[int, bytes]:
    """Let `serve` of a module of this package answer in a process of its own; return exit code and output.

    The module comes from where this one is, never from the current folder.
    """
    home = str(Path(__file__).resolve().parents[2])
    program = f"import sys; sys.path.append({home!r}); from warplens.frontend import {module}; {module}.serve()"
    code, out, _ = execute([sys.executable, "-P", "-c", program], limit_seconds, given=given)
    return code, out


def run(
    name: str,
    *arguments: str | Path,
    folder: str | Path | None = None,
    limit_seconds: float = COMPILER_SECONDS,
    limit_bytes: int | None = None,
) -> str:
    """Run a tool (in `folder`) and return its standard output; its own message becomes the error."""
    try:
        code, out, err = execute([str(tool(name)), *map(str, arguments)], limit_seconds, limit_bytes, folder=folder)
    except OSError as error:
        raise ToolError(f"{name} could not be run: {error.strerror or error}") from None
    if code == TOO_LONG:
        raise ToolError(f"{name} did not finish within {limit_seconds:.0f} s of processor time")
    if code != 0:
        text = one_line((err or out).decode("utf-8", "replace"))
        raise ToolError(f"{name}: {text or (f'crashed by signal {-code}' if code < 0 else f'failed with code {code}')}")
    return out.decode("utf-8", "replace")


@cache
def version(name: str) -> str:
    """Return a tool's version, such as `nvdisasm 13.4.92`; a wheel's own version saves running the tool."""
    if made := wheel_version(tool(name), _WHEEL[name]):
        return f"{name} {made}"
    found_in = re.search(r"V(\d+(?:\.\d+)+)", run(name, "--version"))
    return f"{name} {found_in.group(1)}" if found_in else name


def untested(tools: Iterable[str]) -> list[str]:
    """Return a note on those of a program's tools that are newer than what warplens was tested with; none else."""
    versions = [(tool, _NVIDIAS.match(tool)) for tool in tools]
    newer = [tool for tool, found in versions if found and (int(found[1]), int(found[2])) > NEWEST_TESTED]
    newest = ".".join(map(str, NEWEST_TESTED))
    return [f"machine code by {', '.join(newer)}; warplens was tested up to {newest}"] if newer else []


def wheel_version(file: Path, wheel: str) -> str | None:
    """Return the version of the wheel that brought a file; nothing if it came by another way."""
    name = wheel.replace("-", "_")
    homes = (folder.parents[1] for folder in wheel_folders() if file.is_relative_to(folder))
    found = next((info.name for home in homes for info in home.glob(f"{name}-*.dist-info")), None)
    return found and found[len(name) + 1 : -len(".dist-info")]
