"""Kernels about many warps at once: how short blocks live, reads among writes, code that outgrows its cache, pairs."""

from __future__ import annotations

from warplens.laboratory.memory import _SCOPE
from warplens.laboratory.source import Expectation, Kernel

KEPT_SMS = 4  # whose warps keep all clocks in `life`: what the others write would be traffic of its own
TURNS = 4  # of a trip, each a load
_LOAD = 'asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"({}) : "l"({}));'
_STORE = 'asm volatile("st.global.cg.u32 [%0], %1;" :: "l"({}), "r"({}) : "memory");'
# The clock once a value is there.
_WHEN = (
    'asm volatile("{{ .reg .pred p; setp.ne.u32 p, %1, 0x7E967699; @p mov.u32 %0, %%clock; }}" '
    ': "+r"({}) : "r"({}) : "memory");'
)


def life(loads: int, stores: int) -> Kernel:
    """Blocks that load one or two words per thread, wait, store one or do not, and end.

    size: bytes from array to array. The warps of eight SMs leave when they start, their SM and their place on it
    (count), before they load. Those of four of them also leave when the loads were asked for (start_ns) and had come
    (end_ns); those of the others end then, with nothing to wait for.
    """
    name = f"life_l{loads}_s{stores}"
    asked = " ".join(_LOAD.format(f"v{k}", f"at + {k} * size") for k in range(loads))
    text = f"""\
KERNEL({name}, 1024) {{
  u32 start = clock32(), sm = sm_id(), v0 = 0, v1 = 0, came = 0, place;
  char *at = data + (blockIdx.x * (u64)blockDim.x + threadIdx.x) * 4;
  Record *to = own(records);
  if (sm < {2 * KEPT_SMS} && threadIdx.x % 32 == 0) {{
    asm volatile("mov.u32 %0, %%warpid;" : "=r"(place));
    to->start = start; to->end = 1; to->sm = sm; to->count = place;
  }}
  u32 asked = clock32();
  {asked}
  {_WHEN.format("came", "v0 ^ v1")}
  {_STORE.format("at + 2 * size", "v0 ^ v1") if stores else ""}
  if (sm < {KEPT_SMS} && threadIdx.x % 32 == 0) {{ to->start_ns = asked; to->end_ns = came; }}
}}
"""
    expect = {rf"LDG\.E{_SCOPE}": loads, **({rf"STG\.E{_SCOPE}": 1} if stores else {})}
    facts = {"loads": loads, "stores": stores}
    return Kernel(name, text, Expectation(expect, 120, True, loop=False), facts=facts)


def turns(stores: int) -> Kernel:
    """Warps that load a word per thread and wait for it, turn by turn; of four turns so many store what came.

    trips: of four turns; size: bytes from the array that is read to the one that is written. Counted are the cycles
    that loads took.
    """
    name = f"turns_s{stores}"
    text = f"""\
KERNEL({name}, 256) {{
  __shared__ u64 origin;
  u64 c0, c1, pitch = gridDim.x * (u64)1024, waited = 0;
  const u32 pass = 0;
  char *at = data + (blockIdx.x * (u64)256 + threadIdx.x) * 4;
  START_TOGETHER
  _Pragma("unroll 1") for (u32 turn = 0; turn < trips; turn++)
    UNROLL for (int k = 0; k < {TURNS}; k++, at += pitch) {{
      u32 v, asked = clock32(), came = 0;
      {_LOAD.format("v", "at")}
      {_WHEN.format("came", "v")}
      if (k < {stores}) {_STORE.format("at + size", "v")}
      waited += came - asked;
    }}
  STOP
  record(records, c0, c1, waited);
}}
"""
    expect = {rf"LDG\.E{_SCOPE}": TURNS, **({rf"STG\.E{_SCOPE}": stores} if stores else {})}
    return Kernel(name, text, Expectation(expect, 90), facts={"stores": stores})


def fetch(length: int) -> Kernel:
    """A loop of so many independent multiply-adds that outgrows an instruction cache; warps begin a cycles apart.

    The second and the third of four passes count: all warps are then at work, each at another place of the code.
    """
    name = f"fetch_{length}"
    start = ", ".join(f"{x} = ((volatile float *)out)[{i}]" for i, x in enumerate("xyzv"))
    each = " ".join(f'asm volatile("fma.rn.f32 %0, %0, %0, %0;" : "+f"({x}));' for x in "xyzv")
    text = f"""\
KERNEL({name}, 1024) {{
  __shared__ u64 origin;
  u64 c0, c1 = 0, now;
  const u32 pass = 0;
  float {start};
  START_TOGETHER
  u64 from = c0 + (u64)a * (threadIdx.x / 32);
  while (cycles() < from) {{}}
  _Pragma("unroll 1") for (u32 turn = 0; turn < 4; turn++) {{
    now = cycles();
    c0 = turn == 1 ? now : c0;
    c1 = turn == 3 ? now : c1;
    UNROLL for (int u = 0; u < {length // 4}; u++) {{ {each} }}
  }}
  KEEP(x + y + z + v == 12345.0f)
  record(records, c0, c1, {2 * length});
}}
"""
    return Kernel(name, text, Expectation({"FFMA": length}, 24), facts={"links": length, "passes": 2})


def together() -> Kernel:
    """One block on each SM reads the same 64 KiB past L1 over and over, its own or that of its pair of SMs.

    a: 0 all read their own, 1 every other pair reads the same, 2 all pairs do. b: 0, which the compiler does not know.
    """
    text = """\
KERNEL(together, 512) {
  u32 sm = sm_id(), sum = 0, v[8][4];
  bool both = a == 2 || (a == 1 && sm / 2 % 2 == 0);
  const char *from = data + (u64)(both ? sm / 2 : gridDim.x + sm) * 65536 + threadIdx.x * 16;
  PASSES {
    START_TOGETHER
    TIMED_LOOP
      UNROLL for (int i = 0; i < 8; i++)
        asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(v[i][0]), "=r"(v[i][1]), "=r"(v[i][2]), "=r"(v[i][3]) : "l"(from + i * 8192));
      UNROLL for (int i = 0; i < 8; i++) sum ^= v[i][0] ^ v[i][1] ^ v[i][2] ^ v[i][3];
      from += b;
    UNTIL_TIME
  }
  KEEP(sum == c)
  record(records, TIMED, done);
}
"""
    return Kernel("together", text, Expectation({rf"LDG\.E\.128{_SCOPE}": 8}, 40), facts={"bytes": 65536})
