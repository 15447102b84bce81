"""Remedies for a counted kernel, each an overlay on its workload that our model predicts again.

A remedy reads a `Case` (the workload with its profile, the machine, the prediction) and answers with proposals or a
refusal. A proposal is the changed workload with its assumption; the advisor predicts all of them, ranks the gains and
combines the best. The machine code is never compiled again: a remedy rewrites the traces of warps, the counts and the
launch.

    advise.py       the ranking of all remedies; `tried` applies some
    advice.py       Advice, Advised, and Sim's four benefits
    case.py         Case, Proposal, Refusal, Site: the interface of a remedy
    remedies.py     the table of remedies, how each is written, and which change results
    resources.py    occupancy, block size, grid, tail, spills
    parallelism.py  independent iterations and threads, prefetch, unrolling
    memory.py       coalesced and wide accesses, bank conflicts, fusion
    precision.py    narrower floats
    reuse.py        registers, constant memory, asynchronous copies
    tiles.py        tiles in shared memory
    control.py      divergence, barriers, atomics
    arithmetic.py   fast math, division, tensor cores, address instructions
    dataflow.py     which instructions compute addresses, count loops, depend on data
    rewrite.py      rewriting of warp traces;  schedule.py orders changed code as a compiler would
    overlay.py      workloads with counts, traffic, launch or instructions replaced
    differences.py  what-if, two kernels side by side, and the gate for CI

A new remedy is one function `(Case) -> list[Proposal | Refusal]` in the file of its kind, a line in `REMEDIES` and one
in `HOW` (remedies.py), a row in docs/reference/remedies.md, and a step in
papers/validation/ladders.toml if it was ever timed.
"""

from warplens.advisor.advice import Advice, Advised, Benefits, Location, benefits
from warplens.advisor.advise import HELPS, advise, tried
from warplens.advisor.remedies import REMEDIES

__all__ = ["HELPS", "REMEDIES", "Advice", "Advised", "Benefits", "Location", "advise", "benefits", "tried"]
