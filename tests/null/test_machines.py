"""Machine files: every shipped number has a source, and what may not be in a file is refused by key."""

from __future__ import annotations

import random
import tomllib
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from warplens.api import compare, list_models
from warplens.core.cache import computed_once
from warplens.core.errors import WarplensError
from warplens.core.files import default_folder
from warplens.machine import Machine, list_machines, load_machine, loader, occupancy, taken
from warplens.machine.loader import FOLDER, load_file, parse

IDS = ["8800gt", "8800gtx", "a100", "a40", "b200", "c2050", "fx5600", "gtx1060", "gtx280", "gtx480", "gtx680", "gtx980",
       "h100", "h100-pcie", "h200", "hong-kim-example", "huang-synthetic", "rtx3090", "rtx4090", "rtx5090", "t4",
       "volkov-table-3.3"]  # fmt: skip
# Of the architectures that compilers know.
RECENT = ["t4", "a100", "a40", "rtx3090", "rtx4090", "h100", "h100-pcie", "b200", "rtx5090"]


def test_all_machines_are_there() -> None:
    assert sorted(m.id for m in list_machines()) == IDS
    for alias, name in {"g80": "8800gtx", "gt200": "gtx280", "fermi": "gtx480", "kepler": "gtx680", "maxwell": "gtx980",
                        "pascal": "gtx1060", "hopper": "h200", "GTX980": "gtx980", "turing": "t4", "ampere": "a100",
                        "ada": "rtx4090", "blackwell": "b200", "sm_86": "rtx3090", "sm_120": "rtx5090",
                        }.items():  # fmt: skip
        assert load_machine(alias).id == name


def test_what_is_kept_of_a_machine_is_what_its_file_says() -> None:
    assert list_machines()  # what was not kept is now
    loader._shipped.cache_clear()
    for machine in list_machines():
        assert repr(machine) == repr(load_file(FOLDER / f"{machine.id}.toml"))


def test_what_is_made_once_is_made_again_when_its_source_changes(tmp_path: Path) -> None:
    made = list[bytes]()

    def once(of: bytes) -> list[int]:
        def make() -> list[int]:
            made.append(of)
            return [len(made)]

        return computed_once("one", tmp_path, of, list[int], make)

    assert [once(b"a"), once(b"a"), once(b"b"), once(b"b")] == [[1], [1], [2], [2]]
    (kept,) = (tmp_path / "__pycache__").iterdir()
    kept.write_bytes(kept.read_bytes()[:-1])
    assert (once(b"b"), made) == ([3], [b"a", b"b", b"b"])


def test_no_two_machines_share_a_name() -> None:
    names = [name for m in list_machines() for name in (m.id, *m.aliases)]
    assert len(names) == len(set(names)) and all(name == name.lower() for name in names)


@pytest.mark.parametrize("name", RECENT)
def test_vendor_facts_agree_with_one_another(name: str) -> None:
    m = load_machine(name)
    cores, flops = m.sm.cuda_cores or 0, m.chip.peak_flops_per_second
    assert m.chip.processing_elements == m.chip.sm_count * cores
    assert flops == pytest.approx(m.chip.processing_elements * 2 * m.chip.clock_hz, rel=0.01)  # the data sheet's
    assert m.peak_ipc("fp32") == cores / 32 and m.issue_ipc() == 4
    assert m.peak_ipc("fp64") == (m.sm.fp64_units or 0) / 32
    measured = "instructions.sfu.peak_ops_per_cycle_per_scheduler" in taken(m)  # 3.99 on an H200
    assert m.peak_ipc("sfu") == pytest.approx((m.sm.sfu_units or 0) / 32, rel=0.003 if measured else 0)
    assert m.sm.warps_max == 4 * (m.sm.warps_per_scheduler_max or 0)
    largest = (m.sm.shared_per_block_max_bytes or 0) + (m.sm.shared_reserved_bytes or 0)
    assert largest == m.sm.shared_bytes  # one block may take all of it
    assert all(source.source != "measured" for source in m.sources.values())  # we measured none of these


@pytest.mark.parametrize("name", RECENT)
def test_models_speak_about_a_machine_without_measurements(name: str) -> None:
    """A model that speaks about an H200 does so here, with the numbers taken from it; others say what they need."""
    machine = load_machine(name)
    for workload in ("saxpy", "volkov-add-load", "volkov-add-sfu", "volkov-add-shared", "kothapalli-matmul"):
        c = compare(workload, machine)
        assert set(c.predictions) | set(c.silent) == set(list_models())
        assert c.possible or workload != "saxpy"
        for model, why in c.silent.items():
            assert " needs " in why or " has no " in why or why.startswith(model), (model, why)
        there = compare(workload, "h200")
        assert set(there.predictions) - set(c.predictions) <= {"zhang-owens"}  # its tables are of one SM


@pytest.mark.parametrize("machine", list_machines(), ids=lambda m: m.id)
def test_every_number_has_a_source(machine: Machine) -> None:
    assert len(machine.sources) > 10
    for key, source in machine.sources.items():
        assert source.ref and source.source in ("measured", "vendor", "paper", "derived"), key
        assert source.source != "measured" or source.date


CHAINS = {
    "fp32": ("FFMA", "float", "a = __fmaf_rn(a, b, b);"),
    "int": ("IADD3", "int", 'asm volatile("add.s32 %0, %0, %1;" : "+r"(a) : "r"(b));'),
    "imul": ("IMAD", "int", "a = a * b + c;"),
    "half": ("HFMA2", "int", 'asm volatile("fma.rn.f16x2 %0, %0, %1, %2;" : "+r"(a) : "r"(b), "r"(c));'),
}


@pytest.mark.cuda
@pytest.mark.parametrize("name", RECENT)
def test_fixed_latencies_are_the_compilers_stall_counts(name: str, tmp_path: Path) -> None:
    from warplens.program import load_programs, nvrtc

    try:
        nvrtc.library()
    except WarplensError as error:
        pytest.skip(str(error))
    machine = load_machine(name)
    source = "".join(
        f"""extern "C" __global__ void {kind}_chain({number} *p) {{
            {number} a = p[0], b = p[1], c = p[2];
            #pragma unroll
            for (int i = 0; i < 16; i++) {{ {statement} }}
            p[threadIdx.x] = a + c; }}\n"""
        for kind, (_, number, statement) in CHAINS.items()
    )
    arch = f"sm_{str(machine.compute_capability).replace('.', '')}"
    nvrtc.compile_source(source, "chains.cu", arch, [], tmp_path / "chains.cubin")
    programs = load_programs(tmp_path / "chains.cubin")
    for kind, (opcode, _, _) in CHAINS.items():
        code = programs[f"{kind}_chain"].instructions
        stalls = {
            x.control.stall
            for x, y in pairwise(code)
            if x.control and x.opcode == y.opcode == opcode and set(x.writes) & set(y.reads)
        }
        own = machine.latency_cycles(kind)
        several = f"instructions.{kind}.latency_cycles" in taken(machine)  # left out where the compiler uses several
        assert min(stalls) <= own <= max(stalls) if several else stalls == {own}, (kind, stalls)


def _file(name: str = "gtx680") -> str:
    return (FOLDER / f"{name}.toml").read_text()


def _refused(text: str) -> str:
    with pytest.raises(WarplensError) as caught:
        parse(tomllib.loads(text), "x.toml")
    return str(caught.value)


def test_refusals_name_file_and_key() -> None:
    text = _file()
    assert (
        _refused(text.replace("warps_max =", "warps_mx =", 1))
        == "x.toml: sm.warps_mx: unknown key; did you mean 'warps_max'?"
    )
    assert "x.toml: sm.schedulers: has no source" in _refused(
        text.replace(
            'schedulers = { value = 4, unit = "count", source = "paper", ', 'schedulers = { value = 4, unit = "count", '
        )
    )
    bare = "\n".join("schedulers = 4" if line.startswith("schedulers =") else line for line in text.splitlines())
    assert "x.toml: sm.schedulers: a number without a source" in _refused(bare)
    assert "sm.schedulers" in _refused(text.replace("schedulers = { value = 4,", "schedulers = { value = -4,"))
    for beyond in ("nan", "inf", "4" + 400 * "0"):
        assert "sm.schedulers: value must be finite" in _refused(
            text.replace("schedulers = { value = 4,", f"schedulers = {{ value = {beyond},")
        )
    assert "value must be a number" in _refused(
        text.replace("schedulers = { value = 4,", 'schedulers = { value = "4",')
    )
    wrong_unit = text.replace('clock_hz = { value = 1.124e9, unit = "Hz"', 'clock_hz = { value = 1.124e9, unit = "GHz"')
    assert _refused(wrong_unit) == "x.toml: chip.clock_hz: unit must be 'Hz', not 'GHz'"
    assert "chip.clock_hz: must be a number >= 10000000, not 1.124" in _refused(
        text.replace("value = 1.124e9", "value = 1.124")
    )
    assert "instructions.fp64.latency_cycles: must be a number > 0, not -1" in _refused(
        text + '\n[instructions.fp64]\nlatency_cycles = { value = -1, unit = "cycles", source = "paper", ref = "x" }\n'
    )
    assert "instructions" in _refused(text + "\n[instructions.fp33]\n")
    assert "measured number needs its date" in _refused(
        text
        + '\n[instructions.fp64]\nlatency_cycles = { value = 1, unit = "cycles", source = "measured", ref = "x" }\n'
    )
    assert "unknown key" in _refused(text.replace('source = "paper"', 'source = "paper", sauce = "x"', 1))
    several = ", ".join(f'{key} = "x"' for key in ("sauce", "salt", "bread", "oil", "egg"))
    assert ".sauce: unknown key" in _refused(text.replace('source = "paper"', f'source = "paper", {several}', 1))
    assert "format" in _refused(text.replace("format = 1", "format = 99"))


def test_unknown_gpu_names_the_nearest() -> None:
    with pytest.raises(WarplensError, match="unknown GPU 'gtx68'; did you mean 'gtx680'"):
        load_machine("gtx68")
    with pytest.raises(WarplensError, match="No such file"):
        load_machine("nowhere/x.toml")


def test_with_values_is_a_what_if() -> None:
    h200 = load_machine("h200")
    faster = h200.with_values(memory__pin_bytes_per_second=8e12, instructions__fp32__latency_cycles=2.0)
    assert faster.memory.pin_bytes_per_second == 8e12 and h200.memory.pin_bytes_per_second == 4.8e12
    assert faster.latency_cycles("fp32") == 2 and h200.latency_cycles("fp32") == 4
    assert faster.sources["memory.pin_bytes_per_second"].source == "derived"
    with pytest.raises(WarplensError, match="no field 'clok_hz'"):
        h200.with_values(chip__clok_hz=1e9)


def test_fallbacks_are_field_by_field() -> None:
    fermi = load_machine("fermi")
    assert fermi.timing("store").ilp_latency_cycles == 34  # its own
    assert fermi.latency_cycles("store") == 513  # a load's
    assert fermi.latency_cycles("int") == 18  # the CUDA cores'


def test_occupancy_rules() -> None:
    h200 = load_machine("h200")
    # 40 registers x 32 threads = 1280, in units of 256 per warp; 16384 per scheduler: 12 warps, 48 per SM, 6 blocks
    fit = occupancy(h200, threads_per_block=256, registers_per_thread=40)
    assert (fit.blocks_per_sm, fit.warps_per_sm, fit.limiter) == (6, 48, "registers")
    # 40000 B + 1 KiB reserved, in units of 128: 41088 of 233472 bytes: 5 blocks
    fit = occupancy(h200, threads_per_block=128, shared_bytes_per_block=40000)
    assert (fit.blocks_per_sm, fit.limiter) == (5, "shared memory")
    assert occupancy(h200, threads_per_block=32).limiter == "blocks"
    # cc 1.x gives registers out per block in units of 256, warps in pairs: 10 x 256 = 2560 of 8192
    fit = occupancy(load_machine("g80"), threads_per_block=256, registers_per_thread=10)
    assert (fit.blocks_per_sm, fit.limiter) == (3, "warps")
    with pytest.raises(WarplensError, match="at most 1024"):
        occupancy(h200, threads_per_block=2048)
    with pytest.raises(WarplensError, match="shared memory per block"):
        occupancy(h200, threads_per_block=32, shared_bytes_per_block=233000)


@pytest.mark.parametrize(
    ("name", "rounds"),
    [("gtx680", 400), ("h200", 80), ("c2050", 400), pytest.param("h200", 400, marks=pytest.mark.slow)],
)
def test_mutated_machine_files_never_cause_a_traceback(name: str, rounds: int, tmp_path: Path) -> None:
    """Fuzz: a machine file with bytes changed, lines dropped or doubled loads or is refused, nothing else."""
    from warplens.machine.loader import load_file

    refused = _fuzz(_file(name), rounds, lambda path: load_file(path), tmp_path)
    assert refused > rounds / 4  # most mutations break something


def _fuzz(text: str, rounds: int, load: Any, folder: Path) -> int:
    chance, refused = random.Random(20261115), 0
    for round_number in range(rounds):
        path = folder / f"{round_number}.toml"
        path.write_bytes(mutated(text, chance))
        try:
            load(path)
        except WarplensError as error:
            assert "\n" not in str(error).strip()
            refused += 1
    return refused


def mutated(text: str, chance: random.Random) -> bytes:
    """Return the text with one to four random injuries."""
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(text))
        words = [
            "nan",
            "-1",
            "inf",
            "1e400",
            '"',
            "{",
            "}",
            "[",
            "]",
            "\n",
            "=",
            "\x00",
            "é",
            "true",
            "[[",
            "'",
            "0x",
            "9" * 400,
        ]
        match chance.randrange(5):
            case 0:
                text = text[:at] + chance.choice(words) + text[at + 1 :]
            case 1:
                lines = text.splitlines()
                del lines[chance.randrange(len(lines))]
                text = "\n".join(lines)
            case 2:
                lines = text.splitlines()
                lines.insert(chance.randrange(len(lines)), chance.choice(lines))
                text = "\n".join(lines)
            case 3:
                number = chance.choice(["-1", "nan", "1e30", "0", "true", '"x"', "[1]", "{}"])
                parts = text.split("value = ")
                pick = chance.randrange(len(parts))
                text = "value = ".join([*parts[:pick], number + parts[pick][1:], *parts[pick + 1 :]])
            case _:
                text = text[:at]
        text = text or "x"
    return text.encode("utf-8", "surrogatepass")


def test_a_user_without_a_home_has_machines_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """Containers run as users that no file knows: where caches would be kept is then no reason to fail."""
    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", dict[int, object]().__getitem__)
    assert default_folder().is_absolute()
    assert computed_once("none", Path("/proc/nothing"), b"", list[int], lambda: [1]) == [1]
