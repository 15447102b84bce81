"""What a file is: every file that ships is known for what it is, and the wrong command says so in one line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from warplens.cli import main
from warplens.core.file_kinds import KINDS, kind_of
from warplens.machine.loader import FOLDER as MACHINES
from warplens.workload.loader import FOLDER as WORKLOADS

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


def test_every_file_that_ships_is_known_for_what_it_is() -> None:
    assert {kind_of(file) for file in WORKLOADS.glob("*.toml")} == {"workload"}
    assert {kind_of(file) for file in MACHINES.glob("*.toml")} == {"machine"}
    assert kind_of(EXAMPLES / "graphs" / "row.toml") == "graph"
    assert {kind_of(file) for file in EXAMPLES.glob("**/*.toml") if file.parent.name != "graphs"} == {"launch"}
    assert {kind_of(file) for file in EXAMPLES.glob("**/*.cu")} == {"source"}
    assert kind_of(f"{EXAMPLES / 'triton' / 'vector_add.py'}:add") == "triton"
    spaces = list((ROOT / "data" / "h200" / "suite" / "tuning").glob("*.toml"))
    launches = [file for file in spaces if file.stem.endswith(".launch")]
    assert {kind_of(file) for file in launches} == {"launch"}
    assert {kind_of(file) for file in spaces if file not in launches} == {"space"}


def test_a_file_that_is_none_of_them_has_no_kind(tmp_path: Path) -> None:
    for name, text in (("a.toml", "x = 1"), ("b.toml", "x ="), ("c.json", "[1]"), ("d.json", "{"), ("e", "text")):
        (tmp_path / name).write_text(text)
        assert kind_of(tmp_path / name) == "", name
    assert kind_of(tmp_path) == kind_of(tmp_path / "nowhere") == ""


SAXPY, GRAPH = str(EXAMPLES / "saxpy.toml"), str(EXAMPLES / "graphs" / "row.toml")
H200, ADD = str(MACHINES / "h200.toml"), str(WORKLOADS / "saxpy.toml")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("tune", SAXPY), "saxpy.toml: a launch file, where a space of configurations is wanted; `warplens analyze`"),
        (("sweep", GRAPH), "row.toml: a graph, where a space of configurations is wanted; `warplens simulate`"),
        (("tune", "k.cu"), "k.cu: CUDA source, where a space of configurations is wanted; `warplens analyze` takes it"),
        (("analyze", "--launch", "k.cubin"), "k.cubin: machine code, where a launch file is wanted"),
        (("analyze", GRAPH), "row.toml: a graph, where a kernel's file is wanted; `warplens simulate` takes it"),
        (("diff", SAXPY, "k.cu"), "k.cu: CUDA source: diff takes launch files; `warplens init k.cu` writes one"),
        (("predict", H200), "h200.toml: a machine file, where a workload is wanted; `--machine` takes it"),
        (("predict", SAXPY), "saxpy.toml: a launch file, where a workload is wanted; `warplens analyze` takes it"),
        (("predict", "k.cu"), "k.cu: CUDA source, where a workload is wanted; `warplens analyze` takes it"),
        (("predict", "saxpy", "--gpu", SAXPY), "saxpy.toml: a launch file, where a machine file is wanted"),
        (("analyze", "--launch", ADD), "saxpy.toml: a workload, where a launch file is wanted; `warplens predict`"),
    ],
)
def test_the_wrong_kind_is_one_line_that_names_the_right_command(
    arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == "" and said in err and err.count("\n") == 1


def test_every_kind_says_what_takes_it() -> None:
    assert all(what and "take" in how for what, how in KINDS.values())


@pytest.mark.parametrize("value", ["[" * 100 + "]" * 100, "1" + "0" * 4000])
def test_json_without_bounds_has_no_kind(value: str, tmp_path: Path) -> None:
    """Lists in one another 100 times, a number of 4001 digits: what reads the file says that."""
    (tmp_path / "w.json").write_text('{"given": 1}')
    assert kind_of(tmp_path / "w.json") == "workload"
    (tmp_path / "w.json").write_text(f'{{"given": {value}}}')
    assert kind_of(tmp_path / "w.json") == ""


def test_a_launch_file_with_a_fault_is_refused_for_that_fault(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "key.toml").write_text('grid = 1\nblock = 32\nkernl = "x"\n')
    (tmp_path / "bytes.toml").write_bytes(b'grid = 1\nblock = 32\nkernel = "\xff"\n')
    os.mkfifo(tmp_path / "pipe.toml")
    said = {
        "key": "kernl: unknown key; did you mean 'kernel'",
        "bytes": "not a text file",
        "pipe": "a device or a pipe",
    }
    for name, words in said.items():
        assert main(["analyze", str(tmp_path / f"{name}.toml")]) == 2
        err = capsys.readouterr().err
        assert words in err and err.count("\n") == 1


def test_a_launch_file_in_the_place_of_a_space_says_how_a_space_names_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "l.toml").write_text("grid = 1\nblock = 32\n")
    assert main(["tune", str(tmp_path / "l.toml")]) == 2
    assert '[[kernel]] with `launch = "l.toml"` (docs/reference/sweep-file.md)' in capsys.readouterr().err
