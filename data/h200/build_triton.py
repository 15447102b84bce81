"""Compile the Triton kernels of examples/triton, each launch with all its variants. Needs Triton, no GPU.

    python data/h200/build_triton.py --out data/h200/triton

Writes cubins, for each launch a launch file of the call as the GPU gets it (block, shared memory and parameters as
Triton's compiler made them), and index.json, which run_launches.py takes with --index. What Triton compiled here is
what runs there, and what CI analyses where no Triton is installed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import msgspec
from build_launches import ROOT, calls, entry, source_of
from build_launches import compiled as compiled_cuda

from warplens.program.cubin import parse_cubin
from warplens.workload.triton_call import TritonKernel, compile_kernel
from warplens.workload.launch import KernelCall, load_launch


def toml_of(call: KernelCall, cubin: str, about: str) -> str:
    """Return a launch file of a call."""
    whole = {"file": cubin, "kernel": call.kernel, "grid": list(call.grid_shape), "block": list(call.block_shape),
             "dynamic_shared_bytes": call.dynamic_shared_bytes}  # fmt: skip
    lines = [f"# {about}", *(f"{key} = {json.dumps(value)}" for key, value in whole.items())]
    for argument in msgspec.to_builtins(call.arguments):
        lines += ["", "[[arg]]", *(f"{key} = {json.dumps(value)}" for key, value in argument.items())]
    return "\n".join(lines) + "\n"


def compiled(call: KernelCall, arch: str) -> TritonKernel:
    """Compile the kernel of a launch; the file is named as seen from the repository."""
    path = (Path(call.folder) / str(call.file)).resolve().relative_to(ROOT)
    return compile_kernel(path, call.kernel, call, arch)


def flusher(folder: Path, arch: str) -> dict[str, Any]:
    """Return the line of the index of the launch by which run_launches.py clears L2."""
    file = ROOT / "examples" / "reduction" / "reduction_k6.toml"
    call = load_launch(file.relative_to(ROOT))
    (folder / "reduction.cubin").write_bytes(compiled_cuda(source_of(call), arch))
    return entry("reduction_k6", file, call, parse_cubin((folder / "reduction.cubin").read_bytes(), "reduction.cubin"))


def main() -> None:
    """Write cubins, launch files and index.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "data" / "h200" / "triton")
    parser.add_argument("--arch", default="sm_90")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    for old in [*given.out.glob("*.cubin"), *given.out.glob("*.toml")]:
        old.unlink()
    entries: list[dict[str, Any]] = []
    for file in sorted((ROOT / "examples" / "triton").glob("*.toml")):
        for name, call in calls(file):
            made = compiled(call, given.arch)
            small = "small" in call.variant.split(",")
            cubin = f"{call.kernel}-{hashlib.sha256(made.cubin).hexdigest()[:8]}.cubin"
            (given.out / cubin).write_bytes(made.cubin)
            target = given.out / f"{name}{'.small' if small else ''}.toml"
            about = (
                f"{file.name}{f', {call.variant}' if call.variant else ''}, compiled by {made.tool} for {given.arch}"
            )
            target.write_text(toml_of(made.call, cubin, about))
            entries.append({"name": name, "launch": target.relative_to(ROOT).as_posix(), "variant": "",
                            "small": small, "kernel": made.name, "cubin": cubin})  # fmt: skip
            print(f"{target.name}: {cubin}", file=sys.stderr)
    entries.append(flusher(given.out, given.arch))
    (given.out / "index.json").write_text(json.dumps({"arch": given.arch, "launches": entries}, indent=1) + "\n")


if __name__ == "__main__":
    main()
