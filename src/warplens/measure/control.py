"""Kernels about a launch and about control: launch overhead, blocks, barriers, branches, instruction and constant caches."""

from __future__ import annotations

from warplens.measure.source import Expectation, Kernel

_ANYTHING = Expectation(loop=False, stray_memory=True, others_at_most=4000)


def empty() -> Kernel:
    """Nothing: what a launch and a block cost."""
    return Kernel("empty", "KERNEL(empty, 1024) {}\n", Expectation(loop=False, others_at_most=4))


def blocks() -> Kernel:
    """Blocks that last `size` cycles by the clock and stamp begin and end: launch, replacement, tail."""
    text = """\
KERNEL(blocks, 1024) {
  u64 n0 = nanoseconds(), c0 = cycles(), c1;
  do c1 = cycles(); while (c1 - c0 < size);
  record(records, c0, c1, n0, nanoseconds(), 1);
}
"""
    return Kernel("blocks", text, _ANYTHING)


def warm() -> Kernel:
    """Busy arithmetic for `size` cycles: brings the clocks up."""
    text = """\
KERNEL(warm, 1024) {
  u64 n0 = nanoseconds(), c0 = cycles(), c1;
  float x = value;
  do { UNROLL for (int i = 0; i < 256; i++) asm volatile("fma.rn.f32 %0, %0, %0, %0;" : "+f"(x)); c1 = cycles(); } while (c1 - c0 < size);
  KEEP(x == 12345.0f)
  record(records, c0, c1, n0, nanoseconds(), 1);
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
    START
    LOOP {{ UNROLL for (int u = 0; u < {count}; u++) asm volatile("bar.sync 0;" ::: "memory"); }}
    STOP
  }}
  record(records, c0, c1, n0, n1, (u64)trips * {count});
}}
"""
    return Kernel(name, text, Expectation({r"BAR\.SYNC.*": count}, 12), facts={"links": count})


def branch(kind: str, doubled: bool = False) -> Kernel:
    """Branches in a row around eight multiplications: taken, not taken, or divergent, where half the warp goes each way.

    a: lanes below it skip. taken: 32, not taken: 0, divergent: 16.
    """
    count = 32 if doubled else 16
    name = f"branch_{kind}_n{count}"
    inner = "".join(["mul.f32 %0, %0, %2; "] * 8)
    one = (
        f'asm volatile("{{ .reg .pred p; setp.lt.s32 p, %1, %3; @p bra SKIP; {inner} SKIP: }}" '
        ': "+f"(x) : "r"(lane), "f"(y), "r"(limit) : "memory");'
    )
    text = f"""\
KERNEL({name}, 1024) {{
  float x = ((volatile float *)out)[0], y = ((volatile float *)out)[1];
  int lane = ((volatile int *)out)[16] + threadIdx.x % 32, limit = (int)a;
  PASSES {{
    START
    LOOP {{ UNROLL for (int u = 0; u < {count}; u++) {{ {one} }} }}
    STOP
  }}
  KEEP(x == 12345.0f)
  record(records, c0, c1, n0, n1, (u64)trips * {count});
}}
"""
    return Kernel(
        name,
        text,
        Expectation({"FMUL": 8 * count, r"BRA.*": count}, 4 * count + 20, over=1),
        facts={"links": count, "kind": kind},
    )


def loop(doubled: bool = False) -> Kernel:
    """A loop of few adds: what the loop itself costs, a taken branch in it."""
    count = 16 if doubled else 8
    name = f"loop_n{count}"
    text = f"""\
KERNEL({name}, 1024) {{
  float x = ((volatile float *)out)[0], y = ((volatile float *)out)[1];
  PASSES {{
    START
    LOOP {{ UNROLL for (int u = 0; u < {count}; u++) asm volatile("add.f32 %0, %0, %1;" : "+f"(x) : "f"(y)); }}
    STOP
  }}
  KEEP(x == 12345.0f)
  record(records, c0, c1, n0, n1, (u64)trips * {count});
}}
"""
    return Kernel(name, text, Expectation({"FADD": count}, 4), facts={"links": count})


def code(length: int) -> Kernel:
    """A loop of so many independent multiply-adds: fits an instruction cache, or does not."""
    name = f"code_{length}"
    text = f"""\
KERNEL({name}, 1024) {{
  float x = ((volatile float *)out)[0], y = ((volatile float *)out)[1], z = ((volatile float *)out)[2], v = ((volatile float *)out)[3];
  PASSES {{
    START
    LOOP {{
      UNROLL for (int u = 0; u < {length // 4}; u++) {{
        asm volatile("fma.rn.f32 %0, %0, %0, %0;" : "+f"(x)); asm volatile("fma.rn.f32 %0, %0, %0, %0;" : "+f"(y));
        asm volatile("fma.rn.f32 %0, %0, %0, %0;" : "+f"(z)); asm volatile("fma.rn.f32 %0, %0, %0, %0;" : "+f"(v));
      }}
    }}
    STOP
  }}
  KEEP(x + y + z + v == 12345.0f)
  record(records, c0, c1, n0, n1, (u64)trips * {length});
}}
"""
    return Kernel(name, text, Expectation({"FFMA": length}, 8), facts={"links": length})


def constant() -> Kernel:
    """A chain of loads from constant memory; the table is filled by whoever launches. trips: trips of 8 loads; a: start."""
    text = """\
__constant__ u32 table[16384];
KERNEL(constant_chase, 1024) {
  u32 x = a + ((volatile u32 *)out)[16];
  PASSES {
    START
    LOOP { UNROLL for (int u = 0; u < 8; u++) x = table[x]; }
    KEEP(x == c)
    STOP
  }
  record(records, c0, c1, n0, n1, trips * 8ull);
}
"""
    return Kernel("constant_chase", text, Expectation({r"LDC.*": 8}, 30))
