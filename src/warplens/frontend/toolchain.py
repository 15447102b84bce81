"""Where the CUDA tools are: the pip wheels of the extra warplens[cuda], or what is on the PATH.

Nothing is run through a shell, and every run has a time limit.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

from warplens.errors import WarplensError

_WHEEL = {
    "nvdisasm": "nvidia-cuda-nvdisasm",
    "cuobjdump": "nvidia-cuda-cuobjdump",
    "ptxas": "nvidia-cuda-nvcc",
    "nvcc": "nvidia-cuda-nvcc",
    "cu++filt": "nvidia-cuda-cuxxfilt",
}
TIME_LIMIT_SECONDS = 60.0


class ToolError(WarplensError):
    """A tool that is missing, failed, or ran too long."""


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
    found = shutil.which(name)
    if found:
        return Path(found)
    raise ToolError(
        f"{name} is not installed; `pip install 'warplens[cuda]'` brings it (wheel {_WHEEL.get(name, name)})"
    )


def include_folders() -> list[Path]:
    """Return the include folders of the wheels, for headers such as cuda_fp16.h."""
    places = [folder / part for folder in wheel_folders() for part in ("include", "include/cccl")]
    return [place for place in places if place.is_dir()]


def run(
    name: str, *arguments: str | Path, folder: str | Path | None = None, limit_seconds: float = TIME_LIMIT_SECONDS
) -> str:
    """Run a tool (in `folder`) and return its standard output; its own message becomes the error."""
    try:
        done = subprocess.run(
            [str(tool(name)), *map(str, arguments)],
            capture_output=True,
            timeout=limit_seconds,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ToolError(f"{name} did not finish within {limit_seconds:.0f} s") from None
    except OSError as error:
        raise ToolError(f"{name} could not be run: {error.strerror or error}") from None
    if done.returncode != 0:
        text = (done.stderr or done.stdout).decode("utf-8", "replace").strip()
        raise ToolError(f"{name}: {text or f'failed with code {done.returncode}'}")
    return done.stdout.decode("utf-8", "replace")


@cache
def version(name: str) -> str:
    """Return a tool's version, such as `nvdisasm 13.4.92`; a wheel's own version saves running the tool."""
    if any(tool(name).is_relative_to(folder) for folder in wheel_folders()):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            return f"{name} {importlib.metadata.version(_WHEEL[name])}"
    found = re.search(r"V(\d+(?:\.\d+)+)", run(name, "--version"))
    return f"{name} {found.group(1)}" if found else name
