"""Everything that is measured, as a list of small entries."""

from __future__ import annotations

from warplens.laboratory import (  # fmt: skip
    control,
    memory,
    pipes,
    plans,
    plans_bandwidth,
    plans_memory,
    plans_scattered,
    scattered,
    tensor,
    traffic,
)
from warplens.laboratory.catalogue_waits import lives_of_warps, waiting
from warplens.laboratory.chains import ADDRESSES, UNIFORM, chain, local, uniform
from warplens.laboratory.entry import Entry
from warplens.laboratory.gpu_session import GIB, KIB, MIB
from warplens.laboratory.operations import INDEPENDENT, OPERATIONS, PAIRS, Operation
from warplens.laboratory.source import Kernel

ALPHAS = (0, 1, 2, 3, 4, 6, 8, 11, 16, 23, 32, 45, 64, 91, 128, 181, 256, 362, 512)  # steps of about sqrt(2)
_QUICK_ALPHAS = (0, 4, 32, 128)
_CUSP_ALPHAS = (23, 32, 45)  # where DRAM and issue are both near their limits: only many loads in flight fill either
HELPERS: tuple[Kernel, ...] = (
    memory.fill(), memory.touch(), memory.scatter(), control.warm(), control.blocks(), control.moment(),
)  # fmt: skip


def _operation(op: Operation, chains: int) -> Entry:
    strides = (0, 1, 2, 4, 8, 16, 32) if op.width else (1,)
    return Entry(
        f"instruction.{op.name}" + (f".ilp{chains}" if chains > 1 else ""),
        (chain(op, chains), chain(op, chains, doubled=True)),
        plans.chain_sweep,
        "latency, throughput and needed warps (Tables 6.1 to 6.3)" + (f": {op.about}" if op.about else ""),
        {"register": op.register, "width": op.width, "strides": strides if chains == 1 else (1,)},
        weight=2.0 if op.width and chains == 1 else 0.5,
    )


def instructions() -> list[Entry]:
    """Latency and throughput of every operation, of pairs, and with several chains per warp."""
    made = [_operation(op, 1) for op in OPERATIONS]
    made += [_operation(op, chains) for op in OPERATIONS for chains in (2, 4) if chains <= op.most_chains]
    for op in (op for op in OPERATIONS if op.name in INDEPENDENT):
        kernels = chain(op, 8, False, 0, op.length // 4), chain(op, 8, True, 0, op.length // 4)
        made.append(
            Entry(f"instruction.{op.name}.ilp8", kernels, plans.chain_sweep, "cycles between two that are independent",
                  {"register": op.register, "width": op.width, "warps": (1,)}, weight=0.1)
        )  # fmt: skip
    for op in PAIRS:
        made.append(
            Entry(f"pair.{op.name}", (chain(op), chain(op, doubled=True)), plans.chain_sweep,
                  "latency from producer to consumer (§4.7)", {"register": op.register, "width": op.width}, weight=0.5)
        )  # fmt: skip
    for name in UNIFORM:
        made.append(
            Entry(f"instruction.{name}", (uniform(name), uniform(name, True)), plans.chain_sweep,
                  "latency and throughput of the uniform datapath", {"register": "r"}, weight=0.5)
        )  # fmt: skip
    made.append(
        Entry("instruction.ldl", (local(), local(True)), plans.chain_sweep,
              "latency and throughput of local memory that hits in L1", {"register": "r", "limit": False}, weight=0.5)
    )  # fmt: skip
    return made


def tensors() -> list[Entry]:
    """Matrix instructions: one warp's, with 1, 2 and 4 chains; those of four warps together, by columns."""
    made = []
    for matrix in tensor.MATRICES:
        for chains in (1, 2) if matrix.name == "f64_16816" else (1, 4):
            kernels = tensor.mma(matrix, chains), tensor.mma(matrix, chains, doubled=True)
            made.append(
                Entry(f"tensor.{matrix.name}" + (f".ilp{chains}" if chains > 1 else ""), kernels, plans.chain_sweep,
                      "mma.sync: latency and throughput", {"register": "f", "own_clock": True}, weight=0.5)
            )  # fmt: skip
    for group in tensor.GROUPS:
        for columns in (64, 128, 256):
            kernels = tensor.wgmma(group, columns), tensor.wgmma(group, columns, doubled=True)
            warps = (4, 8) if columns > 128 else (4, 8, 16)
            made.append(
                Entry(f"tensor.group.{group.name}.c{columns}", kernels, plans.block_sweep,
                      "wgmma: throughput", {"warps": warps, "own_clock": True}, weight=0.2)
            )  # fmt: skip
    return made


def mixes() -> list[Entry]:
    """The dissertation's mixes: alpha adds per load, special function or shared-memory access (§4.1, §4.7)."""
    made = []
    for other, op in _mixed().items():
        for alpha in ALPHAS:
            made.append(
                Entry(f"mix.{other}.a{alpha}", _pair(op, alpha), plans.chain_sweep,
                      "throughput against occupancy (Figure 4.5)", {"register": op.register, "width": op.width},
                      quick=alpha in _QUICK_ALPHAS, weight=0.7)
            )  # fmt: skip
    for alpha in ALPHAS:
        made.append(
            Entry(f"mix.load.a{alpha}", (memory.stream(alpha),), plans_memory.stream_sweep,
                  "throughput and latency against occupancy (Figures 4.1, 5.5)", {"where": "dram"},
                  quick=alpha in _QUICK_ALPHAS, weight=1.0)
        )  # fmt: skip
    return [*made, *_variants()]


def _mixed() -> dict[str, Operation]:
    """What adds are mixed with besides loads."""
    operations = {op.name: op for op in OPERATIONS}
    return {"sfu": operations["mufu_rsq"], "shared": operations["lds"]}


def _pair(op: Operation, alpha: int, chains: int = 1) -> tuple[Kernel, Kernel]:
    """The kernels of N and 2N links of a mix; the code of all chains together stays as long as that of one."""
    length = max(1, min(64, 256 // (alpha + 1)) // chains)
    return chain(op, chains, False, alpha, length), chain(op, chains, True, alpha, length)


def _variants() -> list[Entry]:
    """The mixes with several chains per warp, and in smaller blocks; three repetitions are enough for a picture."""
    made = []
    for alpha in ALPHAS:
        for suffix, chains, threads in (("ilp2", 2, 0), ("ilp4", 4, 0), ("t128", 1, 128), ("t256", 1, 256)):
            shape = {"most_repetitions": 3, **({"threads": threads} if threads else {})}
            text = "as the mix without the suffix, " + (
                f"in blocks of at most {threads} threads" if threads else f"{chains} chains per warp"
            )
            made.append(
                Entry(f"mix.load.a{alpha}.{suffix}", (memory.stream(alpha, chains),), plans_memory.stream_sweep, text,
                      {"where": "dram", **shape}, quick=False, weight=0.5)
            )  # fmt: skip
            for other, op in _mixed().items():
                made.append(
                    Entry(f"mix.{other}.a{alpha}.{suffix}", _pair(op, alpha, chains), plans.chain_sweep, text,
                          {"register": op.register, "width": op.width, **shape}, quick=False, weight=0.3)
                )  # fmt: skip
    for alpha in _CUSP_ALPHAS:
        made.append(
            Entry(f"mix.load.a{alpha}.ilp8", (memory.stream(alpha, 8),), plans_memory.stream_sweep,
                  "as the mix without the suffix, 8 chains per warp", {"where": "dram", "most_repetitions": 3},
                  quick=False, weight=0.5)
        )  # fmt: skip
    return made


def streams() -> list[Entry]:
    """Latency under load: DRAM and L2 with 1 to 8 loads in flight per warp, 4, 8 and 16 bytes; the first level."""
    made = []
    for where, level in (("dram", "default"), ("l2", "l2"), ("l1", "l1")):
        for chains in (1, 2, 4, 8):
            for width in (4, 8, 16):
                if (chains, width, where) == (1, 4, "dram"):  # mix.load.a0
                    continue
                quick = chains == 1 or (where != "l1" and (chains, width) == (4, 4))
                made.append(
                    Entry(f"stream.{where}.ilp{chains}.b{width}", (memory.stream(0, chains, width, level),),
                          plans_memory.stream_sweep, "loaded latency against throughput (§6.4)", {"where": where},
                          quick=quick, weight=1.0 if where == "dram" else 0.5)
                )  # fmt: skip
    return [
        *made,
        Entry("stream.dram.dirty", (memory.stream(0, 1, 4, "default"),), plans_memory.stream_sweep,
              "as mix.load.a0, with an L2 cache full of what must be written back", {"where": "dram", "dirty": True},
              quick=False, weight=2.0),
        Entry("stream.dram.one_sm", (memory.stream(0, 4, 16, "default"),), plans_memory.stream_sweep,
              "one SM alone: what it gets from DRAM", {"where": "dram", "one_sm": True, "warps": (4, 8, 16, 32)},
              weight=0.3),
        Entry("stream.random", (memory.stream(0, 1, 4, "default"),), plans_memory.random_sweep,
              "unstructured access: throughput by footprint, latency (§6.7, Table 6.7)", weight=2.0),
    ]  # fmt: skip


def _steps(first: int, last: int, per_doubling: int) -> list[int]:
    """Return sizes from first to last, so many to a doubling, in whole kibibytes above 16 KiB."""
    found, n = [], 0
    while (size := first * 2 ** (n / per_doubling)) <= last * 1.001:
        found.append(round(size / KIB) * KIB if size >= 16 * KIB else round(size / 512) * 512)
        n += 1
    return found


def chases() -> list[Entry]:
    """One chain alone: caches, DRAM, TLBs; near and far parts of the L2 cache; lanes on several lines."""
    near_l1 = range(216 * KIB, 264 * KIB, 4 * KIB)
    near_l2 = range(36 * MIB, 84 * MIB, 4 * MIB)
    far = [64 * MIB, 128 * MIB, 256 * MIB, 512 * MIB, 2 * GIB, 8 * GIB, 16 * GIB]
    sizes = {
        "l1": (
            128,
            sorted({*_steps(2 * KIB, 512 * KIB, 4), *near_l1}),
            [8 * KIB, 32 * KIB, 128 * KIB, 192 * KIB, 256 * KIB, 512 * KIB],
        ),
        "l1_sector": (32, _steps(2 * KIB, 64 * KIB, 1), [8 * KIB]),
        "l2": (128, sorted({*_steps(MIB, 256 * MIB, 4), *near_l2}), [MIB, 8 * MIB, 32 * MIB, 64 * MIB, 128 * MIB]),
        "dram": (4096, [GIB, 2 * GIB, 4 * GIB, 8 * GIB, 16 * GIB, 32 * GIB], [2 * GIB]),
        "tlb_64k": (64 * KIB, _steps(64 * KIB, 512 * MIB, 2), []),
        "tlb_2m": (2 * MIB, _steps(2 * MIB, 16 * GIB, 2), far),
        "tlb_32m": (32 * MIB, _steps(32 * MIB, 63 * GIB, 2), []),
    }
    made = []
    for name, (stride, full, few) in sizes.items():
        first_level = name.startswith("l1")
        parameters = {"stride": stride, "sizes": full, "quick_sizes": few, "limit": not first_level,
                      "spread": name in ("l2", "dram"), "nodes": 4096 if name == "l2" else 8192}  # fmt: skip
        made.append(
            Entry(f"chase.{name}", (memory.chase("l1" if first_level else "l2"),), plans_memory.chase_sizes,
                  "latency by footprint and stride, one warp alone", parameters, quick=bool(few), weight=1.5)
        )  # fmt: skip
    for shared in (16, 60, 96, 160, 192):
        sizes_of = {"sizes": list(range(16 * KIB, 264 * KIB, 8 * KIB)), "quick_sizes": []}
        parameters = {"stride": 128, **sizes_of, "limit": False, "shared_bytes": shared * KIB}
        made.append(
            Entry(f"chase.l1.shared_{shared}", (memory.chase("l1"),), plans_memory.chase_sizes,
                  "latency by footprint where the block has so many KiB of shared memory", parameters, quick=False)
        )  # fmt: skip
    return [
        *made,
        Entry("probe.l2", (memory.probe("l2"),), plans_memory.probes,
              "latency of each line from each SM: near and far L2"),
        Entry("chase.lines", (memory.lines("l2"), memory.lines("l1")), plans_memory.line_counts,
              "latency by lines of a load (Table 6.7)"),
        Entry("chase.further", (memory.lines("l2"),), plans_memory.further_lines,
              "what a further line adds in DRAM, the mean over many places", {"lines": (1, 32)}, weight=0.5),
    ]  # fmt: skip


def bandwidths() -> list[Entry]:
    """Bytes per second by level, width, stride and mix of loads and stores."""
    shapes = [(1, 0, w) for w in (4, 8, 16)] + [(0, 1, w) for w in (4, 8, 16)]
    shapes += [(1, 1, 4), (1, 1, 8), (1, 1, 16), (2, 1, 16), (3, 1, 16), (1, 2, 16), (1, 3, 16)]
    made = [
        Entry(f"bandwidth.dram.r{r}w{w}.b{b}", (traffic.bandwidth(r, w, b),), plans_bandwidth.dram_bandwidth,
              "DRAM bandwidth: reads, writes and mixes", weight=0.3)
        for r, w, b in shapes
    ]  # fmt: skip
    made += [
        Entry(f"bandwidth.dram.r{r}w{w}.b16.once", (traffic.bandwidth(r, w, once=True),),
              plans_bandwidth.dram_bandwidth, "DRAM bandwidth: one access of a thread to each array", weight=0.3)
        for r, w in ((1, 0), (3, 1), (2, 1), (1, 1), (1, 2), (1, 3), (0, 1))
    ]  # fmt: skip
    made += [
        Entry(f"bandwidth.dram.s{s}", (traffic.bandwidth(1, 0, 4, s),), plans_bandwidth.dram_bandwidth,
              "DRAM bandwidth of 4-byte reads, every s-th word: every sector from 8 on fewer", weight=0.3)
        for s in (8, 16, 32, 64)
    ]  # fmt: skip
    made.append(Entry("bandwidth.dram.copy", (), plans_bandwidth.copy_bandwidth, "the driver's own copy", weight=0.2))
    made.append(
        Entry("bandwidth.l2.written_back", (traffic.bandwidth(0, 1, 16),), plans_bandwidth.written_back,
              "stores over and over the same bytes, by footprint", quick=False)
    )  # fmt: skip
    for where in ("l1", "l2"):
        widths = tuple(traffic.resident(where, b) for b in (4, 8, 16))
        # odd strides keep the words of a load in different banks of the first level
        strides = (2, 4, 8, 16, 32) + ((3, 5, 9, 17, 33) if where == "l1" else ())
        strided = tuple(traffic.resident(where, 4, stride=s) for s in strides)
        for name, kernels in (("width", widths), ("stride", strided)):
            made.append(
                Entry(f"bandwidth.{where}.{name}", kernels, plans_bandwidth.cache_bandwidth,
                      f"{where.upper()} bandwidth by {name}", {"where": where}, weight=0.7)
            )  # fmt: skip
    stores = tuple(traffic.resident("l2", b, store=True) for b in (4, 8, 16))
    stores += tuple(traffic.resident("l2", 4, store=True, stride=s) for s in (2, 8, 32))
    made.append(
        Entry("bandwidth.l2.store", stores, plans_bandwidth.cache_bandwidth, "L2 bandwidth of stores", {"where": "l2"},
              weight=0.5)
    )  # fmt: skip
    return made


def launches() -> list[Entry]:
    """What a launch, a block, a barrier, a branch, a loop and code that does not fit cost."""
    sizes = (128, 256, 512, 768, 1024, 1536, 1792, 2048, 2560, 3072, 4096, 6144, 8192, 9216, 10240, 12288, 16384)
    barriers, loops = (control.barrier(), control.barrier(True)), (control.loop(), control.loop(True))
    uniforms = control.branch("uniform"), control.branch("uniform", True)
    divergents = control.branch("divergent"), control.branch("divergent", True)
    regions = control.branch("region"), control.branch("region", True)
    straight = control.branch("straight"), control.branch("straight", True)
    some = (1, 4, 16, 32)
    return [
        Entry("launch.empty", (control.empty(),), plans.empty_launches, "launch overhead, blocks per second"),
        Entry("launch.first", (control.empty(), control.little_copy()), plans_scattered.first_instructions,
              "a kernel's first instructions", weight=0.1),
        Entry("launch.blocks", (control.short_blocks(),), plans.block_replacement, "block replacement, tail"),
        Entry("control.barrier", barriers, plans.block_sweep, "barrier by warps per block"),
        Entry("control.loop", loops, plans.block_sweep, "a loop's own instructions", {"warps": some}),
        Entry("control.branch.uniform", uniforms, plans.block_sweep, "branches that all lanes take, or none",
              {"a": (0, 32), "warps": some}),
        Entry("control.branch.divergent", divergents, plans.block_sweep,
              "branches with a point of reconvergence: none, half, all of the lanes skip",
              {"a": (0, 16, 32), "warps": some}),
        Entry("control.branch.region", regions, plans.block_sweep, "as divergent: all lanes skip a little",
              {"a": (32,), "warps": (1,)}, weight=0.1),
        Entry("control.branch.straight", straight, plans.block_sweep, "the same, nothing brings lanes together",
              {"a": (32,), "warps": (1,)}, weight=0.1),
        Entry("control.fence", (control.fence(), control.fence(True)), plans.block_sweep, "a fence of the device",
              {"warps": (1, 8, 32)}, weight=0.1),
        Entry("control.code", tuple(control.code(n) for n in sizes), plans.code_sizes, "instruction caches",
              weight=2.0),
        Entry("control.constant", (control.constant(),), plans.constant_sizes, "constant caches"),
    ]  # fmt: skip


def issues() -> list[Entry]:
    """What instructions take of issue; from addresses to loads; stall counts; the register file's banks."""
    made = []
    for other in pipes.AMONG:
        for adds in pipes.ADDS:
            made.append(
                Entry(f"slots.{other or 'adds'}.k{adds}", (pipes.among(other, adds), pipes.among(other, adds, True)),
                      plans.block_sweep, f"issue slots among {adds} adds (§4.7, §4.12)",
                      {"register": "r" if other in ("lds", "sts") else "f", "warps": (32,), "cycles": 400_000,
                       "own_addresses": other == "ldg"}, weight=0.1)
            )  # fmt: skip
    for kind in ADDRESSES:
        made.append(
            Entry(f"address.{kind}", (local(False, kind), local(True, kind)), plans.chain_sweep,
                  "latency from what makes an address to the load", {"register": "r", "limit": False, "warps": (1,)},
                  weight=0.1)
        )  # fmt: skip
    for name, stalls in pipes.STALLS.items():
        for cycles in stalls:
            kernels = pipes.stalls(name, cycles), pipes.stalls(name, cycles, True)
            made.append(
                Entry(f"stall.{name}.s{cycles}", kernels, plans.chain_sweep, "wide products by their stall count",
                      {"register": "l" if name == "imad_wide" else "r", "warps": (1,)}, weight=0.1)
            )  # fmt: skip
    for name in pipes.READERS:
        shape = {"register": "f" if name == "mufu_rsq" else "r", "warps": (1,), "width": 1 if name == "lds" else 0}
        made.append(
            Entry(f"wait.sources.{name}", (pipes.readers(name), pipes.readers(name, True)), plans.chain_sweep,
                  "when sources have been read", shape, weight=0.1)
        )  # fmt: skip
    for classes in ("same4", "same2", "mixed"):
        made.append(
            Entry(f"issue.banks.{classes}", (pipes.banks(classes), pipes.banks(classes, True)), plans.chain_sweep,
                  "FFMA with three registers in one bank or several", {"register": "f", "warps": (4, 16, 32)},
                  weight=0.1)
        )  # fmt: skip
    return made


def scatters() -> list[Entry]:
    """Accesses in no order: packets to L2 and to DRAM, additions to few lines, what L2 has to write back."""
    spans = tuple((32, stride, 32 * stride) for stride in (16, 32, 64, 128))
    stores = scattered.packets("store"), scattered.packets("store", 16)
    both = scattered.packets("both"), scattered.packets("both", 16)
    visits = tuple(scattered.visits(kind, timed) for kind in scattered.ASKED for timed in (False, True))
    l2, pairs = {"bytes": 16 * MIB, "shapes": spans}, ((2, 16, 32), (1, 0, 16))
    return [
        Entry("packets.load", (scattered.packets("load"),), plans_scattered.packet_rates,
              "loads from L2 by the sectors of a line", l2, weight=0.3),
        Entry("packets.store", stores, plans_scattered.packet_rates,
              "stores to L2 by the sectors of a line, whole or in part", l2, weight=0.3),
        Entry("packets.both", both, plans_scattered.packet_rates, "loads and stores of the same packets",
              {**l2, "bytes": 8 * MIB}, weight=0.3),
        Entry("packets.dram.load", (scattered.packets("load"),), plans_scattered.packet_rates,
              "loads of sectors anywhere in DRAM", {"bytes": 2 * GIB, "shapes": ((1, 0, 32),)}, weight=0.2),
        Entry("packets.dram.store", (scattered.packets("store", 16),), plans_scattered.packet_rates,
              "stores of sectors and of halves of sectors anywhere in DRAM", {"bytes": 8 * GIB, "shapes": pairs},
              weight=0.3),
        Entry("atomic.lines", (scattered.reductions(True), scattered.reductions(False)),
              plans_scattered.addition_rates, "additions to lines that all share", weight=2.0),
        Entry("bandwidth.l2.dirty", (traffic.bandwidth(0, 1, 16), traffic.bandwidth(1, 0, 16)),
              plans_scattered.left_to_write, "how much of what was written L2 keeps", weight=0.5),
        Entry("resident.l2", visits, plans_scattered.residence,
              "how many lines L2 holds, each at one place, or read by all",
              {"of": 30, "parts": [4, 8, *range(12, 37), 40, 48, 60, 120, 1920],
               "quick_parts": [8, 14, 15, 16, 18, 24, 28, 29, 30, 31, 32]}, weight=0.5),
    ]  # fmt: skip


def others() -> list[Entry]:
    """Atomics on global memory, single latencies under load, requests in flight."""
    return [
        Entry("atomic.global", (traffic.atomic("atom"), traffic.atomic("red")), plans_memory.atomics,
              "atomics on global memory: spread, and all on one word", weight=2.0),
        Entry("distribution.dram", (traffic.distribution(1), traffic.distribution(2)),
              plans_memory.latency_distributions, "single latencies at seven loads (Table 6.6)"),
        Entry("in_flight.dram", (traffic.in_flight(),), plans_memory.requests_in_flight,
              "requests in flight by warp and SM"),
        Entry("in_flight.burst", tuple(traffic.burst(n) for n in (10, 20, 40)), plans_memory.bursts,
              "departure delays"),
    ]  # fmt: skip


def entries() -> list[Entry]:
    """Return all measurements in the order in which they are done: what matters most comes first."""
    return [
        *instructions(), *issues(), *chases(), *bandwidths(), *scatters(), *streams(), *launches(), *others(),
        *lives_of_warps(), *waiting(), *mixes(), *tensors(),
    ]  # fmt: skip
