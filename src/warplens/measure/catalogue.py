"""Everything that is measured, as a list of small entries."""

from __future__ import annotations

from warplens.measure import control, memory, plans, plans_memory, traffic
from warplens.measure.chains import chain
from warplens.measure.entry import Entry
from warplens.measure.laboratory import GIB, KIB, MIB
from warplens.measure.operations import OPERATIONS, PAIRS, Operation
from warplens.measure.source import Kernel

ALPHAS = (0, 1, 2, 3, 4, 6, 8, 11, 16, 23, 32, 45, 64, 91, 128, 181, 256, 362, 512)  # steps of about sqrt(2)
_QUICK_ALPHAS = (0, 4, 32, 128)
_QUICK_OPERATIONS = {
    "fadd", "ffma", "iadd3", "imad", "lop3", "dfma", "hfma2", "i2f_f2i", "popc", "mufu_rsq", "mufu_sin", "shfl", "lds",
    "sts", "atoms_add", "isetp_sel",
}  # fmt: skip
HELPERS: tuple[Kernel, ...] = (memory.fill(), memory.touch(), memory.scatter(), control.warm())


def _operation(op: Operation, chains: int) -> Entry:
    strides = (0, 1, 2, 4, 8, 16, 32) if op.width else (1,)
    return Entry(
        f"instruction.{op.name}" + (f".ilp{chains}" if chains > 1 else ""),
        (chain(op, chains), chain(op, chains, doubled=True)),
        plans.chain_sweep,
        "latency, throughput and needed warps (Tables 6.1 to 6.3)" + (f": {op.about}" if op.about else ""),
        {"register": op.register, "width": op.width, "kind": op.kind, "instructions": op.instructions,
         "strides": strides if chains == 1 else (1,)},
        quick=chains == 1 and op.name in _QUICK_OPERATIONS,
        weight=2.0 if op.width and chains == 1 else 0.5,
    )  # fmt: skip


def instructions() -> list[Entry]:
    """Latency and throughput of every operation, of pairs, and with several chains per warp."""
    made = [_operation(op, 1) for op in OPERATIONS]
    made += [_operation(op, chains) for op in OPERATIONS for chains in (2, 4) if chains <= op.most_chains]
    made += [
        Entry(f"pair.{op.name}", (chain(op), chain(op, doubled=True)), plans.chain_sweep,
              "latency from producer to consumer (§4.7)",
              {"register": op.register, "width": op.width, "kind": op.kind, "instructions": 2},
              quick=op.name in ("fadd_mufu", "fadd_lds"), weight=0.5)
        for op in PAIRS
    ]  # fmt: skip
    return made


def mixes() -> list[Entry]:
    """The dissertation's mixes: alpha adds per load, special function or shared-memory access (§4.1, §4.7)."""
    operations = {op.name: op for op in OPERATIONS}
    made = []
    for other, op in (("sfu", operations["mufu_rsq"]), ("shared", operations["lds"])):
        for alpha in ALPHAS:
            length = max(1, min(64, 256 // (alpha + 1)))
            kernels = chain(op, 1, False, alpha, length), chain(op, 1, True, alpha, length)
            parameters = {"register": op.register, "width": op.width, "mix": other, "alpha": alpha}
            made.append(
                Entry(f"mix.{other}.a{alpha}", kernels, plans.chain_sweep, "throughput against occupancy (Figure 4.5)",
                      parameters, quick=alpha in _QUICK_ALPHAS, weight=0.7)
            )  # fmt: skip
    for alpha in ALPHAS:
        made.append(
            Entry(f"mix.load.a{alpha}", (memory.stream(alpha),), plans_memory.stream_sweep,
                  "throughput and latency against occupancy (Figures 4.1, 5.5)", {"where": "dram", "mix": "load", "alpha": alpha},
                  quick=alpha in _QUICK_ALPHAS, weight=1.0)
        )  # fmt: skip
    return made


def streams() -> list[Entry]:
    """Latency under load: DRAM and L2 with 1 to 8 loads in flight per warp, 4, 8 and 16 bytes; the first level."""
    made = []
    for where, level in (("dram", "default"), ("l2", "l2"), ("l1", "l1")):
        for chains in (1, 2, 4, 8):
            for width in (4, 8, 16):
                if (chains, width, where) == (1, 4, "dram"):
                    continue  # mix.load.a0
                quick = chains in (1, 4) and width == 4 and where != "l1"
                made.append(
                    Entry(f"stream.{where}.ilp{chains}.b{width}", (memory.stream(0, chains, width, level),),
                          plans_memory.stream_sweep, "loaded latency against throughput (§6.4)", {"where": where},
                          quick=quick, weight=1.0 if where == "dram" else 0.5)
                )  # fmt: skip
    made.append(
        Entry("stream.random", (memory.stream(0, 1, 4, "default"),), plans_memory.random_sweep,
              "unstructured access: throughput by footprint, latency (§6.7, Table 6.7)", weight=2.0)
    )  # fmt: skip
    return made


def _steps(first: int, last: int, per_doubling: int) -> list[int]:
    """Return sizes from first to last, so many to a doubling, in whole kibibytes above 16 KiB."""
    found, n = [], 0
    while (size := first * 2 ** (n / per_doubling)) <= last * 1.001:
        found.append(round(size / KIB) * KIB if size >= 16 * KIB else round(size / 512) * 512)
        n += 1
    return found


def chases() -> list[Entry]:
    """One chain alone: caches, DRAM, TLBs; near and far parts of the L2 cache."""
    sizes = {
        "l1": (128, _steps(2 * KIB, 512 * KIB, 4), [8 * KIB, 32 * KIB, 128 * KIB, 192 * KIB, 256 * KIB, 512 * KIB]),
        "l1_sector": (32, _steps(2 * KIB, 64 * KIB, 1), [8 * KIB]),
        "l2": (128, _steps(MIB, 256 * MIB, 4), [MIB, 8 * MIB, 32 * MIB, 64 * MIB, 128 * MIB]),
        "dram": (4096, [GIB, 2 * GIB, 4 * GIB, 8 * GIB, 16 * GIB], [2 * GIB]),
        "tlb_64k": (64 * KIB, _steps(64 * KIB, 512 * MIB, 2), []),
        "tlb_2m": (2 * MIB, _steps(2 * MIB, 16 * GIB, 2), [2 * MIB, 32 * MIB, 512 * MIB, 8 * GIB]),
        "tlb_32m": (32 * MIB, _steps(32 * MIB, 31 * GIB, 2), []),
    }
    made = []
    for name, (stride, full, few) in sizes.items():
        first_level = name.startswith("l1")
        parameters = {
            "stride": stride,
            "sizes": full,
            "quick_sizes": few,
            "limit": not first_level,
            "spread": name in ("l2", "dram"),
        }
        if name == "l2":
            parameters["nodes"] = 4096
        made.append(
            Entry(f"chase.{name}", (memory.chase("l1" if first_level else "l2"),), plans_memory.chase_sizes,
                  "latency by footprint and stride, one warp alone", parameters, quick=bool(few), weight=1.5)
        )  # fmt: skip
    made.append(
        Entry(
            "probe.l2", (memory.probe("l2"),), plans_memory.probes, "latency of each line from each SM: near and far L2"
        )
    )
    return made


def bandwidths() -> list[Entry]:
    """Bytes per second by level, width, stride and mix of loads and stores."""
    shapes = [(1, 0, w) for w in (4, 8, 16)] + [(0, 1, w) for w in (4, 8, 16)]
    shapes += [(1, 1, 4), (1, 1, 16), (2, 1, 16), (3, 1, 16), (1, 2, 16), (1, 3, 16)]
    made = [
        Entry(f"bandwidth.dram.r{r}w{w}.b{b}", (traffic.bandwidth(r, w, b),), plans_memory.dram_bandwidth,
              "DRAM bandwidth: reads, writes and mixes", quick=b == 16, weight=0.3)
        for r, w, b in shapes
    ]  # fmt: skip
    made.append(Entry("bandwidth.dram.copy", (), plans_memory.copy_bandwidth, "the driver's own copy", weight=0.2))
    for where in ("l1", "l2"):
        widths = tuple(traffic.resident(where, b) for b in (4, 8, 16))
        strided = tuple(traffic.resident(where, 4, stride=s) for s in (2, 4, 8, 16, 32))
        for name, kernels in (("width", widths), ("stride", strided)):
            made.append(
                Entry(f"bandwidth.{where}.{name}", kernels, plans_memory.cache_bandwidth, f"{where.upper()} bandwidth by {name}",
                      {"where": where}, quick=name == "width", weight=0.7)
            )  # fmt: skip
    stores = tuple(traffic.resident("l2", b, store=True) for b in (4, 16))
    made.append(
        Entry(
            "bandwidth.l2.store",
            stores,
            plans_memory.cache_bandwidth,
            "L2 bandwidth of stores",
            {"where": "l2"},
            weight=0.5,
        )
    )
    return made


def launches() -> list[Entry]:
    """What a launch, a block, a barrier, a loop and code that does not fit cost."""
    sizes = (128, 256, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384)
    return [
        Entry("launch.empty", (control.empty(),), plans.empty_launches, "launch overhead, blocks per second"),
        Entry("launch.blocks", (control.blocks(),), plans.block_replacement, "block replacement, tail"),
        Entry("control.barrier", (control.barrier(), control.barrier(True)), plans.block_sweep, "barrier by warps per block"),
        Entry("control.loop", (control.loop(), control.loop(True)), plans.block_sweep, "cost of a loop's own instructions",
              {"warps": (1, 4, 16, 32)}),
        Entry("control.code", tuple(control.code(n) for n in sizes), plans.code_sizes, "instruction caches", quick=False,
              weight=2.0),
        Entry("control.constant", (control.constant(),), plans.constant_sizes, "constant caches"),
    ]  # fmt: skip


def others() -> list[Entry]:
    """Atomics on global memory, single latencies under load, requests in flight."""
    return [
        Entry("atomic.global", (traffic.atomic("atom"), traffic.atomic("red")), plans_memory.atomics,
              "atomics on global memory: spread, and all on one word", weight=2.0),
        Entry("distribution.dram", (traffic.distribution(1), traffic.distribution(2)), plans_memory.latency_distributions,
              "single latencies at seven loads (Table 6.6)"),
        Entry("in_flight.dram", (traffic.in_flight(),), plans_memory.requests_in_flight,
              "requests in flight by warp and SM, departure delays"),
    ]  # fmt: skip


def entries() -> list[Entry]:
    """Return all measurements in the order in which they are done: what matters most comes first."""
    return [*instructions(), *chases(), *bandwidths(), *streams(), *launches(), *others(), *mixes()]
