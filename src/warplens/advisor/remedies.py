"""Table of the remedies: how each is applied, in one line, and whether it changes the kernel's results."""

from __future__ import annotations

from warplens.advisor import arithmetic, control, memory, parallelism, precision, resources, reuse, tiles
from warplens.advisor.case import Case, Proposal, Remedy

REMEDIES: dict[str, Remedy] = {
    "raise-occupancy": resources.raise_occupancy,
    "lower-occupancy": resources.lower_occupancy,
    "block-size": resources.block_size,
    "more-ilp": parallelism.more_ilp,
    "more-loads-in-flight": parallelism.more_loads_in_flight,
    "more-work-per-thread": parallelism.more_work_per_thread,
    "unroll": parallelism.unroll,
    "coalesce": memory.coalesce,
    "vector-loads": memory.vector_accesses,
    "remove-conflicts": memory.remove_conflicts,
    "keep-in-shared": tiles.keep_in_shared,
    "keep-in-registers": reuse.keep_in_registers,
    "keep-in-constant": reuse.keep_in_constant,
    "asynchronous-copies": reuse.asynchronous_copies,
    "remove-divergence": control.remove_divergence,
    "fewer-barriers": control.fewer_barriers,
    "fast-math": arithmetic.fast_math,
    "avoid-division": arithmetic.avoid_division,
    "lower-precision": precision.lower_precision,
    "tensor-cores": arithmetic.tensor_cores,
    "fewer-instructions": arithmetic.fewer_instructions,
    "avoid-spills": resources.avoid_spills,
    "privatise-atomics": control.privatise_atomics,
    "fill-the-gpu": resources.fill_the_gpu,
    "fix-tail": resources.fix_tail,
    "fuse": memory.fuse,
}

# Remedies that store or compute other numbers; and those that add up in another order, where sums are floats.
_OTHER_NUMBERS = frozenset(("lower-precision", "tensor-cores", "fast-math"))
_OTHER_ORDER = frozenset(("more-ilp", "more-loads-in-flight", "privatise-atomics", "fill-the-gpu"))
_SUMS = frozenset(("FADD", "FFMA", "DADD", "DFMA", "HADD2", "HFMA2", "ATOM", "ATOMG", "RED", "REDG"))

HOW: dict[str, str] = {
    "raise-occupancy": "__launch_bounds__(threads, blocks) for registers; smaller __shared__ tiles",
    "lower-occupancy": "launch fewer blocks; each loops over the work of several (grid-stride loop)",
    "block-size": "change the block in the launch, and the grid with it",
    "more-ilp": "#pragma unroll, with one sum per unrolled iteration; add them after the loop",
    "more-loads-in-flight": "load for several iterations into registers before the first is used",
    "more-work-per-thread": "a smaller grid, and a loop over a few elements in each thread",
    "unroll": "#pragma unroll; loop bounds that the compiler knows (template parameters)",
    "coalesce": "threadIdx.x along the fastest index of the array, or a __shared__ tile",
    "vector-loads": "float4, int4 or __half2 by reinterpret_cast, at addresses aligned to 16 bytes",
    "remove-conflicts": "pad the rows by a word (float tile[32][33]), or swizzle (column ^ row)",
    "keep-in-shared": "load a tile to __shared__ memory, __syncthreads(), and read it from there",
    "keep-in-registers": "a local array of results with constant bounds, inner loops unrolled",
    "keep-in-constant": "__constant__ float a[N], filled by cudaMemcpyToSymbol",
    "asynchronous-copies": "cuda::memcpy_async or __pipeline_memcpy_async into a ring of tiles",
    "remove-divergence": "sort or compact the elements, so that a warp's threads branch alike",
    "fewer-barriers": "__shfl_down_sync within a warp instead of __syncthreads()",
    "fast-math": "-use_fast_math, or __expf, __logf, __fdividef, rsqrtf where it matters",
    "avoid-division": "sizes that are powers of two, or quotient and remainder carried along the loop",
    "lower-precision": "store __half or __nv_bfloat16 (float for double), compute as before",
    "tensor-cores": "nvcuda::wmma or mma.sync with __half or __nv_bfloat16; or cuBLAS, CUTLASS",
    "fewer-instructions": "pointers counted up instead of indices, 32-bit indices, constant strides",
    "avoid-spills": "a higher -maxrregcount or __launch_bounds__; arrays with constant indices only",
    "privatise-atomics": "atomicAdd to __shared__ sums; one atomicAdd per sum to global memory at the end",
    "fill-the-gpu": "split the long loop over more blocks (split-K), and add up their results",
    "fix-tail": "smaller blocks, or as many blocks as fit at once, each looping over the work",
    "fuse": "compute in this kernel what the other one stores for it",
}


def changes_results(name: str, proposal: Proposal, case: Case) -> bool:
    """Return True if a remedy can change results: other numbers, or floating-point sums in another order."""
    if name in _OTHER_NUMBERS:
        return True
    if name not in _OTHER_ORDER and not proposal.reorders_sums:
        return False
    ran = (x for x, n in zip(case.code, case.executed, strict=True) if n and x.opcode in _SUMS)
    return any(set(x.writes) & set(x.reads) if x.kind not in ("load", "store") else "F32" in x.text or "F64" in x.text
               for x in ran)  # fmt: skip
