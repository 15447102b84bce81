"""Table of the remedies: how each is applied, in one line, and whether it changes the kernel's results."""

from __future__ import annotations

from warplens.advisor import arithmetic, control, memory, parallelism, precision, resources, reuse, tiles
from warplens.advisor.case import Case, Proposal, Remedy

HOW: dict[Remedy, str] = {
    resources.raise_occupancy: "__launch_bounds__(threads, blocks) for registers; smaller __shared__ tiles",
    resources.lower_occupancy: "launch fewer blocks; each loops over the work of several (grid-stride loop)",
    resources.block_size: "change the block in the launch, and the grid with it",
    parallelism.more_ilp: "#pragma unroll, with one sum per unrolled iteration; add them after the loop",
    parallelism.more_loads_in_flight: "load for several iterations into registers before the first is used",
    parallelism.more_work_per_thread: "a smaller grid, and a loop over a few elements in each thread",
    parallelism.unroll: "#pragma unroll; loop bounds that the compiler knows (template parameters)",
    memory.coalesce: "threadIdx.x along the fastest index of the array, or a __shared__ tile",
    memory.vector_loads: "float4, int4 or __half2 by reinterpret_cast, at addresses aligned to 16 bytes",
    memory.remove_conflicts: "pad the rows by a word (float tile[32][33]), or swizzle (column ^ row)",
    tiles.keep_in_shared: "load a tile to __shared__ memory, __syncthreads(), and read it from there",
    reuse.keep_in_registers: "a local array of results with constant bounds, inner loops unrolled",
    reuse.keep_in_constant: "__constant__ float a[N], filled by cudaMemcpyToSymbol",
    reuse.asynchronous_copies: "cuda::memcpy_async or __pipeline_memcpy_async into a ring of tiles",
    control.remove_divergence: "sort or compact the elements, so that a warp's threads branch alike",
    control.fewer_barriers: "__shfl_down_sync within a warp instead of __syncthreads()",
    arithmetic.fast_math: "-use_fast_math, or __expf, __logf, __fdividef, rsqrtf where it matters",
    arithmetic.avoid_division: "sizes that are powers of two, or quotient and remainder carried along the loop",
    precision.lower_precision: "store __half or __nv_bfloat16 (float for double), compute as before",
    arithmetic.tensor_cores: "nvcuda::wmma or mma.sync with __half or __nv_bfloat16; or cuBLAS, CUTLASS",
    arithmetic.fewer_instructions: "pointers counted up instead of indices, 32-bit indices, constant strides",
    resources.avoid_spills: "a higher -maxrregcount or __launch_bounds__; arrays with constant indices only",
    control.privatise_atomics: "atomicAdd to __shared__ sums; one atomicAdd per sum to global memory at the end",
    resources.fill_the_gpu: "split the long loop over more blocks (split-K), and add up their results",
    resources.fix_tail: "smaller blocks, or as many blocks as fit at once, each looping over the work",
    memory.fuse: "compute in this kernel what the other one stores for it",
}
REMEDIES = {remedy.__name__.replace("_", "-"): remedy for remedy in HOW}

# Remedies that store or compute other numbers; and those that add up in another order, where sums are floats.
_OTHER_NUMBERS = frozenset(("lower-precision", "tensor-cores", "fast-math"))
_OTHER_ORDER = frozenset(("more-ilp", "more-loads-in-flight", "privatise-atomics", "fill-the-gpu"))
_SUMS = frozenset(("FADD", "FFMA", "DADD", "DFMA", "HADD2", "HFMA2", "ATOM", "ATOMG", "RED", "REDG"))


def changes_results(name: str, proposal: Proposal, case: Case) -> bool:
    """Return True if a remedy can change results: other numbers, or floating-point sums in another order."""
    if name in _OTHER_NUMBERS:
        return True
    if name not in _OTHER_ORDER and not proposal.reorders_sums:
        return False
    sums = (x for x in case.ran if x.opcode in _SUMS)
    return any(set(x.writes) & set(x.reads) if x.kind not in ("load", "store") else "F32" in x.text or "F64" in x.text
               for x in sums)  # fmt: skip
