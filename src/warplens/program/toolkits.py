"""CUDA toolkits: the one that the user installed, and the pip wheels.

The toolkit that compiles is, in this order: the one that was named (a folder, or `wheels`), that of CUDA_HOME or
CUDA_PATH, that of the nvcc on the PATH, /usr/local/cuda, the wheels. What it lacks comes from the wheels
(`warplens.program.toolchain`). A CUDA_HOME that is the folder of the wheels chooses the wheels.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from msgspec import Struct

from warplens.core.errors import WarplensError
from warplens.core.processes import execute

INSTALLED = Path("/usr/local/cuda")  # where the CUDA toolkit installs itself
WHEELS = "wheels"
_OLDEST = (12, 0)
_HEADERS = ("include", "targets/x86_64-linux/include", "targets/sbsa-linux/include")
_LIBRARIES = ("lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib")
_ASK_SECONDS = 3.0
_UNSAFE = re.compile(r"[^\w./+~ -]")  # nvcc hands its own folder to a shell


class Toolkit(Struct, frozen=True):
    """A CUDA toolkit: its folders (of the wheels there may be several), none of which need have everything."""

    folders: tuple[Path, ...]
    is_wheels: bool = False

    @property
    def where(self) -> str:
        """How an answer names it behind a tool's version."""
        return "(wheel)" if self.is_wheels else f"of {self.folders[0]}"

    def tool(self, name: str) -> Path | None:
        """Return the path of a tool; None where this toolkit has none."""
        places = (folder / "bin" / name for folder in self.folders)
        return next((path for path in places if path.is_file() and os.access(path, os.X_OK)), None)

    def nvrtc(self) -> Path | None:
        """Return NVRTC's shared library; None where this toolkit has none."""
        places = (folder / part for folder in self.folders for part in _LIBRARIES)
        return next((file for place in places for file in sorted(place.glob("libnvrtc.so.*"))), None)

    def headers(self) -> list[Path]:
        """Return the include folders, for headers such as cuda_fp16.h and cuda/std."""
        places = (folder / part / more for folder in self.folders for part in _HEADERS for more in ("", "cccl"))
        return list(dict.fromkeys(place for place in places if place.is_dir()))

    def version(self, name: str, wheel: str) -> str:
        """Return the version of a tool, such as 13.0.88, or nothing; a wheel's own version saves running the tool."""
        path = self.nvrtc() if name == "NVRTC" else self.tool(name)
        if path is None:
            return ""
        if self.is_wheels and (made := _wheel_version(path, wheel)):
            return made
        if name == "NVRTC":
            found = re.search(r"\.so\.(\d+\.\d+[\d.]*)$", str(path.resolve()))
            return found[1] if found else ""
        return _said_version(path)

    def release(self) -> tuple[int, int]:
        """Return major and minor version of the compiler; zeros where it does not say."""
        return release_of(self.version("nvcc", "nvidia-cuda-nvcc") or self.version("NVRTC", "nvidia-cuda-nvrtc"))

    def refuse_if_old(self) -> None:
        """Raise an error where this toolkit is older than what we read."""
        release = self.release()
        if (0, 0) < release < _OLDEST:
            made, least = (".".join(map(str, one)) for one in (release, _OLDEST))
            raise WarplensError(f"CUDA {made} {self.where} is older than {least}; {OTHERWISE}")


OTHERWISE = "--toolkit wheels compiles with the pip wheels, --toolkit DIR with another toolkit"


def wheels() -> Toolkit:
    """Return the pip wheels; they may be none."""
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
    """Let this process, and those it starts, compile with the toolkit that is named (a folder, or `wheels`)."""
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
    """Return `wheels` where they compile, else nothing: what measuring kernels are made with."""
    return WHEELS if wheels().nvrtc() else None


def prefer_wheels() -> None:
    """Choose the wheels for this process and those it starts: what tests and published figures are made with."""
    if folders := wheel_folders():
        os.environ["CUDA_HOME"] = str(folders[0])


@cache
def wheel_folders() -> tuple[Path, ...]:
    """Return the folders of the CUDA wheels (site-packages/nvidia/cu13 and the like), newest first."""
    spec = importlib.util.find_spec("nvidia")
    roots = [Path(p) for p in spec.submodule_search_locations or []] if spec else []
    found = [folder for root in roots for folder in root.glob("cu[0-9]*") if folder.is_dir()]
    return tuple(sorted(found, key=lambda f: f.name, reverse=True))


def is_of_wheels(file: Path) -> bool:
    """Whether a wheel brought a file."""
    return any(file.is_relative_to(folder) for folder in wheel_folders())


def release_of(version: str) -> tuple[int, int]:
    """Return the first two numbers of a version; zeros where it has none."""
    found = re.match(r"(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _at(folder: Path) -> Toolkit | None:
    """Return the toolkit in a folder, if one is there."""
    folder = folder.resolve()
    if folder in [place.resolve() for place in wheel_folders()]:
        return wheels()
    found = Toolkit((folder,))
    if found.tool("nvcc") is None and found.nvrtc() is None:
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
    try:
        _, out, err = execute([str(nvcc), "--dryrun", "x.cu"], _ASK_SECONDS)
    except OSError:
        return None
    found = re.search(r"^#\$ TOP=(.+)$", (err + out).decode("utf-8", "replace"), re.MULTILINE)
    return _at(Path(found[1].strip())) if found else None


@cache
def _said_version(path: Path) -> str:
    try:
        _, out, _ = execute([str(path), "--version"], _ASK_SECONDS)
    except OSError:
        return ""
    found = re.search(r"V(\d+(?:\.\d+)+)", out.decode("utf-8", "replace"))
    return found[1] if found else ""


def _wheel_version(file: Path, wheel: str) -> str | None:
    """Return the version of the wheel that brought a file."""
    name = wheel.replace("-", "_")
    homes = (folder.parents[1] for folder in wheel_folders() if file.is_relative_to(folder))
    found = next((info.name for home in homes for info in home.glob(f"{name}-*.dist-info")), None)
    return found and found[len(name) + 1 : -len(".dist-info")]
