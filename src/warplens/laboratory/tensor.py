"""Matrix instructions of tensor cores: one warp's, and those of four warps together.

Every link adds a product to the accumulators of the one before, or of as many chains side by side. The kernels are
launched as those of `chains` are: N and 2N links per trip, `size` cycles. The matrices hold what `out` begins with.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from warplens.laboratory.gpu_session import SCHEDULERS
from warplens.laboratory.instructions import best, curve, latency, saturation
from warplens.laboratory.plan import Entry, block_sweep, chain_sweep
from warplens.laboratory.samples import Number, Point, Samples, number
from warplens.laboratory.source import Expectation, Kernel


@dataclass(frozen=True)
class Matrix:
    """One type of mma.sync: shape, types in PTX, registers of D, A and B with their letters, machine code."""

    name: str
    shape: tuple[int, int, int]
    types: str
    d: tuple[str, int]
    a: tuple[str, int]
    b: tuple[str, int]
    pattern: str
    since: int = 80
    only: str = ""
    until: int = 999

    @property
    def operations(self) -> int:
        """Multiplications and additions of one instruction."""
        m, n, k = self.shape
        return 2 * m * n * k


MATRICES = (
    Matrix("f16", (16, 8, 16), "f32.f16.f16.f32", ("f", 4), ("r", 4), ("r", 2), r"HMMA\.16816\.F32"),
    Matrix("f16_f16", (16, 8, 16), "f16.f16.f16.f16", ("r", 2), ("r", 4), ("r", 2), r"HMMA\.16816\.F16"),
    Matrix("bf16", (16, 8, 16), "f32.bf16.bf16.f32", ("f", 4), ("r", 4), ("r", 2), r"HMMA\.16816\.F32\.BF16"),
    Matrix("tf32", (16, 8, 8), "f32.tf32.tf32.f32", ("f", 4), ("r", 4), ("r", 2), r"HMMA\.1688\.F32\.TF32"),
    Matrix("s8", (16, 8, 32), "s32.s8.s8.s32", ("r", 4), ("r", 4), ("r", 2), r"IMMA\.16832\.S8\.S8"),
    Matrix("u8", (16, 8, 32), "s32.u8.u8.s32", ("r", 4), ("r", 4), ("r", 2), r"IMMA\.16832\.U8\.U8"),
    Matrix("b1", (16, 8, 256), "s32.b1.b1.s32.and.popc", ("r", 4), ("r", 4), ("r", 2), r"BMMA\.168256\.AND\.POPC",
           until=90),
    Matrix("f64", (8, 8, 4), "f64.f64.f64.f64", ("d", 2), ("d", 1), ("d", 1), r"DMMA\.(884|8x8x4)"),
    Matrix("f64_16816", (16, 8, 16), "f64.f64.f64.f64", ("d", 4), ("d", 8), ("d", 4), r"DMMA\.16x8x16",
           only="sm_90"),
)  # fmt: skip
_TYPES = {"f": "float", "r": "u32", "d": "double"}


def mma_kernel(matrix: Matrix, chains: int = 1, doubled: bool = False) -> Kernel:
    """Return the kernel of a chain of mma.sync."""
    links = (32 if chains == 1 else 16) * (2 if doubled else 1)
    name = f"mma_{matrix.name}_i{chains}_n{links}"
    (d, d_count), (a, a_count), (b, b_count) = matrix.d, matrix.a, matrix.b
    m, n, k = matrix.shape
    first_a, first_b = d_count, d_count + a_count
    groups = [_group(0, d_count), _group(first_a, a_count), _group(first_b, b_count), _group(0, d_count)]
    outputs = ", ".join(f'"+{d}"(D[{i}])' for i in range(d_count))
    inputs = ", ".join([f'"{a}"(A[{i}])' for i in range(a_count)] + [f'"{b}"(B[{i}])' for i in range(b_count)])
    ptx = f"mma.sync.aligned.m{m}n{n}k{k}.row.col.{matrix.types} {', '.join(groups)};"
    calls = " ".join(f"MMA(d[{i}])" for i in range(chains))
    text = f"""\
#define MMA(D) asm volatile("{ptx}" : {outputs} : {inputs} : "memory");
KERNEL({name}, 1024) {{
  {_TYPES[d]} d[{chains}][{d_count}];
  {_TYPES[a]} A[{a_count}];
  {_TYPES[b]} B[{b_count}];
  UNROLL for (int i = 0; i < {a_count}; i++) A[i] = ((volatile {_TYPES[a]} *)out)[threadIdx.x * b + i];
  UNROLL for (int i = 0; i < {b_count}; i++) B[i] = ((volatile {_TYPES[b]} *)out)[threadIdx.x * b + i + 1];
  UNROLL for (int k = 0; k < {chains}; k++)
    UNROLL for (int i = 0; i < {d_count}; i++) d[k][i] = ((volatile {_TYPES[d]} *)out)[threadIdx.x * b + k + i];
  PASSES {{
    START_TOGETHER
    TIMED_LOOP UNROLL for (int u = 0; u < {links}; u++) {{ {calls} }} UNTIL_TIME
  }}
  {_TYPES[d]} sum = 0;
  UNROLL for (int k = 0; k < {chains}; k++) UNROLL for (int i = 0; i < {d_count}; i++) sum += d[k][i];
  KEEP(sum == ({_TYPES[d]})12345)
  record(records, TIMED, done);
}}
#undef MMA
"""
    facts = {"links": links, "chains": chains, "alpha": 0, "operation": matrix.name, "operations": matrix.operations}
    expect = Expectation({matrix.pattern: links * chains}, 40 + 60 * links * chains)  # the compiler waits by UIADD3
    return Kernel(name, text, expect, matrix.since, matrix.only, facts=facts, until=matrix.until)


def _group(first: int, count: int) -> str:
    return "{" + ", ".join(f"%{first + i}" for i in range(count)) + "}"


@dataclass(frozen=True)
class Group:
    """One type of wgmma: name, type in PTX, inner dimension, what the accumulators are, machine code."""

    name: str
    types: str
    k: int
    accumulator: str
    pattern: str
    plain: str  # what follows the descriptors: scales and, for 16-bit types, transpositions
    packed: bool = False  # two accumulators of 16 bits to a register


GROUPS = (
    Group("f16", "f32.f16.f16", 16, "f", r"HGMMA\.64x\d+x16\.F32", "1, 1, 1, 0, 0"),
    Group("bf16", "f32.bf16.bf16", 16, "f", r"HGMMA\.64x\d+x16\.F32\.BF16", "1, 1, 1, 0, 0"),
    Group("tf32", "f32.tf32.tf32", 8, "f", r"HGMMA\.64x\d+x8\.F32\.TF32", "1, 1, 1"),
    Group("s8", "s32.s8.s8", 32, "r", r"IGMMA\.64x\d+x32\.S8\.S8", "1"),
    Group("u8", "s32.u8.u8", 32, "r", r"IGMMA\.64x\d+x32\.U8\.U8", "1"),
    Group("b1", "s32.b1.b1.and.popc", 256, "r", r"BGMMA\.64x\d+x256\.AND\.POPC", "1"),
    Group("f16_f16", "f16.f16.f16", 16, "r", r"HGMMA\.64x\d+x16\.F16", "1, 1, 1, 0, 0", True),
    Group("e4m3_f16", "f16.e4m3.e4m3", 32, "r", r"QGMMA\.64x\d+x32\.F16\.E4M3\.E4M3", "1, 1, 1", True),
    Group("e5m2", "f32.e5m2.e5m2", 32, "f", r"QGMMA\.64x\d+x32\.F32\.E5M2\.E5M2", "1, 1, 1"),
    Group("e4m3", "f32.e4m3.e4m3", 32, "f", r"QGMMA\.64x\d+x32\.F32\.E4M3\.E4M3", "1, 1, 1"),
)


def wgmma_kernel(group: Group, columns: int, doubled: bool = False) -> Kernel:
    """Return the kernel of a chain of wgmma, 64 rows by so many columns, both factors in shared memory.

    A trip's links are put into one group and waited for at its end. Shared memory holds zeros. The four warps of a
    group must issue the same: all make `trips` trips, none leaves by its own clock.
    """
    links = 16 if doubled else 8
    name = f"wgmma_{group.name}_c{columns}_n{links}"
    count, kind = columns // (4 if group.packed else 2), _TYPES[group.accumulator]
    threads = 256 if columns > 128 else 512
    ptx = (
        f"wgmma.mma_async.sync.aligned.m64n{columns}k{group.k}.{group.types} {_group(0, count)}, "
        f"%{count}, %{count + 1}, {group.plain};"
    )
    outputs = ", ".join(f'"+{group.accumulator}"(d[{i}])' for i in range(count))
    text = f"""\
KERNEL({name}, {threads}) {{
  __shared__ __align__(1024) u32 words[12288];
  for (u32 i = threadIdx.x; i < 12288; i += blockDim.x) words[i] = 0;
  {kind} d[{count}];
  UNROLL for (int i = 0; i < {count}; i++) d[i] = 0;
  // start / 16, then the distances of 8x16-byte pieces along both dimensions, / 16: 128 and 256 bytes
  u64 first = (u64)((shared_address(words) & 0x3ffff) >> 4) | (8ull << 16) | (16ull << 32);
  u64 second = first + (16384 >> 4);
  asm volatile("fence.proxy.async;" ::: "memory");
  PASSES {{
    START_TOGETHER
    LOOP {{
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
      UNROLL for (int u = 0; u < {links}; u++)
        asm volatile("{ptx}" : {outputs} : "l"(first), "l"(second) : "memory");
      asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
      asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    }}
    STOP
  }}
  {kind} sum = 0;
  UNROLL for (int i = 0; i < {count}; i++) sum += d[i];
  KEEP(sum == ({kind})12345)
  record(records, c0, c1, (u64)trips * {links});
}}
"""
    operations = 2 * 64 * columns * group.k
    facts = {"links": links, "chains": 1, "stride": 1, "operation": group.name, "columns": columns}
    expect = Expectation({group.pattern: links}, 200)
    return Kernel(name, text, expect, 90, "sm_90a", facts={**facts, "operations": operations})


def entries() -> list[Entry]:
    """Return the measurements of matrix instructions: one warp's, with 1 to 4 chains; four warps', by columns."""
    found = []
    for matrix in MATRICES:
        for chains in (1, 2) if matrix.name == "f64_16816" else (1, 4):
            kernels = mma_kernel(matrix, chains), mma_kernel(matrix, chains, doubled=True)
            found.append(
                Entry(f"tensor.{matrix.name}" + (f".ilp{chains}" if chains > 1 else ""), kernels, chain_sweep,
                      "mma.sync: latency and throughput", {"register": "f", "own_clock": True}, weight=0.5)
            )  # fmt: skip
    for group in GROUPS:
        for columns in (64, 128, 256):
            kernels = wgmma_kernel(group, columns), wgmma_kernel(group, columns, doubled=True)
            warps = (4, 8) if columns > 128 else (4, 8, 16)
            found.append(
                Entry(f"tensor.group.{group.name}.c{columns}", kernels, block_sweep,
                      "wgmma: throughput", {"warps": warps, "own_clock": True}, weight=0.2)
            )  # fmt: skip
    return found


_GROUP_LOOP_CYCLES = 33  # around a trip of wgmma: 21 and 2 by the stall counts in the machine code, 10 for its branch


def derive_matrices(samples: Samples) -> Iterator[Number]:
    """Derive matrix instructions: latency of one in a chain, rate of multiplications and additions, their clock."""
    clock = samples.one("tensor.f16", lambda p, v: v["ghz_2n"])
    yield from number("chip.tensor_clock_hz", clock, "tensor.f16", "cycles over nanoseconds, all occupancies", 1e9)
    names = [(f"tensor.{m.name}", m.name, m.operations) for m in MATRICES]
    for entry, name, operations_each in names:
        key, alone, top = f"tensor.{name}", latency(samples, entry), best(samples, entry)
        yield from number(f"{key}.latency_cycles", alone, entry, "one warp, 2N links less N")
        if top:
            how = f"best over chains: {top[1]} warps per SM"
            yield from number(f"{key}.peak_flops_per_cycle_per_sm", top[2], top[0], how, operations_each)
            yield from saturation(key, entry, curve(samples, entry), top[2])
    for group in GROUPS:
        for columns in (64, 128, 256):
            entry = f"tensor.group.{group.name}.c{columns}"
            # four warps do one instruction together, and each of them counts it
            found = {n: r for n, r in curve(samples, entry).items() if n >= SCHEDULERS}
            if found:
                warps, top_of = max(found.items(), key=lambda one: one[1].median)
                key, how = f"tensor.group_{group.name}_{columns}", f"wgmma, 64 by {columns}: {warps} warps per SM"
                each = 2 * 64 * columns * group.k / SCHEDULERS
                yield from number(f"{key}.peak_flops_per_cycle_per_sm", top_of, entry, how, each)
                alone = samples.one(entry, _behind_links, warps=SCHEDULERS)
                how = "four warps: a trip of N links twice less one of 2N, less the loop around it"
                yield from number(f"{key}.latency_cycles", alone, entry, how)
                yield from saturation(key, entry, found, top_of)


def _behind_links(point: Point, values: dict[str, Any]) -> float:
    """Return what a wait for a group of products takes beyond the products themselves."""
    trip: float = (2 * values["span_cycles_n"] - values["span_cycles_2n"]) / point["trips"]
    return trip - _GROUP_LOOP_CYCLES
