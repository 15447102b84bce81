"""Kernels about issue: what an instruction takes of it among adds, stall counts, the register file.

`among`: a body is one instruction and so many independent adds, which fill every issue slot that the instruction leaves
(Volkov 2016 §4.7, §4.12): cycles of a scheduler per body, less those of the adds alone, are the slots that it takes.
All warps make the same number of trips, and what counts is when the last one ends: even a lone warp fills the slots.
"""

from __future__ import annotations

from dataclasses import replace

from warplens.laboratory.chains import ZERO_AT, chain
from warplens.laboratory.operations import OPERATIONS, PAIRS
from warplens.laboratory.source import Expectation, Kernel

_BY_NAME = {op.name: op for op in (*OPERATIONS, *PAIRS)}
_ADDS = 16  # chains of adds: each is ready again when its turn comes
_OTHERS = 2  # chains of the other instruction
_BODY = 64  # adds of a trip, or twice as many: as many as lie near to the scheduler
ADDS = (16, 32)  # adds to a body
# What stands among the adds: PTX, type of its register, its machine code; "" for the adds alone.
AMONG = {
    "": ("", "f", ""),
    "mufu_rsq": (_BY_NAME["mufu_rsq"].link, "f", r"MUFU\.RSQ"),
    "popc": (_BY_NAME["popc"].link, "r", r"POPC"),
    "imad_wide": (_BY_NAME["imad_wide"].link, "l", r"IMAD\.WIDE.*"),
    "dadd": ("add.rn.f64 %0, %0, %0;", "d", r"DADD"),
    "shfl": (_BY_NAME["shfl"].link, "r", r"SHFL.*"),
    "lds": (_BY_NAME["lds"].link, "r", r"LDS(\.U)?"),
    "sts": (_BY_NAME["sts"].link, "r", r"STS"),
    "ldg": ("ld.global.ca.u64 %0, [%0];", "l", r"LDG\.E\.64.*"),
}
_TYPES = {"f": "float", "r": "u32", "d": "double", "l": "u64"}


def among(name: str, adds: int, doubled: bool = False) -> Kernel:
    """Return the kernel of bodies of one instruction and so many adds, or of the adds alone.

    Shared memory's words, and those of `data`, hold their own addresses; a: words from thread to thread.
    """
    link, register, pattern = AMONG[name]
    links = _BODY // adds * (2 if doubled else 1)
    full = f"slots_{name or 'adds'}_k{adds}_n{links}"
    kind = _TYPES[register]
    first = "(u64)data + threadIdx.x * 8" if name == "ldg" else "mine" if name in ("lds", "sts") else "given[k]"
    one = f'asm volatile("{link}" : "+{register}"(x[u % {_OTHERS}]) :: "memory");' if link else ""
    text = f"""\
KERNEL({full}, 1024) {{
  __shared__ u32 words[1024];
  u32 mine = shared_address(words + threadIdx.x);
  words[threadIdx.x] = mine;
  __syncthreads();
  volatile {kind} *given = (volatile {kind} *)((char *)out + threadIdx.x * b);
  float first = ((volatile float *)((char *)out + threadIdx.x * b))[{ZERO_AT // 4}], f[{_ADDS}];
  {kind} x[{_OTHERS}];
  UNROLL for (int k = 0; k < {_ADDS}; k++) f[k] = first;
  UNROLL for (int k = 0; k < {_OTHERS}; k++) x[k] = {first};
  PASSES {{
    START_TOGETHER
    LOOP {{
      UNROLL for (int u = 0; u < {links}; u++) {{
        {one}
        UNROLL for (int k = 0; k < {adds}; k++) asm volatile("add.f32 %0, %0, 0f3F800000;" : "+f"(f[k % {_ADDS}]));
      }}
    }}
    STOP
  }}
  float sum = 0;
  UNROLL for (int k = 0; k < {_ADDS}; k++) sum += f[k];
  KEEP(sum == value && x[0] + x[1] == ({kind})c)
  record(records, c0, c1, (u64)trips * {links});
}}
"""
    expect = {"FADD": adds * links, **({pattern: links} if pattern else {})}
    facts = {"links": links, "chains": 1, "adds": adds, "other": name}
    since = _BY_NAME[name].since if name in _BY_NAME else 75
    return Kernel(full, text, Expectation(expect, 24), since, facts=facts)


def _changed(made: Kernel, prefix: str, patch: str, conflicts: bool = False) -> Kernel:
    """Return a kernel under another name, with changes to its machine code."""
    name, expect = f"{prefix}_{made.name}", replace(made.expect, conflicts=conflicts)
    return replace(made, name=name, text=made.text.replace(made.name, name), expect=expect, patch=patch)


def banks(classes: str, doubled: bool = False) -> Kernel:
    """Return independent FFMA of three registers each, in the same bank of the register file or not."""
    made = chain(_BY_NAME["ffma"], 24, doubled, 0, 8)
    return _changed(made, f"banks_{classes}", f"registers {classes}", conflicts=True)


STALLS = {"imad_wide": (6, 7, 8, 9, 12, 15), "imad_wide_lop3": (5, 9, 12)}  # the compiler's own, and more


def stalls(name: str, cycles: int, doubled: bool = False) -> Kernel:
    """Return a chain of wide products that let their warp wait for so many cycles."""
    return _changed(chain(_BY_NAME[name], doubled=doubled), f"stall{cycles}", f"stall WIDE.{cycles}")


READERS = {"mufu_rsq": "MUFU", "lds": "LDS", "shfl": "SHFL"}  # whose sources are read later than at issue
_READER_CHAINS = 3  # so many that results come before they are asked for


def readers(name: str, doubled: bool = False) -> Kernel:
    """Return chains of an instruction of which each waits until the one before has read its sources."""
    made = chain(_BY_NAME[name], _READER_CHAINS, doubled, 0, 20)
    return _changed(made, "read", f"sources {READERS[name]}")
