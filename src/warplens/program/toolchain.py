"""Which program a CUDA tool is, and how it is run: of the toolkit that compiles, or of the wheels where that lacks it.

Nothing is run through a shell. Every run has a limit, and what runs past it goes with all that it started.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from warplens.core.processes import TOO_LONG as TOO_LONG
from warplens.core.processes import MissingTool as MissingTool
from warplens.core.processes import ToolError as ToolError
from warplens.core.processes import excess as excess
from warplens.core.processes import execute as execute
from warplens.core.processes import finished as finished
from warplens.core.processes import running as running
from warplens.core.units import printable
from warplens.program import toolkits
from warplens.program.toolkits import INSTALLED as INSTALLED
from warplens.program.toolkits import Toolkit, release_of

_WHEEL = {
    "nvdisasm": "nvidia-cuda-nvdisasm",
    "cuobjdump": "nvidia-cuda-cuobjdump",
    "ptxas": "nvidia-cuda-nvcc",
    "nvcc": "nvidia-cuda-nvcc",
    "NVRTC": "nvidia-cuda-nvrtc",
}
NEWEST_TESTED = (13, 5)  # of the CUDA toolkits
_NVIDIAS = re.compile(r"(?:NVRTC|nvcc|ptxas|nvlink|fatbinary|nvdisasm) (\d{1,4})\.(\d{1,4})")
TOOL_SECONDS, COMPILER_SECONDS = 3.0, 60.0  # processor time; a large source takes long
COMPILER_BYTES = 8 << 30  # of memory, each; one with CUB and cooperative groups takes less than 1 GiB
TOOL_BYTES = 1 << 30  # of memory, a damaged file may make a tool ask for all there is
# What nvdisasm may take for a cubin: ten times the time and four times the memory of a healthy one.
_BYTES_PER_SECOND, _BYTES_PER_BYTE = 16000.0, 500
_LONGEST_MESSAGE = 1000


class Found(Struct, frozen=True):
    """A tool: its path, and its version with the toolkit it is of, as an answer names it."""

    path: Path
    version: str


def found(name: str, toolkit: str | None = None, at_least: str = "") -> Found:
    """Return a tool of the toolkit that compiles; where that has none, or one older than `at_least`, of the wheels.

    A missing tool is named with what brings it.
    """
    first, wheels = toolkits.chosen(toolkit), toolkits.wheels()
    kept = _of(name, first)
    if kept is None or (at_least and _is_older(name, first, at_least)):
        instead = None if first.is_wheels else _of(name, wheels)
        if instead is not None:
            why = f"that {first.where} is older than the code" if kept else f"{first.folders[0]} has none"
            return Found(instead, f"{_named(name, wheels)} (wheel: {why})")
    if kept is None:
        raise MissingTool(f"{name} is not installed; {bringing(name)}")
    return Found(kept, f"{_named(name, first)} {first.where}")


def newer(name: str, than: Found) -> Found | None:
    """Return the wheels' tool where it is another than this one."""
    wheels = toolkits.wheels()
    path = _of(name, wheels)
    if path is None or path == than.path:
        return None
    return Found(path, f"{_named(name, wheels)} (wheel: {than.version} is older than the code)")


def bringing(name: str) -> str:
    """Say what brings a tool that is missing."""
    return f"install a CUDA toolkit, or the wheel: pip install {_WHEEL.get(name, name)}"


def _of(name: str, toolkit: Toolkit) -> Path | None:
    return toolkit.nvrtc() if name == "NVRTC" else toolkit.tool(name)


def _named(name: str, toolkit: Toolkit) -> str:
    return f"{name} {toolkit.version(name, _WHEEL[name])}".strip()


def _is_older(name: str, toolkit: Toolkit, than: str) -> bool:
    return release_of(toolkit.version(name, _WHEEL[name])) < release_of(than)


def tool(name: str, toolkit: str | None = None) -> Path:
    """Return the path of a CUDA tool, of the toolkit that compiles or of the wheels; say what brings a missing one."""
    path = _of(name, toolkits.chosen(toolkit)) or _of(name, toolkits.wheels())
    if path is None:
        raise MissingTool(f"{name} is not installed; {bringing(name)}")
    return path


def version(name: str, toolkit: str | None = None) -> str:
    """Return a tool's version and toolkit, such as `nvdisasm 13.5.37 (wheel)`."""
    return found(name, toolkit).version


def identity(name: str, toolkit: str | None = None) -> str:
    """Return what tells a tool from any other, without running it."""
    path = tool(name, toolkit)
    made = toolkits.wheels().version(name, _WHEEL[name]) if toolkits.is_of_wheels(path) else ""
    return f"{name} {made}" if made else stamp(path)


def stamp(path: Path) -> str:
    """Return a file's name, size and time."""
    found = path.resolve().stat()
    return f"{path.resolve()} {found.st_size} {found.st_mtime_ns}"


def one_line(text: str) -> str:
    """Make a message one line of harmless characters, and not too long."""
    flat = printable(" ".join(text.split()))
    return flat if len(flat) <= _LONGEST_MESSAGE else flat[: _LONGEST_MESSAGE - 4] + " ..."


def disassembler_limits(size: int) -> tuple[float, int]:
    """Return the processor seconds and the bytes of memory that nvdisasm may take for a file of a size."""
    seconds = max(TOOL_SECONDS, min(COMPILER_SECONDS, size / _BYTES_PER_SECOND))
    return seconds, TOOL_BYTES + _BYTES_PER_BYTE * size


def serve(module: str, given: bytes, limit_seconds: float, limit_bytes: int | None = None) -> tuple[int, bytes]:
    """Let `serve` of a module of this package answer in a process of its own; return exit code and output.

    The module comes from where this one is, never from the current folder.
    """
    home = str(Path(__file__).resolve().parents[2])
    program = f"import sys; sys.path.append({home!r}); from warplens.{module} import serve; serve()"
    code, out, _ = execute([sys.executable, "-P", "-c", program], limit_seconds, limit_bytes, given=given)
    return code, out


def run(
    name: str,
    *arguments: str | Path,
    by: Path | None = None,
    folder: str | Path | None = None,
    limit_seconds: float = COMPILER_SECONDS,
    limit_bytes: int | None = None,
) -> str:
    """Run a tool (in `folder`) and return its standard output; its own message becomes the error.

    `by`: which program it is, where it shall not be that of the toolkit that is there first.
    """
    command = [str(by or tool(name)), *map(str, arguments)]
    try:
        code, out, err = execute(command, limit_seconds, limit_bytes, folder=folder)
    except OSError as error:
        raise ToolError(f"{name} could not be run: {error.strerror or error}") from None
    if beyond := excess(code, err, limit_seconds, limit_bytes):
        raise ToolError(f"{name} {beyond}")
    if code != 0:
        text = one_line((err or out).decode("utf-8", "replace"))
        raise ToolError(f"{name}: {text or (f'crashed by signal {-code}' if code < 0 else f'failed with code {code}')}")
    return out.decode("utf-8", "replace")


def untested(tools: Iterable[str]) -> list[str]:
    """Return a note on those of a program's tools that are newer than what warplens was tested with; none else."""
    versions = [(tool, _NVIDIAS.match(tool)) for tool in tools]
    newer = [tool for tool, found in versions if found and (int(found[1]), int(found[2])) > NEWEST_TESTED]
    newest = ".".join(map(str, NEWEST_TESTED))
    return [f"machine code by {', '.join(newer)}; warplens was tested up to {newest}"] if newer else []
