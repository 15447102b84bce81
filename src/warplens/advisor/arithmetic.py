"""Remedies for arithmetic: fast math, no integer division, tensor cores, fewer instructions beside the work itself."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache

from msgspec.structs import replace

from warplens.advisor.case import Answer, Case, Proposal, Refusal
from warplens.advisor.dataflow import control_flow
from warplens.advisor.overlay import scaled_traffic, with_counts, with_instructions
from warplens.advisor.rewrite import Run, Trace, all_but, as_written, dropped, joined_iterations, with_segments, without
from warplens.advisor.schedule import Scheduler
from warplens.program.instruction import Instruction
from warplens.workload.profile import Segment
from warplens.workload.workload import Workload

# Instructions of exact functions beside the approximation of the special-function unit, by their own constants.
_EXACT = re.compile(
    r"FCHK|FFMA\.SAT .*0\.5$|FFMA\.RM .*12582913|FADD.*-12583039|SHF\.L\.U32 .*0x17, RZ|1\.92596303|"  # quotient; exp
    r"0x1800000|LOP3.*0x7f800000|0x1ffffff|-0xd000000|0x727fffff|"  # reciprocal; square root
    r"1\.17549435|FMUL.*8388608|-0x3f2aaaab|LOP3.*0xff800000|FSEL .*-23|I2FP\.F32\.S32|1\.1920928|0\.693147182|"  # log
    r"0\.14084610|-0\.12148627|0\.13980610|-0\.16684235|0\.20012299|-0\.24999669|0\.33333182"
)
_REFINED = {"RCP": 5, "RSQ": 4, "SQRT": 4}  # multiply-adds that refine a result, the last of which stays
_ITERATIONS = 8  # of a loop, from which it matters where an iteration begins
_RUNS = 64  # straight runs of an iteration, from which it is left in its order
_NEAR = 14  # instructions within which a result is refined
_FLOPS_MATRIX, _FLOPS_FMA = 4096, 64  # of one HMMA.16816 and one FFMA of a warp
_TILES = 4  # loaded at a time: operands are small, and the loop is soon done
_OPERAND_BYTES = 192  # of fragments per HMMA, with 4 x 4 of them kept in registers


def fast_math(case: Case) -> Answer:
    """Leave division, square root, exponential and logarithm to the special-function unit alone.

    Applies where: exact division, reciprocal, root, exponential, logarithm.
    Overlay: only the special-function part stays; results change.
    """
    extra = {i for i in exact_instructions(case.code) if case.executed[i]}
    share = case.share(extra)
    if not extra:
        return Refusal("it has no exact division, root, exponential or logarithm")
    return Proposal(
        title=f"fast math: {share:.0%} of the instructions make results exact",
        workload=_approximate(case, extra),
        assumption="results may be off in their last bits (--use_fast_math, __expf, __fdividef, rsqrtf)",
        where=case.locations(extra),
        changes={"dropped": sorted(extra)},
        no_help="arithmetic does not limit",
    )


def _approximate(case: Case, extra: set[int]) -> Workload:
    """Drop what makes results exact; code that branches to the slow paths separated is ordered anew."""
    roots = {i: _product(case.code[i]) for i in _reciprocal_roots(case.code, extra)}
    code = [roots.get(i, x) for i, x in enumerate(case.code)]
    scheduler = Scheduler(code, case.machine)
    bare = cache(lambda run: without(run, extra, code))

    @cache
    def ordered(runs: tuple[Run, ...], loops: bool) -> tuple[Run, Run, list[Run]]:
        """Return the end and the beginning of an iteration, and the whole of it in a compiler's order."""
        straight = without(tuple(c for run in runs for c in run), extra, code)
        origins = [code[c.origin] for c in straight]
        back = [k for k, x in enumerate(origins) if x.target is not None and x.target < x.offset]
        split = back[-1] + 1 if loops and back and back[-1] + 1 < len(straight) else 0  # written from its middle on
        end, rest = straight[:split], straight[split:]
        return end, rest, scheduler.ordered(rest + end)

    def change(s: Segment) -> Trace:
        runs = as_written(s)
        if len(runs) > _RUNS or not any(c.origin in extra for run in runs for c in run):
            return [([bare(run) for run in runs], s.times)]
        end, rest, whole = ordered(tuple(runs), s.times >= _ITERATIONS)
        return [([end], 1), (whole, s.times - bool(end)), ([rest], int(bool(end)))]

    return with_segments(with_instructions(case.workload, roots), change)


def _reciprocal_roots(code: Sequence[Instruction], extra: set[int]) -> set[int]:
    """Return the reciprocals of square roots: the special-function unit has them before the root."""
    root, found = set[str](), set[int]()
    for i, x in enumerate(code):
        if x.opcode == "MUFU" and "RSQ" in x.modifiers:
            root |= set(x.writes)
        elif x.opcode == "MUFU" and "RCP" in x.modifiers and set(x.reads) & root:
            found.add(i)
        elif root & set(x.reads) and x.kind == "fp32" and (i in extra or i - 1 in extra):
            root |= set(x.writes)
        else:
            root -= set(x.writes)
    return found


def _product(x: Instruction) -> Instruction:
    """Return a multiplication in place of an instruction: small arguments of the root are scaled."""
    control = None if x.control is None else replace(x.control, write_scoreboard=None, stall=4)
    return replace(x, opcode="FMUL", kind="fp32", modifiers=(), control=control, text=f"FMUL for {x.text}")


def exact_instructions(code: Sequence[Instruction]) -> set[int]:
    """Return the instructions of exact functions beyond the special-function unit."""
    found = {i for i, x in enumerate(code) if _EXACT.search(x.text)}
    for i, x in enumerate(code):
        if x.opcode == "MUFU" and x.modifiers and x.modifiers[0] in _REFINED:
            found |= _refinement(code, i, found)
    guards = {r for i in found for r in code[i].writes if r.startswith("P")}
    for i, x in enumerate(code):  # branches around the slow path, and reconvergence behind it
        near = {r for j in range(max(0, i - _NEAR), i) if j in found for r in code[j].writes}
        if x.opcode == "BRA" and x.guard.lstrip("@!") in guards & near:
            found.add(i)
            found |= {j for j in range(max(0, i - 24), min(len(code), i + 24)) if code[j].opcode in ("BSSY", "BSYNC")}
    return found


def _refinement(code: Sequence[Instruction], at: int, known: set[int]) -> set[int]:
    """Return the multiply-adds that refine a result of the special-function unit."""
    kind = code[at].modifiers[0]
    near = range(max(0, at - _NEAR), min(len(code), at + _NEAR))
    if not any(i in known for i in near):
        return set()
    derived, chain = set(code[at].writes), list[int]()
    for i in range(at + 1, min(len(code), at + _NEAR)):
        x = code[i]
        if x.opcode in ("FFMA", "FADD", "FMUL") and derived & set(x.reads):
            derived |= set(x.writes)
            chain.append(i)
        if len(chain) == _REFINED[kind]:
            break
    exact = [i for i in chain if code[i].opcode == "FFMA" or "FTZ" in code[i].modifiers]
    return set(exact[:-1])


def avoid_division(case: Case) -> Answer:
    """Replace integer division and remainder by masks and shifts, or move them out of loops.

    Applies where: integer division by a variable.
    Overlay: all but two instructions go.
    """
    found = set[int]()
    for i, x in enumerate(case.code):
        if x.opcode == "I2F" and "RP" in x.modifiers and case.executed[i]:
            first, stop = max(0, i - 6), min(len(case.code), i + 24)
            sequence = [
                j for j in range(first, stop)
                if case.code[j].line == x.line and case.code[j].kind in ("int", "imul", "convert", "sfu", "half")
            ]  # fmt: skip
            found |= set(sequence[:-2])  # a mask and the use of the result stay
    if not found:
        return Refusal("it has no integer division by a variable")
    share = case.share(found)
    return Proposal(
        title=f"no integer division: {share:.0%} of the instructions divide or take remainders",
        workload=dropped(case.workload, found),
        assumption="the divisor is a power of two, or the quotient follows from the iteration before",
        where=case.locations(found),
        changes={"dropped": sorted(found)},
        no_help="arithmetic does not limit",
    )


def fewer_instructions(case: Case) -> Answer:
    """Leave out the instructions that only compute addresses and conditions: an upper bound.

    Applies where: addresses and conditions are 5 % of the instructions or more.
    Overlay: they go: an upper bound.
    """
    extra = {
        i for i in case.addresses & (case.in_loops or {*range(len(case.code))})
        if case.code[i].kind not in ("exit", "barrier")
    }  # fmt: skip
    extra -= case.from_data | case.waits  # a search, an index that is loaded: the work itself
    share = case.share(extra)
    if share < 0.05:
        return Refusal(f"addresses and conditions take {share:.0%} of the instructions")
    return Proposal(
        title=f"at best, without addresses and conditions: {share:.0%} of the instructions",
        workload=dropped(case.workload, extra),
        assumption="an upper bound: every address becomes an offset that the compiler knows",
        where=case.locations(extra),
        changes={"dropped": sorted(extra)},
        joins=frozenset(("overhead",)),  # at best what unrolling buys
        no_help="the instructions that would go cost little",
    )


def tensor_cores(case: Case) -> Answer:
    """Multiply matrices on tensor cores, in half precision with sums in single precision.

    Applies where: loops of multiply-adds with operands from shared memory.
    Overlay: one HMMA for 64 FFMA, half the bytes; results change.
    """
    if any(x.kind == "tensor" for x in case.ran):
        return Refusal("it uses tensor cores")
    fused = {i for i in case.in_loops if case.code[i].opcode == "FFMA" and case.executed[i]}
    loads = {s.index: s for s in case.shared_sites if s.instruction.opcode == "LDS" and s.index in case.in_loops}
    share = case.share(fused)
    if share < 0.3 or not loads:
        return Refusal("it is no product of matrices by multiply-adds from shared memory")
    every = _FLOPS_MATRIX // _FLOPS_FMA
    flops = _FLOPS_FMA * sum(case.executed[i] for i in fused)
    fewer = min(1.0, (_OPERAND_BYTES / _FLOPS_MATRIX) / (sum(s.useful_bytes for s in loads.values()) / flops))
    names = ("useful_bytes", "sectors", "lines", "wavefronts", "l2_sectors", "l2_hit_sectors", "l1_hit_sectors")
    work = with_instructions(case.workload, {i: _matrix(case.code[i]) for i in fused})
    work = with_counts(work, {s.index: {n: 0.5 * getattr(s, n) for n in names} for s in case.loads})
    thin = _thinned(work, {**dict.fromkeys(fused, 1 / every), **dict.fromkeys(loads, fewer)})
    joined = joined_iterations(thin, _TILES, all_but(control_flow(thin.code), _TILES), lambda segment: True)
    return Proposal(
        title=f"tensor cores (FP16 or BF16 operands, FP32 sums): {share:.0%} of instructions",
        workload=scaled_traffic(joined, 0.5, 1.0),
        assumption="16-bit operands are precise enough (TF32 keeps the range of FP32 at half their rate); "
        "fragments are kept for 4 x 4 products",
        where=case.locations(fused),
        changes={"instruction": "HMMA.16816.F32"},
        no_help="multiply-adds do not limit",
    )


def _matrix(x: Instruction) -> Instruction:
    return replace(x, opcode="HMMA", kind="tensor", modifiers=("16816", "F32"), text=f"HMMA.16816.F32 for {x.text}")


def _thinned(workload: Workload, shares: Mapping[int, float]) -> Workload:
    """Keep a share of some instructions, spread evenly over groups of iterations that are long enough for that."""
    least = min(shares.values())

    def thin(runs: Sequence[Run]) -> list[Run]:
        done, thinned = dict.fromkeys({1.0, *shares.values()}, 0.0), list[Run]()
        for run in runs:
            kept = []
            for c in run:
                share = shares.get(c.origin, 1.0)
                before = int(done[share] + 1e-9)
                done[share] += share
                if int(done[share] + 1e-9) > before:
                    kept.append(c)
            thinned.append(tuple(kept))
        return thinned

    def change(s: Segment) -> Trace:
        runs = as_written(s)
        some = sum(c.origin in shares and shares[c.origin] == least for run in runs for c in run)
        group = min(s.times, max(1, round(1 / least / some))) if some else 1
        return [(thin(runs * group), s.times // group), (thin(runs), s.times % group)]

    return with_segments(workload, change)
