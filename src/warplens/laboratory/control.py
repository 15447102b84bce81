"""Kernels about launches and control: overhead, blocks, barriers, branches, instruction and constant caches."""

from __future__ import annotations

from warplens.laboratory.source import Expectation, Kernel

NOP_CYCLES = 5  # of what stands in the place of BSYNC: as long as its own stall count, so that the rest is the same
_ANYTHING = Expectation(loop=False, stray_memory=True, others_at_most=4000)


def empty() -> Kernel:
    """Nothing: what a launch and a block cost."""
    return Kernel("empty", "KERNEL(empty, 1024) {}\n", Expectation(loop=False, others_at_most=4))


def blocks() -> Kernel:
    """Blocks that last `size` cycles by the clock and stamp begin and end in both times: the tail of a grid."""
    text = """\
KERNEL(blocks, 1024) {
  if (threadIdx.x < 32) stamp_begin(records);
  u64 c0 = cycles(), c1;
  do c1 = cycles(); while (c1 - c0 < size);
  record(records, c0, c1, 1);
}
"""
    return Kernel("blocks", text, _ANYTHING)


def short_blocks() -> Kernel:
    """As `blocks`, with the clock read first of all and last of all: what lies between two blocks of an SM."""
    text = """\
KERNEL(short_blocks, 1024) {
  u64 c0 = cycles(), c1;
  Record *to = records + (blockIdx.x * (u64)blockDim.x + threadIdx.x) / 32;
  if (threadIdx.x % 32 == 0) { to->start = c0; to->start_ns = 0; to->end_ns = 1; to->sm = sm_id(); to->count = 1; }
  do c1 = cycles(); while (c1 - c0 < size);
  if (threadIdx.x % 32 == 0) to->end = cycles();
}
"""
    return Kernel("short_blocks", text, _ANYTHING)


def moment() -> Kernel:
    """Every SM reads the GPU's timer and at once its clock: a pair of words for each, from word a of `out` on."""
    text = """\
KERNEL(moment, 32) {
  u64 ns = nanoseconds(), at = cycles();
  if (threadIdx.x == 0) *(ulonglong2 *)(out + a + 2 * sm_id()) = make_ulonglong2(ns, at);
}
"""
    return Kernel("moment", text, _ANYTHING)


def warm() -> Kernel:
    """Busy arithmetic for `size` cycles: brings the clocks up."""
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


def barrier(doubled: bool = False) -> Kernel:
    """Barriers of a whole block one after the other."""
    count = 64 if doubled else 32
    name = f"barrier_n{count}"
    text = f"""\
KERNEL({name}, 1024) {{
  PASSES {{
    START_TOGETHER
    LOOP {{ UNROLL for (int u = 0; u < {count}; u++) asm volatile("bar.sync 0;" ::: "memory"); }}
    STOP
  }}
  record(records, c0, c1, (u64)trips * {count});
}}
"""
    return Kernel(name, text, Expectation({r"BAR\.SYNC.*": count}, 12), facts={"links": count})


def fence(doubled: bool = False) -> Kernel:
    """Fences of the whole device one after the other, with nothing to wait for."""
    count = 16 if doubled else 8
    name = f"fence_n{count}"
    text = f"""\
KERNEL({name}, 1024) {{
  PASSES {{
    START_TOGETHER
    LOOP {{ UNROLL for (int u = 0; u < {count}; u++) __threadfence(); }}
    STOP
  }}
  record(records, c0, c1, (u64)trips * {count});
}}
"""
    return Kernel(name, text, Expectation({r"MEMBAR.*": count}, 12 + 4 * count), facts={"links": count})


def little_copy() -> Kernel:
    """One load and one store of each thread: what the first instructions of a kernel cost."""
    text = """\
KERNEL(little_copy, 256) {
  u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  ((u32 *)data)[(1 << 20) + i] = ((u32 *)data)[i];
}
"""
    return Kernel("little_copy", text, Expectation({r"LDG.*": 1, r"STG.*": 1}, 40, True, loop=False))


def branch(kind: str, doubled: bool = False) -> Kernel:
    """Branches in a row, each around dependent multiplications: so many that the compiler makes a branch of it.

    a: lanes below it skip. `uniform`: the compiler knows that all lanes agree, and there is nothing to bring together
    again; `divergent`: it does not know. Whether a branch is taken is a's: 32 all skip, 0 none, 16 half of them.
    `region`: as `divergent`, around few, with adds behind it; `straight`: without the points where lanes come together.
    """
    count = 32 if doubled else 16
    name = f"branch_{kind}_n{count}"
    body = {"uniform": 8, "divergent": 40}.get(kind, 9)
    behind = 0 if kind in ("uniform", "divergent") else 8
    inner = "".join(["mul.f32 %0, %0, %2; "] * body)
    bra = "bra.uni" if kind == "uniform" else "bra"
    adds = f' UNROLL for (int i = 0; i < {behind}; i++) asm volatile("add.f32 %0, %0, %1;" : "+f"(x) : "f"(y));'
    one = (
        f'asm volatile("{{ .reg .pred p; setp.lt.s32 p, %1, %3; @p {bra} SKIP; {inner} SKIP: }}" '
        ': "+f"(x) : "r"(lane), "f"(y), "r"(limit) : "memory");'
    ) + (adds if behind else "")
    lane = "((volatile int *)out)[16]" + ("" if kind == "uniform" else " + threadIdx.x % 32")
    text = f"""\
KERNEL({name}, 1024) {{
  float x = ((volatile float *)out)[0], y = ((volatile float *)out)[1];
  int lane = {lane}, limit = (int)a;
  PASSES {{
    START_TOGETHER
    LOOP {{ UNROLL for (int u = 0; u < {count}; u++) {{ {one} }} }}
    STOP
  }}
  KEEP(x == 12345.0f)
  record(records, c0, c1, (u64)trips * {count});
}}
"""
    expect = Expectation({"FMUL": body * count, r"BRA.*": count}, (4 + behind) * count + 20, over=1)
    return Kernel(name, text, expect, facts={"links": count, "kind": kind, "body": body},
                  patch=f"drop BSYNC.{NOP_CYCLES}" if kind == "straight" else "")  # fmt: skip


def loop(doubled: bool = False) -> Kernel:
    """A loop of few adds: what the loop itself costs, a taken branch in it."""
    count = 16 if doubled else 8
    name = f"loop_n{count}"
    text = f"""\
KERNEL({name}, 1024) {{
  float x = ((volatile float *)out)[0], y = ((volatile float *)out)[1];
  PASSES {{
    START_TOGETHER
    LOOP {{ UNROLL for (int u = 0; u < {count}; u++) asm volatile("add.f32 %0, %0, %1;" : "+f"(x) : "f"(y)); }}
    STOP
  }}
  KEEP(x == 12345.0f)
  record(records, c0, c1, (u64)trips * {count});
}}
"""
    return Kernel(name, text, Expectation({"FADD": count}, 4), facts={"links": count})


def code(length: int) -> Kernel:
    """A loop of so many independent multiply-adds: fits an instruction cache, or does not."""
    name = f"code_{length}"
    start = ", ".join(f"{x} = ((volatile float *)out)[{i}]" for i, x in enumerate("xyzv"))
    each = " ".join(f'asm volatile("fma.rn.f32 %0, %0, %0, %0;" : "+f"({x}));' for x in "xyzv")
    text = f"""\
KERNEL({name}, 1024) {{
  float {start};
  PASSES {{
    START_TOGETHER
    LOOP {{ UNROLL for (int u = 0; u < {length // 4}; u++) {{ {each} }} }}
    STOP
  }}
  KEEP(x + y + z + v == 12345.0f)
  record(records, c0, c1, (u64)trips * {length});
}}
"""
    return Kernel(name, text, Expectation({"FFMA": length}, 8), facts={"links": length})


def constant() -> Kernel:
    """A chain of loads from constant memory; whoever launches fills the table.

    trips: trips of 8 loads; a: start; b: the only SM that works.
    """
    text = """\
__constant__ u32 table[16384];
KERNEL(constant_chase, 1024) {
  if (sm_id() != b) return;
  u32 x = a + ((volatile u32 *)out)[16];
  PASSES {
    START
    LOOP { UNROLL for (int u = 0; u < 8; u++) x = table[x]; }
    KEEP(x == c)
    STOP
  }
  record(records, c0, c1, trips * 8ull);
}
"""
    return Kernel("constant_chase", text, Expectation({r"LDC.*": 8}, 30))
