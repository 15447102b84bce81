"""A measuring kernel: CUDA source from a template, and what its machine code must and must not contain.

All kernels take the same arguments, so that one function launches them all:

    records   one `Record` per warp: start and end in SM cycles and in nanoseconds, SM, how often it did what it does
    data      the array that memory kernels work on
    out       what else a kernel has to say
    size, trips, a, b, c, value   numbers whose meaning is the template's

The timed loop stands in an outer loop of two passes. The first makes one trip and fills the instruction caches; only
the second is stamped. Where all blocks of a launch are there at once, they wait for one another before it starts: the
word behind the records counts them.

A loop makes a number of trips, or it runs for a time and counts: the trips that end within `size` cycles, and when the
last of them does. The warps then stay for half as long again, working and not counting, so that a warp's trips are
counted with all others at work, however unequally they are served.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LANES, SECTOR_BYTES = 32, 32  # threads of a warp; what L1 asks L2 for at least
HINT = {"default": "", "l1": "", "l2": ".cg"}  # which caches a load may use: .cg leaves out the first
SCOPE = r"(\.SYS|\.STRONG\.GPU|\.STRONG\.SYS|\.CONSTANT)?"  # how the disassembler marks a load's reach
ZERO_AT = 64  # byte of `out` with the float that alpha adds add
RECORD_WORDS = 8  # start, end, start_ns, end_ns, SM, count, start_clock, end_clock

PRELUDE = """\
typedef unsigned u32;
typedef unsigned long long u64;
struct Record { u64 start, end, start_ns, end_ns, sm, count, start_clock, end_clock; };
__device__ __forceinline__ u64 cycles() {
  u64 t; asm volatile("mov.u64 %0, %%clock64;" : "=l"(t) :: "memory"); return t; }
__device__ __forceinline__ u32 clock32() {
  u32 t; asm volatile("mov.u32 %0, %%clock;" : "=r"(t) :: "memory"); return t; }
__device__ __forceinline__ u64 nanoseconds() {
  u64 t; asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t) :: "memory"); return t; }
__device__ __forceinline__ u32 sm_id() { u32 s; asm volatile("mov.u32 %0, %%smid;" : "=r"(s)); return s; }
__device__ __forceinline__ u32 shared_address(const void *p) { return (u32)__cvta_generic_to_shared(p); }
__device__ __forceinline__ Record *own(Record *records) {
  return records + (blockIdx.x * (u64)blockDim.x + threadIdx.x) / 32; }
// One warp of a block reads the GPU's timer and at once its clock, before and after: two such pairs give the frequency.
__device__ __forceinline__ void stamp_begin(Record *records) {
  u64 ns = nanoseconds(), at = cycles();
  if (threadIdx.x == 0) { own(records)->start_ns = ns; own(records)->start_clock = at; }
}
__device__ __forceinline__ void record(Record *records, u64 c0, u64 c1, u64 count) {
  u64 ns = 0, at = 0;
  if (threadIdx.x < 32) { ns = nanoseconds(); at = cycles(); }
  if (threadIdx.x % 32 == 0) {
    Record *to = own(records);
    to->start = c0; to->end = c1; to->end_ns = ns; to->end_clock = at; to->sm = sm_id(); to->count = count;
  }
}
// All blocks of the launch come together, for the nth time; a millisecond or so is enough, and nobody waits for ever.
// A block begins some time after it has seen the last one come: until then nobody's work keeps another block of its SM
// from setting its origin.
__device__ __forceinline__ void meet(Record *records, u32 nth, u64 *origin) {
  if (threadIdx.x == 0) {
    u32 *there = (u32 *)(records + gridDim.x * (u64)((blockDim.x + 31) / 32)), begin = clock32();
    atomicAdd(there, 1u);
    while (*(volatile u32 *)there < nth * gridDim.x && clock32() - begin < 4000000u) {}
    stamp_begin(records);
    u64 at = cycles() + 6000;
    *origin = at;
    while (cycles() < at) {}
  }
  __syncthreads();
}
#define KERNEL(name, threads) extern "C" __global__ void __launch_bounds__(threads) name( \\
    Record *records, char *data, u64 *out, u64 size, u32 trips, u32 a, u32 b, u32 c, float value)
// Two passes: one trip to warm up, then what counts.
#define PASSES __shared__ u64 origin; u64 c0 = 0, c1 = 0; u32 turns = 1, budget = 0, done = 0, ended = 0; \\
  _Pragma("unroll 1") for (u32 pass = 0; pass < 2; pass++, turns = trips, budget = (u32)size)
// All warps of a block wait for the one that reads the timer.
#define START if (threadIdx.x < 32) stamp_begin(records); __syncthreads(); c0 = cycles();
// The clock after a barrier may be read before the barrier is passed: a block's time begins where its origin says.
#define START_TOGETHER meet(records, pass + 1, &origin); c0 = origin;
#define STOP c1 = cycles();
#define LOOP _Pragma("unroll 1") for (u32 turn = 0; turn < turns; turn++)
// For a time: `done` trips end within it, the last one after `ended` cycles. A warp that comes to nothing has had its
// time all the same: it began when its block did. A warp that is left waiting after its last trip has made less than
// one more in the rest of the time: its trips took at least their share of it.
#define TIMED_LOOP done = 0; _Pragma("unroll 1") for (u32 at = 0;;) {
#define UNTIL_TIME_OR(over) \\
  at = clock32() - (u32)c0; if (at < budget) { done++; ended = at; } if (at >= budget + budget / 2 || (over)) break; }
#define UNTIL_TIME UNTIL_TIME_OR(false)
#define TIMED c0, c0 + (done ? max((u64)ended, (u64)budget * done / (done + 1)) : budget)
#define UNROLL _Pragma("unroll")
// Results that nobody reads stay alive by a comparison that never holds.
#define KEEP(met) if (met) *(unsigned char *)(out + 31) = 1;
"""


@dataclass(frozen=True)
class Expectation:
    """Machine code as it must be: in the timed loop so many instructions of each pattern, and little else.

    `inside` maps a regular expression over names such as `LDG.E.128` to the exact number in the timed loop;
    `others_at_most` bounds the loop's further instructions. `stray_memory` allows global accesses in the loop that
    `inside` does not name, `local` local memory, `conflicts` conflicts of register banks. `over`: so many more of a
    pattern may be the loop's own. `loop` False: the whole kernel.
    """

    inside: dict[str, int] = field(default_factory=dict)
    others_at_most: int = 16
    stray_memory: bool = False
    loop: bool = True
    over: int = 0
    local: bool = False
    conflicts: bool = False


@dataclass(frozen=True)
class Kernel:
    """One measuring kernel: its name, its source without the prelude, what its code must be, from which GPU on."""

    name: str
    text: str
    expect: Expectation = Expectation()
    since: int = 75
    only: str = ""  # an architecture such as sm_90a, where the code is for that one alone
    facts: dict[str, Any] = field(default_factory=dict)
    patch: str = ""  # what is changed in the machine code, see `patches`
    until: int = 999  # the last GPU that has the instruction

    def fits(self, arch: str) -> bool:
        """Return True if the kernel can be made for an architecture such as sm_90."""
        number = int(arch.removeprefix("sm_").rstrip("af"))
        return self.since <= number <= self.until and (
            not self.only or number == int(self.only.removeprefix("sm_").rstrip("af"))
        )

    def target(self, arch: str) -> str:
        """Return the architecture to compile for: the GPU's own, or the variant that the kernel needs."""
        return self.only or arch


def source_of(kernels: Iterable[Kernel]) -> str:
    """Return one translation unit with these kernels."""
    return PRELUDE + "\n".join(kernel.text for kernel in kernels)


def fingerprint(kernels: Iterable[Kernel], arch: str) -> str:
    """Return a short name for what is compiled, for files and for finding a measurement again."""
    kernels = list(kernels)
    changes = "".join(kernel.patch for kernel in kernels)
    changes += Path(__file__).with_name("patches.py").read_text() if changes else ""  # what a change does is said there
    return hashlib.sha256((arch + source_of(kernels) + changes).encode()).hexdigest()[:16]


ANYTHING = Expectation(loop=False, stray_memory=True, others_at_most=4000)


def fill_kernel() -> Kernel:
    """Write the chain: trips 0: entry i leads to i + a within its section of b entries; trips 1: to i * a + b, modulo.

    size: entries, for trips 1 a power of two. c: bytes of an entry, 4 for an index, 8 and 16 for an address.
    """
    text = """\
KERNEL(fill, 1024) {
  for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < size; i += (u64)gridDim.x * blockDim.x) {
    u64 first = b ? i / b * b : 0;
    u64 next = trips ? (i * a + b) & (size - 1) : b ? first + (i - first + a) % b : i + a;
    if (c == 4) ((u32 *)data)[i] = (u32)next;
    else if (c == 8) ((u64 *)data)[i] = (u64)(data + 8 * next);
    else ((ulonglong2 *)data)[i] = make_ulonglong2((u64)(data + 16 * next), 0);
  }
}
"""
    return Kernel("fill", text, Expectation(loop=False, stray_memory=True, others_at_most=2000))


def touch_kernel() -> Kernel:
    """Read `size` bytes from data once, trips times: fills the L2 cache, or clears it of everything else."""
    text = """\
KERNEL(touch, 1024) {
  u32 sum = 0;
  for (u32 turn = 0; turn < trips; turn++)
    for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < size / 16; i += (u64)gridDim.x * blockDim.x) {
      u32 x, y, z, w;
      asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(x), "=r"(y), "=r"(z), "=r"(w) : "l"(data + 16 * i));
      sum ^= x ^ y ^ z ^ w;
    }
  KEEP(sum == c)
}
"""
    return Kernel("touch", text, Expectation(loop=False, stray_memory=True, others_at_most=2000))


def scatter_kernel() -> Kernel:
    """Write addresses: `trips` pairs of offsets in out from word 32 on, where to write and what to point at."""
    text = """\
KERNEL(scatter, 256) {
  u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < trips) *(u64 *)(data + out[32 + 2 * i]) = (u64)(data + out[33 + 2 * i]);
}
"""
    return Kernel("scatter", text, Expectation(loop=False, stray_memory=True, others_at_most=100))


def warm_kernel() -> Kernel:
    """Return the kernel of busy arithmetic for `size` cycles: brings the clocks up."""
    text = """\
KERNEL(warm, 1024) {
  if (threadIdx.x < 32) stamp_begin(records);
  u64 c0 = cycles(), c1;
  float x = value;
  do {
    UNROLL for (int i = 0; i < 256; i++) asm volatile("fma.rn.f32 %0, %0, %0, %0;" : "+f"(x));
    c1 = cycles();
  } while (c1 - c0 < size);
  KEEP(x == 12345.0f)
  record(records, c0, c1, 1);
}
"""
    return Kernel("warm", text, Expectation({"FFMA": 256}, 12))


def blocks_kernel() -> Kernel:
    """Return the kernel of blocks that last `size` cycles and stamp begin and end in both times: the tail of a grid."""
    text = """\
KERNEL(blocks, 1024) {
  if (threadIdx.x < 32) stamp_begin(records);
  u64 c0 = cycles(), c1;
  do c1 = cycles(); while (c1 - c0 < size);
  record(records, c0, c1, 1);
}
"""
    return Kernel("blocks", text, ANYTHING)


def moment_kernel() -> Kernel:
    """Return the kernel in which every SM reads the GPU's timer and its clock: two words each, from word a of `out`."""
    text = """\
KERNEL(moment, 32) {
  u64 ns = nanoseconds(), at = cycles();
  if (threadIdx.x == 0) *(ulonglong2 *)(out + a + 2 * sm_id()) = make_ulonglong2(ns, at);
}
"""
    return Kernel("moment", text, ANYTHING)
