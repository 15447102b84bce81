"""CUDA toolkits and their tools: the choice of the toolkit that compiles, the path of a tool, and its run.

The toolkit that compiles is, in this order: the one that was named (a folder, or `wheels`), that of CUDA_HOME or
CUDA_PATH, that of the nvcc on the PATH, /usr/local/cuda, the pip wheels. What it lacks comes from the wheels. A
CUDA_HOME that is the folder of the wheels chooses the wheels.

Nothing is run through a shell. Every run has a limit, and what runs past it ends with all that it started.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from msgspec import Struct

from warplens.core.errors import WarplensError
from warplens.core.processes import MissingTool, ToolError, excess, execute
from warplens.core.units import printable

INSTALLED = Path("/usr/local/cuda")  # where the CUDA toolkit installs itself
WHEELS = "wheels"
_OLDEST = (12, 0)
_HEADERS = ("include", "targets/x86_64-linux/include", "targets/sbsa-linux/include")
_LIBRARIES = ("lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib")
_ASK_SECONDS = 3.0
_UNSAFE = re.compile(r"[^\w./+~ -]")  # nvcc hands its own folder to a shell
OTHERWISE = "--toolkit wheels compiles with the pip wheels, --toolkit DIR with another toolkit"
_WHEEL = {
    "nvdisasm": "nvidia-cuda-nvdisasm",
    "cuobjdump": "nvidia-cuda-cuobjdump",
    "ptxas": "nvidia-cuda-nvcc",
    "nvcc": "nvidia-cuda-nvcc",
    "NVRTC": "nvidia-cuda-nvrtc",
}
NEWEST_TESTED = (13, 5)  # of the CUDA toolkits
_SO_VERSION, _SAID_VERSION = re.compile(r"\.so\.(\d+\.\d+[\d.]*)$"), re.compile(r"V(\d+(?:\.\d+)+)")
_NVIDIAS = re.compile(r"(?:NVRTC|nvcc|ptxas|nvlink|fatbinary|nvdisasm) (\d{1,4})\.(\d{1,4})")
TOOL_SECONDS, COMPILER_SECONDS = 3.0, 60.0  # processor time; a large source takes long
COMPILER_BYTES = 8 << 30  # of memory, each; one with CUB and cooperative groups takes less than 1 GiB
TOOL_BYTES = 1 << 30  # of memory, a damaged file may make a tool ask for all there is
_LONGEST_MESSAGE = 1000


class Toolkit(Struct, frozen=True):
    """A CUDA toolkit: its folders (of the wheels there may be several), none of which need have everything."""

    folders: tuple[Path, ...]
    is_wheels: bool = False

    @property
    def where(self) -> str:
        """The words by which an answer names it behind a tool's version."""
        return "(wheel)" if self.is_wheels else f"of {self.folders[0]}"

    def tool(self, name: str) -> Path | None:
        """Return the path of a tool, of NVRTC that of its shared library; None where this toolkit has none."""
        if name == "NVRTC":
            parts = (folder / part for folder in self.folders for part in _LIBRARIES)
            return next((file for part in parts for file in sorted(part.glob("libnvrtc.so.*"))), None)
        paths = (folder / "bin" / name for folder in self.folders)
        return next((path for path in paths if path.is_file() and os.access(path, os.X_OK)), None)

    def headers(self) -> list[Path]:
        """Return the include folders, for headers such as cuda_fp16.h and cuda/std."""
        parts = (folder / part / more for folder in self.folders for part in _HEADERS for more in ("", "cccl"))
        return list(dict.fromkeys(part for part in parts if part.is_dir()))

    def version(self, name: str) -> str:
        """Return the version of a tool, such as 13.0.88, or nothing; that of a wheel without running the tool."""
        path = self.tool(name)
        if path is None:
            return ""
        if self.is_wheels:
            stem = _WHEEL[name].replace("-", "_")
            homes = (folder.parents[1] for folder in wheel_folders() if path.is_relative_to(folder))
            if info := next((info.name for home in homes for info in home.glob(f"{stem}-*.dist-info")), None):
                return info[len(stem) + 1 : -len(".dist-info")]
        said = _SO_VERSION.search(str(path.resolve())) if name == "NVRTC" else _SAID_VERSION.search(_said(path))
        return said[1] if said else ""

    def named(self, name: str) -> str:
        """Return a tool of this toolkit as an answer names it: `nvcc 13.0.88 (wheel)`."""
        return f"{name} {self.version(name)}".strip() + f" {self.where}"

    def refuse_if_old(self) -> None:
        """Raise an error where this toolkit is older than what we read."""
        release = _release(self.version("nvcc") or self.version("NVRTC"))
        if (0, 0) < release < _OLDEST:
            theirs, least = (".".join(map(str, one)) for one in (release, _OLDEST))
            raise WarplensError(f"CUDA {theirs} {self.where} is older than {least}; {OTHERWISE}")


class Found(Struct, frozen=True):
    """A tool: its name, its path, the toolkit it is of, and why it is not that of the toolkit that compiles."""

    name: str
    path: Path
    toolkit: Toolkit
    why: str = ""

    @property
    def version(self) -> str:
        """The tool's version with the toolkit it is of, as an answer names it."""
        named = self.toolkit.named(self.name)
        return f"{named[:-1]}: {self.why})" if self.why else named

    @property
    def identity(self) -> str:
        """The tool's version, or its file's size and time, without running it."""
        version = self.toolkit.version(self.name) if self.toolkit.is_wheels else ""
        return f"{self.name} {version}" if version else stamp(self.path)


def wheels() -> Toolkit:
    """Return the pip wheels, with no folders where none are installed."""
    return Toolkit(wheel_folders(), is_wheels=True)


def chosen(named: str | None = None) -> Toolkit:
    """Return the toolkit that compiles: the one named, or the first that is there."""
    if named == WHEELS:
        return wheels()
    if named is not None:
        found = _at(Path(named))
        if found is None:
            raise WarplensError(f"--toolkit {named}: no CUDA toolkit there (no bin/nvcc, no libnvrtc)")
        return found
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if (given := os.environ.get(variable)) and (found := _at(Path(given))):
            return found
    on_path = shutil.which("nvcc")
    return (_behind(Path(on_path)) if on_path else None) or _at(INSTALLED) or wheels()


@contextlib.contextmanager
def using(named: str | None) -> Iterator[None]:
    """Make this process, and those it starts, compile with the toolkit that is named (a folder, or `wheels`)."""
    if named is None:
        yield
        return
    found, before = chosen(named), os.environ.get("CUDA_HOME")
    if not found.folders:
        raise WarplensError("--toolkit wheels: none are installed; pip install nvidia-cuda-nvcc nvidia-cuda-nvrtc")
    os.environ["CUDA_HOME"] = str(found.folders[0])
    try:
        yield
    finally:
        os.environ.pop("CUDA_HOME")
        if before is not None:
            os.environ["CUDA_HOME"] = before


def wheels_if_there() -> str | None:
    """Return `wheels`, which compile measuring kernels, where they are installed, else nothing."""
    return WHEELS if wheels().tool("NVRTC") else None


def prefer_wheels() -> None:
    """Choose the wheels for this process and those it starts: tests and published figures are compiled with them."""
    if folders := wheel_folders():
        os.environ["CUDA_HOME"] = str(folders[0])


@cache
def wheel_folders() -> tuple[Path, ...]:
    """Return the folders of the CUDA wheels (site-packages/nvidia/cu13 and the like), newest first."""
    spec = importlib.util.find_spec("nvidia")
    roots = [Path(p) for p in spec.submodule_search_locations or []] if spec else []
    found = [folder for root in roots for folder in root.glob("cu[0-9]*") if folder.is_dir()]
    return tuple(sorted(found, key=lambda f: f.name, reverse=True))


def _release(version: str) -> tuple[int, int]:
    """Return the first two numbers of a version; zeros where it has none."""
    found = re.match(r"(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _at(folder: Path) -> Toolkit | None:
    """Return the toolkit in a folder, if one is there."""
    folder = folder.resolve()
    if folder in [wheel.resolve() for wheel in wheel_folders()]:
        return wheels()
    found = Toolkit((folder,))
    if found.tool("nvcc") is None and found.tool("NVRTC") is None:
        return None
    if unsafe := _UNSAFE.search(str(folder)):
        raise WarplensError(f"{folder}: nvcc cannot work in a folder with {unsafe[0]!r} in its name; {OTHERWISE}")
    return found


@cache
def _behind(nvcc: Path) -> Toolkit | None:
    """Return the toolkit of an nvcc, which may be a link or a script that runs the real one: it says where that is."""
    home = nvcc.resolve().parents[1]
    if nvcc.resolve().name == "nvcc" and any((home / part / "cuda_runtime.h").is_file() for part in _HEADERS):
        return _at(home)
    found = re.search(r"^#\$ TOP=(.+)$", _said(nvcc, "--dryrun", "x.cu"), re.MULTILINE)
    return _at(Path(found[1].strip())) if found else None


@cache
def _said(path: Path, *arguments: str) -> str:
    """Return what a tool prints of itself; nothing where it does not run."""
    try:
        _, out, err = execute([str(path), *(arguments or ["--version"])], _ASK_SECONDS)
    except OSError:
        return ""
    return (err + out).decode("utf-8", "replace")


def found(name: str, toolkit: str | None = None, at_least: str = "") -> Found:
    """Return a tool of the toolkit that compiles; where that has none, or one older than `at_least`, of the wheels.

    A missing tool is named with what brings it.
    """
    first = chosen(toolkit)
    path, why = first.tool(name), f"{first.folders[0]} has none" if first.folders else ""
    if path is not None:
        if not at_least or _release(first.version(name)) >= _release(at_least):
            return Found(name, path, first)
        why = f"that {first.where} is older than the code"
    if not first.is_wheels and (instead := wheels().tool(name)):
        return Found(name, instead, wheels(), why)
    if path is None:
        raise MissingTool(f"{name} is not installed; {bringing(name)}")
    return Found(name, path, first)


def newer(name: str, than: Found) -> Found | None:
    """Return the wheels' tool where it is another than this one."""
    path = wheels().tool(name)
    if path is None or path == than.path:
        return None
    return Found(name, path, wheels(), f"{than.version} is older than the code")


def tool(name: str, toolkit: str | None = None) -> Path:
    """Return the path of a CUDA tool, of the toolkit that compiles or of the wheels; say what brings a missing one."""
    return found(name, toolkit).path


def bringing(name: str) -> str:
    """Say what brings a tool that is missing."""
    return f"install a CUDA toolkit, or the wheel: pip install {_WHEEL.get(name, name)}"


def stamp(path: Path) -> str:
    """Return a file's name, size and time."""
    found = path.resolve().stat()
    return f"{path.resolve()} {found.st_size} {found.st_mtime_ns}"


def one_line(text: str) -> str:
    """Return a message as one line of harmless characters, and not too long."""
    flat = printable(" ".join(text.split()))
    return flat if len(flat) <= _LONGEST_MESSAGE else flat[: _LONGEST_MESSAGE - 4] + " ..."


def serve(module: str, request: bytes, limit_seconds: float, limit_bytes: int | None = None) -> tuple[int, bytes]:
    """Call `serve` of a module of this package in a process of its own; return exit code and output.

    The module comes from where this one is, never from the current folder.
    """
    home = str(Path(__file__).resolve().parents[2])
    program = f"import sys; sys.path.append({home!r}); from warplens.{module} import serve; serve()"
    code, out, _ = execute([sys.executable, "-P", "-c", program], limit_seconds, limit_bytes, sent=request)
    return code, out


def run(
    name: str,
    *arguments: str | Path,
    by: Path | None = None,
    folder: str | Path | None = None,
    limits: tuple[float, int | None] = (COMPILER_SECONDS, None),
) -> str:
    """Run a tool (in `folder`) and return its standard output; its own message becomes the error.

    `by`: which program it is, where it shall not be that of the toolkit that is there first.
    """
    code, out, err = ran(name, by or tool(name), arguments, folder, limits)
    if code != 0:
        text = one_line(err or out)
        raise ToolError(f"{name}: {text or (f'crashed by signal {-code}' if code < 0 else f'failed with code {code}')}")
    return out


def ran(
    name: str, program: Path, arguments: Iterable[str | Path], folder: str | Path | None,
    limits: tuple[float, int | None], hint: str = "",
) -> tuple[int, str, str]:  # fmt: skip
    """Run a program within limits of seconds and bytes; return its exit code, its output and its errors.

    The error of one that exceeds them begins with `name` and ends with `hint`.
    """
    try:
        code, out, err = execute([str(program), *map(str, arguments)], *limits, folder=folder)
    except OSError as error:
        raise ToolError(f"{name} could not be run: {error.strerror or error}") from None
    if beyond := excess(code, err + out, *limits):
        raise ToolError(f"{name} {beyond}{hint}")
    return code, out.decode("utf-8", "replace"), err.decode("utf-8", "replace")


def untested(tools: Iterable[str]) -> list[str]:
    """Return a note on those of a program's tools that are newer than what warplens was tested with; none else."""
    versions = [(tool, _NVIDIAS.match(tool)) for tool in tools]
    unknown = [tool for tool, found in versions if found and (int(found[1]), int(found[2])) > NEWEST_TESTED]
    newest = ".".join(map(str, NEWEST_TESTED))
    return [f"machine code by {', '.join(unknown)}; warplens was tested up to {newest}"] if unknown else []
