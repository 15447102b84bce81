"""What the kernels of examples/today/grid, dense and neural compute."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.cuda.today import Reference, Values
from warplens.workload.launch import KernelCall

# ---- grid


def stencil(given: Values, call: KernelCall) -> Values:
    """Diffusion on a plane or in space."""
    shape = [given[name] for name in ("depth", "height", "width") if name in given]
    old = given["in"].astype(float).reshape(shape)
    axes = range(len(shape))
    around = sum(np.roll(old, step, axis) for axis in axes for step in (1, -1)) - 2 * len(shape) * old
    inner = tuple(slice(1, -1) for _ in axes)
    new = old.copy()
    new[inner] += given["k"] * around[inner]
    return {"out": new.reshape(-1)}


def jacobi(given: Values, call: KernelCall) -> Values:
    """A step of Poisson's equation, and the largest change of each block."""
    width, height = given["width"], given["height"]
    u, f = given["u"].reshape(height, width), given["f"].reshape(height, width)
    new = u.copy()
    new[1:-1, 1:-1] = 0.25 * (u[1:-1, :-2] + u[1:-1, 2:] + u[:-2, 1:-1] + u[2:, 1:-1] + f[1:-1, 1:-1])
    (gx, gy, _), (bx, by, _) = call.grid_shape, call.block_shape
    change = np.zeros((gy * by, gx * bx))
    change[:height, :width] = np.abs(new - u)
    return {"out": new.reshape(-1), "out_change": change.reshape(gy, by, gx, bx).max((1, 3)).reshape(-1)}


def resize(given: Values, call: KernelCall) -> Values:
    """Bilinear interpolation; the bytes of a pixel are compared one by one."""

    def places(size: int, of: int, scale: float) -> tuple[Any, Any, Any]:
        at = np.maximum((np.arange(size) + 0.5) * scale - 0.5, 0)
        first = np.minimum(at.astype(int), of - 1)
        return first, np.minimum(first + 1, of - 1), at - first

    image = given["in"].view(np.uint8).reshape(given["in_height"], given["in_width"], 4).astype(float)
    left, right, across = places(given["width"], given["in_width"], given["scale_x"])
    top, bottom, down = places(given["height"], given["in_height"], given["scale_y"])
    rows = image[:, left] + across[None, :, None] * (image[:, right] - image[:, left])
    made = rows[top] + down[:, None, None] * (rows[bottom] - rows[top])
    return {"out": np.floor(made + 0.5).reshape(-1)}


def conv2d(given: Values, call: KernelCall) -> Values:
    """Convolution of all channels with each filter."""
    channels, height, width = given["channels"], given["height"], given["width"]
    image = given["in"].astype(float).reshape(channels, height, width)
    weights = given["weights"].astype(float).reshape(-1, channels, 3, 3)
    windows = np.lib.stride_tricks.sliding_window_view(image, (3, 3), (1, 2))
    return {"out": np.einsum("cyxij,fcij->fyx", windows, weights).reshape(-1)}


def mandelbrot(given: Values, call: KernelCall) -> Values:
    """Steps until a point leaves the circle."""
    x, y = np.meshgrid(np.arange(given["width"]), np.arange(given["height"]))
    point = given["left"] + given["step"] * x + 1j * (given["top"] + given["step"] * y)
    z, steps = np.zeros_like(point), np.zeros(point.shape, int)
    for _ in range(given["limit"]):
        inside = np.abs(z) < 2
        z = np.where(inside, z * z + point, z)
        steps += inside
    return {"out": steps.reshape(-1)}


# ---- dense


def transpose(given: Values, call: KernelCall) -> Values:
    """Rows to columns."""
    return {"out": given["in"].reshape(given["height"], given["width"]).T.reshape(-1)}


def sgemm(given: Values, call: KernelCall) -> Values:
    """A product of two matrices, both by rows."""
    a, b = given["a"].astype(float).reshape(given["m"], -1), given["b"].astype(float).reshape(given["k"], -1)
    return {"out": (a @ b).reshape(-1)}


def hgemm(given: Values, call: KernelCall) -> Values:
    """A product of two matrices, the second by columns."""
    a, b = given["a"].astype(float).reshape(given["m"], -1), given["b"].astype(float).reshape(given["n"], -1)
    return {"out": (a @ b.T).reshape(-1)}


def gemv_int8(given: Values, call: KernelCall) -> Values:
    """A matrix times a vector, in whole numbers."""
    return {"out": given["matrix"].astype(int).reshape(given["rows"], -1) @ given["vector"].astype(int)}


def dot(given: Values, call: KernelCall) -> Values:
    """A sum for each block and the sum of all; the ticket is zero again."""
    products = given["x"].astype(float) * given["y"]
    block = np.arange(products.size) // 4 // call.threads_per_block % call.blocks
    partial = np.bincount(block, products, call.blocks)
    return {"out_ticket": np.zeros(1, int), "out_partial": partial, "out": partial.sum(keepdims=True)}


def axpy_half(given: Values, call: KernelCall) -> Values:
    """Rounded once, from the exact value."""
    return {"out": (given["a"] * given["x"].astype(float) + given["y"]).astype(np.float16)}


def scale(given: Values, call: KernelCall) -> Values:
    """Rounded once, from the exact value."""
    return {"out": (given["a"] * given["x"].astype(float)).astype(given["x"].dtype)}


def nbody(given: Values, call: KernelCall) -> Values:
    """Gravity between all pairs."""
    bodies = given["bodies"].astype(float).reshape(-1, 4)
    apart = bodies[None, :, :3] - bodies[:, None, :3]
    pull = bodies[None, :, 3] * ((apart**2).sum(2) + given["softening"]) ** -1.5
    return {"out": np.pad((pull[..., None] * apart).sum(1), ((0, 0), (0, 1))).reshape(-1)}


def inverse(given: Values, call: KernelCall) -> Values:
    """Inverses of what is given plus 4 I."""
    return {"out": np.linalg.inv(given["in"].astype(float).reshape(-1, 4, 4) + 4 * np.eye(4)).reshape(-1)}


def fft(points: int) -> Reference:
    """Return the reference of transforms of so many points."""

    def transforms(given: Values, call: KernelCall) -> Values:
        made = np.fft.fft(given["in"].astype(float).view(complex).reshape(-1, points))
        return {"out": made.reshape(-1).view(float)}

    return transforms


# ---- neural


def _softmax(x: Any) -> Any:
    shares = np.exp(x - x.max(-1, keepdims=True))
    return shares / shares.sum(-1, keepdims=True)


def softmax_block(given: Values, call: KernelCall) -> Values:
    """By rows of `columns`."""
    return {"out": _softmax(given["in"].astype(float).reshape(-1, given["columns"])).reshape(-1)}


def softmax_warp(given: Values, call: KernelCall) -> Values:
    """By rows."""
    return {"out": _softmax(given["in"].astype(float).reshape(given["rows"], -1)).reshape(-1)}


def layer_norm(given: Values, call: KernelCall) -> Values:
    """Mean zero, variance one, then gain and bias."""
    rows = given["in"].astype(float).reshape(-1, given["columns"])
    rows = (rows - rows.mean(1, keepdims=True)) / np.sqrt(rows.var(1, keepdims=True) + given["epsilon"])
    return {"out": (rows * given["gain"] + given["bias"]).reshape(-1)}


def rms_norm(given: Values, call: KernelCall) -> Values:
    """Mean square one, then gain."""
    rows = given["in"].astype(float).reshape(-1, given["columns"])
    rows = rows / np.sqrt((rows**2).mean(1, keepdims=True) + given["epsilon"])
    return {"out": (rows * given["gain"].astype(float)).reshape(-1)}


def attention(given: Values, call: KernelCall) -> Values:
    """Softmax of products of queries and keys, times the values; keys up to the query's own if CAUSAL."""
    n = given["n"]
    q, k, v = (given[name].astype(float).reshape(-1, n, 64) for name in "qkv")
    scores = given["scale"] * q @ k.transpose(0, 2, 1)
    if "CAUSAL" in call.defines:
        scores = np.where(np.tri(n, dtype=bool), scores, -np.inf)
    return {"out": (_softmax(scores) @ v).reshape(-1)}


def gelu(given: Values, call: KernelCall) -> Values:
    """Bias, GELU, residual."""
    x = given["x"].astype(float).reshape(-1, 4 * given["columns"]) + given["bias"]
    made = 0.5 * x * (1 + np.tanh(0.79788456 * (x + 0.044715 * x**3)))
    return {"out": given["residual"] + made.reshape(-1)}


def embedding_bag(given: Values, call: KernelCall) -> Values:
    """The sum of the rows of each bag."""
    table, indices = given["table"].astype(float).reshape(-1, 128), given["indices"].reshape(-1, given["most"])
    rows = [table[at[:length]].sum(0) for at, length in zip(indices, given["lengths"], strict=True)]
    return {"out": np.concatenate(rows)}


def argmax(given: Values, call: KernelCall) -> Values:
    """The first largest of each row."""
    rows = given["in"].reshape(-1, given["columns"])
    return {"out": rows.argmax(1), "out_value": rows.max(1)}
