"""Kernels for accesses in no order: packets that loads and stores ask of lines, reductions, single lines.

A packet is what one access of a warp asks of one line. Lanes go in groups to places that are drawn anew for every
access; each thread draws by itself, so that all of a group draw the same.
"""

from __future__ import annotations

from warplens.laboratory.memory import _SCOPE
from warplens.laboratory.source import Expectation, Kernel
from warplens.laboratory.traffic import _SUFFIX, _access

_AT_ONCE = 4  # accesses in flight of a thread
_DRAWN = "x = x * 1664525u + 1013904223u;"
_PLACE = "__umul64hi((u64)(x ^ x >> 15) << 32, {})"


def packets(kind: str, width: int = 4) -> Kernel:
    """Return random loads, stores, or loads and stores of what was loaded to the same places elsewhere (`both`).

    size: bytes of an array; a: lanes to a place; b: bytes from lane to lane; c: bytes of a place; trips: of four.
    """
    name = f"packets_{kind}_b{width}"
    words = width // 4
    load, store = _access(width, "data + at[i]", False), _access(width, "to + at[i]", True)
    each = f"UNROLL for (int i = 0; i < {_AT_ONCE}; i++)"
    fold = " ".join(f"sum ^= v[i][{n}];" for n in range(words))
    draw = _PLACE.format("places")
    text = f"""\
KERNEL({name}, 1024) {{
  u32 id = blockIdx.x * blockDim.x + threadIdx.x, x = id / a * 2654435761u + 12345u, sum = 0;
  u64 places = size / c, at[{_AT_ONCE}];
  char *to = data + {"size" if kind == "both" else "0"};
  u32 v[{_AT_ONCE}][{words}];
  {each} UNROLL for (int n = 0; n < {words}; n++) v[i][n] = id;
  _Pragma("unroll 1") for (u32 turn = 0; turn < trips; turn++) {{
    {each} {{ {_DRAWN} at[i] = {draw} * c + id % a * b; }}
    {f"{each} {load}" if kind != "store" else ""}
    {f"{each} {{ {fold} }}" if kind == "load" else f"{each} {store}"}
  }}
  KEEP(sum == 0x7FC12345)
}}
"""
    loads, stores = (0 if kind == "store" else _AT_ONCE), (0 if kind == "load" else _AT_ONCE)
    expect = {rf"LDG\.E{_SUFFIX[width]}{_SCOPE}": loads, rf"STG\.E{_SUFFIX[width]}{_SCOPE}": stores}
    facts = {"kind": kind, "width": width, "accesses": _AT_ONCE}
    return Kernel(name, text, Expectation({k: n for k, n in expect.items() if n}, 120), facts=facts)


def reductions(old: bool) -> Kernel:
    """Return additions of a warp's first a lanes to random ones of `size` words; `old`: the old value is asked for."""
    name = f"additions_{'old' if old else 'red'}"
    one = "sum += atomicAdd(p, 1u);" if old else "atomicAdd(p, 1u);"
    text = f"""\
KERNEL({name}, 1024) {{
  u32 id = blockIdx.x * blockDim.x + threadIdx.x, x = id * 2654435761u + 12345u, sum = 0;
  if (id % 32 >= a) return;
  _Pragma("unroll 1") for (u32 turn = 0; turn < trips; turn++)
    UNROLL for (int k = 0; k < {_AT_ONCE}; k++) {{
      {_DRAWN}
      u32 *p = (u32 *)data + __umulhi(x ^ x >> 15, (u32)size);
      {one}
    }}
  KEEP(sum == c)
}}
"""
    pattern = r"ATOMG?\.E\.ADD.*" if old else r"REDG?\.E\.ADD.*"
    facts = {"old": old, "accesses": _AT_ONCE}
    return Kernel(name, text, Expectation({pattern: _AT_ONCE}, 80), facts=facts)


ASKED = {
    "atomic": ("atom.global.or.b32 %0, [%1], 0;", r"ATOMG?\.E\.OR.*"),  # where the line is at home
    "load": ("ld.global.cg.u32 %0, [%1];", rf"LDG\.E{_SCOPE}"),
}


def visits(kind: str, timed: bool) -> Kernel:
    """Return accesses to random ones of `size` lines: by all threads, or by a lane of each SM that times each of them.

    c: where the drawing begins; trips: of four, or single ones, at most 1024, whose cycles go to out from word 32 on.
    """
    name = f"{'timed' if timed else 'all'}_visits_{kind}"
    text, pattern = ASKED[kind]
    draw = f"{_DRAWN} char *p = data + (u64)__umulhi(x ^ x >> 15, (u32)size) * 128; u32 v;"
    ask = f'asm volatile("{text}" : "=r"(v) : "l"(p) : "memory");'
    if not timed:
        body = f"""\
  u32 x = (blockIdx.x * blockDim.x + threadIdx.x) * 2654435761u + c, sum = 0;
  _Pragma("unroll 1") for (u32 turn = 0; turn < trips; turn++)
    UNROLL for (int k = 0; k < {_AT_ONCE}; k++) {{ {draw} {ask} sum |= v; }}
  KEEP(sum == 0x7FC12345)"""
    else:
        body = f"""\
  __shared__ u32 taken[1024], last;
  if (threadIdx.x) return;
  stamp_begin(records);
  u64 c0 = cycles();
  u32 x = sm_id() * 2654435761u + c;
  _Pragma("unroll 1") for (u32 turn = 0; turn < trips; turn++) {{
    {draw}
    u32 begin = clock32();
    {ask}
    asm volatile("st.volatile.shared.u32 [%0], %1;" :: "r"(shared_address(&last)), "r"(v) : "memory");
    taken[turn] = clock32() - begin;
  }}
  u64 c1 = cycles();
  for (u32 i = 0; i < trips; i++) ((u32 *)(out + 32))[(u64)blockIdx.x * trips + i] = taken[i];
  record(records, c0, c1, trips);"""
    expect = Expectation({pattern: 1 if timed else _AT_ONCE}, 40 if timed else 80)
    return Kernel(name, f"KERNEL({name}, {32 if timed else 1024}) {{\n{body}\n}}\n", expect, facts={"kind": kind})
