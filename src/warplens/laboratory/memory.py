"""Kernels for the memory system: filling and reading arrays, chains of loads under load, one chain alone.

Chains follow Volkov 2016 §5.10: an entry of the array holds the index of the next entry that the same thread reads, one
block's width further, so that a warp reads whole lines, a block sweeps its own section, and no entry is read twice. In
a section that is small the chain goes round and stays in a cache. With a multiplier the next index is pseudo-random
(§6.7): one cycle through the whole array, every thread of a warp in another place.
"""

from __future__ import annotations

from warplens.laboratory.source import Expectation, Kernel

_HINT = {"default": "", "l1": "", "l2": ".cg"}  # which caches a load may use: .cg leaves out the first
_SCOPE = r"(\.SYS|\.STRONG\.GPU|\.STRONG\.SYS|\.CONSTANT)?"  # how the disassembler marks a load's reach


def fill() -> Kernel:
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


def touch() -> Kernel:
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


def scatter() -> Kernel:
    """Write addresses: `trips` pairs of offsets in out from word 32 on, where to write and what to point at."""
    text = """\
KERNEL(scatter, 256) {
  u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < trips) *(u64 *)(data + out[32 + 2 * i]) = (u64)(data + out[33 + 2 * i]);
}
"""
    return Kernel("scatter", text, Expectation(loop=False, stray_memory=True, others_at_most=100))


def stream(
    alpha: int = 0, chains: int = 1, width: int = 4, level: str = "default", unroll: int | None = None
) -> Kernel:
    """Chains of loads for a given time: latency and throughput under load, with alpha adds after each load.

    size: cycles to run; trips: most trips of the loop, `unroll` loads each; a: entries of a chain's section. With c not
    0 the chains start c entries apart from thread to thread, for the random pattern. The clock is read when a trip's
    last load has left, not when it is back: one load less than was made is counted.
    """
    unroll = unroll or max(1, min(4, 640 // ((alpha + 2) * chains)))
    name = f"stream_{level}_a{alpha}_i{chains}_w{width}"
    load = {
        4: f'"ld.global{_HINT[level]}.u32 %0, [%1];" : "=r"(x[k]) : "l"((const u32 *)data + x[k])',
        8: f'"ld.global{_HINT[level]}.u64 %0, [%1];" : "=l"(x[k]) : "l"(x[k])',
        16: f'"ld.global{_HINT[level]}.v2.u64 {{%0, %1}}, [%2];" : "=l"(x[k]), "=l"(y[k]) : "l"(x[k])',
    }[width]
    adds = (
        f"float f = __uint_as_float(x[k]); UNROLL for (int i = 0; i < {alpha}; i++) "
        'asm volatile("add.f32 %0, %0, %1;" : "+f"(f) : "f"(zero)); x[k] = __float_as_uint(f);'
        if alpha
        else ""
    )
    # With so many in flight the compiler runs out of scoreboards for what folds the words of a load: instead it is told
    # that they are volatile, and the machine code then loses that again.
    volatile = chains * width > 64
    if volatile:
        load = load.replace(f"ld.global{_HINT[level]}", "ld.volatile.global")
    kind, other = ("u32", "") if width == 4 else ("u64", f" u64 y[{chains}];" if width == 16 else "")
    start = "at" if width == 4 else f"(u64)data + {width} * at"
    text = f"""\
KERNEL({name}, 1024) {{
  float zero = ((volatile float *)((char *)out + threadIdx.x * b))[16];
  {kind} x[{chains}];{other}
  UNROLL for (int k = 0; k < {chains}; k++) {{
    u64 at = ((u64)blockIdx.x * {chains} + k) * a + threadIdx.x;
    if (c) at = (((u64)blockIdx.x * blockDim.x + threadIdx.x) * {chains} + k) * c & (a - 1);
    x[k] = {start};
  }}
  PASSES {{
    START_TOGETHER
    u32 tried = 0;
    TIMED_LOOP
      UNROLL for (int u = 0; u < {unroll}; u++)
        UNROLL for (int k = 0; k < {chains}; k++) {{
          asm volatile({load});
          {adds}
          {"x[k] ^= y[k];" if width == 16 and not volatile else ""}
        }}
    UNTIL_TIME_OR(++tried >= turns)
  }}
  u64 sum = 0;
  UNROLL for (int k = 0; k < {chains}; k++) sum += x[k];
  KEEP(sum == size + 12345)
  record(records, c0, c0 + (done ? ended : budget), done ? (u64)done * {unroll} - 1 : 0);
}}
"""
    suffix = {4: "", 8: r"\.64", 16: r"\.128"}[width]
    loads = unroll * chains
    expect = {rf"LDG\.E{suffix}{_SCOPE}": loads, **({"FADD": alpha * loads} if alpha else {})}
    slack = 22 + loads * {4: 2, 8: 0, 16: 3}[width]
    facts = {"alpha": alpha, "chains": chains, "width": width, "level": level, "unroll": unroll}
    if not volatile:
        return Kernel(name, text, Expectation(expect, slack), facts=facts)
    return Kernel(name, text, Expectation(expect, slack), 80, facts=facts, patch="" if level == "l2" else "weak LDG")


def chase(level: str = "default") -> Kernel:
    """One chain of 8-byte loads in one warp of one SM: the latency of each place in memory with nothing else going on.

    data + size: the first address; b: loads before the clock starts; trips: trips of 8 loads; a: the SM.
    """
    name = f"chase_{level}"
    text = f"""\
KERNEL({name}, 32) {{
  __shared__ volatile u64 last[32];
  if (sm_id() != a) return;
  u64 p = (u64)(data + size);
  _Pragma("unroll 1") for (u32 i = 0; i < b; i++) asm volatile("ld.global{_HINT[level]}.u64 %0, [%0];" : "+l"(p));
  PASSES {{
    START
    LOOP {{ UNROLL for (int u = 0; u < 8; u++) asm volatile("ld.global{_HINT[level]}.u64 %0, [%0];" : "+l"(p)); }}
    last[threadIdx.x] = p;  // the clock waits for the last load
    STOP
  }}
  KEEP(p == 1)
  record(records, c0, c1, trips * 8ull);
}}
"""
    expect = {rf"LDG\.E\.64{_SCOPE}": 8}
    return Kernel(name, text, Expectation(expect, 8), facts={"level": level})


def probe(level: str = "l2") -> Kernel:
    """Time every single load of a chain: near and far parts of the L2 cache, the spread of latencies.

    As `chase`, on every SM one after the other or on one; trips: loads, at most 4096; a: the SM, or ~0 for all. The
    cycles of each go to out from word 32 on, SM by SM.
    """
    name = f"probe_{level}"
    text = f"""\
KERNEL({name}, 32) {{
  __shared__ u32 taken[4096];
  __shared__ u64 last;
  if (a != ~0u && sm_id() != a) return;
  stamp_begin(records);
  u64 c0 = cycles();
  _Pragma("unroll 1") for (u32 pass = 0; pass < 2; pass++) {{
    u64 p = (u64)(data + size);
    _Pragma("unroll 1") for (u32 turn = 0; turn < trips; turn++) {{
      u64 begin = cycles();
      asm volatile("ld.global{_HINT[level]}.u64 %0, [%0];" : "+l"(p));
      asm volatile("st.volatile.shared.u64 [%0], %1;" :: "r"(shared_address(&last)), "l"(p) : "memory");
      taken[turn] = (u32)(cycles() - begin);
    }}
  }}
  u64 c1 = cycles();
  for (u32 i = threadIdx.x; i < trips; i += 32) ((u32 *)(out + 32))[(u64)blockIdx.x * trips + i] = taken[i];
  record(records, c0, c1, trips);
}}
"""
    expect = {rf"LDG\.E\.64{_SCOPE}": 1, r"CS2R.*|S2UR|CS2UR.*": 2}
    return Kernel(name, text, Expectation(expect, 14), facts={"level": level})


def lines(level: str = "l2") -> Kernel:
    """As `chase`, with the warp's lanes spread over so many lines: what each further transaction adds (Table 6.7).

    data + size: the first node, 4 KiB of which every line begins with the address of the next one; c: lines; b: loads
    before the clock starts; trips: trips of 8 loads; a: the SM.
    """
    name = f"lines_{level}"
    text = f"""\
KERNEL({name}, 32) {{
  __shared__ volatile u64 last[32];
  if (sm_id() != a) return;
  u64 p = (u64)(data + size), mine = threadIdx.x % c * 128;
  _Pragma("unroll 1") for (u32 i = 0; i < b; i++)
    asm volatile("ld.global{_HINT[level]}.u64 %0, [%1];" : "=l"(p) : "l"(p + mine) : "memory");
  PASSES {{
    START
    LOOP {{ UNROLL for (int u = 0; u < 8; u++)
      asm volatile("ld.global{_HINT[level]}.u64 %0, [%1];" : "=l"(p) : "l"(p + mine) : "memory"); }}
    last[threadIdx.x] = p;  // the clock waits for the last load
    STOP
  }}
  KEEP(p == 1)
  record(records, c0, c1, trips * 8ull);
}}
"""
    return Kernel(name, text, Expectation({rf"LDG\.E\.64{_SCOPE}": 8}, 28), facts={"level": level})
