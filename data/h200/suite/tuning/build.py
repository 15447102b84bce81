"""Compile every configuration of the tuning spaces in this folder: one archive of cubins and their index. Needs no GPU.

    python data/h200/suite/tuning/build.py --out build/tuning

The code is that of `warplens tune`: only the lines of the source are left out of it, which changes no instruction.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import sys
import tarfile
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from warplens.program.compile import Options, compile_file
from warplens.program.cubin import parse_cubin
from warplens.program.toolkits import prefer_wheels
from warplens.tuner.spec import Configuration, load_sweep
from warplens.workload.launch import KernelCall, check_parameters

HERE = Path(__file__).resolve().parent


class _Bare(Options, frozen=True):
    """Options without the lines of the source, for smaller cubins."""

    def switches(self) -> list[str]:
        return [flag for flag in super().switches() if flag != "-lineinfo"]


def compiled(call: KernelCall, arch: str) -> bytes:
    """Return the cubin of a call's source with its macros."""
    with tempfile.TemporaryDirectory() as folder:
        options = _Bare(arch=arch, defines=call.defines, fast_math=call.fast_math)
        return compile_file(Path(call.folder) / str(call.file), options, Path(folder)).cubin.read_bytes()


def main() -> None:
    """Write the archive and the index."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("build/tuning"))
    parser.add_argument("--arch", default="sm_90")
    parser.add_argument("--only", nargs="+", metavar="KERNEL", default=[])
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    spaces = [f for f in sorted(HERE.glob("*.toml")) if not f.name.endswith(".launch.toml")]
    spaces = [f for f in spaces if not given.only or f.stem in given.only]
    wanted = [c for f in spaces for c in load_sweep(f).configurations()]
    wrong = [c for c in wanted if not isinstance(c, Configuration)]
    if wrong:
        raise SystemExit(f"{wrong[0]}")
    points = [c for c in wanted if isinstance(c, Configuration)]
    sources = {(c.kernel, *c.call.defines): c.call for c in points}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        made = dict(zip(sources, pool.map(lambda call: compiled(call, given.arch), sources.values()), strict=True))
    names = {key: f"{key[0]}-{hashlib.sha256(data).hexdigest()[:16]}.cubin" for key, data in made.items()}
    entries = []
    for c in points:
        key = (c.kernel, *c.call.defines)
        resources = parse_cubin(made[key], names[key]).resources(str(c.call.kernel))
        check_parameters(c.call, resources.parameter_bytes, c.kernel)
        call = msgspec.to_builtins(msgspec.structs.replace(c.call, folder=".", source=""))
        entries.append({"space": c.kernel, "number": c.number, "values": c.values, "call": call, "cubin": names[key],
                        "kernel": c.call.kernel, "registers": resources.registers,
                        "static_shared_bytes": resources.static_shared_bytes})  # fmt: skip
    with tarfile.open(given.out / "cubins.tar.xz", "w:xz") as archive:
        for name, data in sorted({names[key]: data for key, data in made.items()}.items()):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    (given.out / "index.json").write_text(json.dumps({"arch": given.arch, "entries": entries}) + "\n")
    print(f"{len(entries)} configurations, {len(set(names.values()))} cubins", file=sys.stderr)


if __name__ == "__main__":
    prefer_wheels()
    main()
