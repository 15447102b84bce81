"""Fuzzing, the size that a commit can afford (`make fuzz` has more), and attacks that chance would not find."""

from __future__ import annotations

import os
import struct
import time
from pathlib import Path

import pytest

from warplens import cli
from warplens.core.errors import WarplensError
from warplens.program import list_kernels

from . import seeds
from .case import _run, _watch, prepared
from .run import fuzz, summary

COUNT, SEED = 120, 20


_SEEDS = pytest.mark.xdist_group("seeds")  # one worker makes them


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Path]]:
    return seeds.make(tmp_path_factory.mktemp("seeds").resolve())


@_SEEDS
def test_injured_files_cost_one_line_and_little_time(files: dict[str, list[Path]], tmp_path: Path) -> None:
    results = list(fuzz(range(COUNT), SEED, 2, files, tmp_path.resolve()))
    assert sorted(r.number for r in results) == list(range(COUNT))
    assert not [r for r in results if r.wrong], summary(results, 0.0)
    assert {r.code for r in results} == {0, 2}


@_SEEDS
def test_a_case_can_be_made_again(files: dict[str, list[Path]], tmp_path: Path) -> None:
    (tmp_path / "again").mkdir()
    for number in range(20):
        (_, first, _), (_, again, _) = (prepared(number, 1, files, p) for p in (tmp_path, tmp_path / "again"))
        assert first.read_bytes() == again.read_bytes()


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("raise RuntimeError('x')", "RuntimeError: x"),
        ("code = 1", "exit code 1"),
        ("open('left', 'w').close()", "left behind"),
        ("print(chr(27) + '[31m')", "control characters"),
        ("print('one'); print('{', file=sys.stderr); print('two', file=sys.stderr); code = 2", "not one line"),
        ("print('{NaN}')", "not JSON"),
        ("print('[NaN]')", "not JSON: NaN is no JSON"),
    ],
)
def test_what_may_not_be_is_noticed(body: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fuzzer itself: a command line that misbehaves is found out."""

    def main(command: list[str]) -> int:
        import sys

        names: dict[str, object] = {"sys": sys, "code": 0}
        exec(body, names)
        return int(str(names["code"]))

    monkeypatch.setattr(cli, "main", main)
    monkeypatch.chdir(tmp_path)
    command = ["--json"] if "JSON" in why else []
    assert why in _run(1, "cu", command, {"temporary": tmp_path, "work": tmp_path}, []).wrong


def test_shells_and_strange_places_are_noticed(tmp_path: Path) -> None:
    seen: list[str] = []
    _watch("subprocess.Popen", ("/bin/sh", ["sh", "-c", "x"], None, None), tmp_path, seen)
    _watch("open", ("/etc/x", "w", os.O_WRONLY), tmp_path, seen)
    _watch("open", (str(tmp_path / "x"), "w", os.O_WRONLY), tmp_path, seen)
    _watch("open", ("/etc/x", "r", os.O_RDONLY), tmp_path, seen)
    assert seen == ["starts a shell: ['sh', '-c', 'x']", "writes /etc/x"]


def _elf(sections: int, *, name_bytes: int = 0, start: int = 0, size: int = 0) -> bytes:
    """Make a cubin with many sections that all lie over one another and have long names."""
    head = b"\x7fELF\x02\x01\x01\x41\x08" + bytes(9) + struct.pack("<HI", 190, 1) + bytes(16)
    head = head.ljust(40, b"\0") + struct.pack("<QIHHHHHH", 64, 0x06005A04, 64, 0, 0, 64, sections, 0)
    table = 64 + 64 * sections
    names = b"\0.text." + b"n" * name_bytes + b"\0"
    first = struct.pack("<IIQQQQIIQQ", 0, 3, 0, 0, table, len(names), 0, 0, 1, 0)
    others = b"".join(
        struct.pack("<IIQQQQIIQQ", 1 + i % max(1, name_bytes), 1, 0, 0, start, size or table, 0, 0, 1, 0)
        for i in range(sections - 1)
    )
    return head + first + others + names


@pytest.mark.parametrize(
    "data",
    [
        _elf(65535, name_bytes=100_000),
        _elf(65535, size=1 << 22),
        _elf(3, start=(1 << 64) - 1, size=(1 << 64) - 1),
        b"\x7fELF" + _elf(65535)[:64] * 20_000,
        b"\x7fELF" * 500_000,
        b"\x50\xed\x55\xba" + b"\xff" * 5000,
        b"\x50\xed\x55\xba" * 200_000,
        b"",
    ],
    ids=["long names", "overlapping", "beyond", "headers", "magics", "fat", "fats", "empty"],
)
def test_attacks_on_headers_are_cheap(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "attack"
    path.write_bytes(data)
    start = time.process_time()
    with pytest.raises(WarplensError) as caught:
        assert list_kernels(path)
        raise WarplensError("")
    assert time.process_time() - start < 3 and "\n" not in str(caught.value)
