"""Constants of the advisor, counted in compiled code of small kernels that are in no ladder. Needs no GPU.

    python -m tests.cuda.remedies.constants

What a tile with a halo costs beside its loads, stores and barriers (tiles.cu): eight shapes of tile and block, three
ways to treat the border, within a loop over planes and once: the difference of the same kernel with and without the
tile. A straight line through them gives the instructions of a warp for each tile, and for each element that its threads
bring. What a further result of a thread takes in registers beside its sum and what it is made of, and how long a loop
nvcc unrolls in full (results.cu).
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

import warplens as wl
from warplens.advisor.dataflow import loops_of
from warplens.program import Options, load_program
from warplens.program.program import Program

SOURCE, RESULTS = (Path(__file__).with_name(name) for name in ("tiles.cu", "results.cu"))
SHAPES = ((134, 1, 128, 1), (264, 1, 256, 1), (18, 18, 16, 16), (34, 10, 32, 8), (36, 12, 32, 8), (20, 20, 16, 16),
          (66, 6, 64, 4), (12, 12, 8, 8))  # fmt: skip  # of the tile, of the block
_GRID, _PLANES = 8, 16


def per_tile(shape: tuple[int, int, int, int], defines: list[str], folder: Path) -> tuple[float, float]:
    """Return the instructions of a warp for one tile: all but loads, stores and barriers, and the loads."""
    wide, high, x, y = shape
    names = [*(f"{n}={v}" for n, v in zip("WHXY", shape, strict=True)), *defines]
    width, height = _GRID * x + wide - x, _GRID * y + high - y
    lines = [f'file = "{SOURCE.as_posix()}"', 'kernel = "tiles"', 'source = "ours"', f"grid = [{_GRID}, {_GRID}]",
             f"block = [{x}, {y}]", f"defines = {names}".replace("'", '"')]  # fmt: skip
    for name, value in (("planes", _PLANES), ("width", width), ("height", height)):
        lines += ["[[arg]]", f'name = "{name}"', 'type = "i32"', f"value = {value}"]
    for name in ("in", "out"):
        lines += ["[[arg]]", f'name = "{name}"', 'type = "f32*"', f"count = {_PLANES * width * height}"]
    file = folder / "tiles.toml"
    file.write_text("\n".join(lines) + "\n")
    workload = wl.count(launch=str(file))
    assert workload.profile is not None
    executed, warps = workload.profile.counts["executed"], _GRID**2 * workload.profile.warps_per_block
    tiles = warps * (1 if "ONCE" in defines else _PLANES)
    moved = {"LDG": 0.0, "STS": 0.0}
    for i, instruction in enumerate(workload.code):
        if instruction.opcode in moved:
            moved[instruction.opcode] += executed[i] / tiles
    return sum(executed) / tiles - sum(moved.values()), moved["LDG"]


def costs(*, once: bool, shapes: tuple[tuple[int, int, int, int], ...] = SHAPES) -> tuple[float, float, float]:
    """Return the instructions for each tile and for each load, and the loads beyond the elements of a thread."""
    loads, other, beyond, way = list[float](), list[float](), list[float](), ["ONCE"] if once else []
    with tempfile.TemporaryDirectory() as name:
        for shape in shapes:
            without, _ = per_tile(shape, way, Path(name))
            for border in (1, 2, 3):
                with_tile, brought = per_tile(shape, [*way, f"FETCH={border}"], Path(name))
                loads.append(brought)
                other.append(with_tile - without)
                beyond.append(brought - shape[0] * shape[1] / (shape[2] * shape[3]))
    slope, start = np.polyfit(loads, other, 1)
    return float(start), float(slope), float(np.mean(beyond))


def temporaries() -> float:
    """Return the registers that a further result takes beside its sum and its terms' own: of two to four."""
    own = {"pull1": 2, "pull2": 3, "pull3": 4}  # the sum, and the coordinates that a term asks for
    taken = {n: [_program(n, f"RESULTS={r}").resources.registers for r in (1, 4)] for n in own}
    return float(np.mean([(four - one) / 3 - own[name] for name, (one, four) in taken.items()]))


def longest_unrolled(lengths: tuple[int, ...] = (16, 32, 64, 128)) -> int:
    """Return the turns of the longest loops over a tile that vanish: only the one around them is left."""
    return min(
        max(n for n in lengths if len(loops_of(_program(name, f"TURNS={n}").instructions)) == 1)
        for name in ("along1", "along2", "along3")
    )


def _program(kernel: str, define: str) -> Program:
    return load_program(RESULTS, kernel, Options(arch="sm_90", defines=[define]))


def side_cost(shapes: tuple[tuple[int, int, int, int], ...] = SHAPES) -> float:
    """Return the same where a thread brings its own element and those at edges more: the instructions for each side."""
    sides, other = list[int](), list[float]()
    with tempfile.TemporaryDirectory() as name:
        for shape in shapes:
            without, _ = per_tile(shape, ["ONCE"], Path(name))
            for border in (4, 5):
                sides.append(2 if shape[1] == 1 else 4)
                other.append(per_tile(shape, ["ONCE", f"FETCH={border}"], Path(name))[0] - without)
    return float(np.dot(sides, other) / np.dot(sides, sides))


if __name__ == "__main__":
    print(f"registers of a further result: {temporaries():.1f}; turns unrolled in full: {longest_unrolled()}")
    print(f"by edges: {side_cost():.1f} for each side")
    for label, once in (("in a loop", False), ("once", True)):
        tile, element, partly = costs(once=once)
        print(f"{label}: {tile:.1f} for each tile, {element:.1f} for each element of a thread; {partly:.2f} loads more")
