"""Compile the launch files under examples/, each with all its variants: cubins and an index. Needs no GPU.

    python data/h200/build_launches.py --out build/launches
    python data/h200/build_launches.py --folder data/h200/unseen --out build/unseen    those of another folder

A launch file stands for one launch at full size without a variant and one with each variant; with the variant
`small` applied behind each of them, for the small ones. Calls that come out the same are listed once. With another
folder comes the launch that clears the L2 cache.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from warplens.program.compile import Options, compile_file
from warplens.program.cubin import Cubin, parse_cubin
from warplens.program.toolkits import prefer_wheels
from warplens.workload.launch import KernelCall, check_parameters, list_variants, load_launch

ROOT = Path(__file__).resolve().parents[2]
Source = tuple[Path, tuple[str, ...], bool, int | None]


def calls(file: Path) -> list[tuple[str, KernelCall]]:
    """Return the calls of a launch file with their names, such as `ulist.rsqrt`; a small one has the same name."""
    variants = ["", *(v for v in list_variants(file) if v != "small")]
    found, seen = [], set()
    small = [f"{v},small".lstrip(",") for v in variants] if "small" in list_variants(file) else []
    for variant in [*variants, *small]:
        call = load_launch(file, variant)
        same = msgspec.json.encode(msgspec.structs.replace(call, variant="", source="", notes=[]))
        if same not in seen:
            seen.add(same)
            kind = variant.removesuffix("small").rstrip(",")
            found.append((f"{file.stem}.{kind}" if kind else file.stem, call))
    return found


def source_of(call: KernelCall) -> Source:
    """Return what the machine code depends on."""
    return Path(call.folder) / str(call.file), tuple(call.defines), call.fast_math, call.register_limit


def compiled(source: Source, arch: str) -> bytes:
    """Return the cubin."""
    path, defines, fast_math, register_limit = source
    options = Options(arch=arch, defines=list(defines), fast_math=fast_math, register_limit=register_limit)
    with tempfile.TemporaryDirectory() as folder:
        return compile_file(path, options, Path(folder)).cubin.read_bytes()


def entry(name: str, file: Path, call: KernelCall, cubin: Cubin) -> dict[str, object]:
    """Return a launch's line of the index."""
    if call.kernel not in cubin.kernels():
        raise SystemExit(f"{file}: no kernel {call.kernel!r}; there are: {', '.join(cubin.kernels())}")
    resources = cubin.resources(call.kernel)
    return {
        "name": name,
        "launch": file.relative_to(ROOT).as_posix(),
        "variant": call.variant,
        "small": "small" in call.variant.split(","),
        "kernel": call.kernel,
        "cubin": cubin.name,
        "parameter_bytes": resources.parameter_bytes,
        "parameter_offsets": check_parameters(call, resources.parameter_bytes, f"{file}: {name}"),
        "registers": resources.registers,
        "static_shared_bytes": resources.static_shared_bytes,
    }


def main() -> None:
    """Write the cubins and index.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "launches")
    parser.add_argument("--folder", type=Path, default=ROOT / "examples")
    parser.add_argument("--arch", default="sm_90")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    given = parser.parse_args()
    found = sorted(given.folder.resolve().rglob("*.toml"))
    files = [f for f in found if f.parent.name not in ("triton", "graphs")]  # build_triton.py
    clears = ROOT / "examples" / "reduction" / "reduction_k6.toml"
    files += [] if clears in files else [clears]
    launches = [(name, file, call) for file in files for name, call in calls(file)]
    sources = list(dict.fromkeys(source_of(call) for _, _, call in launches))
    given.out.mkdir(parents=True, exist_ok=True)
    for old in given.out.glob("*.cubin"):
        old.unlink()
    with ThreadPoolExecutor(given.jobs) as pool:
        made = dict(zip(sources, pool.map(lambda s: compiled(s, given.arch), sources), strict=True))
    cubins: dict[Source, Cubin] = {}
    for source, data in made.items():
        name = f"{source[0].stem}-{hashlib.sha256(data).hexdigest()[:12]}.cubin"
        (given.out / name).write_bytes(data)
        cubins[source] = parse_cubin(data, name)
    entries = [entry(name, file, call, cubins[source_of(call)]) for name, file, call in launches]
    index = {"arch": given.arch, "launches": entries}
    (given.out / "index.json").write_text(json.dumps(index, indent=1) + "\n")
    small = sum(bool(e["small"]) for e in entries)
    print(f"{len(entries) - small} launches and {small} small ones, {len(list(given.out.glob('*.cubin')))} cubins",
          file=sys.stderr)  # fmt: skip


if __name__ == "__main__":
    prefer_wheels()
    main()
