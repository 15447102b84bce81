"""Cubins and an index of launches: compiled by NVRTC or Triton, no GPU.

A launch file stands for one launch at full size without a variant and one with each variant; with the variant `small`
applied behind each of them, for the small ones. Calls that come out the same are listed once.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec

from warplens.core.errors import WarplensError
from warplens.program.compile import Options, compile_file
from warplens.program.cubin import Cubin, parse_cubin
from warplens.tuner.spec import Configuration, load_sweep
from warplens.workload.compiled_call import compile_kernel
from warplens.workload.launch import KernelCall, check_parameters, list_variants, load_launch

ROOT = Path(__file__).resolve().parents[5]
SUITE = ROOT / "data" / "h200" / "suite"
_CLEARS_L2 = ROOT / "examples" / "reduction" / "reduction_k6.toml"  # the launch by which `run` clears L2


class _Bare(Options, frozen=True):
    """Options without the lines of the source, for smaller cubins."""

    def switches(self) -> list[str]:
        return [flag for flag in super().switches() if flag != "-lineinfo"]


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


def compiled(call: KernelCall, arch: str, kind: type[Options] = Options) -> bytes:
    """Return the cubin of a call's source."""
    options = kind(arch=arch, defines=list(call.defines), fast_math=call.fast_math, register_limit=call.register_limit)
    with tempfile.TemporaryDirectory() as folder:
        return compile_file(Path(call.folder) / str(call.file), options, Path(folder)).cubin.read_bytes()


def _each(given: list[KernelCall], arch: str, kind: type[Options] = Options) -> Iterator[bytes]:
    """Yield the cubin of each call; the same source with the same options is compiled once."""
    keys = [(c.folder, c.file, tuple(c.defines), c.fast_math, c.register_limit) for c in given]
    first = dict(zip(reversed(keys), reversed(given), strict=True))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        done = dict(zip(first, pool.map(lambda c: compiled(c, arch, kind), first.values()), strict=True))
    return (done[key] for key in keys)


def _entry(name: str, file: Path, call: KernelCall, cubin: Cubin) -> dict[str, Any]:
    """Return a launch's line of the index."""
    if call.kernel not in cubin.kernels():
        raise WarplensError(f"{file}: no kernel {call.kernel!r}; there are: {', '.join(cubin.kernels())}")
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


def _write_index(out: Path, arch: str, entries: list[dict[str, Any]]) -> str:
    (out / "index.json").write_text(json.dumps({"arch": arch, "launches": entries}, indent=1) + "\n")
    small = sum(bool(e["small"]) for e in entries)
    return f"{len(entries) - small} launches and {small} small ones, {len(list(out.glob('*.cubin')))} cubins"


def build(folder: Path, out: Path, arch: str) -> str:
    """Compile the launch files of a folder; return a line on what was written."""
    files = [f for f in sorted(folder.resolve().rglob("*.toml")) if f.parent.name not in ("triton", "graphs")]
    files += [] if _CLEARS_L2 in files else [_CLEARS_L2]
    launches = [(name, file, call) for file in files for name, call in calls(file)]
    out.mkdir(parents=True, exist_ok=True)
    for old in out.glob("*.cubin"):
        old.unlink()
    entries = []
    for (name, file, call), data in zip(launches, _each([call for *_, call in launches], arch), strict=True):
        cubin = f"{Path(str(call.file)).stem}-{hashlib.sha256(data).hexdigest()[:12]}.cubin"
        (out / cubin).write_bytes(data)
        entries.append(_entry(name, file, call, parse_cubin(data, cubin)))
    return _write_index(out, arch, entries)


def _toml_of(call: KernelCall, cubin: str, about: str) -> str:
    """Return a launch file of a call as the GPU gets it."""
    whole = {"file": cubin, "kernel": call.kernel, "grid": list(call.grid_shape), "block": list(call.block_shape),
             "dynamic_shared_bytes": call.dynamic_shared_bytes}  # fmt: skip
    lines = [f"# {about}", *(f"{key} = {json.dumps(value)}" for key, value in whole.items())]
    for argument in msgspec.to_builtins(call.arguments):
        lines += ["", "[[arg]]", *(f"{key} = {json.dumps(value)}" for key, value in argument.items())]
    return "\n".join(lines) + "\n"


def build_triton(out: Path, arch: str) -> str:
    """Compile examples/triton: cubins, launch files of the calls as the GPU gets them, an index. Needs Triton."""
    out.mkdir(parents=True, exist_ok=True)
    for old in [*out.glob("*.cubin"), *out.glob("*.toml")]:
        old.unlink()
    entries = []
    for file in sorted((ROOT / "examples" / "triton").glob("*.toml")):
        for name, call in calls(file):
            path = (Path(call.folder) / str(call.file)).resolve().relative_to(ROOT)
            built = compile_kernel(path, call.kernel, call, arch)
            small = "small" in call.variant.split(",")
            cubin = f"{call.kernel}-{hashlib.sha256(built.cubin).hexdigest()[:8]}.cubin"
            (out / cubin).write_bytes(built.cubin)
            target = out / f"{name}{'.small' if small else ''}.toml"
            about = f"{file.name}{f', {call.variant}' if call.variant else ''}, compiled by {built.tool} for {arch}"
            target.write_text(_toml_of(built.call, cubin, about))
            entries.append({"name": name, "launch": target.relative_to(ROOT).as_posix(), "variant": "",
                            "small": small, "kernel": built.name, "cubin": cubin})  # fmt: skip
    clears = load_launch(_CLEARS_L2.relative_to(ROOT))
    (out / "reduction.cubin").write_bytes(compiled(clears, arch))
    cubin_of = parse_cubin((out / "reduction.cubin").read_bytes(), "reduction.cubin")
    return _write_index(out, arch, [*entries, _entry("reduction_k6", _CLEARS_L2, clears, cubin_of)])


def build_tuning(out: Path, arch: str, only: list[str]) -> str:
    """Compile every configuration of the tuning spaces: an archive of cubins and an index."""
    spaces = [f for f in sorted((SUITE / "tuning").glob("*.toml")) if not f.name.endswith(".launch.toml")]
    points = [c for f in spaces if not only or f.stem in only for c in load_sweep(f).configurations()]
    entries, cubins = [], dict[str, bytes]()
    good = [c for c in points if isinstance(c, Configuration)]
    if len(good) < len(points):
        raise WarplensError(str(next(c for c in points if not isinstance(c, Configuration))))
    for c, data in zip(good, _each([c.call for c in good], arch, _Bare), strict=True):
        name = f"{c.kernel}-{hashlib.sha256(data).hexdigest()[:16]}.cubin"
        cubins[name] = data
        resources = parse_cubin(data, name).resources(str(c.call.kernel))
        check_parameters(c.call, resources.parameter_bytes, c.kernel)
        call = msgspec.to_builtins(msgspec.structs.replace(c.call, folder=".", source=""))
        entries.append({"space": c.kernel, "number": c.number, "values": c.values, "call": call, "cubin": name,
                        "kernel": c.call.kernel, "registers": resources.registers,
                        "static_shared_bytes": resources.static_shared_bytes})  # fmt: skip
    out.mkdir(parents=True, exist_ok=True)
    with tarfile.open(out / "cubins.tar.xz", "w:xz") as archive:
        for name, data in sorted(cubins.items()):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    (out / "index.json").write_text(json.dumps({"arch": arch, "entries": entries}) + "\n")
    return f"{len(entries)} configurations, {len(cubins)} cubins"
