"""What the emulator does not know of the corpus, architecture by architecture: a list with reasons."""

from __future__ import annotations

from pathlib import Path

import pytest

from warplens.emulator.decode import decode
from warplens.program import toolchain
from warplens.program.cubin import link, parse_cubin
from warplens.program.disassembly import parse_disassembly

from .corpus import CORPUS, compiled

pytestmark = pytest.mark.cuda
# The files with the rarest instructions, for one architecture; all files for all of them with `make test-all`.
SOME = {"async_copy", "atomics", "convert", "integer", "memory", "tensor", "warp"}
ALL = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")
FROM_80, FROM_90, FROM_100 = ALL[1:], ALL[4:], ALL[5:]

# First words of a name, why it is not known, and where the corpus has it.
UNKNOWN = {
    "TEX": ("textures need a filter and a layout that launch files do not describe", ALL),
    "TLD": ("a texture", ALL),
    "TLD4": ("a texture", ALL),
    "TXD": ("a texture", ALL),
    "TXQ": ("a texture", ALL),
    "SULD": ("a surface: its layout is not in a launch file", ALL),
    "SUST": ("a surface", ALL),
    "SURED": ("a surface", ALL),
    "S2UR": ("SR_SMEMSZ and SR_VIRTCFG: what the driver reserves, and the warps of an SM, are not known here", ALL),
    "HMMA.SP": ("2:4 sparsity: how the metadata lies in the lanes is not checked against anything", FROM_80),
    "MOVM.U4TO8": ("spreads 4-bit numbers for products that the machine lacks; not documented", FROM_100),
    "ATOMG.E.ADD.F32x2": ("an atomic on several floats", FROM_90),
    "REDG.E.ADD.F32x4": ("an atomic on several floats", FROM_90),
    "HGMMA": ("warp-group products: operands by descriptors of swizzled shared memory", ("sm_90a",)),
    "IGMMA": ("a warp-group product", ("sm_90a",)),
    "QGMMA": ("a warp-group product", ("sm_90a",)),
}


def _key(name: str) -> str:
    return next((k for k in UNKNOWN if name == k or name.startswith(f"{k}.")), name)


def _unknown(sources: list[Path], arch: str, folder: Path) -> set[str]:
    file = compiled(sources, arch, folder / "corpus.cubin")
    cubin = parse_cubin(file.read_bytes(), file.name)
    found: set[str] = set()
    for function in parse_disassembly(toolchain.run("nvdisasm", "-c", "-hex", file)):
        program = link(function, cubin)
        found |= {_key(name) for name in decode(program).unknown}
    return found


@pytest.mark.parametrize(
    ("arch", "some"),
    [("sm_90", True), ("sm_90a", False), *(pytest.param(a, False, marks=pytest.mark.slow) for a in ALL)],
)
def test_what_is_not_known_is_known(arch: str, some: bool, tmp_path: Path) -> None:
    special = arch.endswith("a")
    sources = [s for s in CORPUS if ("sm90a" in s.stem) == special and (s.stem in SOME or not some)]
    assert _unknown(sources, arch, tmp_path) == {key for key, (_, where) in UNKNOWN.items() if arch in where}
