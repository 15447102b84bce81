"""Remedies for shared memory: no bank conflicts."""

from __future__ import annotations

from warplens.advisor.case import Answer, Case, Proposal, refused
from warplens.advisor.overlay import with_counts

_WORTH = 1.05  # passes over the least from which an access has conflicts


def remove_conflicts(case: Case) -> Answer:
    """Each access in as many passes as its bytes need: pad the array, or lay it out otherwise."""
    name = "remove-conflicts"
    if not case.shared_sites:
        return refused(name, "it uses no shared memory")
    sites = [
        s for s in case.shared_sites
        if s.wavefronts > _WORTH * s.least_wavefronts and not s.instruction.opcode.startswith("ATOM")
    ]  # fmt: skip
    if not sites:
        return refused(name, "its accesses to shared memory have no bank conflicts")
    sites.sort(key=lambda s: s.least_wavefronts - s.wavefronts)
    new = {s.index: {"wavefronts": s.least_wavefronts} for s in sites}
    worst = max(s.wavefronts / s.least_wavefronts for s in sites)
    return [
        Proposal(
            name=name,
            title=f"remove the bank conflicts: up to {worst:.3g} passes where one would do",
            workload=with_counts(case.workload, new),
            assumption="padding or another layout removes all of them, without further instructions",
            where=case.places(s.index for s in sites),
            changes={"wavefronts": {str(i): v["wavefronts"] for i, v in new.items()}},
            no_help="other limits hide the conflicts",
        )
    ]
