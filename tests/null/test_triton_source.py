"""Triton kernels out of a Python file that is never run, and what a launch compiles them for."""

from __future__ import annotations

import ast
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from warplens.core.errors import FileError
from warplens.program.triton import extract, resolve, split_name
from warplens.workload.compiled_call import specialise
from warplens.workload.launch import KernelCall, load_launch, parse_launch

EXAMPLES = Path(__file__).parents[2] / "examples" / "triton"
FILE = '''"""A file that must not run."""
import os, triton
import torch
from triton import language as tl, cdiv as up

os.system("touch ran")
WIDTH: tl.constexpr = 4
DEPTH = tl.constexpr(8)
OTHER = os.getpid()


@triton.autotune(configs=[os.getpid()], key=["n"])
@triton.jit(do_not_specialize=["n"])
def scale(x, n,
          BLOCK: tl.constexpr = 64):
    at = tl.arange(0, BLOCK * up(WIDTH, DEPTH))
    tl.store(x + at, helper(tl.load(x + at)))


@triton.jit
def helper(value):
    return value * 2


def run():
    scale[(1,)](torch.zeros(1), 1)
'''


def test_only_tritons_part_is_kept_and_stays_on_its_lines() -> None:
    made = extract(FILE, "f.py")
    lines, before = made.text.splitlines(), FILE.splitlines()
    assert lines[1] == "import triton" and lines[3] == "from triton import language as tl, cdiv as up"
    assert "os." not in made.text and "torch" not in made.text and "autotune" not in made.text
    assert lines[12] == "@triton.jit(do_not_specialize=['n'])"
    for number in (7, 8, 14, 15, 16, 17, 21, 22):
        assert lines[number - 1] == before[number - 1]
    assert made.parameters == {"scale": {"x": False, "n": False, "BLOCK": True}, "helper": {"value": False}}
    assert made.chains == ["triton.cdiv", "triton.language.arange", "triton.language.constexpr", "triton.language.load",
                           "triton.language.store"]  # fmt: skip
    assert [node.name for node in ast.parse(made.text).body if isinstance(node, ast.FunctionDef)] == ["scale", "helper"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("os.system('x')", "os: no @triton.jit function, Triton import or constant"),
        ("getattr(x, 'handle')", "Python's getattr"),
        ("x.handle.dump()", "the hidden attribute handle"),
        ("x.__class__", "the hidden attribute __class__"),
        ("import os", "an import"),
        ("__import__('os')", "Python's __import__"),
        ("OTHER + 1", "OTHER: no @triton.jit function"),
    ],
)
def test_what_is_not_tritons_is_refused(line: str, message: str) -> None:
    text = f"import os, triton\nOTHER = os.getpid()\n@triton.jit\ndef kernel(x):\n    {line}\n"
    with pytest.raises(FileError, match="line 5") as error:
        extract(text, "f.py")
    assert message in str(error.value)


def test_a_default_that_would_run_is_refused() -> None:
    with pytest.raises(FileError, match="a default that is not a literal"):
        extract("import os, triton\n@triton.jit\ndef kernel(x=os.getpid()):\n    pass\n", "f.py")
    with pytest.raises(FileError, match="line 2: not Python"):
        extract("import triton\ndef (:\n", "f.py")


def test_names_lead_into_tritons_language_alone() -> None:
    def load() -> None: ...

    load.__module__ = "triton.language.core"
    language = type(ast)("triton.language")
    language.load, language.os, language.core = load, ast, type(ast)("triton.language.core")  # type: ignore[attr-defined]
    root: Any = SimpleNamespace(language=language, cdiv=ast.parse)
    resolve(["triton.language.load", "triton.cdiv"], lambda name: root)
    for chain, message in (
        ("triton.language.os.parse", "triton.language.os is not of Triton's language"),
        ("triton.language.core", "a module cannot be a value"),
        ("triton.language.nothing", "this Triton has no"),
    ):
        with pytest.raises(FileError, match=message):
            resolve([chain], lambda name: root)


def _call(**changes: Any) -> KernelCall:
    tree = {"grid": 4, "num_warps": 4, "constexpr": {"BLOCK": 64}, "arg": [
        {"name": "x", "type": "f32*", "count": 64}, {"name": "n", "type": "i32", "value": 64},
        {"name": "stride", "type": "i32", "value": 1}, {"name": "odd", "type": "i64", "value": 7},
        {"name": "factor", "type": "f32", "value": 16.0},
    ]}  # fmt: skip
    return parse_launch({**tree, **changes}, "l.toml")


PARAMETERS = {"x": False, "n": False, "stride": False, "odd": False, "factor": False, "BLOCK": True}


def test_a_launch_specialises_as_tritons_own_does() -> None:
    made, kept = specialise(_call(), PARAMETERS, "f.py:k")
    assert made.signature == {"x": "*fp32", "n": "i32", "stride": "constexpr", "odd": "i64", "factor": "fp32",
                              "BLOCK": "constexpr"}  # fmt: skip
    assert made.constexprs == {"BLOCK": 64, "stride": 1}  # an integer 1 is compiled in
    assert made.divisible == ["x", "n"]  # 16 divides them; a float is never marked
    assert [a.name for a in kept] == ["x", "n", "odd", "factor"]


def test_what_a_launch_lacks_is_named() -> None:
    for changes, message in (
        ({"constexpr": {}}, "lacks BLOCK"),
        ({"constexpr": {"BLOCK": 1, "BLOK": 2}}, "constexpr.BLOK: no such constant; did you mean 'BLOCK'"),
        ({"arg": []}, "takes the arguments x, n, stride, odd, factor; the launch file gives none"),
    ):
        with pytest.raises(FileError, match=message):
            specialise(_call(**changes), PARAMETERS, "f.py:k")
    with pytest.raises(FileError, match="follows from num_warps"):
        _call(block=128)
    with pytest.raises(FileError, match=r"l.toml: block: missing"):
        parse_launch({"grid": 1}, "l.toml")


def test_a_variant_changes_single_constants() -> None:
    call = load_launch(EXAMPLES / "triton_matmul.toml", "wide")
    assert call.constexpr == {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64, "GROUP": 8}
    assert call.block_shape == (256, 1, 1)
    assert split_name("a/b.py:kernel") == ("a/b.py", "kernel") and split_name("a.cu:b") == ("a.cu:b", None)


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.py")), ids=lambda f: f.stem)
def test_examples_are_taken(file: Path) -> None:
    assert file.stem in extract(file.read_text(), file.name).parameters
