"""A kernel's time from a part of it: some rounds of its blocks, some turns of its loops.

Rounds of blocks are alike, and so are turns of a loop. Numbers of rounds with the same tail are simulated until the
next ones take as long as those before, or three lengths of the loops, two of them for two numbers of rounds; whatever
counts (cycles, bytes, stalls) goes on along the line through the first and the last. A longer run goes on where a
shorter one has given out its last block (`Course.up_to`). The error reported is a share of the time that was not
simulated: by how much the line's two steps differ, and `LEAST` for what they do not show (warps that drift apart
slowly, chance in both). What has neither rounds nor loops is cut off behind its first part; if other instructions come
behind it, all of that time may be wrong.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from warplens.simulate.code import Code, StepArrays, first_part, lay_steps, sampled
from warplens.simulate.run import Course, Options, Run
from warplens.simulate.steady import BUDGET, Measured, busiest
from warplens.simulate.units import Units

ROUND = BUDGET // 12  # instructions of a round of blocks with the shortest loops
LENGTHS = ((1, 1), (2, 2), (6, 3))  # times this, and how often a few turns that a loop keeps at least
ROUNDS = 3  # up to so many rounds of blocks are all simulated
STEPS = (3_000, 6_000, 12_000, 37_500, 75_000, 112_500)  # instructions of all rounds but the first and the tail
ALIKE = 0.005  # of the time of a round: steps that differ by no more are a steady state
TAIL = 0.75  # of a round: what is left of it when the last block begins
# Of the time that was not simulated. Over 361 workloads, random graphs and counted kernels of the train set, as they
# are and with ten and a hundred times the blocks, the largest difference from a full run, less that of the steps, was
# 5.8 % of it.
LEAST = 0.06


class _Bench(Struct, frozen=True):
    """An SM that takes so many blocks at a time; it keeps the code's instructions laid out."""

    units: Units
    options: Options
    resident: int
    blocks: int
    laid: StepArrays

    def course(self, code: Code) -> Course:
        """Return a course for at most all blocks of a code."""
        return Course(code, self.units, self.options, resident=self.resident, blocks=self.blocks, laid=self.laid)


def kernel(code: Code, units: Units, options: Options, *, resident: int, blocks: int) -> Measured:
    """Return the cycles that all these blocks take on one SM."""
    bench = _Bench(units, options, min(resident, blocks), blocks, lay_steps(code.steps))
    each = code.grid_mean or code.block_instructions
    if options.full or each * blocks <= BUDGET:
        return _whole(bench.course(code), blocks)
    lengths = [code] if each * bench.resident <= BUDGET / 3 else _lengths(code, bench.resident)
    if lengths[0].block_instructions == code.block_instructions:
        made = _by_rounds(bench, code, each)
    else:
        made = _by_lengths(bench, code, lengths, each)
    served = busiest(bench.laid.steps, made.run.counts, units)
    if served <= made.cycles:
        return made
    return replace(made, cycles=served, run=replace(made.run, end_cycle=served))


def _whole(course: Course, blocks: int) -> Measured:
    made = course.up_to(blocks)
    return Measured(made.end_cycle, 0.0, course.simulated, made.dram_bytes / made.end_cycle, made, [])


def _lengths(code: Code, resident: int) -> list[Code]:
    """Return the code with three lengths of its loops, or three first parts where it has none to cut."""
    share = ROUND / (code.block_instructions * resident)
    cut = [sampled(code, share * k, turns) for k, turns in LENGTHS]
    if cut[-1].block_instructions * resident > BUDGET:
        return [first_part(code, min(1.0, 2 * share * k)) for k, _ in LENGTHS]
    return cut


def _by_rounds(bench: _Bench, code: Code, each: float) -> Measured:
    """Simulate more and more blocks that leave the same tail, until the steps are alike, and go on along the line."""
    a_round, course, blocks = code.block_instructions * bench.resident, bench.course(code), bench.blocks
    numbers = sorted({max(1, round(size / a_round)) for size in STEPS})
    few, runs = blocks % bench.resident + bench.resident, list[Run]()
    for rounds in numbers if len(numbers) >= 3 else (1, 2, 3):
        count = few + rounds * bench.resident
        if count >= blocks:
            return _whole(course, blocks)
        runs = [*runs[-2:], course.up_to(count)]
        if len(runs) == 3 and _apart(runs) <= ALIKE:
            break
    made = _on_line(runs[0], runs[-1], runs[-1].issued + (blocks - count) * each)
    note = f"blocks extrapolated: {count} of {blocks} were simulated"
    return _measured(made, runs, _apart(runs), course.simulated, [note])


def _by_lengths(bench: _Bench, code: Code, lengths: Sequence[Code], each: float) -> Measured:
    """Simulate three lengths of the loops, for all blocks or for two numbers of them, and go on along the lines."""
    blocks, resident = bench.blocks, bench.resident
    few = blocks if blocks <= ROUNDS * resident else blocks % resident + resident
    sizes = [c.block_instructions for c in lengths]
    if sum(sizes) * few + (few < blocks) * (1 + TAIL) * resident * (sizes[0] + sizes[-1]) >= each * blocks:
        return _whole(bench.course(code), blocks)
    courses = [bench.course(c) for c in lengths]
    runs = [course.up_to(few) for course in courses]
    made, apart = _on_line(runs[0], runs[-1], few * each), _apart(runs)
    notes = [f"loops extrapolated: {100 * sizes[-1] / code.block_instructions:.2g} % of the instructions of a block "
             "were simulated"]  # fmt: skip
    if few < blocks:
        more = [course.up_to(few + resident) for course in (courses[0], courses[-1])]  # the middle one says the same
        longer = _on_line(more[0], more[-1], (few + resident) * each)
        made = _line(made, longer, (blocks - few) / resident)
        notes.append(f"blocks extrapolated: {few + resident} of {blocks} were simulated")
        runs += more
    unseen = _reached(code) - _reached(lengths[-1])
    return _measured(made, runs, 1.0 if unseen else apart, sum(course.simulated for course in courses), notes)


def _reached(code: Code) -> set[str]:
    """Return the instructions that any warp comes to, by their text: those of counts are alike."""
    runs = {run for way in code.ways for sequence, _ in way.segments for run in sequence}
    return {code.steps[i].label for first, stop in runs for i in range(first, stop)}


def _measured(made: Run, runs: Sequence[Run], apart: float, simulated: int, notes: list[str]) -> Measured:
    """Return the answer; of the time behind the longest run so large a share, and `LEAST`, may be wrong."""
    error = (made.end_cycle - max(r.end_cycle for r in runs)) * min(1.0, LEAST + apart)
    return Measured(made.end_cycle, error, simulated, made.dram_bytes / made.end_cycle, made, notes)


def _apart(runs: Sequence[Run]) -> float:
    """Return by how much the steps from the first run to the second and to the third differ, over the larger one."""
    first, middle, last = runs
    slopes = [(b.end_cycle - a.end_cycle) / max(1, b.issued - a.issued) for a, b in ((first, middle), (middle, last))]
    return abs(slopes[1] - slopes[0]) / (max(slopes) or 1.0)


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
