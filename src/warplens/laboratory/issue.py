"""Issue: slots that instructions take, addresses to loads, stall counts, the register file's banks.

`among`: a body is one instruction and so many independent adds, which fill every issue slot that the instruction leaves
(Volkov 2016 §4.7, §4.12): cycles of a scheduler per body, less those of the adds alone, are the slots that it takes.
All warps make the same number of trips, and what counts is when the last one ends: even a lone warp fills the slots.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from warplens.laboratory.gpu_session import SCHEDULERS
from warplens.laboratory.operations import ADDRESSES, OPERATIONS, PAIRS, chain_kernel, local_kernel
from warplens.laboratory.plan import Entry, block_sweep, chain_sweep
from warplens.laboratory.samples import Number, Reading, Samples, digits, links_per_cycle, per_link
from warplens.laboratory.source import ZERO_AT, Expectation, Kernel

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


def among_kernel(name: str, adds: int, doubled: bool = False) -> Kernel:
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


def _changed(kernel: Kernel, prefix: str, patch: str, conflicts: bool = False) -> Kernel:
    """Return a kernel under another name, with changes to its machine code."""
    name, expect = f"{prefix}_{kernel.name}", replace(kernel.expect, conflicts=conflicts)
    return replace(kernel, name=name, text=kernel.text.replace(kernel.name, name), expect=expect, patch=patch)


def banks_kernel(classes: str, doubled: bool = False) -> Kernel:
    """Return independent FFMA of three registers each, in the same bank of the register file or not."""
    kernel = chain_kernel(_BY_NAME["ffma"], 24, doubled, 0, 8)
    return _changed(kernel, f"banks_{classes}", f"registers {classes}", conflicts=True)


STALLS = {"imad_wide": (6, 7, 8, 9, 12, 15), "imad_wide_lop3": (5, 9, 12)}  # the compiler's own, and more


def stalls_kernel(name: str, cycles: int, doubled: bool = False) -> Kernel:
    """Return a chain of wide products that let their warp wait for so many cycles."""
    return _changed(chain_kernel(_BY_NAME[name], doubled=doubled), f"stall{cycles}", f"stall WIDE.{cycles}")


READERS = {"mufu_rsq": "MUFU", "lds": "LDS", "shfl": "SHFL"}  # whose sources are read later than at issue
_READER_CHAINS = 3  # so many that results come before they are asked for


def readers_kernel(name: str, doubled: bool = False) -> Kernel:
    """Return chains of an instruction of which each waits until the one before has read its sources."""
    kernel = chain_kernel(_BY_NAME[name], _READER_CHAINS, doubled, 0, 20)
    return _changed(kernel, "read", f"sources {READERS[name]}")


def entries() -> list[Entry]:
    """Return the measurements: issue slots; addresses to loads; stall counts; the register file's banks."""
    found = []
    for other in AMONG:
        for adds in ADDS:
            found.append(
                Entry(f"slots.{other or 'adds'}.k{adds}", (among_kernel(other, adds), among_kernel(other, adds, True)),
                      block_sweep, f"issue slots among {adds} adds (§4.7, §4.12)",
                      {"register": "r" if other in ("lds", "sts") else "f", "warps": (32,), "cycles": 400_000,
                       "own_addresses": other == "ldg"}, weight=0.1)
            )  # fmt: skip
    for kind in ADDRESSES:
        found.append(
            Entry(f"address.{kind}", (local_kernel(False, kind), local_kernel(True, kind)), chain_sweep,
                  "latency from what makes an address to the load", {"register": "r", "limit": False, "warps": (1,)},
                  weight=0.1)
        )  # fmt: skip
    for name, stalls in STALLS.items():
        for cycles in stalls:
            kernels = stalls_kernel(name, cycles), stalls_kernel(name, cycles, True)
            found.append(
                Entry(f"stall.{name}.s{cycles}", kernels, chain_sweep, "wide products by their stall count",
                      {"register": "l" if name == "imad_wide" else "r", "warps": (1,)}, weight=0.1)
            )  # fmt: skip
    for name in READERS:
        shape = {"register": "f" if name == "mufu_rsq" else "r", "warps": (1,), "width": 1 if name == "lds" else 0}
        found.append(
            Entry(f"wait.sources.{name}", (readers_kernel(name), readers_kernel(name, True)), chain_sweep,
                  "when sources have been read", shape, weight=0.1)
        )  # fmt: skip
    for classes in ("same4", "same2", "mixed"):
        found.append(
            Entry(f"issue.banks.{classes}", (banks_kernel(classes), banks_kernel(classes, True)), chain_sweep,
                  "FFMA with three registers in one bank or several", {"register": "f", "warps": (4, 16, 32)},
                  weight=0.1)
        )  # fmt: skip
    return found


_LIMITED = 0.25  # slots more among few adds than among many: there the unit itself is the limit
_CONFLICT = 1.3  # cycles per instruction, as compared with those without, from which on it is one


def _cycles(samples: Samples, entry: str) -> Reading | None:
    """Return a scheduler's cycles per body, or per link, where they are least over occupancies."""
    by_warps = samples.take(entry, lambda p, v: SCHEDULERS / links_per_cycle(p, v), "warps")
    return min(by_warps.values(), key=lambda reading: reading.median, default=None)


def derive_slots(samples: Samples) -> Iterator[Number]:
    """Issue slots of memory instructions, special functions and others among adds (Volkov 2016 §4.7, §4.12).

    What a trip takes longer than that of the same loop without them: so what the loop itself loses does not matter.
    """
    for name in AMONG:
        taken = []
        for adds in ADDS if name else ():
            both, alone = (_trips(samples, f"slots.{one}.k{adds}") for one in (name, "adds"))
            bodies = 2 * next((p["links"] for p, _ in samples.entries.get(f"slots.{name}.k{adds}", [])), 0)
            more = {n: (both[n].median - alone[n].median) / bodies for n in both.keys() & alone.keys()}
            if more:
                warps = max(more)  # a full block: all that one warp leaves another takes
                taken.append((more[warps], adds, both[warps]))
        if not taken:
            continue
        cycles, adds, reading = taken[0] if taken[0][0] < taken[-1][0] + _LIMITED else taken[-1]
        among = " and ".join(f"{n} adds {c:.2f}" for c, n, _ in taken)
        how = f"cycles of a scheduler, less those of the adds alone in the same loop: among {among}; {reading}"
        if name == "ldg":  # the others are chains of their own, too
            yield Number("operations.ldg.kind", "load")
        yield Number(f"operations.{name}.issue_slots", digits(cycles), f"slots.{name}.k{adds}", how)
        if name == "imad_wide":
            yield Number("instructions.imul_wide.issue_slots", float(round(cycles)), f"slots.{name}.k{adds}",
                         f"in whole slots; {how}")  # fmt: skip


def _trips(samples: Samples, entry: str) -> dict[int, Reading]:
    """Return a scheduler's cycles for a trip of 2N bodies of one warp, by warps per SM."""
    return samples.take(entry, lambda p, v: v["span_cycles_2n"] / (p["trips"] * p["warps"] / SCHEDULERS), "warps")


def derive_banks(samples: Samples) -> Iterator[Number]:
    """Derive whether the register file has two banks: by FFMA with three registers, all even or odd, or not."""
    found = {classes: _cycles(samples, f"issue.banks.{classes}") for classes in ("same4", "same2", "mixed")}
    cycles = {classes: reading.median for classes, reading in found.items() if reading}
    if len(cycles) == 3 and min(cycles["same4"], cycles["same2"]) > _CONFLICT * cycles["mixed"]:
        how = (
            f"FFMA with three registers, all even or all odd: {cycles['same4']:.2f} cycles of a scheduler, though not "
            f"the same modulo four: {cycles['same2']:.2f}; even and odd: {cycles['mixed']:.2f}"
        )
        yield Number("sm.register_banks", 2.0, "issue.banks.same4, same2 and mixed", how)


def derive_addresses(samples: Samples) -> Iterator[Number]:
    """Derive from what makes an address to the load from there."""
    alone = samples.one("instruction.ldl", per_link, warps=1)
    for kind in ADDRESSES:
        both = samples.one(f"address.{kind}", per_link, warps=1)
        if both and alone:
            how = f"a pair, less instruction.ldl, in whole cycles; {both}"
            key = f"instructions.{kind}.latency_to.load"
            yield Number(key, float(round(both.median - alone.median)), f"address.{kind}", how)
