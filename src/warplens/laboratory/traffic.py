"""Kernels that move data: streaming at each level, strides, atomics, single latencies, requests in flight."""

from __future__ import annotations

from warplens.laboratory.memory import _HINT, _SCOPE
from warplens.laboratory.source import Expectation, Kernel

_KIND = {4: "u32", 8: "v2.u32", 16: "v4.u32"}
_SUFFIX = {4: "", 8: r"\.64", 16: r"\.128"}
SLICE = 16  # accesses of a thread in one block's piece of the array
_GROUP = 8  # accesses in flight


def _access(width: int, address: str, store: bool, hint: str = "") -> str:
    """Return one access of v[i] in inline assembly."""
    words = range(width // 4)
    registers = "{" + ", ".join(f"%{n + store}" for n in words) + "}" if width > 4 else f"%{int(store)}"
    values = ", ".join(f'"{"" if store else "="}r"(v[i][{n}])' for n in words)
    if store:
        return f'asm volatile("st.global.{_KIND[width]} [%0], {registers};" :: "l"({address}), {values} : "memory");'
    return f'asm volatile("ld.global{hint}.{_KIND[width]} {registers}, [%{len(words)}];" : {values} : "l"({address}));'


def bandwidth(reads: int, writes: int, width: int = 16, stride: int = 1, once: bool = False) -> Kernel:
    """Stream once through arrays with many small blocks: so many arrays read, so many written, from DRAM to DRAM.

    Array j begins size bytes after the one before; a block does its piece of every array and leaves. With a stride a
    thread's elements are so many elements from its neighbour's, and nobody reads what lies between. `once`: a thread
    makes one access to each array, as most kernels do; the piece of a block is then 256 accesses, not 4096.
    """
    name, words = f"bandwidth_r{reads}_w{writes}_b{width}" + (f"_s{stride}" if stride > 1 else ""), width // 4
    name += "_once" if once else ""
    apart, slice_, group = width * stride, *((1, 1) if once else (SLICE, _GROUP))
    each = "UNROLL" if once else '_Pragma("unroll 1")'
    at = f"at + (u64)i * blockDim.x * {apart}"
    fold = " ".join(f"sum ^= v[i][{n}];" for n in range(words))
    text = f"""\
KERNEL({name}, 256) {{
  u32 sum = 0, v[{group}][{words}];
  UNROLL for (int i = 0; i < {group}; i++) UNROLL for (int n = 0; n < {words}; n++) v[i][n] = trips + n;
  char *at = data + ((u64)blockIdx.x * blockDim.x * {slice_} + threadIdx.x) * {apart};
  u64 next = (u64){group} * blockDim.x * {apart} - size * {reads + writes};
  _Pragma("unroll 1") for (u32 half = 0; half < {slice_ // group}; half++, at += next) {{
    {each} for (u32 j = 0; j < {reads}; j++, at += size) {{
      UNROLL for (int i = 0; i < {group}; i++) {_access(width, at, False)}
      UNROLL for (int i = 0; i < {group}; i++) {{ {fold} }}
    }}
    {each} for (u32 j = 0; j < {writes}; j++, at += size)
      UNROLL for (int i = 0; i < {group}; i++) {_access(width, at, True)}
  }}
  KEEP(sum == c)
}}
"""
    loads, stores = (reads, writes) if once else (group if reads else 0, group if writes else 0)
    expect = {rf"LDG\.E{_SUFFIX[width]}{_SCOPE}": loads, rf"STG\.E{_SUFFIX[width]}{_SCOPE}": stores}
    facts = {"reads": reads, "writes": writes, "width": width, "stride": stride, "slice": slice_}
    return Kernel(name, text, Expectation(expect, 2000, True, loop=False), facts=facts)


def resident(level: str, width: int = 16, store: bool = False, stride: int = 1) -> Kernel:
    """Independent loads or stores of the same lines over and over: bandwidth of the caches.

    Blocks have 1024 threads, `stride` elements of `width` bytes apart, and make `trips` trips of 8 accesses each, 4 of
    16 bytes; what is added to the block's beginning, blockIdx.x * a, stands in the instructions. With strides the
    accesses of a trip fall between one another, as far as there is room. b: 0, which the compiler does not know. size:
    one more than the only SM that works, or 0.
    """
    name = f"{'store' if store else 'load'}_{level}_b{width}_s{stride}"
    words, step, group = width // 4, 1024 * width * stride, 4 if width == 16 else 8
    inside = f"at + (i % {stride} * {width} + i / {stride} * {step})"
    fold = " ".join(f"sum ^= v[i][{n}];" for n in range(words))
    text = f"""\
KERNEL({name}, 1024) {{
  if (size && sm_id() != (u32)size - 1) return;
  u32 sum = 0, v[{group}][{words}];
  UNROLL for (int i = 0; i < {group}; i++) UNROLL for (int n = 0; n < {words}; n++) v[i][n] = threadIdx.x + n;
  char *at = data + (u64)blockIdx.x * a + threadIdx.x * {width * stride};
  PASSES {{
    START_TOGETHER
    LOOP {{
      UNROLL for (int i = 0; i < {group}; i++) {_access(width, inside, store, _HINT[level])}
      {"" if store else f"UNROLL for (int i = 0; i < {group}; i++) {{ {fold} }}"}
      at += b;
    }}
    STOP
  }}
  KEEP(sum == c)
  record(records, c0, c1, trips * {group}ull);
}}
"""
    expect = {rf"{'STG' if store else 'LDG'}\.E{_SUFFIX[width]}{_SCOPE}": group}
    facts = {
        "level": level,
        "width": width,
        "store": store,
        "stride": stride,
        "reach": -(-group // stride) * step,
        "accesses": group,
    }
    return Kernel(name, text, Expectation(expect, 20 + group * words), facts=facts)


def atomic(kind: str) -> Kernel:
    """Atomic additions of zero to global memory. `atom` returns the old value, the next index; `red` does not.

    A thread's word: block * a + its index / 32 * b + lane * c, of which the bits of `trips` are kept. Trips
    of four are counted for `size` cycles.
    """
    name = f"{kind}_add"
    links = 4
    one = (
        'asm volatile("atom.global.add.u32 %0, [%1], %2;" : "=r"(x) : "l"((u32 *)data + x), "r"(zero) : "memory");'
        if kind == "atom"
        else 'asm volatile("red.global.add.u32 [%0], %1;" :: "l"((u32 *)data + x), "r"(zero) : "memory");'
    )
    text = f"""\
KERNEL({name}, 1024) {{
  u32 zero = ((volatile u32 *)out)[16];
  u32 x = (blockIdx.x * a + threadIdx.x / 32 * b + threadIdx.x % 32 * c) & trips;
  PASSES {{
    START_TOGETHER
    TIMED_LOOP UNROLL for (int u = 0; u < {links}; u++) {{ {one} }} UNTIL_TIME
  }}
  KEEP(x == 0xfffffff)
  record(records, TIMED, done);
}}
"""
    pattern = r"ATOMG?\.E\.ADD.*" if kind == "atom" else r"REDG?\.E\.ADD.*"
    return Kernel(name, text, Expectation({pattern: links}, 16 + 2 * links), facts={"links": links})


def distribution(chains: int = 1) -> Kernel:
    """As `stream` for 4-byte loads, but in warp 0 of every block one load in eight is timed alone (§6.6).

    trips: most loads of a chain; size: cycles. The times, at most 512 per block, go to out from word 32 on.
    """
    name = f"distribution_i{chains}"
    load = 'asm volatile("ld.global.u32 %0, [%1];" : "=r"(x[k]) : "l"((const u32 *)data + x[k]));'
    text = f"""\
KERNEL({name}, 1024) {{
  __shared__ u32 taken[512];
  __shared__ volatile u32 last;
  __shared__ u64 origin;
  u32 x[{chains}], times = 0, done = 0;
  UNROLL for (int k = 0; k < {chains}; k++) x[k] = (blockIdx.x * {chains} + k) * a + threadIdx.x;
  for (u32 i = threadIdx.x; i < 512; i += blockDim.x) taken[i] = 0;
  u64 c0, c1;
  const u32 pass = 0;
  START_TOGETHER
  if (threadIdx.x < 32) {{
    _Pragma("unroll 1") do {{
      UNROLL for (int u = 0; u < 7; u++) UNROLL for (int k = 0; k < {chains}; k++) {load}
      last = x[0];
      u64 begin = cycles();
      {{ const int k = 0; {load} }}
      last = x[0];
      u32 end = (u32)(cycles() - begin);
      if (times < 512) taken[times++] = end;
      UNROLL for (int k = 1; k < {chains}; k++) {load}
      done += 8;
    }} while (done + 8 <= trips && cycles() - c0 < size);
  }} else {{
    _Pragma("unroll 1") do {{
      UNROLL for (int u = 0; u < 8; u++) UNROLL for (int k = 0; k < {chains}; k++) {load}
      done += 8;
    }} while (done + 8 <= trips && cycles() - c0 < size);
  }}
  u32 sum = 0;
  UNROLL for (int k = 0; k < {chains}; k++) sum += x[k];
  KEEP(sum == c)  // the clock waits for the last loads
  STOP
  __syncthreads();
  for (u32 i = threadIdx.x; i < 512; i += blockDim.x) ((u32 *)(out + 32))[blockIdx.x * 512 + i] = taken[i];
  record(records, c0, c1, done);
}}
"""
    expect = {rf"LDG\.E{_SCOPE}": 8 * chains}
    return Kernel(name, text, Expectation(expect, 60 + 8 * chains), facts={"chains": chains})


def in_flight(count: int = 40) -> Kernel:
    """Issue independent loads back to back and note when each was issued: how many may be under way (Listing 3.2).

    A thread reads data + warp * b + lane * a + load * 64 KiB: a is 4 for one line per load, more for several. The first
    pass reads 2 KiB beside, so that the pages are known and the lines are not in a cache. Times of the issues, after
    the first clock, go to out from word 32 on: count per warp, then the time when all had come.
    """
    name = f"in_flight_{count}"
    text = f"""\
KERNEL({name}, 512) {{
  __shared__ volatile u32 last[16];
  u32 v[{count}], t[{count}], begin = 0, end = 0;
  u64 c0 = 0, c1 = 0;
  const char *at = data + (u64)(threadIdx.x / 32 + blockIdx.x * (blockDim.x / 32)) * b + threadIdx.x % 32 * a + 2048;
  _Pragma("unroll 1") for (u32 pass = 0; pass < 2; pass++, at -= 2048) {{
    START
    begin = (u32)cycles();
    UNROLL for (int i = 0; i < {count}; i++) {{
      asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(v[i]) : "l"(at + i * 65536));
      t[i] = (u32)cycles();
    }}
    u32 sum = 0;
    UNROLL for (int i = 0; i < {count}; i++) sum += v[i];
    last[threadIdx.x / 32] = sum;  // the clock waits for all
    end = (u32)cycles();
    STOP
  }}
  if (threadIdx.x % 32 == 0) {{
    u32 *to = (u32 *)(out + 32) + (u64)(threadIdx.x / 32 + blockIdx.x * (blockDim.x / 32)) * {count + 1};
    UNROLL for (int i = 0; i < {count}; i++) to[i] = t[i] - begin;
    to[{count}] = end - begin;
  }}
  record(records, c0, c1, {count});
}}
"""
    expect = {rf"LDG\.E{_SCOPE}": count}
    return Kernel(name, text, Expectation(expect, 4 * count + 60, True), facts={"count": count})


def burst(count: int) -> Kernel:
    """So many independent loads of one warp at once, until all are back: the cycles between two that leave an SM.

    As `in_flight`, but with no clock between the loads; both passes read the same, so that it comes from the L2 cache.
    c: the only SM that works.
    """
    name = f"burst_{count}"
    text = f"""\
KERNEL({name}, 1024) {{
  if (sm_id() != c) return;
  __shared__ volatile u32 last[32];
  u32 v[{count}];
  const char *at = data + (u64)(threadIdx.x / 32) * b + threadIdx.x % 32 * a;
  PASSES {{
    START
    UNROLL for (int i = 0; i < {count}; i++)
      asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(v[i]) : "l"(at + i * 4096));
    u32 sum = 0;
    UNROLL for (int i = 0; i < {count}; i++) sum += v[i];
    last[threadIdx.x / 32] = sum;  // the clock waits for all
    STOP
  }}
  record(records, c0, c1, {count});
}}
"""
    return Kernel(name, text, Expectation({rf"LDG\.E{_SCOPE}": count}, 2 * count + 80, True), facts={"count": count})
