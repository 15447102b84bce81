"""Pairs of kernels, before and after one optimisation by hand: what the remedies of the advisor are compared with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec import Struct

SOURCE = Path(__file__).with_name("pairs.cu")
Argument = tuple[str, str, float] | tuple[str, str, int, str]  # name, type, value or count and contents
_SIDE, _PLANE, _STREAM, _DOTS, _POINTS, _WIDE, _BOX, _BYTES = (
    1536,
    6144,
    1 << 25,
    1 << 24,
    1 << 15,
    1 << 24,
    4096,
    1 << 26,
)
_ROWS, _COLUMNS, _CELLS, _SPARSE, _CUBE = 65536, 512, 2048, 1 << 18, 384


class Kernel(Struct, frozen=True):
    """A kernel of pairs.cu and how it is launched."""

    name: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    arguments: tuple[Argument, ...]
    defines: tuple[str, ...] = ()

    def launch_file(self, folder: Path) -> Path:
        """Write its launch file."""
        lines = [
            f'file = "{SOURCE.as_posix()}"', f'kernel = "{self.name}"', 'source = "ours"',
            f"grid = {list(self.grid)}", f"block = {list(self.block)}",
            f"defines = {[*self.defines]}".replace("'", '"'),
        ]  # fmt: skip
        for name, kind, value, *contents in self.arguments:
            lines += ["", "[[arg]]", f'name = "{name}"', f'type = "{kind}"']
            lines.append(f"{'count' if kind.endswith('*') else 'value'} = {value}")
            lines += [f'fill = "{c}"' for c in contents if c]
        file = folder / f"{self.name}_{'_'.join(self.defines).replace('=', '')}.toml"
        file.write_text("\n".join(lines) + "\n")
        return file


def _floats(name: str, count: int, contents: str = "random") -> Argument:
    return name, "f32*", count, contents


def _matrices(kernel: str, tile: int, block: tuple[int, ...], *defines: str, high: int = 0) -> Kernel:
    square = _SIDE**2
    arguments = (("n", "i32", _SIDE), _floats("a", square), _floats("b", square), _floats("c", square, ""))
    return Kernel(kernel, (_SIDE // tile, _SIDE // (high or tile)), block, arguments, defines)


def _plane(kernel: str, rows: int, pad: int = 0) -> Kernel:
    arguments = (("n", "i32", _PLANE), _floats("in", _PLANE**2), _floats("out", _PLANE**2, ""))
    return Kernel(kernel, (_PLANE // 32, _PLANE // rows), (32, 8), arguments, (f"PAD={pad}",))


def _rows(kernel: str, rows_per_block: int) -> Kernel:
    arguments = (("rows", "i32", _ROWS), ("columns", "i32", _COLUMNS),
                 _floats("in", _ROWS * _COLUMNS), _floats("out", _ROWS, ""))  # fmt: skip
    return Kernel(kernel, (_ROWS // rows_per_block,), (128,), arguments)


def _dot(kernel: str, blocks: int) -> Kernel:
    arguments = (("n", "i32", _DOTS), _floats("a", _DOTS), _floats("b", _DOTS), _floats("o", _DOTS // 256, ""))
    return Kernel(kernel, (blocks,), (256,), arguments)


def _points(kernel: str, per_block: int, *defines: str, packed: bool = False) -> Kernel:
    apart = (_floats("x", _POINTS), _floats("y", _POINTS), _floats("w", _POINTS))
    arguments = (
        ("n", "i32", _POINTS),
        *((_floats("p", 4 * _POINTS),) if packed else apart),
        _floats("out", _POINTS, ""),
    )
    return Kernel(kernel, (_POINTS // per_block,), (128,), arguments, defines)


def _cells(kernel: str, threads: int, *defines: str) -> Kernel:
    points = 128 * _CELLS
    arguments = (("points", "i32", points), ("around", "i32*", 18 * _CELLS, f"random_int(0, {_CELLS})"),
                 _floats("p", 4 * points), _floats("out", points, ""))  # fmt: skip
    return Kernel(kernel, (_CELLS,), (threads,), arguments, defines)


def _filters(kernel: str, filters: int) -> Kernel:
    arguments = (("planes", "i32", 24), ("n", "i32", 196), _floats("in", 24 * 196**2),
                 _floats("w", 48 * 24 * 25), _floats("out", 48 * 192**2, ""))  # fmt: skip
    return Kernel(kernel, (6, 24, 48 // filters), (32, 8), arguments)


def _box(kernel: str) -> Kernel:
    square = (_BOX + 2) ** 2
    arguments = (("n", "i32", _BOX + 2), _floats("in", square), _floats("out", square, ""))
    return Kernel(kernel, (_BOX // 32, _BOX // 8), (32, 8), arguments)


def _wide(kernel: str) -> Kernel:
    arguments = (("n", "i32", _WIDE + 8), _floats("in", _WIDE + 8), _floats("out", _WIDE + 8, ""))
    return Kernel(kernel, (_WIDE // 256,), (256,), arguments)


def _heat(kernel: str) -> Kernel:
    arguments = (("n", "i32", _CUBE), _floats("in", _CUBE**3), _floats("out", _CUBE**3, ""))
    return Kernel(kernel, (_CUBE // 32, _CUBE // 8, _CUBE), (32, 8), arguments)


def _triad(kernel: str, per_thread: int) -> Kernel:
    arguments = (("s", "f32", 1.5), _floats("b", _STREAM), _floats("c", _STREAM), _floats("a", _STREAM, ""))
    return Kernel(kernel, (_STREAM // 256 // per_thread,), (256,), arguments)


def _bytes(kernel: str, per_thread: int, times: int = 1) -> Kernel:
    arguments = (("b", "u8*", times * _BYTES, "random"), ("a", "u8*", times * _BYTES, ""))
    return Kernel(kernel, (times * _BYTES // 256 // per_thread,), (256,), arguments)


def _norm(kernel: str, blocks: int) -> Kernel:
    return Kernel(kernel, (blocks,), (128,), (_floats("in", 1 << 25), _floats("out", 1 << 25, "")))


def _counts(kernel: str) -> Kernel:
    return Kernel(kernel, (528,), (256,), (("n", "i32", _DOTS), _floats("x", _DOTS), ("count", "u32*", 512, "")))


def _sparse(kernel: str, rows_per_block: int) -> Kernel:
    entries = 48 * _SPARSE
    arguments = (("rows", "i32", _SPARSE), ("start", "i32*", _SPARSE + 1, "linear(0, 48)"),
                 ("column", "i32*", entries, f"random_int(0, {_SPARSE})"), _floats("value", entries),
                 _floats("x", _SPARSE), _floats("y", _SPARSE, ""))  # fmt: skip
    return Kernel(kernel, (_SPARSE // rows_per_block,), (128,), arguments)


def _rounds(barrier: int) -> Kernel:
    arguments = (("n", "i32", 512), _floats("out", 1056 * 256, ""))
    return Kernel("rounds", (1056,), (256,), arguments, (f"BARRIER={barrier}",))


_FAST = "ROOT=rsqrtf"
_NAIVE, _TILED, _BLOCKED = (
    _matrices("atb_naive", 32, (32, 8), high=8), _matrices("atb_tiled", 16, (16, 16), "TILE=16"),
    _matrices("atb_blocked", 64, (16, 16)),
)  # fmt: skip
_LARGE, _MATRIX = _matrices("atb_tiled", 32, (32, 32), "TILE=32"), _matrices("abt_matrix", 64, (128,))
_PLAIN, _FASTER = _points("pairs_plain", 128), _points("pairs_plain", 128, _FAST)
_CELL, _CELL_FAST = _cells("cell_plain", 128), _cells("cell_plain", 128, _FAST)
Pair = tuple[Kernel, Kernel, tuple[str, ...], dict[str, Any]]
QUICK: tuple[Pair, ...] = (
    (_plane("turn_tiled", 32), _plane("turn_tiled", 32, pad=1), ("remove-conflicts",), {}),
    (_triad("triad", 1), _triad("triad4", 4), ("vector-loads",), {}),
    (_bytes("bytes1", 1), _bytes("bytes16", 16), ("vector-loads",), {}),
    (_box("box_naive"), _box("box_tiled"), ("keep-in-shared",), {}),
)
SLOW: tuple[Pair, ...] = (
    (_dot("dot1", _DOTS // 256), _dot("dot2", _DOTS // 512), ("more-work-per-thread",), {"elements": 2}),
    (_heat("heat_naive"), _heat("heat_tiled"), ("keep-in-shared",), {}),
    (_NAIVE, _TILED, ("keep-in-shared",), {}),
    (_TILED, _BLOCKED, ("keep-in-registers",), {"results_per_thread": 16}),
    (_MATRIX, _matrices("abt_matrix_async", 64, (128,)), ("asynchronous-copies",), {}),
    (_NAIVE, _LARGE, ("keep-in-shared",), {}),
    (_LARGE, _BLOCKED, ("keep-in-registers",), {"results_per_thread": 16}),
    (_BLOCKED, _matrices("atb_async", 64, (16, 16)), ("asynchronous-copies",), {}),
    (_BLOCKED, _MATRIX, ("tensor-cores",), {}),
    (_plane("turn_naive", 8), _plane("turn_tiled", 32, pad=1), ("coalesce", "more-work-per-thread"), {"threads": 0.25}),
    (_plane("turn_tiled", 32, pad=1), _plane("turn_vector", 32), ("vector-loads",), {}),
    (_rows("rows_thread", 128), _rows("rows_warp", 4), ("coalesce",), {}),
    (_bytes("shorts8", 16, times=2), _bytes("bytes16", 16), ("lower-precision",), {}),
    (_dot("dot2", _DOTS // 512), _dot("dot2_last", _DOTS // 512), ("fewer-barriers",), {}),
    (_dot("dot2_last", _DOTS // 512), _dot("dot2_unrolled", _DOTS // 512), ("unroll",), {}),
    (_dot("dot2_unrolled", _DOTS // 512), _dot("dot_many", 1056), ("more-work-per-thread",), {}),
    (_PLAIN, _points("pairs_packed", 128, packed=True), ("vector-loads",), {}),
    (_PLAIN, _points("pairs_shared", 128), ("keep-in-shared",), {}),
    (_PLAIN, _points("pairs_two", 256), ("keep-in-registers",), {"results_per_thread": 2}),
    (_PLAIN, _points("pairs_prefetch", 128), ("more-loads-in-flight",), {"prefetch": True}),
    (_PLAIN, _FASTER, ("fast-math",), {}),
    (_FASTER, _points("pairs_shared", 128, _FAST), ("keep-in-shared",), {}),
    (_FASTER, _points("pairs_two", 256, _FAST), ("keep-in-registers",), {"results_per_thread": 2}),
    (_CELL, _cells("cell_packed", 128), ("vector-loads",), {}),
    (_CELL, _cells("cell_shared", 128), ("keep-in-shared",), {}),
    (_CELL, _cells("cell_two", 64), ("keep-in-registers",), {"results_per_thread": 2}),
    (_CELL, _CELL_FAST, ("fast-math",), {}),
    (_CELL_FAST, _cells("cell_shared", 128, _FAST), ("keep-in-shared",), {}),
    (_CELL_FAST, _cells("cell_two", 64, _FAST), ("keep-in-registers",), {"results_per_thread": 2}),
    (_filters("filter_one", 1), _filters("filter_four", 4), ("keep-in-registers",),
     {"results_per_thread": 4, "sides": 1}),
    (_filters("filter_one", 1), _filters("filter_tiled", 8), ("keep-in-registers", "keep-in-shared"),
     {"results_per_thread": 8}),
    (_wide("wide_naive"), _wide("wide_tiled"), ("keep-in-shared",), {}),
    (_norm("norm_block", 32768), _norm("norm_warp", 8192), ("keep-in-registers", "vector-loads", "fewer-barriers"), {}),
    (_counts("cells_global"), _counts("cells_private"), ("privatise-atomics",), {}),
    (_sparse("csr_thread", 128), _sparse("csr_warp", 4), ("coalesce",), {}),
    (_rounds(1), _rounds(0), ("fewer-barriers",), {}),
)  # fmt: skip
