"""Overlays: copies of a workload with some numbers replaced."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from warplens.program.instruction import Instruction
from warplens.workload.profile import CACHED, Profile, Traffic
from warplens.workload.workload import Workload

_READ, _WRITTEN = ("l2_read_bytes", "l2_missed_bytes", "dram_read_bytes"), ("l2_written_bytes", "dram_written_bytes")
_SECTORS = frozenset(("sectors", "l1_hit_sectors", "l2_sectors", "requests"))


def with_counts(workload: Workload, new: Mapping[int, Mapping[str, float]]) -> Workload:
    """Replace counts of instructions: `{12: {"wavefronts": 4096.0}}`.

    The number of accesses that miss L1 is unknown where sectors change, unless `passed` is among the new counts.
    """
    profile = workload.profile
    assert profile is not None
    counts = {name: list(values) for name, values in profile.counts.items()}
    for index, columns in new.items():
        for name, value in columns.items():
            counts[name][index] = value
        if "passed" in counts and "passed" not in columns and not _SECTORS.isdisjoint(columns):
            counts["passed"][index] = 0.0
    return workload.with_values(profile=replace(profile, counts=counts))


def with_traffic(workload: Workload, change: Callable[[Traffic], Traffic]) -> Workload:
    """Replace the traffic of arrays."""
    profile = workload.profile
    assert profile is not None
    return workload.with_values(profile=replace(profile, traffic=[change(t) for t in profile.traffic]))


def scaled_traffic(workload: Workload, read: float = 1.0, written: float = 1.0) -> Workload:
    """Multiply the traffic of all arrays."""
    times = dict.fromkeys(_READ, read) | dict.fromkeys(_WRITTEN, written)
    return with_traffic(workload, lambda t: replace(t, **{name: n * getattr(t, name) for name, n in times.items()}))


def with_launch(workload: Workload, **values: Any) -> Workload:
    """Replace values of the launch: registers_per_thread, shared_bytes_per_block, blocks_per_sm."""
    assert workload.launch is not None
    return workload.with_values(launch=replace(workload.launch, **values))


def with_fewer(workload: Workload, blocks_per_sm: int) -> Workload:
    """Give a workload the hits in L1 and L2 that were counted for no more than so many blocks on an SM.

    Between two counts the one of more blocks is used; below the last one, which loses little in L1, that one. Where
    none was counted, or accesses have changed since, the hits stay. The launch stays. Copies of an access (iterations
    side by side) share the hits that were counted for all of them, by their sectors.
    """
    profile = workload.profile
    assert profile is not None
    known = profile.l1_contention
    found = [] if known is None else [f for f in known.fewer if f.blocks_per_sm >= blocks_per_sm]
    if known is None or not found or not known.fits(profile):
        return workload
    new = {
        copy: {name: share * found[-1].counts[name][k] for name in CACHED if name in found[-1].counts}
        for k, i in enumerate(found[-1].accesses)
        for copy, share in _copies(workload.code, profile, i).items()
    }
    moved = {t.name: t for t in found[-1].traffic}
    fewer = with_traffic(with_counts(workload, new), lambda t: moved.get(t.name, t))
    assert fewer.profile is not None
    return fewer.with_values(profile=replace(fewer.profile, l1_contention=None, l1_bytes=found[-1].l1_bytes))


def _copies(code: Sequence[Instruction], profile: Profile, access: int) -> dict[int, float]:
    """Return an access and its copies, which have the same offset, each with its share of their sectors."""
    sectors = profile.counts["sectors"]
    found = {i: sectors[i] for i, x in enumerate(code) if x.offset == code[access].offset and sectors[i]}
    return {i: n / sum(found.values()) for i, n in found.items()}


def with_instructions(workload: Workload, new: Mapping[int, Instruction]) -> Workload:
    """Replace instructions by number: another class or other control codes; they keep their counts."""
    return workload.with_values(code=[new.get(i, x) for i, x in enumerate(workload.code)])


def without_waits(x: Instruction, boards: frozenset[int] | None = None) -> Instruction:
    """Return an instruction that does not wait for these scoreboards (None: for any)."""
    if x.control is None:
        return x
    masked = 0b111111 if boards is None else sum(1 << b for b in boards)
    return replace(x, control=replace(x.control, wait_mask=x.control.wait_mask & ~masked))


def regrouped(workload: Workload, warps_per_block: int) -> Workload:
    """Put the same warps into blocks of another size, with as much shared memory per warp; hits are unknown then."""
    profile, launch = workload.profile, workload.launch
    assert profile is not None and launch is not None
    ratio = profile.warps_per_block / warps_per_block
    blocks = max(1, round(profile.grid_blocks * ratio))
    flat = [path for block in profile.blocks for path in block]
    while flat and len(flat) < warps_per_block:
        flat = flat + flat
    rows = [flat[i : i + warps_per_block] for i in range(0, len(flat) - warps_per_block + 1, warps_per_block)]
    new: Profile = replace(
        profile,
        grid_blocks=blocks,
        warps_per_block=warps_per_block,
        blocks=rows,
        block_instructions=[n / ratio for n in profile.block_instructions],
        sampled=[(block, n / ratio) for block, n in profile.sampled],
        l1_contention=None,
    )
    return workload.with_values(
        profile=new,
        launch=replace(
            launch,
            grid=float(blocks),
            block=float(32 * warps_per_block),
            blocks_per_sm=None if launch.blocks_per_sm is None else max(1, round(ratio * launch.blocks_per_sm)),
            shared_bytes_per_block=round(launch.shared_bytes_per_block / ratio),
        ),
    )
