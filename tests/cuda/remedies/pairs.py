"""Pairs of kernels, before and after one optimisation by hand: what the remedies of the advisor are compared with."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from msgspec import Struct

import warplens as wl
from tests.cuda.programs import program_of
from warplens.api.counting import counted
from warplens.workload import Workload
from warplens.workload.launch import load_launch

SOURCE, MORE = (Path(__file__).with_name(name) for name in ("pairs.cu", "more.cu"))
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
_ROWS, _COLUMNS, _CELLS, _CUBE = 65536, 512, 2048, 384


class Kernel(Struct, frozen=True):
    """A kernel of pairs.cu and how it is launched."""

    name: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    arguments: tuple[Argument, ...]
    defines: tuple[str, ...] = ()
    source: Path = SOURCE
    dynamic_shared_bytes: int = 0

    def launch_file(self, folder: Path) -> Path:
        """Write its launch file."""
        lines = [
            f'file = "{self.source.as_posix()}"', f'kernel = "{self.name}"', 'source = "ours"',
            f"grid = {list(self.grid)}", f"block = {list(self.block)}",
            f"defines = {[*self.defines]}".replace("'", '"'), f"dynamic_shared_bytes = {self.dynamic_shared_bytes}",
        ]  # fmt: skip
        for name, kind, value, *contents in self.arguments:
            lines += ["", "[[arg]]", f'name = "{name}"', f'type = "{kind}"']
            lines.append(f"{'count' if kind.endswith('*') else 'value'} = {value}")
            lines += [f'fill = "{c}"' for c in contents if c]
        scalars = (str(a[2]) for a in self.arguments if not a[1].endswith("*"))
        parts = (self.name, *self.defines, *map(str, self.grid), *scalars)
        file = folder / f"{re.sub('[^A-Za-z0-9]+', '_', '-'.join(parts))}.toml"
        file.write_text("\n".join(lines) + "\n")
        return file

    def counted(self, folder: Path) -> Workload:
        """Return its counts; its source is compiled once for all kernels in it."""
        call = load_launch(self.launch_file(folder))
        return counted(program_of(call), call, wl.load_machine("h200"))


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


def _rounds(barrier: int) -> Kernel:
    arguments = (("n", "i32", 512), _floats("out", 1056 * 256, ""))
    return Kernel("rounds", (1056,), (256,), arguments, (f"BARRIER={barrier}",))


def _more(kernel: str, grid: tuple[int, ...], block: tuple[int, ...], *arguments: Argument, defines: str = "",
          dynamic: int = 0) -> Kernel:  # fmt: skip
    return Kernel(kernel, grid, block, arguments, tuple(defines.split()), MORE, dynamic)


def _largest(step: int, blocks: int = 0) -> Kernel:
    grid = blocks or _DOTS // 512 // (1 if step == 1 else 2)
    return _more(
        f"largest{step}", (grid,), (512,), ("n", "i32", _DOTS), _floats("x", _DOTS), _floats("out", _DOTS // 512, "")
    )


def _product(kernel: str, tile: int, threads: int, defines: str = "", kind: str = "f32*", n: int = 1024) -> Kernel:
    arrays = tuple((name, kind, n**2, "random") for name in ("a", "b", "c"))
    block = (threads, threads) if kernel != "ab_eight" else (256,)
    return _more(kernel, (n // tile, n // tile), block, ("n", "i32", n), *arrays, defines=defines)


def _turned(kernel: str, down: int, across: int, pad: int = 0, size: int = 4000) -> Kernel:
    arrays = (_floats("in", 2 * size**2), _floats("out", 2 * size**2, ""))
    grid = (-(-size // down), -(-size // across))
    return _more(kernel, grid, (32, 8), ("w", "i32", size), ("h", "i32", size), *arrays, defines=f"PAD={pad}")


def _group(kernel: str, defines: str = "", packed: bool = False) -> Kernel:
    groups = 3000
    points = 2 * 96 * groups
    arrays = (("list", "i32*", 24 * groups, f"random_int(0, {2 * groups})"),
              _floats("p", (4 if packed else 3) * points), _floats("out", points, ""))  # fmt: skip
    return _more(kernel, (groups,), (96,), ("n", "i32", points), ("around", "i32", 24), *arrays, defines=defines)


def _sums(kernel: str) -> Kernel:
    arrays = (("kind", "u8*", _DOTS, "random_int(0, 256)"), _floats("x", _DOTS), _floats("sum", 256, ""))
    return _more(kernel, (_DOTS // 512,), (512,), ("n", "i32", _DOTS), *arrays)


def _words(kernel: str) -> Kernel:
    arrays = (("x", "u32*", _DOTS, "random_int(0, 2147483647)"), ("count", "u32*", 1024, ""))
    return _more(kernel, (1056,), (256,), ("n", "i32", _DOTS), *arrays)


def _unit(kernel: str, first: int, blocks: int, threads: int) -> Kernel:
    arrays = (_floats("in", 32768 * 768), _floats("out", 32768 * 768, ""))
    return _more(kernel, (blocks,), (threads,), ("n", "i32", first), *arrays)


def _wave(kernel: str, planes: int) -> Kernel:
    sizes = tuple((name, "i32", 320) for name in "whd")
    arrays = tuple(_floats(name, 320**3, "random" if name != "out" else "") for name in ("in", "old", "out"))
    return _more(kernel, (10, 40, 320 // planes), (32, 8), *sizes, *arrays)


def _row(kernel: str, filters: int) -> Kernel:
    arrays = (_floats("in", 64 * 16390), _floats("w", 96 * 64 * 7), _floats("out", 96 * 16384, ""))
    return _more(kernel, (128, 96 // filters), (128,), ("planes", "i32", 64), ("n", "i32", 16390), *arrays)


def _axpy(kernel: str, kind: str, per_thread: int, dynamic: int = 0) -> Kernel:
    arrays = ((name, f"{kind}*", _STREAM, "random") for name in "xy")
    return _more(kernel, (_STREAM // 256 // per_thread,), (256,), ("a", kind, 1.5), *arrays, dynamic=dynamic)


def _each(kernel: str, *scalars: Argument, reads: str = "x", defines: str = "", grid: tuple[int, ...] = (),
          per_thread: int = 1) -> Kernel:  # fmt: skip
    arrays = (_floats(name, per_thread * (1 << 22)) for name in reads)
    return _more(kernel, grid or (1 << 14,), (256,), *scalars, *arrays, _floats("y", 1 << 22, ""), defines=defines)


def _alone(kernel: str, *scalars: Argument, kind: str = "f32", defines: str = "") -> Kernel:
    return _more(kernel, (1056,), (256,), *scalars, ("out", f"{kind}*", 1056 * 256, ""), defines=defines)


def _gemv(kernel: str, *scalars: Argument) -> Kernel:
    arrays = (_floats("a", 2048 << 15), _floats("x", 2048), _floats("y", 1 << 15, ""))
    return _more(kernel, (256,), (128,), *scalars, *arrays)


_FAST = "ROOT=rsqrtf"
_QUICK_POWER = "POWER(q)=(rsqrtf(q)*rsqrtf(q)*rsqrtf(q))"
_GROUP, _GROUP_FAST = _group("group_plain"), _group("group_plain", _QUICK_POWER)
_AB, _AB64 = _product("ab_naive", 16, 16), _product("ab_naive", 16, 16, "REAL=double", "f64*")
_AB_TILED, _AB64_TILED = _product("ab_tiled", 16, 16), _product("ab_tiled", 16, 16, "REAL=double", "f64*")
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
    (_box("box_naive"), _box("box_tiled"), ("keep-in-shared",), {"halo": "loop"}),
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
    (_rounds(1), _rounds(0), ("fewer-barriers",), {}),
)  # fmt: skip
WRITTEN_LATER: tuple[Pair, ...] = (
    (_largest(1), _largest(2), ("more-work-per-thread",), {"elements": 2}),
    (_largest(2), _largest(3), ("fewer-barriers",), {}),
    (_largest(3), _largest(4), ("unroll",), {}),
    (_largest(4), _largest(5, 528), ("more-work-per-thread",), {}),
    (_AB, _AB_TILED, ("keep-in-shared",), {}),
    (_AB, _product("ab_tiled", 32, 32, "TILE=32"), ("keep-in-shared",), {}),
    (_AB64, _AB64_TILED, ("keep-in-shared",), {}),
    (_AB_TILED, _product("ab_two", 32, 16), ("keep-in-registers",), {"results_per_thread": 4}),
    (_AB64_TILED, _product("ab_two", 32, 16, "REAL=double", "f64*"), ("keep-in-registers",), {"results_per_thread": 4}),
    (_product("ab_tiled", 16, 16, n=2048), _product("ab_eight", 128, 16, n=2048),
     ("keep-in-registers",), {"results_per_thread": 64}),
    (_product("ab_side", 8, 8, "TILE=8"), _product("ab_tiled", 8, 8, "TILE=8"), ("remove-conflicts",), {}),
    (_product("ab_side", 32, 32, "TILE=32"), _product("ab_tiled", 32, 32, "TILE=32"), ("remove-conflicts",), {}),
    (_turned("turn2_naive", 32, 8), _turned("turn2_tiled", 32, 32, 1),
     ("coalesce", "more-work-per-thread"), {"threads": 0.25}),
    (_turned("turn2_tiled", 32, 32), _turned("turn2_tiled", 32, 32, 1), ("remove-conflicts",), {}),
    (_turned("turn2_tiled", 32, 32, 0, 1000), _turned("turn2_tiled", 32, 32, 1, 1000), ("remove-conflicts",), {}),
    (_GROUP, _group("group_shared"), ("keep-in-shared",), {}),
    (_GROUP, _group("group_ahead"), ("more-loads-in-flight",), {"prefetch": True}),
    (_GROUP, _group("group_two"), ("keep-in-registers",), {"results_per_thread": 2}),
    (_GROUP, _GROUP_FAST, ("fast-math",), {}),
    (_GROUP, _group("group_packed", packed=True), ("vector-loads",), {}),
    (_GROUP_FAST, _group("group_two", _QUICK_POWER), ("keep-in-registers",), {"results_per_thread": 2}),
    (_GROUP_FAST, _group("group_shared", _QUICK_POWER), ("keep-in-shared",), {}),
    (_sums("sums_global"), _sums("sums_private"), ("privatise-atomics",), {}),
    (_words("words_global"), _words("words_private"), ("privatise-atomics",), {}),
    (_unit("unit_block", 768, 32768, 256), _unit("unit_warp", 32768, 8192, 128),
     ("keep-in-registers", "vector-loads", "fewer-barriers"), {}),
    (_wave("wave_naive", 1), _wave("wave_tiled", 8), ("keep-in-shared",), {}),
    (_row("row_one", 1), _row("row_eight", 8), ("keep-in-registers", "keep-in-shared"), {"results_per_thread": 8}),
    (_axpy("axpy64", "f64", 2), _axpy("axpy32", "f32", 4), ("lower-precision",), {}),
    (_axpy("axpy_one", "f32", 1), _axpy("axpy32", "f32", 4), ("vector-loads",), {}),
    (_axpy("axpy_hog", "f32", 4, 96 << 10), _axpy("axpy32", "f32", 4), ("raise-occupancy",), {}),
    (_each("logistic", ("n", "i32", 256), ("r", "f32", 3.7)),
     _each("logistic", ("n", "i32", 256), ("r", "f32", 3.7), defines="STEPS=8"), ("unroll",), {}),
    (_each("horner", ("n", "i32", 48), reads="cx"), _each("horner", ("n", "i32", 48), reads="cx", defines="CONSTANT"),
     ("keep-in-constant",), {}),
    (_each("decay", ("rate", "f32", 0.3), reads="ta"), _each("decay", ("rate", "f32", 0.3), reads="ta", defines="FAST"),
     ("fast-math",), {}),
    (_each("shear", ("width", "i32", 2048)), _each("shear", ("width", "i32", 2048), defines="PLANE", grid=(8, 2048)),
     ("avoid-division",), {}),
    (_alone("relay", ("n", "i32", 400), defines="BARRIER"), _alone("relay", ("n", "i32", 400)),
     ("fewer-barriers",), {}),
    (_each("halves", ("n", "i32", 20)), _each("halves", ("n", "i32", 20), defines="TOGETHER"),
     ("remove-divergence",), {}),
    (_alone("chains", ("n", "i32", 1024), ("a", "f64", 0.5), ("b", "f64", 1.0), kind="f64"),
     _alone("chains", ("n", "i32", 1024), ("a", "f64", 0.5), ("b", "f64", 1.0), kind="f64", defines="CHAINS=4"),
     ("more-ilp",), {"turns": 4}),
    (_gemv("gemv_rows", ("n", "i32", 2048)), _gemv("gemv_columns", ("rows", "i32", 1 << 15), ("n", "i32", 2048)),
     ("coalesce",), {}),
    (_each("field", ("n", "i32", 0), per_thread=4), _each("field", ("n", "i32", 0), per_thread=4, defines="APART"),
     ("coalesce",), {}),
)  # fmt: skip
