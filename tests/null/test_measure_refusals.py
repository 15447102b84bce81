"""What a measurement says where it cannot go on, and how it goes on afterwards. The GPU is not there."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from warplens.cli import main
from warplens.core.driver import Driver, DriverError, Facts, Gpu
from warplens.core.errors import WarplensError
from warplens.laboratory import run
from warplens.laboratory.build import Built
from warplens.laboratory.catalogue import HELPERS, entries
from warplens.laboratory.gpu_session import Laboratory
from warplens.laboratory.journal import read
from warplens.laboratory.nvml import State

from .fake_gpu import ATTRIBUTES, FakeGpu, FakeWatch, facts

ENTRIES = ["--only", "control.barrier", "control.loop", "launch.blocks", "--repetitions", "1"]


class Machine:
    """What the tests turn: the GPU, its neighbours, what happens at a launch of a kernel."""

    def __init__(self) -> None:
        self.facts, self.at_launch = facts(), dict[str, Callable[[], None]]()
        self.others: list[int] | None = []
        self.ghz, self.taken_at_most = 2.0, 100


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Machine:
    made = Machine()

    class TakenGpu(FakeGpu):
        def __init__(self, *_: object) -> None:
            super().__init__(made.ghz)
            made.taken_at_most -= 1
            if made.taken_at_most < 0:
                raise WarplensError("cuDevicePrimaryCtxRetain: CUDA_ERROR_ILLEGAL_INSTRUCTION (715)")

        def facts(self) -> Facts:
            return made.facts

        def launch(self, function: str, *arguments: Any) -> None:
            made.at_launch.get(function, lambda: None)()
            self.ghz = made.ghz
            super().launch(function, *arguments)

    class TakenWatch(FakeWatch):
        def __init__(self, *_: object) -> None: ...

        def other_processes(self, own: int) -> list[int] | None:
            return made.others

    class NoDriver:
        def uuid(self, index: int) -> str:
            return "00" * 16

    kernels = [*HELPERS, *(k for e in entries() for k in e.kernels)]
    monkeypatch.setattr(run, "Driver", NoDriver)
    monkeypatch.setattr(run, "Gpu", TakenGpu)
    monkeypatch.setattr(run, "Watch", TakenWatch)
    monkeypatch.setattr(run, "_built", lambda *_: Built({k.name: b"" for k in kernels}, {}, []))
    monkeypatch.setattr(Laboratory, "warm_up", lambda *_: 0.0)
    monkeypatch.chdir(tmp_path)
    return made


def measure(*arguments: str) -> int:
    return main(["machine", "measure", *(arguments or ENTRIES)])


def done() -> list[str]:
    return [event["entry"] for event in read(Path("measured/measured.jsonl")) if event["is"] == "done"]


def last_line(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().err.splitlines()[-1]


def lost() -> None:
    raise DriverError("cuLaunchKernel", 715, "CUDA_ERROR_ILLEGAL_INSTRUCTION", "an illegal instruction")


def test_it_goes_through(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    assert measure() == 0
    assert sorted(done()) == ["control.barrier", "control.loop", "launch.blocks"]
    assert measure() == 0
    assert "0 measured, 3 left out, 0 failed" in capsys.readouterr().out  # all of it was there


def test_a_gpu_in_use_is_left_alone_unless_asked(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    machine.others = [4711]
    assert measure() == 2
    assert (
        "in use by 1 other process(es), such as 4711: end them, or measure all the same with --shared-gpu"
        in last_line(capsys)
    )
    assert not Path("measured").exists()
    assert measure(*ENTRIES, "--shared-gpu") == 0


def test_where_nobody_knows_who_computes_that_is_told(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    machine.others = None
    assert measure() == 0
    assert "NVML does not say whether others compute on this GPU: see that it is yours alone" in capsys.readouterr().err


def test_others_that_come_meanwhile_are_told(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    machine.at_launch["loop_n8"] = lambda: setattr(machine, "others", [4711])
    assert measure() == 0
    told = "1 other process(es) began to compute on the GPU meanwhile: end them, and measure again in another folder"
    assert told in last_line(capsys)


def test_a_gpu_with_too_little_memory(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    machine.facts = Facts("NVIDIA Small", "00" * 16, 13000, 4 << 30, 3 << 30, ATTRIBUTES)
    assert measure() == 2
    assert "measuring needs 4 GiB of free GPU memory, 3072 MiB are free" in last_line(capsys)


def test_a_part_of_a_gpu_is_called_one(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    machine.facts = Facts(
        "NVIDIA H200 MIG 1g.18gb", "00" * 16, 13000, 18 << 30, 16 << 30, {**ATTRIBUTES, "sm_count": 12}
    )
    assert measure() == 0
    assert "is a part of a GPU: the numbers are those of the part" in capsys.readouterr().err


def test_an_interrupted_run_goes_on(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    machine.at_launch["loop_n8"] = stop
    assert measure() == 130
    assert "the same command goes on behind it" in capsys.readouterr().err
    before = done()
    assert before and "control.loop" not in before
    machine.at_launch.clear()
    assert measure() == 0
    assert f"{3 - len(before)} measured, {len(before)} left out" in capsys.readouterr().out


def test_a_lost_gpu_costs_the_entry_and_the_next_run_leaves_it_out(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = [e for e in entries() if e.name in ("control.barrier", "control.loop", "launch.blocks")]
    monkeypatch.setattr(run, "chosen", lambda *_: chosen)
    machine.at_launch["loop_n8"] = lost
    machine.taken_at_most = 1  # no second context
    assert measure("--repetitions", "1") == 2
    assert "the GPU is lost" in last_line(capsys)
    machine.taken_at_most = 100
    assert measure("--repetitions", "1") == 0
    assert "the GPU was lost over it before; --only tries it again" in capsys.readouterr().err
    assert "control.loop" not in done() and "control.barrier" in done()


def test_a_full_disk_is_one_line(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    Path("measured").mkdir()
    Path("measured/measured.jsonl").symlink_to("/dev/full")
    assert measure() == 2
    assert "measured.jsonl: cannot write: No space left on device; what was measured so far is there" in last_line(
        capsys
    )


def test_a_folder_that_cannot_be_made_is_one_line(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    Path("measured").touch()
    assert measure() == 2
    assert "measured: cannot make this folder: File exists" in last_line(capsys)


def test_kernels_that_nobody_checked_are_told(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kernels = [*HELPERS, *(k for e in entries() for k in e.kernels)]
    built = Built({k.name: b"" for k in kernels}, {}, [], "nvdisasm is not installed")
    monkeypatch.setattr(run, "_built", lambda *_: built)
    assert measure() == 0
    assert "the kernels' machine code is not checked: nvdisasm is not installed" in capsys.readouterr().err


def test_a_clock_that_does_not_hold_is_told(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    machine.at_launch["loop_n8"] = lambda: setattr(machine, "ghz", 1.5)
    assert measure() == 0
    told = r"\d+ of \d+ samples were at another clock and are not used: let the GPU cool down, or raise its power limit"
    assert re.search(told, last_line(capsys))


def test_a_journal_is_not_gone_on_with_at_another_clock(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    assert measure("--only", "control.barrier", "--repetitions", "1") == 0
    machine.ghz = 1.5
    assert measure() == 2
    told = "the GPU holds 1.500 GHz now, 2.000 when what is in measured/measured.jsonl was measured: let it cool down"
    assert told in last_line(capsys) and done() == ["control.barrier"]
    machine.ghz = 2.01
    assert measure() == 0 and len(done()) == 3


def test_a_gpu_that_is_held_back_all_the_time_is_told(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(FakeWatch, "state", lambda _: State(throttled=("power cap",)))
    assert measure() == 0
    assert "the GPU was throttled (power cap), though every sample was at the clock that it held" in last_line(capsys)


def test_an_architecture_too_old_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert measure("--check", "--arch", "sm_70", "--only", "launch.empty") == 2
    assert "sm_70: compilers make code from sm_75 on; name a newer architecture" in last_line(capsys)


@pytest.mark.parametrize(("capability", "good"), [((7, 0), False), ((6, 1), False), ((7, 5), True)])
def test_a_gpu_too_old_is_told(capability: tuple[int, int], good: bool) -> None:
    class Old(Driver):
        def __init__(self) -> None:
            """Need no library."""

        def uuid(self, index: int) -> str:
            return "00" * 16

        def call(self, name: str, *arguments: Any) -> None:
            if name == "cuDeviceGetAttribute":
                ctypes.cast(arguments[0], ctypes.POINTER(ctypes.c_int))[0] = capability[0 if arguments[1] == 75 else 1]

    driver = Old()
    if good:
        Gpu(driver)
    else:
        with pytest.raises(
            WarplensError, match=r"compute capability \d\.\d: compilers make code from 7.5 on; use a newer GPU"
        ):
            Gpu(driver)


def test_no_gpu_and_an_old_driver(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    class Library:
        def __init__(self, code: int) -> None:
            self.cuInit = lambda _: code

    for code, text in (
        (100, "the NVIDIA driver finds no GPU; see `nvidia-smi`, and CUDA_VISIBLE_DEVICES if it is set"),
        (35, "the NVIDIA driver is too old; update it"),
    ):
        monkeypatch.setattr(ctypes, "CDLL", lambda _, code=code: Library(code))
        assert measure() == 2
        out, err = capsys.readouterr()
        assert out == "" and err.count("\n") == 1 and text in err
