"""What single instructions do, architecture by architecture: the emulated memory against NumPy.

The kernels are compiled from tests/cuda/kernels; numbers are small, so that all results are exact.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.cuda.programs import programs
from warplens.emulator.emulator import EmulationError, Emulator
from warplens.emulator.layout import EXECUTED, REQUESTS, SECTORS, USEFUL_BYTES, WAVEFRONTS
from warplens.program import Options, load_program
from warplens.workload.launch import parse_launch

pytestmark = [pytest.mark.cuda, pytest.mark.xdist_group("emulator")]
KERNELS = Path(__file__).parent / "kernels"
ROOT = Path(__file__).parents[2]
OLD = ("sm_75",)
AMPERE = ("sm_80", "sm_86", "sm_89")
NEW = ("sm_90", "sm_100", "sm_120")
# Architectures of the same generation have the same instructions here: one of each always, the others with test-all.
SLOW = {"sm_86", "sm_100", "sm_89"}

Array = npt.NDArray[Any]


def on(*architectures: str) -> pytest.MarkDecorator:
    """Run a test for these architectures."""
    marked = [pytest.param(a, marks=pytest.mark.slow) if a in SLOW else a for a in architectures]
    return pytest.mark.parametrize("arch", marked)


def call(stem: str, kernel: str, arch: str, block: int, *arguments: str, grid: int = 1) -> Emulator:
    """Set up a kernel of a file; an argument is `name type count fill`, or `name type value`."""
    made: list[dict[str, Any]] = []
    for text in arguments:
        name, kind, number, *fill = text.split(maxsplit=3)
        if kind.endswith("*"):
            made.append({"name": name, "type": kind, "count": int(number), "fill": fill[0] if fill else "zeros"})
        else:
            made.append({"name": name, "type": kind, "value": number if kind == "bytes" else int(number)})
    launch = parse_launch({"grid": grid, "block": block, "arg": made}, f"{kernel}.toml")
    return Emulator(programs(KERNELS / f"{stem}.cu", Options(arch=arch))[kernel], launch)


def run(emulator: Emulator) -> Emulator:
    """Run all blocks; nothing may be unknown."""
    emulator.run(range(emulator.call.blocks), budget=2_000_000)
    assert emulator.unknown_executed == 0, emulator.code.unknown
    return emulator


def opcodes(emulator: Emulator) -> set[str]:
    """Return the opcodes that ran."""
    ran = emulator.stats[:, EXECUTED] > 0
    return {x.opcode for x, there in zip(emulator.program.instructions, ran, strict=True) if there}


# ---- tensor cores


@pytest.mark.parametrize(
    ("kernel", "kinds", "shape", "by_columns"),
    [
        ("f16_f32", ("f16", "f32"), (16, 16, 16), False),
        ("f16_f16", ("f16", "f16"), (16, 16, 16), True),
        ("s8_s32", ("i8", "i32"), (16, 16, 16), True),
        ("bf16_f32", ("bf16", "f32"), (16, 16, 16), True),
        ("tf32_f32", ("f32", "f32"), (16, 16, 8), True),
        ("f64_f64", ("f64", "f64"), (8, 8, 4), True),
    ],
)
@on(*OLD, *AMPERE, *NEW)
def test_matrix_products(
    arch: str, kernel: str, kinds: tuple[str, str], shape: tuple[int, int, int], by_columns: bool
) -> None:
    """The compiler lays the fragments out, we multiply them: both must mean the same element by each register."""
    if arch == "sm_75" and kernel in ("bf16_f32", "tf32_f32", "f64_f64"):
        pytest.skip("from sm_80 on")
    (m, n, k), (given, total) = shape, kinds
    emulator = call(
        "tensor", kernel, arch, 32, f"a {given}* {m * k} random_int(-8, 9)", f"b {given}* {k * n} random_int(-7, 8)",
        f"c {total}* {m * n} random_int(-5, 6)", f"d {total}* {m * n}",
    )  # fmt: skip
    a, b, c = (_numbers(emulator.array(name), kind) for name, kind in (("a", given), ("b", given), ("c", total)))
    b = b.reshape(n, k).T if by_columns else b.reshape(k, n)
    run(emulator)
    assert opcodes(emulator) & {"HMMA", "IMMA", "DMMA"}
    assert (_numbers(emulator.array("d"), total).reshape(m, n) == a.reshape(m, k) @ b + c.reshape(m, n)).all()


def _numbers(array: Array, kind: str) -> Array:
    if kind == "bf16":
        array = (array.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    return array.astype(np.float64)


@on(*AMPERE, *NEW)
def test_ldmatrix_and_mma(arch: str) -> None:
    emulator = call(
        "tensor", "ldmatrix_mma", arch, 32, "a f16* 256 random_int(-8, 9)", "b f16* 128 random_int(-7, 8)", "d f32* 128"
    )
    a, b = (emulator.array(name).astype(np.float32) for name in "ab")
    run(emulator)
    assert (emulator.array("d").reshape(16, 8) == a.reshape(16, 16) @ b.reshape(16, 8)).all()
    fronts = {
        x.name: int(count)
        for x, count in zip(emulator.program.instructions, emulator.stats[:, WAVEFRONTS], strict=True)
        if x.opcode == "LDSM"
    }
    # rows of A are 32 bytes apart: 8 of them are 2 x 128 bytes, in every other group of four banks; those of B are next
    # to one another
    assert fronts == {"LDSM.16.M88.4": 4 * 2, "LDSM.16.MT88.2": 2 * 1}


@on(*AMPERE, "sm_90")
def test_products_of_bytes_and_bits(arch: str) -> None:
    emulator = call(
        "tensor", "bytes_and_bits", arch, 32, "a u32* 128 random", "b u32* 64 random", "d i32* 128", "e i32* 64"
    )
    a, b = emulator.array("a"), emulator.array("b")
    run(emulator)
    first = np.tile([[1, 2], [3, 4]], (1, 1)).repeat(8, axis=0)  # what C holds: by half of the rows, and even or odd
    wanted = a.view(np.int8).reshape(16, 32).astype(int) @ b.view(np.int8).reshape(8, 32).astype(int).T
    assert (emulator.array("d").reshape(16, 8) == wanted + np.tile(first, (1, 4))).all()
    left = np.unpackbits(np.ascontiguousarray(a.reshape(16, 8)[:8, :4]).view(np.uint8), axis=1).astype(int)
    right = np.unpackbits(np.ascontiguousarray(b.reshape(8, 8)[:, :4]).view(np.uint8), axis=1).astype(int)
    assert (emulator.array("e").reshape(8, 8) == left @ right.T).all()


@on(*OLD, *AMPERE, *NEW)
def test_a_matrix_transposed(arch: str) -> None:
    emulator = call("tensor", "transposed", arch, 32, "in u32* 32 random", "out u32* 32", "stored u32* 32")
    wanted = emulator.array("in").view(np.uint16).reshape(8, 8).T
    run(emulator)
    for name in ("out", "stored"):
        assert (emulator.array(name).view(np.uint16).reshape(8, 8) == wanted).all()


def test_products_of_warp_groups_are_counted_and_unknown() -> None:
    source = Path(__file__).parents[1] / "corpus" / "wgmma_sm90a.cu"
    program = load_program(source, "wgmma_f16_n16", Options(arch="sm_90a"))
    arrays = [("a", "u32*", 2048), ("b", "u32*", 512), ("c", "f32*", 1024)]
    arguments = [{"name": name, "type": kind, "count": count, "fill": "ones"} for name, kind, count in arrays]
    arguments.append({"name": "reps", "type": "i32", "value": 3})
    emulator = Emulator(program, parse_launch({"grid": 1, "block": 128, "arg": arguments}, "wgmma.toml"))
    emulator.run([0])
    products = [x.opcode == "HGMMA" for x in program.instructions]
    assert emulator.stats[products, EXECUTED].sum() == emulator.unknown_executed == 3 * 4  # each of four warps
    assert not emulator.known("c").any()
    assert emulator.known("a").all()


# ---- the module


@on(*OLD, *AMPERE, *NEW)
def test_variables_of_the_module(arch: str) -> None:
    emulator = run(call("module", "variables", arch, 64, "out f32* 128", "count i32* 64"))
    i = np.arange(64)
    table, coefficient = np.arange(1, 9), np.array([0.5, 1.5, 2.5, 3.5])
    assert (emulator.array("out")[:64] == table[i & 7] * coefficient[i & 3] + table[2 + (i & 3)]).all()
    assert (emulator.array("out")[64:] == np.where(i & 1, coefficient[i & 3], table[i & 3])).all()
    assert (emulator.array("count") == 5 + 64 + 63 - i).all()
    emulator.run([0])
    assert (emulator.array("count") == 5 + 2 * 64 + 63 - i).all()  # what a variable holds stays


@on(*OLD, *AMPERE, *NEW)
def test_pointers_to_functions(arch: str) -> None:
    i = np.arange(64)
    emulator = run(call("module", "pointers", arch, 64, "out i32* 64"))
    assert (emulator.array("out") == np.where(i % 3 == 1, i + 7, 3 * i)).all()


@on(*OLD, *AMPERE, *NEW)
def test_functions_of_the_system(arch: str) -> None:
    i = np.arange(64)
    emulator = run(call("module", "system_calls", arch, 64, "out i32* 64", "n i32 64"))
    assert (emulator.array("out") == 2 * i + 4).all()
    with pytest.raises(EmulationError, match=r"thread \(40, 0, 0\).* traps"):
        call("module", "system_calls", arch, 64, "out i32* 64", "n i32 40").run([0])


@on(*OLD, *AMPERE, *NEW)
def test_generic_pointers(arch: str) -> None:
    emulator = run(call("generic", "generic", arch, 32, "out f32* 64", "counts i32* 33"))
    i = np.arange(32)
    odd = i % 2 == 1
    shared = i + 3 * odd
    wanted = np.where(odd, np.arange(8).sum(), np.arange(8).sum() * i) + shared + ((i & 7) * i + 3)
    assert (emulator.array("out")[:32] == wanted + np.where(odd, 1000, 2000)).all()
    assert (emulator.array("out")[32:] == np.where(odd, 0, 3)).all()
    assert (emulator.array("counts") == 16 * 3).all()  # half of the threads each


@on(*OLD, *AMPERE, *NEW)
def test_floats_added_to_shared_memory(arch: str) -> None:
    emulator = run(call("generic", "shared_sum", arch, 64, "out f32* 64"))
    i = np.arange(64)
    assert (emulator.array("out") == [i[i % 4 == k].sum() for k in i & 3]).all()


@on(*OLD, *AMPERE, *NEW)
def test_atomics_of_64_bits_in_shared_memory(arch: str) -> None:
    emulator = run(call("generic", "wide_shared", arch, 64, "out u64* 2"))
    assert emulator.array("out").tolist() == [sum(range(64)) << 35, 63 << 40]


@on(*OLD, "sm_80", "sm_90", "sm_120")
def test_vectors_in_local_memory(arch: str) -> None:
    emulator = run(call("generic", "local_vectors", arch, 32, "in i32* 2 iota", "out f32* 128"))
    i = np.arange(32)
    assert (emulator.array("out").reshape(32, 4) == np.stack([0 * i + 1, 0 * i + 2, 0 * i + 3, i], axis=1)).all()
    local = [x.opcode in ("LDL", "STL") for x in emulator.program.instructions]
    counts = emulator.stats[local][:, [EXECUTED, REQUESTS, USEFUL_BYTES, SECTORS]].sum(axis=0)
    assert counts[2] == 9 * 32 * 16
    assert counts[3] == 9 * 32 * 16 // 32  # all of each sector is used
    assert counts[0] == counts[1]


# ---- asynchronous copies


@on(*AMPERE, *NEW)
def test_copies_in_stages(arch: str) -> None:
    emulator = run(call("copies", "staged", arch, 128, "in f32* 512 iota", "out f32* 512", "tiles i32 4"))
    wanted = 2.0 * np.arange(512).reshape(4, 128)[:, ::-1]
    wanted[3, ::2] = 0  # lane 127 - t is odd
    assert (emulator.array("out").reshape(4, 128) == wanted).all()


@on(*AMPERE, *NEW)
def test_copies_of_a_part_fill_with_zeros(arch: str) -> None:
    emulator = run(call("copies", "cut_off", arch, 32, "in u8* 512 random", "out u32* 448"))
    assert any("ZFILL" in x.modifiers for x in emulator.program.instructions)
    out, given = emulator.array("out").view(np.uint8), emulator.array("in")
    for n, live in enumerate((16, 12, 8)):
        wanted = np.where(np.arange(16) < live, given.reshape(32, 16), 0)
        assert (out[512 * n : 512 * (n + 1)].reshape(32, 16) == wanted).all()
    lane = np.arange(32)[:, None]
    assert (out[1536:].reshape(32, 8) == np.where(np.arange(8) < lane % 8, given[:256].reshape(32, 8), 0)).all()


def test_copies_cost_what_they_cost_on_an_h200() -> None:
    """Sectors and wavefronts of LDGSTS as ncu counts them, by how lanes lie on both sides."""
    rows = json.loads((ROOT / "data/experiments/l1_data_path/asynchronous_copies.json").read_text())["rows"]
    wrong = []
    for kind, size, per_row, from_pitch, to_pitch, lanes, _, *wanted in rows:
        numbers = f"per_row i32 {per_row}", f"from i32 {from_pitch}", f"to i32 {to_pitch}", f"lanes u32 {lanes}"
        emulator = run(call("copy_rows", f"{kind}{size}", "sm_90", 32, "in u8* 65536", *numbers))
        copies = [x.opcode == "LDGSTS" for x in emulator.program.instructions]
        if emulator.stats[copies][:, [SECTORS, WAVEFRONTS]].sum(axis=0).tolist() != wanted:
            wrong.append((kind, size, per_row, from_pitch, to_pitch, lanes))
    assert len(rows) == 164
    assert wrong == []


@on(*AMPERE, *NEW)
def test_barriers_in_shared_memory(arch: str) -> None:
    emulator = run(call("copies", "mbarriers", arch, 128, "in f32* 640 iota", "out f32* 640", "rounds i32 5"))
    wanted = np.arange(640).reshape(5, 128)[:, ::-1] + np.arange(5)[:, None]
    assert (emulator.array("out").reshape(5, 128) == wanted).all()


@on(*NEW)
def test_bulk_copies(arch: str) -> None:
    emulator = run(
        call("copies", "bulk", arch, 64, "in f32* 1280 iota", "out f32* 1280", "total f32* 256", "tiles i32 5")
    )
    tiles = 2.0 * np.arange(1280).reshape(5, 256)
    assert (emulator.array("out").reshape(5, 256) == tiles).all()
    assert (emulator.array("total") == tiles.sum(axis=0)).all()
    counts = dict(zip((x.opcode for x in emulator.program.instructions), emulator.stats, strict=True))
    assert counts["UBLKCP"][SECTORS] == counts["UBLKRED"][SECTORS] == 5 * 1024 // 32
    waits = [x.opcode == "SYNCS" and "TRYWAIT" in x.modifiers for x in emulator.program.instructions]
    assert emulator.stats[waits, EXECUTED].sum() == 2 * 5  # a warp that waits asks once


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("8 0 0", r"line \d+, .* UBLKCP.*: thread \(0, 0, 0\) .* 0x1000000008, which is not a multiple of 16"),
        ("0 65536 0", r"line \d+, .* UBLKCP.*: thread \(0, 0, 0\) .* accesses shared memory at .*, beyond its end"),
        ("0 0 1", r"line \d+, .*: still running after \d{1,2},\d{3} warp instructions: an endless loop"),
    ],
)
def test_a_copy_that_cannot_be_and_a_barrier_asked_for_ever(given: str, says: str) -> None:
    off, away, missing = given.split()
    emulator = call(
        "copies",
        "wrong_copy",
        "sm_90",
        1,
        "in i8* 1024",
        f"off i32 {off}",
        f"away i32 {away}",
        f"missing i32 {missing}",
    )
    with pytest.raises(EmulationError, match=says):
        emulator.run([0], budget=300_000)  # to ask a barrier counts for eight instructions


@on(*NEW)
def test_a_copy_by_tensor_map_is_unknown(arch: str) -> None:
    given = (f"map bytes {'00' * 128}", "out f32* 256", "other f32* 256")
    emulator = run(call("copies", "by_tensor_map", arch, 256, *given, "away i32 0"))
    i = np.arange(256)
    assert not emulator.known("out").any()
    assert (emulator.known("other") == (i % 64 < 32)).all()
    assert (emulator.array("other") == 7 + i)[i % 64 < 32].all()
    with pytest.raises(EmulationError, match=r"UTMALDG.* accesses shared memory at .*, beyond its end"):
        call("copies", "by_tensor_map", arch, 256, *given, "away i32 65536").run([0])


@on(*NEW)
def test_a_cluster_of_one_block(arch: str) -> None:
    emulator = run(call("copies", "cluster", arch, 32, "out u32* 96", grid=3))
    t, block = np.arange(96) % 32, np.arange(96) // 32
    wanted = (31 - t) * 3 + 1000 * (0 + 1) + 10000 * block + 100000 * 3 + 1000000 * (t == 0)
    assert (emulator.array("out") == wanted).all()


# ---- control


def _fibonacci(n: int) -> int:
    return n if n < 2 else _fibonacci(n - 1) + _fibonacci(n - 2)


@on(*OLD, *AMPERE, *NEW)
def test_recursion_and_nested_calls(arch: str) -> None:
    emulator = run(call("control", "recursion", arch, 64, "out i32* 64", "most i32 9"))
    assert emulator.array("out").tolist() == [_fibonacci(i % 9) for i in range(64)]
    deep = call("control", "recursion", arch, 512, "out i32* 512", "most i32 512")
    with pytest.raises(EmulationError, match=r"local memory at .*, beyond its end; does a function call itself more"):
        deep.run([0], budget=1_000_000)

    def inner(x: int) -> int:
        return x + 1 if x % 3 == 0 else x * 2

    def outer(x: int) -> int:
        return inner(x) + inner(x + 1) if x & 1 else inner(3 * x) - 1

    emulator = run(call("control", "nested", arch, 64, "out i32* 64"))
    assert emulator.array("out").tolist() == [outer(i) + outer(i // 2) for i in range(64)]


@on(*OLD, *AMPERE, *NEW)
def test_a_jump_table(arch: str) -> None:
    emulator = call("control", "jump_table", arch, 64, "in i32* 128 random_int(0, 12)", "out i32* 128")
    given = emulator.array("in")
    run(emulator)
    assert "BRX" in opcodes(emulator)
    ways = [lambda x, i: x * 17 + 3, lambda x, i: x ^ 0x55, lambda x, i: x // 3, lambda x, i: bin(x).count("1"),
            lambda x, i: x + i * (i - 1) // 2, lambda x, i: -x, lambda x, i: x << 3, lambda x, i: x % 7,
            lambda x, i: min(x, 3), lambda x, i: x * x, lambda x, i: x, lambda x, i: x]  # fmt: skip
    wanted = [ways[given[i + 64]](int(given[i]), i) for i in range(64)]
    assert emulator.array("out")[:64].tolist() == wanted
    assert (emulator.array("out")[64:] == given[64:] * np.isin(given[64:], (1, 5))).all()


def test_predicates_that_all_threads_share_are_kept_in_registers() -> None:
    n, turns = 0x5A6, 5
    emulator = run(call("flags", "flags", "sm_100", 32, "out i32* 384", f"n i32 {n}", f"turns i32 {turns}"))
    assert "UP2UR" in opcodes(emulator)
    wanted, total = np.zeros((12, 32), np.int64), np.zeros(32, np.int64)
    for t in range(turns):
        for k in (k for k in range(12) if (n >> k & 3) > (turns >> k & 1)):
            wanted[k] = total = total * 3 + t + np.arange(32)
    assert (emulator.array("out").reshape(12, 32) == wanted.astype(np.int32)).all()


@on(*OLD, *AMPERE, *NEW)
def test_reductions_at_barriers(arch: str) -> None:
    emulator = run(call("control", "reductions", arch, 96, "out i32* 96"))
    assert (emulator.array("out") == 32 + 1000 * 0 + 2000 * 1 + 4000 * 1 + 8000 * 0).all()


@on(*OLD, *AMPERE, *NEW)
def test_parts_of_a_warp(arch: str) -> None:
    emulator = run(call("control", "partial", arch, 64, "out i32* 64"))
    i = np.arange(64)
    lane = i % 32
    other = i ^ np.where(i < 12, 1, 2)
    first = np.where((i < 12) | (lane >= 12), i + other, 0)
    ours, wanted = emulator.array("out"), first + 1000 * 8 + 100000 * (i >= 32)
    assert (ours[:32] == wanted[:32]).all()
    assert (ours[44:] == wanted[44:]).all()  # lanes 32 to 43 shuffle outside their mask


@on(*OLD, *AMPERE, *NEW)
def test_lanes_of_one_place_name_different_masks(arch: str) -> None:
    emulator = run(call("control", "two_masks", arch, 64, "in i32* 64 random_int(0, 1000)", "out i32* 384"))
    given, odd, bit = emulator.array("in").reshape(2, 32), np.arange(32) % 2, 1 << np.arange(32, dtype=np.int64)
    mine = odd == odd[:, None]  # of each lane the lanes that it names
    same = mine & (given[:, None] % 4 == given[:, :, None] % 4)
    wanted = [((given[:, None] & 2 > 0) & mine) @ bit, same @ bit, np.tile(mine @ bit + 1, (2, 1)), given[:, odd + 4],
              np.tile(odd, (2, 1)), given @ mine * (arch not in OLD)]  # fmt: skip
    assert (emulator.array("out").reshape(6, 2, 32) == np.array(wanted).astype(np.int32)).all()


@on(*OLD, *AMPERE, *NEW)
def test_named_barriers(arch: str) -> None:
    emulator = run(call("control", "producer", arch, 128, "out i32* 256", "rounds i32 4"))
    assert (emulator.array("out").reshape(4, 64) == np.arange(4)[:, None] * np.arange(63, -1, -1)).all()


@on("sm_80", "sm_90", "sm_120")
def test_a_barrier_that_not_all_reach(arch: str) -> None:
    with pytest.raises(
        EmulationError,
        match=r"line \d+, .* BAR.*: a barrier that not all .* reach: in block \(0, 0, 0\) warp \d of 2 waits",
    ):
        call("control", "stuck", arch, 64, "out i32* 64").run([0])


@on(*OLD, *AMPERE, *NEW)
def test_named_barriers_count_whole_warps_each_for_itself(arch: str) -> None:
    i = np.arange(128)
    out = run(call("control", "half_warps", arch, 64, "out i32* 64")).array("out")
    assert (out == np.where(i[:64] % 32 < 16, 3 * (i[:64] ^ 32), 0)).all()
    out = run(call("control", "two_counts", arch, 128, "out i32* 128")).array("out")
    assert (out == np.where(i // 32 % 2, 32, 16)).all()


@on(*OLD, *AMPERE, *NEW)
def test_lanes_of_a_warp_contend_for_a_lock(arch: str) -> None:
    emulator = run(call("control", "locked", arch, 64, "lock i32* 1", "out i32* 2", grid=2))
    assert emulator.array("out").tolist() == [128, 127 * 64]


@on("sm_90", "sm_120")
def test_the_smaller_of_two_uniform_numbers(arch: str) -> None:
    emulator = run(call("control", "ahead", arch, 64, "out i32* 320", "n i32 5"))
    assert (emulator.array("out").reshape(5, 64) == 100 * np.arange(5)[:, None] + np.arange(63, -1, -1)).all()
    assert arch != "sm_120" or "UVIMNMX" in opcodes(emulator)


# ---- numbers


@on(*OLD, "sm_80", *NEW)
def test_whole_numbers_of_64_bits(arch: str) -> None:
    emulator = call("numbers", "wide", arch, 64, "a i64* 64 random", "b i64* 64 random", "out i64* 384")
    a, b = emulator.array("a").copy(), emulator.array("b").copy()
    run(emulator)
    i, ua, ub = np.arange(64), a.view(np.uint64), b.view(np.uint64)
    with np.errstate(over="ignore"):
        wanted = [
            np.minimum(a, b), np.maximum(ua, ub).view(np.int64), np.where(a < b, a - b, 3 * a + 40),
            np.where(ua < ub, -a, ~b), (a == b) + 2 * (a != 0) + 4 * (a > -1) + 8 * (ua >= ub),
            a * b + (a >> 3) - (ub >> np.uint64(5)).view(np.int64) + (a << (i & 31)),
        ]  # fmt: skip
    for ours, theirs in zip(emulator.array("out").reshape(6, 64), wanted, strict=True):
        assert (ours == theirs).all()


def _permuted(mode: str, x: int, y: int, i: int) -> int:
    """Return what the PTX ISA's prmt gives in one of its modes."""
    by = i & 3
    picks = {
        "f4e": [(by + k) % 8 for k in range(4)], "b4e": [(by - k) % 8 for k in range(4)], "rc8": [by] * 4,
        "ecl": [max(by, k) for k in range(4)], "ecr": [min(by, k) for k in range(4)],
        "rc16": [2 * (by & 1) + (k & 1) for k in range(4)],
    }[mode]  # fmt: skip
    both = (x | y << 32).to_bytes(8, "little")
    return int.from_bytes(bytes(both[p] for p in picks), "little")


@on(*OLD, "sm_80", *NEW)
def test_narrow_numbers(arch: str) -> None:
    emulator = call("numbers", "narrow", arch, 64, "a u32* 64 random", "b u32* 64 random", "out u32* 768")
    a, b = emulator.array("a").copy(), emulator.array("b").copy()
    run(emulator)
    out = emulator.array("out").reshape(12, 64)
    shorts = [x.view(np.uint16).reshape(64, 2) for x in (a, b)]
    assert (out[0].view(np.uint16).reshape(64, 2) == shorts[0] + shorts[1]).all()
    assert (out[1].view(np.int16).reshape(64, 2) == np.maximum(*(s.view(np.int16) for s in shorts))).all()
    assert (out[2].view(np.uint16).reshape(64, 2) == np.minimum(*shorts)).all()
    for n, mode in enumerate(("f4e", "b4e", "rc8", "ecl", "ecr", "rc16")):
        assert out[3 + n].tolist() == [_permuted(mode, int(a[i]), int(b[i]), i) for i in range(64)], mode
    high, low = np.clip(a >> 20, -128, 127).astype(np.int64), np.clip(b.view(np.int32) >> 22, -128, 127)
    assert (out[9] == ((a.astype(np.int64) << 16) & 0xFFFFFFFF | (high & 255) << 8 | low & 255)).all()
    high, low = (np.clip(x.view(np.int32) >> s, 0, 65535).astype(np.int64) for x, s in ((a, 13), (b, 15)))
    assert (out[10] == (high << 16 | low)).all()
    s, t, both = a.view(np.int32), b.view(np.int32), (a + b).view(np.int32)
    assert (out[11] == (((s < 0) != (t < 0)) & ((both < 0) == (s < 0)))).all()


@on(*OLD, "sm_80", *NEW)
def test_extremes_and_rounding_of_doubles(arch: str) -> None:
    emulator = call(
        "numbers", "doubles", arch, 64, "a f64* 64 random_int(-9, 9)", "b f64* 64 random_int(-9, 9)", "out f64* 320"
    )
    a, b = emulator.array("a").copy(), emulator.array("b").copy()
    run(emulator)
    down, up = (np.where(a == 0, way * 1e-17, np.nextafter(a, way * np.inf)) for way in (-1, 1))
    wanted = [np.minimum(a, b), np.maximum(a, b), np.maximum(-a, 0.25), down, up]
    assert (emulator.array("out").reshape(5, 64) == wanted).all()


def _small(bits: int, exponent_bits: int) -> float:
    fraction_bits = 7 - exponent_bits
    exponent, fraction = bits >> fraction_bits & (1 << exponent_bits) - 1, bits & (1 << fraction_bits) - 1
    bias = (1 << exponent_bits - 1) - 1
    lead = 1 if exponent else 0
    size = (lead + fraction / (1 << fraction_bits)) * 2.0 ** (max(exponent, 1) - bias)
    return -size if bits >> 7 else float(size)


@on("sm_89", *NEW)
def test_floats_of_eight_bits(arch: str) -> None:
    """Each value becomes the nearest that there is; of two as near, the one with an even last bit."""
    emulator = call("numbers", "small", arch, 64, "a f32* 128 linear(-470.5, 7.4375)", "out u32* 128", "back u32* 128")
    given = emulator.array("a").astype(np.float64)
    run(emulator)
    for at, exponent_bits, largest in ((0, 4, 0x7E), (64, 5, 0x7B)):
        there = {_small(code, exponent_bits): code for code in (*range(largest + 1), *range(129, 129 + largest))}
        nearest = [min((abs(v - x), there[v] & 1, v) for v in there)[2] for x in given]
        codes = [int(w) >> 8 * k & 255 for w in emulator.array("out")[at : at + 64] for k in (0, 1)]
        assert [_small(c, exponent_bits) for c in codes] == nearest
        assert emulator.array("back")[at : at + 64].view(np.float16).tolist() == nearest


@on("sm_100", "sm_120")
def test_pairs_of_floats(arch: str) -> None:
    emulator = call(
        "numbers", "pairs", arch, 32, "a f32* 64 random_int(-9, 9)", "b f32* 64 random_int(-9, 9)", "out f32* 224"
    )
    a, b = emulator.array("a").copy(), emulator.array("b").copy()
    run(emulator)
    out = emulator.array("out")
    assert (out[:192].reshape(3, 64) == [a + b, a * b, a * b + a]).all()
    assert (out[192:] == np.maximum(np.maximum(a[:32], b[:32]), a[1:33])).all()
