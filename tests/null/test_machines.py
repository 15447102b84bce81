"""Machine files: every shipped number has a source, and what may not be in a file is refused by key."""

from __future__ import annotations

import random
import tomllib
from pathlib import Path
from typing import Any

import pytest

from warplens.errors import WarplensError
from warplens.machine import Machine, list_machines, load_machine, occupancy
from warplens.machine.loader import FOLDER, parse

IDS = ["8800gt", "8800gtx", "c2050", "fx5600", "gtx1060", "gtx280", "gtx480", "gtx680", "gtx980", "h200",
       "hong-kim-example", "huang-synthetic", "volkov-table-3.3"]  # fmt: skip


def test_all_machines_of_the_papers_are_there() -> None:
    assert sorted(m.id for m in list_machines()) == IDS
    for alias, name in {"g80": "8800gtx", "gt200": "gtx280", "fermi": "gtx480", "kepler": "gtx680", "maxwell": "gtx980",
                        "pascal": "gtx1060", "hopper": "h200", "GTX980": "gtx980"}.items():  # fmt: skip
        assert load_machine(alias).id == name


@pytest.mark.parametrize("machine", list_machines(), ids=lambda m: m.id)
def test_every_number_has_a_source(machine: Machine) -> None:
    assert len(machine.sources) > 10
    for key, source in machine.sources.items():
        assert source.ref and source.source in ("measured", "vendor", "paper", "derived"), key
        assert source.source != "measured" or source.date


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
    assert "sm.schedulers: value must be finite" in _refused(
        text.replace("schedulers = { value = 4,", "schedulers = { value = nan,")
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


@pytest.mark.parametrize("name", ["gtx680", "h200", "c2050"])
def test_mutated_machine_files_never_cause_a_traceback(name: str, tmp_path: Path) -> None:
    """Fuzz: a machine file with bytes changed, lines dropped or doubled loads or is refused, nothing else."""
    from warplens.machine.loader import load_file

    refused = _fuzz(_file(name), 400, lambda path: load_file(path), tmp_path)
    assert refused > 100  # most mutations break something


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
