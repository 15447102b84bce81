"""Kernels that move data: plain streaming at each level, strides, atomics, single latencies under load, requests in flight."""

from __future__ import annotations

from warplens.measure.memory import _HINT, _SCOPE
from warplens.measure.source import Expectation, Kernel

_VECTOR = {4: ("u32", "%0", "x"), 8: ("v2.u32", "{%0, %1}", "x, y"), 16: ("v4.u32", "{%0, %1, %2, %3}", "x, y, z, w")}
SLICE = 16  # accesses of a thread in one block's piece of the array


def bandwidth(reads: int, writes: int, width: int = 16) -> Kernel:
    """Stream once through arrays with many small blocks: reads and writes of so many arrays each, from DRAM to DRAM.

    Array j begins size bytes after the one before; a block does its piece of every array and leaves.
    """
    name = f"bandwidth_r{reads}_w{writes}_b{width}"
    kind, registers, _ = _VECTOR[width]
    words = width // 4
    ", ".join(f"v[i][{n}]" for n in range(words))
    outputs = ", ".join(f'"=r"(v[i][{n}])' for n in range(words))
    inputs = ", ".join(f'"r"(v[i][{n}])' for n in range(words))
    numbered = "{" + ", ".join(f"%{n + 1}" for n in range(words)) + "}" if words > 1 else "%1"
    load = f'asm volatile("ld.global.{kind} {registers}, [%{words}];" : {outputs} : "l"(at + (u64)i * blockDim.x * {width}));'
    store = f'asm volatile("st.global.{kind} [%0], {numbered};" :: "l"(at + (u64)i * blockDim.x * {width}), {inputs} : "memory");'
    fold = " ".join(f"sum ^= v[i][{n}];" for n in range(words))
    group = 8
    text = f"""\
KERNEL({name}, 256) {{
  u32 sum = 0, v[{group}][{words}];
  UNROLL for (int i = 0; i < {group}; i++) UNROLL for (int n = 0; n < {words}; n++) v[i][n] = trips + n;
  char *at = data + ((u64)blockIdx.x * blockDim.x * {SLICE} + threadIdx.x) * {width};
  _Pragma("unroll 1") for (u32 half = 0; half < {SLICE // group}; half++, at += (u64){group} * blockDim.x * {width}) {{
    _Pragma("unroll 1") for (u32 j = 0; j < {reads}; j++, at += size) {{
      UNROLL for (int i = 0; i < {group}; i++) {load}
      UNROLL for (int i = 0; i < {group}; i++) {{ {fold} }}
    }}
    _Pragma("unroll 1") for (u32 j = 0; j < {writes}; j++, at += size)
      UNROLL for (int i = 0; i < {group}; i++) {store}
    at -= size * {reads + writes};
  }}
  KEEP(sum == c)
}}
"""
    suffix = {4: "", 8: r"\.64", 16: r"\.128"}[width]
    loads, stores = (group if reads else 0), (group if writes else 0)
    expect = {rf"LDG\.E{suffix}{_SCOPE}": loads, rf"STG\.E{suffix}{_SCOPE}": stores}
    facts = {"reads": reads, "writes": writes, "width": width}
    return Kernel(name, text, Expectation(expect, 2000, True, loop=False), facts=facts)


def resident(level: str, width: int = 16, store: bool = False, stride: int = 1) -> Kernel:
    """Independent loads or stores over a small footprint, over and over: bandwidth of the caches.

    A block's piece begins blockIdx.x * a bytes in, modulo size (a power of two), and has b bytes (a power of two); the
    kernel makes `trips` trips of 8 accesses per thread. Threads are `stride` elements of `width` bytes apart.
    """
    name = f"{'store' if store else 'load'}_{level}_b{width}_s{stride}"
    kind, registers, _names = _VECTOR[width]
    words = width // 4
    outputs = ", ".join(f'"=r"(v[i][{n}])' for n in range(words))
    inputs = ", ".join(f'"r"(v[i][{n}])' for n in range(words))
    numbered = "{" + ", ".join(f"%{n + 1}" for n in range(words)) + "}" if words > 1 else "%1"
    fold = " ".join(f"sum ^= v[i][{n}];" for n in range(words))
    one = (
        f'asm volatile("st.global.{kind} [%0], {numbered};" :: "l"(piece + (at + i * step & b - 1)), {inputs} : "memory");'
        if store
        else f'asm volatile("ld.global{_HINT[level]}.{kind} {registers}, [%{words}];" : {outputs} : "l"(piece + (at + i * step & b - 1)));'
    )
    text = f"""\
KERNEL({name}, 1024) {{
  u32 sum = 0, v[8][{words}];
  UNROLL for (int i = 0; i < 8; i++) UNROLL for (int n = 0; n < {words}; n++) v[i][n] = threadIdx.x + n;
  char *piece = data + ((u64)blockIdx.x * a & (size - 1));
  u32 at = threadIdx.x * {width * stride}, step = blockDim.x * {width * stride};
  PASSES {{
    START
    LOOP {{
      UNROLL for (int i = 0; i < 8; i++) {one}
      {"" if store else f"UNROLL for (int i = 0; i < 8; i++) {{ {fold} }}"}
      at += 8 * step;
    }}
    STOP
  }}
  KEEP(sum == c)
  record(records, c0, c1, n0, n1, trips * 8ull);
}}
"""
    suffix = {4: "", 8: r"\.64", 16: r"\.128"}[width]
    expect = {rf"{'STG' if store else 'LDG'}\.E{suffix}{_SCOPE}": 8}
    facts = {"level": level, "width": width, "store": store, "stride": stride}
    return Kernel(name, text, Expectation(expect, 110), facts=facts)


def atomic(kind: str) -> Kernel:
    """Atomic additions of zero to global memory. `atom` returns the old value, which is the next index; `red` does not.

    A thread's word: ((block * a + its index / 32 * b) + lane * c) of data, modulo 2^20.
    """
    name = f"{kind}_add"
    links = 16
    one = (
        'asm volatile("atom.global.add.u32 %0, [%1], %2;" : "=r"(x) : "l"((u32 *)data + x), "r"(zero) : "memory");'
        if kind == "atom"
        else 'asm volatile("red.global.add.u32 [%0], %1;" :: "l"((u32 *)data + x), "r"(zero) : "memory");'
    )
    text = f"""\
KERNEL({name}, 1024) {{
  u32 zero = ((volatile u32 *)out)[16], x = (blockIdx.x * a + threadIdx.x / 32 * b + threadIdx.x % 32 * c) & 0xfffff;
  PASSES {{
    START
    LOOP {{ UNROLL for (int u = 0; u < {links}; u++) {{ {one} }} }}
    STOP
  }}
  KEEP(x == 0xfffffff)
  record(records, c0, c1, n0, n1, (u64)trips * {links});
}}
"""
    pattern = r"ATOMG?\.E\.ADD.*" if kind == "atom" else r"REDG?\.E\.ADD.*"
    return Kernel(name, text, Expectation({pattern: links}, 16 + 2 * links), facts={"links": links})


def distribution(chains: int = 1) -> Kernel:
    """As `stream` for 4-byte loads, but in warp 0 of every block one load in eight is timed alone (§6.6).

    The times, at most 512 per block, go to out from word 32 on.
    """
    name = f"distribution_i{chains}"
    load = 'asm volatile("ld.global.u32 %0, [%1];" : "=r"(x[k]) : "l"((const u32 *)data + x[k]));'
    text = f"""\
KERNEL({name}, 1024) {{
  __shared__ u32 taken[512];
  __shared__ volatile u32 last;
  u32 x[{chains}], times = 0, done = 0;
  UNROLL for (int k = 0; k < {chains}; k++) x[k] = (blockIdx.x * {chains} + k) * a + threadIdx.x;
  for (u32 i = threadIdx.x; i < 512; i += blockDim.x) taken[i] = 0;
  __syncthreads();
  u64 n0 = nanoseconds(), c0 = cycles();
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
  u64 c1 = cycles(), n1 = nanoseconds();
  u32 sum = 0;
  UNROLL for (int k = 0; k < {chains}; k++) sum += x[k];
  KEEP(sum == c)
  __syncthreads();
  for (u32 i = threadIdx.x; i < 512; i += blockDim.x) ((u32 *)(out + 32))[blockIdx.x * 512 + i] = taken[i];
  record(records, c0, c1, n0, n1, done);
}}
"""
    expect = {rf"LDG\.E{_SCOPE}": 8 * chains}
    return Kernel(name, text, Expectation(expect, 60 + 8 * chains), facts={"chains": chains})


def in_flight(count: int = 40) -> Kernel:
    """Issue independent loads back to back and note when each one was issued: how many may be under way (Listing 3.2).

    A thread reads data + warp * b + lane * a + load * 64 KiB: a is 4 for one line per load, more for several. The first
    pass reads 2 KiB beside, so that the pages are known and the lines are not in a cache. Times of the issues, after the
    first clock, go to out from word 32 on: count per warp, then the time when all had come.
    """
    name = f"in_flight_{count}"
    text = f"""\
KERNEL({name}, 512) {{
  __shared__ volatile u32 last[16];
  u32 v[{count}], t[{count}], begin = 0, end = 0;
  u64 c0 = 0, c1 = 0, n0 = 0, n1 = 0;
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
  record(records, c0, c1, n0, n1, {count});
}}
"""
    expect = {rf"LDG\.E{_SCOPE}": count}
    return Kernel(name, text, Expectation(expect, 4 * count + 40), facts={"count": count})
