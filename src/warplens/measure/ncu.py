"""Run a program under Nsight Compute and read what it counted of one launch of a kernel. Needs ncu and a GPU."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from warplens.errors import WarplensError
from warplens.frontend.ncu import SECTIONS, Record, records
from warplens.frontend.toolchain import INSTALLED, MissingTool, ToolError, one_line

_NO_PERMISSION = "ERR_NVGPUCTRPERM"


def ncu() -> str:
    """Return the path of ncu."""
    found = shutil.which("ncu") or shutil.which("ncu", path=str(INSTALLED / "bin"))
    if found is None:
        raise MissingTool(
            "ncu is not on the PATH: `warplens profile` needs Nsight Compute (it comes with the CUDA toolkit) and a GPU"
        )
    return found


def profile(command: Sequence[str], kernel: str, *, skip: int = 0) -> Record:
    """Run a command under ncu and return the counts of its launch of a kernel, `skip` earlier ones passed over."""
    if not command:
        raise WarplensError("name the program to run, with its arguments, behind the options")
    tool = ncu()
    with tempfile.TemporaryDirectory(prefix="warplens-") as folder:
        report = Path(folder) / "report.ncu-rep"
        sections = [word for section in SECTIONS for word in ("--section", section)]
        chosen = ["--kernel-name", base_name(kernel), "--launch-skip", str(skip), "--launch-count", "1"]
        said = _run([tool, "--clock-control", "none", *sections, *chosen, "-f", "-o", str(report), *command])
        if not report.is_file():
            raise ToolError(f"ncu saw no launch of {base_name(kernel)}: {one_line(said)[-300:]}")
        pages = [_run([tool, "-i", str(report), "--page", page, "--csv"]) for page in ("source", "raw")]
    found = records(*pages)
    if not found:
        raise ToolError(f"ncu's report has no launch of {base_name(kernel)}")
    return found[0]


def base_name(kernel: str) -> str:
    """Return a kernel's name as ncu's filter takes it: without return type, scopes, template and call arguments."""
    bare = re.sub(r"[<(].*", "", kernel).strip()
    return bare.split("::")[-1].split()[-1] if bare else kernel


def _run(command: Sequence[str]) -> str:
    """Run ncu, without a shell, for as long as the program takes; its own message becomes the error."""
    try:
        done = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, check=False)
    except OSError as error:
        raise ToolError(f"ncu could not be run: {error.strerror or error}") from None
    out, err = (text.decode("utf-8", "replace") for text in (done.stdout, done.stderr))
    if _NO_PERMISSION in out + err:  # the program itself may have gone well
        raise ToolError(
            f"ncu may not read the GPU's counters ({_NO_PERMISSION}): run this as root, or have an administrator load "
            "the driver with NVreg_RestrictProfilingToAdminUsers=0 (`warplens machine measure` needs no counters)"
        )
    if done.returncode:
        marked = [line for line in (out + "\n" + err).splitlines() if "==ERROR==" in line]
        raise ToolError(f"ncu: {one_line(' '.join(marked) or err or out)[:500] or f'failed, code {done.returncode}'}")
    return out
