"""All experiments: what is measured, in the order in which it is done, and what is derived from it."""

from __future__ import annotations

from warplens.laboratory import (  # fmt: skip
    atomics,
    bandwidth,
    block_lifetime,
    chase,
    control,
    granularity,
    in_flight,
    instructions,
    issue,
    launches,
    lemeire,
    loaded_latency,
    published,
    scattered,
    tensor,
    waiting,
)
from warplens.laboratory.plan import Entry
from warplens.laboratory.samples import Step
from warplens.laboratory.source import (  # fmt: skip
    Kernel,
    blocks_kernel,
    fill_kernel,
    moment_kernel,
    scatter_kernel,
    touch_kernel,
    warm_kernel,
)

HELPERS: tuple[Kernel, ...] = (
    fill_kernel(), touch_kernel(), scatter_kernel(), warm_kernel(), blocks_kernel(), moment_kernel(),
)  # fmt: skip


def entries() -> list[Entry]:
    """Return all measurements in the order in which they are done: what matters most comes first."""
    return [
        *instructions.entries(), *issue.entries(), *chase.entries(), *bandwidth.entries(), *scattered.entries(),
        *loaded_latency.streams(), *launches.entries(), *control.entries(), *atomics.entries(), *in_flight.entries(),
        *block_lifetime.entries(), *waiting.entries(), *loaded_latency.mixes(), *tensor.entries(),
        *published.entries(),
    ]  # fmt: skip


# What a journal gives, in the order in which it stands in a machine file.
STEPS: tuple[Step, ...] = (
    instructions.derive_latencies,
    instructions.derive_classes,
    instructions.derive_forwarding,
    instructions.derive_wide_products,
    instructions.derive_shared_memory,
    instructions.derive_shared_atomics,
    instructions.derive_tables,
    tensor.derive_matrices,
    chase.derive_caches,
    chase.derive_tlb,
    loaded_latency.derive_dram_latency,
    loaded_latency.derive_load_table,
    bandwidth.derive_dram,
    bandwidth.derive_caches,
    loaded_latency.derive_contention,
    in_flight.derive_distribution,
    in_flight.derive_departures,
    scattered.derive_random_access,
    granularity.derive_sectors,
    granularity.derive_lines,
    granularity.derive_first_level,
    atomics.derive_atomics,
    control.derive_barriers,
    control.derive_branches,
    launches.derive_replacement,
    launches.derive_tails,
    launches.derive_launches,
    control.derive_code,
    control.derive_constants,
    launches.derive_first_instructions,
    lemeire.derive_operations,
    lemeire.derive_memory,
    lemeire.derive_control,
    issue.derive_slots,
    issue.derive_banks,
    issue.derive_addresses,
    scattered.derive_packets,
    scattered.derive_anywhere,
    atomics.derive_additions,
    scattered.derive_written,
    scattered.derive_residence,
    block_lifetime.derive_blocks,
    block_lifetime.derive_writes,
    control.derive_fetches,
    block_lifetime.derive_pairs,
    waiting.derive_sources,
    waiting.derive_queues,
    waiting.derive_barriers,
    waiting.derive_split_sectors,
    waiting.derive_cold_code,
    published.derive_departures,
    published.derive_gamma,
    published.derive_costs,
)
