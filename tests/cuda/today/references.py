"""The references by the name of the launch file."""

from __future__ import annotations

from tests.cuda.today import Reference, discrete, numeric

_BY_NAME: list[Reference] = [
    numeric.jacobi,
    numeric.resize,
    numeric.mandelbrot,
    numeric.gemv_int8,
    numeric.dot,
    numeric.axpy_half,
    numeric.nbody,
    numeric.inverse,
    numeric.softmax_block,
    numeric.softmax_warp,
    numeric.layer_norm,
    numeric.rms_norm,
    numeric.attention,
    numeric.gelu,
    numeric.embedding_bag,
    numeric.argmax,
    discrete.scan,
    discrete.radix_histogram,
    discrete.radix_scatter,
    discrete.bitonic,
    discrete.compact,
    discrete.hash_probe,
    discrete.gather,
    discrete.scatter,
    discrete.philox,
    discrete.monte_carlo_pi,
    discrete.monte_carlo_option,
    discrete.tlb_walk,
    discrete.few_blocks,
    discrete.tiny,
    discrete.spill,
    discrete.long_code,
]
REFERENCES: dict[str, Reference] = {
    **dict.fromkeys(("stencil2d_naive", "stencil2d_tiled", "stencil3d_naive", "stencil3d_tiled"), numeric.stencil),
    **dict.fromkeys(("conv2d_direct", "conv2d_tiled"), numeric.conv2d),
    **dict.fromkeys(("transpose_naive", "transpose_tiled", "transpose_padded", "transpose_vector"), numeric.transpose),
    **dict.fromkeys(("scale_half", "scale_half8", "scale_float4"), numeric.scale),
    **dict.fromkeys(("sgemm_tiled", "sgemm_blocked"), numeric.sgemm),
    **dict.fromkeys(("hgemm_mma", "hgemm_async"), numeric.hgemm),
    **dict.fromkeys(("histogram_global", "histogram_private"), discrete.histogram),
    **dict.fromkeys(("spmv_scalar", "spmv_vector"), discrete.spmv),
    "fft_radix4": numeric.fft(256),
    "fft_radix8": numeric.fft(512),
    **{made.__name__: made for made in _BY_NAME},
}
