"""A kernel's time from a part of it: some rounds of its blocks, some turns of its loops.

Rounds of blocks are alike, and so are turns of a loop. Three numbers of rounds with the same tail are simulated, or
three lengths of the loops, each for two numbers of rounds; whatever counts (cycles, bytes, stalls) goes on
along the line through the first and the last. The error reported is a share of the time that was not simulated: by how
much the line's two steps differ, and `LEAST` for what they do not show (warps that drift apart slowly, chance in both).
What has neither rounds nor loops is cut off behind its first part; if other instructions come behind it, all of that
time may be wrong.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from warplens.simulate.code import Code, StepArrays, first_part, lay_steps, sampled
from warplens.simulate.run import Options, Run, run
from warplens.simulate.steady import BUDGET, Measured, busiest
from warplens.simulate.units import Units

ROUND = BUDGET // 6  # instructions of a round of blocks with the shortest loops
ROUNDS = 3  # up to so many rounds of blocks are all simulated
# Of the time that was not simulated. Over 80 workloads and random graphs and 97 counted kernels the largest difference
# from a full run, less that of the steps, was 3.8 % of it.
LEAST = 0.04


class _Bench(Struct, frozen=True):
    """An SM that takes so many blocks at a time; it keeps the code's instructions laid out."""

    units: Units
    options: Options
    resident: int
    laid: StepArrays

    def run(self, code: Code, blocks: int) -> Run:
        return run(
            code, self.units, self.options, resident=min(self.resident, blocks), blocks=blocks, laid=self.laid
        )  # fmt: skip


def kernel(code: Code, units: Units, options: Options, *, resident: int, blocks: int) -> Measured:
    """Return the cycles that all these blocks take on one SM."""
    bench = _Bench(units, options, min(resident, blocks), lay_steps(code.steps))
    each = code.grid_mean or code.block_instructions
    if options.full or each * blocks <= BUDGET:
        return _whole(bench, code, blocks)
    lengths = [code] if each * bench.resident <= BUDGET / 3 else _lengths(code, bench.resident)
    if lengths[0].block_instructions == code.block_instructions:
        made = _by_rounds(bench, code, blocks, each)
    else:
        made = _by_lengths(bench, code, lengths, blocks, each)
    served = busiest(bench.laid.steps, made.run.counts, units)
    if served <= made.cycles:
        return made
    return replace(made, cycles=served, run=replace(made.run, end_cycle=served))


def _whole(bench: _Bench, code: Code, blocks: int) -> Measured:
    made = bench.run(code, blocks)
    return Measured(made.end_cycle, 0.0, made.issued, made.dram_bytes / made.end_cycle, made, [])


def _lengths(code: Code, resident: int) -> list[Code]:
    """Return the code with three lengths of its loops, or three first parts where it has none to cut."""
    a_round = code.block_instructions * resident
    share = ROUND / a_round
    cut = [sampled(code, share * k, k) for k in (1, 2, 3)]
    if cut[-1].block_instructions * resident > BUDGET:
        return [first_part(code, min(1.0, 2 * share * k)) for k in (1, 2, 3)]
    return cut


def _by_rounds(bench: _Bench, code: Code, blocks: int, each: float) -> Measured:
    """Simulate three numbers of blocks that leave the same tail, and go on along the line."""
    step = bench.resident * max(1, round(BUDGET / 8 / (code.block_instructions * bench.resident)))
    few = blocks % bench.resident + bench.resident
    counts = [few + k * step for k in (1, 2, 3)]
    if counts[-1] >= blocks:
        return _whole(bench, code, blocks)
    runs = [bench.run(code, n) for n in counts]
    made, apart = _along(runs, runs[-1].issued + (blocks - counts[-1]) * each)
    note = f"blocks extrapolated: {counts[-1]} of {blocks} were simulated"
    return _measured(made, runs, apart, [note])


def _by_lengths(bench: _Bench, code: Code, lengths: Sequence[Code], blocks: int, each: float) -> Measured:
    """Simulate three lengths of the loops, for all blocks or for two numbers of them, and go on along the lines."""
    few = blocks if blocks <= ROUNDS * bench.resident else blocks % bench.resident + bench.resident
    runs = [bench.run(c, few) for c in lengths]
    made, apart = _along(runs, few * each)
    share = 100 * lengths[-1].block_instructions / code.block_instructions
    notes = [f"loops extrapolated: {share:.2g} % of the instructions of a block were simulated"]
    if few < blocks:
        more = [bench.run(c, few + bench.resident) for c in (lengths[0], lengths[-1])]  # the middle one says the same
        longer = _on_line(more[0], more[-1], (few + bench.resident) * each)
        made = _line(made, longer, (blocks - few) / bench.resident)
        notes.append(f"blocks extrapolated: {few + bench.resident} of {blocks} were simulated")
        runs += more
    unseen = _reached(code) - _reached(lengths[-1])
    return _measured(made, runs, 1.0 if unseen else apart, notes)


def _reached(code: Code) -> set[str]:
    """Return the instructions that any warp comes to, by their text: those of counts are alike."""
    runs = {run for way in code.ways for sequence, _ in way.segments for run in sequence}
    return {code.steps[i].label for first, stop in runs for i in range(first, stop)}


def _measured(made: Run, runs: Sequence[Run], apart: float, notes: list[str]) -> Measured:
    """Return the answer; of the time behind the longest run so large a share, and `LEAST`, may be wrong."""
    error = (made.end_cycle - max(r.end_cycle for r in runs)) * min(1.0, LEAST + apart)
    return Measured(made.end_cycle, error, sum(r.issued for r in runs), made.dram_bytes / made.end_cycle, made, notes)


def _along(runs: Sequence[Run], instructions: float) -> tuple[Run, float]:
    """Return what a run of so many instructions is on the line through three, and how far its steps are apart."""
    first, middle, last = runs
    made = _on_line(first, last, instructions)
    slopes = [(b.end_cycle - a.end_cycle) / max(1, b.issued - a.issued) for a, b in ((first, middle), (middle, last))]
    return made, abs(slopes[1] - slopes[0]) / (max(slopes) or 1.0)


def _on_line(first: Run, last: Run, instructions: float) -> Run:
    """Return what a run of so many instructions is on the line through two."""
    return _line(first, last, (instructions - first.issued) / max(1, last.issued - first.issued))


def _line(first: Run, last: Run, times: float) -> Run:
    """Return the first run and so many times what the last one has more; what was noted on the way is the last's."""
    return replace(
        last,
        end_cycle=max(last.end_cycle, first.end_cycle + times * (last.end_cycle - first.end_cycle)),
        dram_bytes=first.dram_bytes + times * (last.dram_bytes - first.dram_bytes),
        issued=round(first.issued + times * (last.issued - first.issued)),
        counts=(first.counts + times * (last.counts - first.counts)).round().clip(0).astype(last.counts.dtype),
        stalls=(first.stalls + times * (last.stalls - first.stalls)).clip(0),
    )
