"""Files that were made to do harm, or that are none: one line and exit code 2, soon and in little memory."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from warplens import api
from warplens.cli import main
from warplens.core import files
from warplens.core.cache import computed_once
from warplens.core.errors import FileError
from warplens.emulator.emulator import EmulationError, Emulator
from warplens.laboratory import journal
from warplens.machine.loader import FOLDER
from warplens.program import load_program
from warplens.report.data import to_json
from warplens.workload.contents import contents
from warplens.workload.launch import Argument, KernelCall

EXAMPLES = Path(__file__).parents[2] / "examples"
EVIL = "a\u001b[31mb\u0007\u202ec\u009b0m\nwarplens: forged"


def refused(*command: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Run a command that is to be refused, within a second of the processor; return its one line."""
    start = time.process_time()
    code = main(command)
    out, err = capsys.readouterr()
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert err[:-1].isprintable()
    assert time.process_time() - start < 1
    return err


COMMANDS = (
    "machine check {}.toml", "predict {}.toml", "predict saxpy --gpu {}.toml", "analyze --launch {}.toml",
    "simulate {}.toml", "sweep {}.toml", "predict {}.json", "machine derive {}.jsonl", "show {}.cu", "show {}.cubin",
    "show {}.py", "show {}.sass",
)  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_devices_and_pipes_are_not_read(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = next(word for word in command.split() if "{}" in word)
    (tmp_path / name.format("zero")).symlink_to("/dev/zero")
    os.mkfifo(tmp_path / name.format("pipe"))
    for kind in ("zero", "pipe"):
        err = refused(*command.format(tmp_path / kind).split(), capsys=capsys)
        assert "a device or a pipe" in err and kind in err


def test_arrays_are_not_read_from_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.npy")
    with pytest.raises(FileError, match="a device or a pipe"):
        contents(Argument("f32*", count=4, fill="file(x.npy)"), 0, str(tmp_path))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a" + ".a" * 100_000 + " = 1", "more than 60 parts"),
        ("[" + "a . " * 700 + "a]", "more than 60 parts"),
        ("x = {y = 1, " + '"a".' * 700 + "a = 1}", "more than 60 parts"),
        ("[" + ".".join(["a"] * 59) + "]\nx = [[[[1]]]]", "nested too deeply"),
        ("x = " + "[" * 100_000, "nested too deeply"),
        ("x = " + "{a=" * 90 + "1" + "}" * 90, "nested too deeply"),
        ("grid = 0x" + "f" * 9000, "more than 4,096 bits"),
    ],
    ids=["key", "header", "in a table", "both", "lists", "tables", "number"],
)
def test_toml_has_bounds(text: str, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.toml").write_text(text)
    for command in ("machine check", "predict", "analyze --launch"):
        assert why in refused(*command.split(), str(tmp_path / "x.toml"), capsys=capsys)


def test_long_texts_and_comments_in_toml_are_no_long_keys() -> None:
    dots = ".".join("abcdefgh" * 12)
    text = f'# {dots}\nx = "{dots}. {dots} = 1"\ny = [{",".join(["0.5"] * 100)}]\n'
    assert files.parse_toml(text, "x")["x"].endswith("= 1")


def test_the_time_for_keys_is_that_of_their_length() -> None:
    """Half a million of what looks like the begin of a key, over and over."""
    for part in ('"', "'", ',"', ",'", '\\"', "a", "a ", "a.", "[", ", ", '."'):
        start = time.process_time()
        with pytest.raises(FileError):
            files.parse_toml("x = " + part * (500_000 // len(part)), "x")
        assert time.process_time() - start < 1.5, part


def test_json_has_bounds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for text in ("[" * 100_000, '{"a":' * 100 + "1" + "}" * 100):
        (tmp_path / "x.json").write_text(text)
        assert "nested too deeply" in refused("predict", str(tmp_path / "x.json"), capsys=capsys)
    (tmp_path / "x.json").write_bytes(b'{"name": "\xff"}')
    assert "not a text file" in refused("predict", str(tmp_path / "x.json"), capsys=capsys)


def test_what_is_too_large_is_not_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with (tmp_path / "x.toml").open("wb") as stream:
        stream.truncate(1 << 40)  # of which the disk has nothing
    assert "larger than 8 MiB" in refused("predict", str(tmp_path / "x.toml"), capsys=capsys)


HEAD = b'{"is": "head", "gpu": "x"}\n'


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b'{"is": "head", "x": ' + b"[" * 100_000 + b"}\n", "line 1 is not an event"),
        (b'{"is": "head", "x": ' + b"[" * 99 + b"]" * 99 + b"}\n", "nested too deeply"),
        (b'{"is": "head", "gpu": "\xff"}\n', "head: format: missing"),
        (b'{"is": "head", "gpu": "\\u001b[31m"}\n', "line 1 is not an event"),
        (HEAD + b"\n" * 1_000_001, "more than 1,000,000 lines"),
    ],
    ids=["brackets", "deep", "bytes", "escapes", "lines"],
)
def test_a_journal_has_bounds(content: bytes, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.jsonl").write_bytes(content)
    assert why in refused("machine", "derive", str(tmp_path / "x.jsonl"), capsys=capsys)


@pytest.mark.parametrize("compress", [gzip.compress, lzma.compress])
def test_a_compressed_file_is_expanded_up_to_a_bound(
    compress: Callable[[bytes], bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bound is 128 MiB, nine times the largest journal there is; here it is 1 MiB."""
    monkeypatch.setattr(files, "LARGEST_EXPANDED_BYTES", 1 << 20)
    file = tmp_path / "x.jsonl"
    file.write_bytes(compress(bytes(1 << 20)))
    assert len(files.read_expanded(file)) == 1 << 20
    file.write_bytes(compress(bytes((1 << 20) + 1)))
    with pytest.raises(FileError, match="expands to more than 1 MiB"):
        files.read_expanded(file)
    file.write_bytes(compress(HEAD * 100)[:-20])
    with pytest.raises(FileError, match="Compressed file ended"):
        journal.read(file)


def test_control_characters_of_a_machine_file_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, file = (FOLDER / "gtx980.toml").read_text(), str(tmp_path / "x.toml")
    evil = json.dumps(EVIL)
    for before in ('name = "GeForce GTX 980"', 'architecture = "Maxwell"', 'ref = "Volkov 2016 Table 2.6"'):
        assert before in text
        key = before.partition(" ")[0]
        (tmp_path / "x.toml").write_text(text.replace(before, f"{key} = {evil}", 1))
        for command in ("machine check", "machine show", "predict saxpy --gpu"):
            assert f"{key}: must be text of one line" in refused(*command.split(), file, capsys=capsys)


def test_control_characters_of_a_workload_do_not_reach_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = {"name": EVIL, "source": EVIL, "notes": [EVIL], "instructions": {"fp32": 8}}
    (tmp_path / "x.json").write_text(json.dumps(tree))
    for command in ("predict {}", "compare {}", "occupancy {}", "workload show {}", "predict {} --json"):
        assert main(command.format(tmp_path / "x.json").split()) == 0
        out = capsys.readouterr().out
        assert out.replace("\n", "").isprintable()
        assert not any(line.startswith("warplens: forged") for line in out.splitlines())


def test_json_obeys_no_character() -> None:
    text = to_json({"name": EVIL + "é"})
    assert text.replace("\n", "").isprintable() and "é" in text
    assert json.loads(text) == {"name": EVIL + "é"}


class _Closed(io.StringIO):
    """Standard output that nobody reads."""

    def write(self, text: str) -> int:
        raise BrokenPipeError

    def fileno(self) -> int:
        return os.open(os.devnull, os.O_WRONLY)


@pytest.mark.parametrize("options", [("--save",), ("--html",), ("--json", "--save")])
def test_files_are_written_before_anything_is_printed(
    options: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = api.load_launch(EXAMPLES / "saxpy.toml")
    monkeypatch.setattr("warplens.cli.kernel.load_report", lambda *given: [(api.load_workload("saxpy"), call)])
    monkeypatch.setattr(sys, "stdout", _Closed())
    assert main(["analyze", "x.ncu-rep", "--model", "volkov", *options, str(tmp_path / "file")]) == 0
    assert (tmp_path / "file").stat().st_size > 100


def test_what_is_made_once_is_made_again_when_it_was_damaged(tmp_path: Path) -> None:
    made = list[int]()

    def make() -> str:
        made.append(1)
        return "what is kept"

    assert [computed_once("x", tmp_path, b"of", str, make) for _ in range(2)] == ["what is kept"] * 2
    (file,) = (tmp_path / "__pycache__").iterdir()
    for old, new in ((b"what", b"whet"), (b"what", b"wh\xff\xff")):
        file.write_bytes(file.read_bytes().replace(old, new))
        assert computed_once("x", tmp_path, b"of", str, make) == "what is kept"
    assert len(made) == 3


@pytest.mark.parametrize(
    "text",
    [
        "LDC.64 R6, c[0x14][0x210]", "LDC R6, c[0x8][0x0]", "LDC R6, c[0x0][0x10000]", "LDC.64 R6, c[0x0][0xfffc]",
        "LDC R6, c[0x0][-0x4]", "LDC.U8 R6, c[0x9][R2]", "LDC R6, c[0x0][R2+0x8000000000000000]",
        "FADD R6, R2, c[0x14][0x210]", "MOV R6, 1e999",
    ],
)  # fmt: skip
def test_what_no_constant_bank_holds_is_not_known(text: str, tmp_path: Path) -> None:
    """A bank above 7 ended in a traceback; one of them by a register would have been read beyond the banks' end."""
    (tmp_path / "x.sass").write_text(f"{text}\nEXIT\n")
    emulator = Emulator(load_program(tmp_path / "x.sass"), KernelCall(grid=1, block=32))
    assert sum(emulator.code.unknown.values()) == 1


LOOP = """
.L_x_0:
IADD3 R6, R6, 0x1, RZ
ISETP.GE.AND P0, PT, R6, R7, PT
@!P0 BRA `(.L_x_0)
EXIT
"""


def looping(folder: Path, turns: int) -> Emulator:
    """Return an emulator of four warps whose threads count to a number."""
    pytest.importorskip("numba")
    (folder / "x.sass").write_text(LOOP.replace("R7", hex(turns)))
    return Emulator(load_program(folder / "x.sass"), KernelCall(grid=1, block=128))


def test_an_emulation_in_short_slices_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    for size in (1, 1000, 1 << 60):
        monkeypatch.setattr("warplens.emulator.emulator._SLICE", size)
        one = looping(tmp_path, 1000)
        one.run([0])
        made.append((one.stats.tolist(), one.work, one.executed))
        with pytest.raises(EmulationError, match="still running after 10,240 warp instructions"):
            looping(tmp_path, 1000).run([0], budget=10_100)  # 40 rounds of four turns of 64
    assert made[0] == made[1] == made[2] and made[0][2] == 4 * (3 * 1000 + 1)


def test_a_signal_is_obeyed_within_the_emulation(tmp_path: Path) -> None:
    """SIGTERM was obeyed when the compiled code came back, minutes later."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    emulator = looping(tmp_path, 1 << 30)
    before = signal.signal(signal.SIGVTALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.1)
        start = time.process_time()
        with pytest.raises(KeyboardInterrupt):
            emulator.run([0], budget=1 << 60)
        assert time.process_time() - start < 1
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def test_an_emulation_in_a_thread_of_its_own_can_be_stopped(tmp_path: Path) -> None:
    emulator = looping(tmp_path, 1 << 30)
    threading.Timer(0.1, lambda: setattr(emulator, "stopped", True)).start()
    with pytest.raises(EmulationError, match="interrupted"):
        emulator.run([0], budget=1 << 60)


def test_answers_do_not_depend_on_hashes() -> None:
    code = "from warplens.cli import main; main('predict saxpy --model all --json'.split())"
    said = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, env={**os.environ, "PYTHONHASHSEED": seed})
        for seed in ("1", "2")
    ]
    assert said[0].stdout == said[1].stdout and len(said[0].stdout) > 1000 and not said[0].stderr


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt(), MemoryError()])
def test_what_fails_amid_writing_leaves_the_old_file_and_nothing_else(error: BaseException, tmp_path: Path) -> None:
    (tmp_path / "x").write_text("old")
    with pytest.raises((FileError, type(error))) as caught, files.writing(tmp_path / "x") as stream:
        stream.write(b"new")
        raise error
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("x", "old")]
    assert not isinstance(error, OSError) or "cannot write: No space left" in str(caught.value)


ABSURD = ("nan", "inf", "-inf", "-1", "0", "1e-320", "1e308", "1e400", "9223372036854775808", "9" * 400)


@pytest.mark.parametrize("number", ABSURD)
def test_absurd_numbers_are_answered_or_refused(number: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One line or an answer: no traceback, no warning, and nothing that JSON cannot say."""
    for command in (
        "predict saxpy --warps={}", "predict volkov-add-load --alpha={}", "occupancy --registers={} --block=32",
        "occupancy --registers=32 --block={}", "occupancy --registers=32 --block=32 --shared={}",
        "simulate saxpy --warps={}", "simulate saxpy --seed={}", "simulate saxpy --set=machine.sms={}",
        "whatif saxpy --set=machine.clock={}", "simulate saxpy --top={}",
    ):  # fmt: skip
        try:
            code = main([*command.format(number).split(), "--json"])
        except SystemExit as ended:  # the parser's
            code = int(str(ended.code))
        out, err = capsys.readouterr()
        assert (code, err) == (0, "") or (code == 2 and out == "" and err.count("\n") == 1), (command, err)
        assert code or json.loads(out, parse_constant=pytest.fail)
