"""How many elements the launches under examples/today need: of each output, and of what is indexed by contents."""

from __future__ import annotations

from collections.abc import Callable

from warplens.workload.launch import KernelCall

Size = Callable[[KernelCall], int]


def value(call: KernelCall, name: str) -> int:
    """Return a whole number among the arguments."""
    found = next(a.value for a in call.arguments if a.name == name)
    assert isinstance(found, int)
    return found


def count(call: KernelCall, name: str) -> int:
    """Return how many elements an array has."""
    found = next(a.count for a in call.arguments if a.name == name)
    assert found is not None
    return found


def threads(call: KernelCall) -> int:
    """Return the threads of the grid."""
    return call.blocks * call.threads_per_block


def _blocks(call: KernelCall) -> int:
    return call.blocks


def _one(call: KernelCall) -> int:
    return 1


def _defined(call: KernelCall, name: str, default: int) -> int:
    return next((int(d.partition("=")[2]) for d in call.defines if d.startswith(f"{name}=")), default)


def _times(factor: int, of: Size | str) -> Size:
    return lambda c: factor * (value(c, of) if isinstance(of, str) else of(c))


def _area(call: KernelCall) -> int:
    return value(call, "width") * value(call, "height")


def _filters(call: KernelCall) -> int:
    per_block = 1 if call.kernel == "conv2d_direct" else _defined(call, "FILTERS", 8)
    return (value(call, "width") - 2) * (value(call, "height") - 2) * call.grid_shape[2] * per_block


def _keys(call: KernelCall) -> int:
    return 256 * _defined(call, "ROUNDS", 8) * call.blocks


# By launch file: the elements that the kernel writes, from grid and scalars; of several outputs, by their names.
OUTPUTS: dict[str, Size | dict[str, Size]] = {
    **dict.fromkeys(
        ("stencil2d_naive", "stencil2d_tiled", "resize", "mandelbrot", "transpose_naive", "transpose_tiled",
         "transpose_padded", "transpose_vector"), _area
    ),
    **dict.fromkeys(("stencil3d_naive", "stencil3d_tiled"), lambda c: _area(c) * value(c, "depth")),
    "jacobi": {"out": _area, "out_change": _blocks},
    **dict.fromkeys(("conv2d_direct", "conv2d_tiled"), _filters),
    **dict.fromkeys(
        ("sgemm_tiled", "sgemm_blocked", "hgemm_mma", "hgemm_async"), lambda c: value(c, "m") * value(c, "n")
    ),
    "gemv_int8": _times(1, "rows"),
    "dot": {"out_ticket": _one, "out_partial": _blocks, "out": _one},
    "axpy_half": _times(8, "n"),
    "scale_half": _times(1, "n"),
    "scale_half8": _times(8, "n"),
    "scale_float4": _times(4, "n"),
    "nbody": _times(4, "n"),
    "inverse": _times(16, "n"),
    "fft_radix4": _times(8, threads),  # four points per thread, of two words
    "fft_radix8": _times(16, threads),
    **dict.fromkeys(("softmax_block", "layer_norm", "rms_norm"), lambda c: c.blocks * value(c, "columns")),
    "softmax_warp": lambda c: value(c, "rows") * _defined(c, "COLUMNS", 512),
    "attention": lambda c: 64 * value(c, "n") * c.grid_shape[1],
    "gelu": _times(4, "n"),
    "embedding_bag": _times(128, "bags"),
    "argmax": {"out": _blocks, "out_value": _blocks},
    "scan": {"out": _times(4, threads), "out_total": _blocks},
    "radix_histogram": _times(256, _blocks),
    "radix_scatter": _keys,
    "bitonic": _times(2, threads),
    "compact": {"out": _times(4, threads), "out_count": _blocks},
    **dict.fromkeys(("hash_probe", "scatter", "tiny", "spill"), _times(1, "n")),
    **dict.fromkeys(("histogram_global", "histogram_private"), lambda c: _defined(c, "BINS", 256)),
    **dict.fromkeys(("spmv_scalar", "spmv_vector"), _times(1, "rows")),
    "gather": _times(2, "n"),
    "philox": lambda c: 4 * threads(c) * _defined(c, "PER_THREAD", 4),
    "monte_carlo_pi": _one,
    **dict.fromkeys(("monte_carlo_option", "tlb_walk", "few_blocks", "long_code"), threads),
}  # fmt: skip

# Arrays of indices, and what they index.
INDICES: dict[str, tuple[str, Size]] = {
    **dict.fromkeys(("spmv_scalar", "spmv_vector"), ("columns", lambda c: count(c, "x"))),
    "embedding_bag": ("indices", lambda c: count(c, "table") // 128),
    "gather": ("order", lambda c: count(c, "table") // 2),
    "scatter": ("order", lambda c: count(c, "out")),
}

# Threads for each element of a scalar, where a kernel takes its elements one after the other.
COVERED: dict[str, tuple[str, int]] = {
    **dict.fromkeys(("axpy_half", "inverse", "gelu", "hash_probe", "gather", "scatter", "tiny", "spill"), ("n", 1)),
    **dict.fromkeys(("scale_half", "scale_half8", "scale_float4"), ("n", 1)),
    "spmv_scalar": ("rows", 1),
    **dict.fromkeys(("spmv_vector", "gemv_int8", "softmax_warp"), ("rows", 32)),
    "embedding_bag": ("bags", 32),
    "nbody": ("n", 1),
}
# Kernels of a plane that check nothing beyond its edges.
PLANES = ["stencil2d_naive", "stencil2d_tiled", "stencil3d_naive", "stencil3d_tiled", "jacobi", "resize", "mandelbrot",
          "transpose_naive"]  # fmt: skip
