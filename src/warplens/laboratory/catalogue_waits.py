"""What is measured of warps that live and wait beside others, as a list of small entries."""

from __future__ import annotations

from warplens.laboratory import lives, plans_lives, plans_waits, waits
from warplens.laboratory.entry import Entry


def lives_of_warps() -> list[Entry]:
    """Short blocks, reads among writes, long code in several warps, pairs of SMs that read the same."""
    shapes = tuple(lives.life(loads, stores) for loads in (1, 2) for stores in (0, 1))
    return [
        Entry("lives.blocks", shapes, plans_lives.block_lives, "latencies of a block's warps, its place taken again",
              {"block_warps": (4, 8, 16, 32)}),
        Entry("lives.turns", tuple(lives.turns(stores) for stores in (0, 1, 2, 4)), plans_lives.turns,
              "latency of loads among stores, by load", {"blocks": (2, 3, 4, 5, 6, 7, 8)}),
        Entry("control.fetch", (lives.fetch(8192),), plans_lives.fetches, "warps at different places of long code",
              weight=0.2),
        Entry("bandwidth.l2.together", (lives.together(),), plans_lives.read_together,
              "pairs of SMs that read the same at once: how much of it L2 is asked for once", weight=0.1),
    ]  # fmt: skip


def waiting() -> list[Entry]:
    """Places before units, barriers beside shared memory, strips that drift apart, code in no cache."""
    meetings = [
        waits.meeting(store, n, barrier) for store in (False, True) for n in waits.ACCESSES for barrier in (False, True)
    ]
    return [
        Entry("wait.queue.sfu", tuple(waits.queue("mufu", n) for n in waits.QUEUED["mufu"]), plans_waits.queues,
              "instructions that wait before the SFUs", weight=0.1),
        Entry("wait.queue.shared", tuple(waits.queue("lds", n) for n in waits.QUEUED["lds"]), plans_waits.queues,
              "instructions that wait before shared memory", weight=0.1),
        Entry("wait.barrier", tuple(meetings), plans_waits.meetings,
              "what a barrier takes of the data path of shared memory", weight=0.1),
        Entry("wait.strips", tuple(waits.strips(w) for w in (16, 32, 64, 256, 1024)), plans_waits.strips,
              "strips of a table, copied: sectors that two blocks or warps fill", {"own_clock": True}, weight=0.5),
        Entry("wait.code", tuple(map(waits.straight, waits.LENGTHS)),
              plans_waits.cold_code, "code that L2 has lost", weight=0.2),
    ]  # fmt: skip
