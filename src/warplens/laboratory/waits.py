"""Kernels about waiting: places before units, barriers beside shared memory, strips that drift apart, cold code.

`queue` notes when each of several instructions in a row was issued: how far issue runs ahead of the unit that they go
to is what the places before it hold. `turns` has accesses to shared memory and a barrier, or none. `strips` copies
columns of a table whose rows begin at whole sectors or not. `straight` runs through code once.
"""

from __future__ import annotations

from warplens.laboratory.chains import ZERO_AT
from warplens.laboratory.memory import _SCOPE
from warplens.laboratory.source import Expectation, Kernel

ACCESSES = (4, 8, 16)  # of shared memory in a turn
AT_ONCE = 4  # rows that a thread of a strip loads before it stores them
WORDS, ROWS = 4096, 32768  # of the table that strips are cut from
LENGTHS = (1024, 4096, 6144, 7168, 8192, 12288)  # of code, in instructions
COPY_AT = 1 << 30  # byte of the data where the copy of the table begins
# What goes to a unit: PTX, its register's type and C type, its machine code, what is changed in it.
_QUEUES = {
    "mufu": ("rsqrt.approx.ftz.f32 %0, %0;", "f", "float", r"MUFU\.RSQ", "stall MUFU.2"),
    "lds": ("ld.shared.u32 %0, [%0];", "r", "u32", r"LDS(\.U)?", ""),
}
QUEUED = {"mufu": (2, 3, 4, 12, 16), "lds": (2, 4, 8, 12, 16, 20, 24, 32, 40, 48)}  # instructions in a row


def queue(unit: str, count: int) -> Kernel:
    """Issue so many independent instructions of one unit back to back, and wait for their results, turn by turn.

    a: words from lane to lane in shared memory, where a word holds its own address. Counted are the cycles from before
    the first until the last was issued, whose result nobody waits for then.
    """
    ptx, register, kind, pattern, patch = _QUEUES[unit]
    name = f"queue_{unit}_{count}"
    first = "((volatile float *)out)[i % 4]" if unit == "mufu" else "mine"
    text = f"""\
KERNEL({name}, 128) {{
  __shared__ u32 words[1024];
  __shared__ volatile {kind} last[4];
  for (u32 i = threadIdx.x; i < 1024; i += blockDim.x) words[i] = shared_address(words + i);
  u32 mine = shared_address(words + threadIdx.x % 32 * a);
  u64 issuing = 0, zero = ((volatile u32 *)((char *)out + threadIdx.x * b))[{ZERO_AT // 4}];
  {kind} v[{count}], sum;
  UNROLL for (int i = 0; i < {count}; i++) v[i] = {first};
  PASSES {{
    START_TOGETHER
    issuing = zero;
    LOOP {{
      u64 from = cycles();
      UNROLL for (int i = 0; i < {count}; i++) asm volatile("{ptx}" : "+{register}"(v[i]) :: "memory");
      issuing += cycles() - from;
      sum = 0;
      UNROLL for (int i = 0; i < {count}; i++) sum += v[i];
      last[threadIdx.x / 32] = sum;  // the next clock waits for all
    }}
    STOP
  }}
  record(records, c0, c1, issuing);
}}
"""
    expect = Expectation({pattern: count}, 2 * count + 40, True)
    return Kernel(name, text, expect, facts={"unit": unit, "count": count}, patch=patch)


def meeting(store: bool, count: int, barrier: bool) -> Kernel:
    """Turns of so many reads of shared memory, or stores to it, and a barrier of the block, or none."""
    name = f"meeting_{'store' if store else 'read'}{count}" + ("" if barrier else "_none")
    place = "at + 128 * (k % 4)"
    one = f'asm volatile("ld.volatile.shared.u32 %0, [%1];" : "=r"(v[k]) : "r"({place}) : "memory"); '
    if store:
        one = f'asm volatile("st.volatile.shared.u32 [%0], %1;" :: "r"({place}), "r"(turn) : "memory"); '
    text = f"""\
KERNEL({name}, 128) {{
  __shared__ u32 tile[128];
  u32 at = shared_address(tile + threadIdx.x % 32), v[{count}] = {{}}, sum = 0;
  PASSES {{
    START_TOGETHER
    LOOP {{
      UNROLL for (int k = 0; k < {count}; k++) {{ {one}}}
      UNROLL for (int k = 0; k < {count}; k++) sum ^= v[k];
      {'asm volatile("bar.sync 0;" ::: "memory");' if barrier else ""}
    }}
    STOP
  }}
  KEEP(sum == c + 1)
  record(records, c0, c1, trips);
}}
"""
    expect = {r"STS" if store else r"LDS(\.U)?": count, **({r"BAR\.SYNC.*": 1} if barrier else {})}
    facts = {"store": store, "accesses": count, "barrier": barrier}
    return Kernel(name, text, Expectation(expect, 20 + count), facts=facts)


def strips(width: int) -> Kernel:
    """Copy strips of so many words of a table from top to bottom, four rows at once, turn by turn (`trips`).

    size: words from row to row; a: words from a line to where rows begin. Neighbours begin together and drift apart.
    """
    name, threads = f"strips_{width}", max(128, width)
    high, each = threads // width, f"UNROLL for (int k = 0; k < {AT_ONCE}; k++)"
    load = 'asm volatile("ld.global.cg.f32 %0, [%1];" : "=f"(v[k]) : "l"(in + at + k * step));'
    text = f"""\
KERNEL({name}, {threads}) {{
  const float *in = (const float *)data;
  float *to = (float *)(data + {COPY_AT}u), sum = 0, v[{AT_ONCE}];
  u64 down = blockIdx.x / {WORDS // width} * (u64)trips * {AT_ONCE * high} + threadIdx.x / {width};
  u64 at = down * size + blockIdx.x % {WORDS // width} * {width} + threadIdx.x % {width} + a, step = {high} * size;
  _Pragma("unroll 1") for (u32 turn = 0; turn < trips; turn++) {{
    {each} {load}
    {each} sum += v[k];
    {each} to[at + k * step] = v[k] + sum;
    at += {AT_ONCE} * step + (sum == 12345.0f);
  }}
}}
"""
    expect = {rf"LDG\.E{_SCOPE}": AT_ONCE, rf"STG\.E{_SCOPE}": AT_ONCE}
    facts = {"words": width, "rows": AT_ONCE * high}
    return Kernel(name, text, Expectation(expect, 60), facts=facts)


def straight(length: int) -> Kernel:
    """So many dependent multiply-adds, once: what they take when their code is in no cache."""
    name = f"straight_{length}"
    text = f"""\
KERNEL({name}, 32) {{
  float x = ((volatile float *)out)[0], y = ((volatile float *)out)[1];
  UNROLL for (int i = 0; i < {length}; i++) asm volatile("fma.rn.f32 %0, %0, %1, %1;" : "+f"(x) : "f"(y));
  KEEP(x == 12345.0f)
}}
"""
    return Kernel(name, text, Expectation({"FFMA": length}, 40, True, loop=False), facts={"links": length, "chains": 1})
