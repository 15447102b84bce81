"""Lemeire et al. 2017, Figure 3: matrix multiplication simulated over the paper's configurations.

A configuration is a group size and the number of groups that a compute unit holds at a time. The paper gives the sizes
(powers of two from 32 threads on) and counts: 34 with 18 numbers of warps on Fermi, 78 with 43 on Pascal. Exactly these
follow from the GPUs' limits if the number of groups is set with local memory, as the kernel's parameter `extra` says.
"""

from __future__ import annotations

from functools import cache

from warplens.machine import Machine, load_machine
from warplens.papers.item import Item, Plot, Row, Series, line
from warplens.papers.lemeire_code import Node
from warplens.papers.lemeire_simulator import from_nodes
from warplens.simulator.code import Code
from warplens.simulator.run import Options
from warplens.simulator.sampling import kernel
from warplens.simulator.units import units

PAPER = "Lemeire et al. 2017"
GPUS = {"Fermi": "c2050", "Pascal": "gtx1060"}
COUNTED = {"Fermi": ("34", "18"), "Pascal": ("78", "43")}  # configurations, numbers of warps (§IV.A)
SIZE, TILES = 1024, (8, 16)


def configurations(machine: Machine) -> list[tuple[int, int]]:
    """Return all pairs of warps per group and groups at a time, group sizes being powers of two.

    A group that takes so many units of local memory leaves room for so many groups: one takes at most what a group may
    have, so that on Pascal, where that is half of a compute unit's, there are never less than two.
    """
    sm = machine.sm
    limits = (sm.shared_unit_bytes, sm.shared_bytes, sm.blocks_max, sm.threads_per_block_max)
    unit, whole, most_groups, most_threads = (int(limit or 0) for limit in limits)
    most = int(sm.shared_per_block_max_bytes or whole)
    groups = sorted({min(whole // taken, most_groups) for taken in range(unit, most + 1, unit)})
    sizes = [2**k for k in range((most_threads // 32).bit_length())]
    return [(size, n) for size in sizes for n in groups if size * n <= sm.warps_max]


def matrix_multiplication(tile: int, size: int, *, conflict: bool = False) -> list[Node]:
    """Return the paper's matrix multiplication (Listing 1): `size` square, tiles of `tile`, inner loop unrolled.

    Per tile: two global loads into local memory, a barrier, `tile` times two local loads and a multiply-add that needs
    them and the one before, a barrier, the loop's overhead. At the end one store.
    """
    local = "local_memory_conflict" if conflict else "local_memory"
    nodes: list[Node] = []

    def add(operation: str, *needs: int, store: bool = False) -> int:
        nodes.append(Node(operation, tuple(n for n in needs if n >= 0), store))
        return len(nodes) - 1

    loop = total = -1
    for _ in range(size // tile):
        loads = [add(f"matrix_{m}_{tile}x{tile}", loop) for m in "ab"]
        stores = [add("local_memory", load) for load in loads]
        ready = add("barrier", *stores)
        for _ in range(tile):
            a, b = add(local, ready), add(local, ready)
            total = add("fmadd", a, b, total)
        left = add("barrier", total)
        loop = add("loop", left)
    add("memory", total, loop, store=True)
    return nodes


@cache
def _code(gpu: str, tile: int, conflict: bool) -> Code:
    nodes = matrix_multiplication(tile, SIZE, conflict=conflict)
    return from_nodes(nodes, load_machine(gpu).lemeire, tile * tile // 32, f"mmul{tile:02}")


def performance(gpu: str, tile: int, groups: int, *, conflict: bool = False) -> float:
    """Return the Gflop/s of the multiplication of two 1024 x 1024 matrices with so many groups at a time."""
    machine = load_machine(gpu)
    total = -(-((SIZE // tile) ** 2) // int(machine.chip.sm_count))
    options = Options(policy="round-robin")
    found = kernel(_code(gpu, tile, conflict), units(machine), options, resident=groups, blocks=total)
    return 2 * SIZE**3 / (found.cycles / machine.chip.clock_hz) / 1e9


def figure_3() -> Item:
    """Figure 3: both kernels on both GPUs, over the configurations that have their group size."""
    rows: list[Row] = []
    plots: list[Plot] = []
    for name, gpu in GPUS.items():
        all_of_them = configurations(load_machine(gpu))
        combinations, warp_counts = COUNTED[name]
        rows.append(Row(f"{name}: configurations", len(all_of_them), combinations))
        rows.append(Row(f"{name}: numbers of warps", len({size * n for size, n in all_of_them}), warp_counts))
        curves: list[Series] = []
        for tile in TILES:
            groups = [n for size, n in all_of_them if size == tile * tile // 32]
            for conflict in (False, True):
                rates = [performance(gpu, tile, n, conflict=conflict) for n in groups]
                kind = f"mmul{tile:02}" + (", conflicts" if conflict else "")
                warps = [n * tile * tile // 32 for n in groups]
                curves.append(line(kind, warps, rates, "points"))
                what = f"{name} {kind}: {len(groups)} configurations, "
                for where, n, rate in (("least", groups[0], rates[0]), ("most", groups[-1], rates[-1])):
                    rows.append(Row(f"{what}{where} groups ({n})", rate, None, "Gflop/s"))
        plots.append(Plot(f"{name}: 1024 x 1024, simulated", "warps per compute unit", "Gflop/s", curves))
    notes = [
        "The paper prints a picture, no numbers; its kernels have fixed group sizes, 2 and 8 warps, so that Figure 3 "
        "has those of the configurations.",
        "Conflicting accesses to local memory: 16 and 250 cycles on Fermi, 7 and 100 on Pascal (§IV.C).",
    ]
    title = "Figure 3: matrix multiplication over all configurations, with and without bank conflicts"
    return Item("lemeire-figure-3", title, f"{PAPER} §IV.C", rows, plots, notes)
