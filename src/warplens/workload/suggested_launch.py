"""Suggested launches: sizes that a kernel is likely to take, for a user to replace by his own.

A whole number that the kernel multiplies by, or that ends a loop, is the side of something square; one that is only
compared is a length. Arrays hold as many elements as that makes. The shape of the block follows launch bounds and the
arrays in shared memory.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Any

from warplens.program.compile import Options
from warplens.workload.interface import Interface, Parameter
from warplens.workload.launch import SCALAR_BYTES, default_fill

_LENGTH, _SIDE, _SMALL_SIDE = 1 << 24, 2048, 64  # of one dimension; of two or three; of more
_THREADS, _TILE = 256, 16
_NUMBERS = {
    r"offset|start|begin|first|base|level|id|idx|index|axis|mode|flag|diag": 0,
    r"step|shift|seed|stage|phase|scale|inc[xy]?": 1,
    r"iters?|iterations|steps|rounds|repeats?|num_?iters?": 16,
}  # whole numbers that are no sizes, by their names
_BY_THREADS = re.compile(
    r"blockIdx\s*\.\s*x\s*\*\s*(?:\([^()]*\)\s*)?blockDim|blockDim\s*\.\s*x\s*\*\s*(?:\([^()]*\)\s*)?blockIdx"
)  # the number of a thread in the grid; without it a block has a row
_HINTS = {
    "count": "  # elements", "value": "  # or an [[arg]] for each member",
    "fill": "  # or zeros, ones, iota, linear(start, step), uniform(lo, hi), random_int(lo, hi), file(\"x.npy\")",
}  # fmt: skip
_DYNAMIC_BYTES = 16  # per thread, of a kernel that takes shared memory from the launch


class _Sizes:
    """The side or length of a kernel's data, and the elements of its arrays."""

    def __init__(self, kernel: Interface) -> None:
        self.whole = [p.name for p in kernel.parameters if p.type in ("i32", "u32", "i64", "u64")]
        # a number is told from the sides by its name where it makes the arrays no larger
        strides = r"stride|pitch|^ld[a-z]?$"
        sizes = [n for n in self.whole if _number(n) is None and not re.search(strides, n.rpartition(".")[2].lower())]
        self.flat = not re.search(r"\b(?:threadIdx|blockIdx)\s*\.\s*y\b|program_id\(\s*(?:axis\s*=\s*)?1", kernel.body)
        if (
            self.flat
            and not any(_is_side(name, kernel.body) for name in self.whole)
            and (kernel.body or len(sizes) < 2)
        ):
            self.value = self.count = _LENGTH
        elif len(sizes) <= 3:
            self.value, self.count = _SIDE, _SIDE**2
        else:
            self.value, self.count = _SMALL_SIDE, _SMALL_SIDE**4


def _is_side(name: str, body: str) -> bool:
    bare = re.escape(name.rpartition(".")[2])
    loop = rf"\bfor ?\([^;]{{0,200}}+;[^;]{{0,200}}?\b{bare}\b|\brange\(.{{0,200}}?\b{bare}\b"
    ends_loop = "gridDim" not in body and re.search(loop, body)
    return bool(ends_loop or re.search(rf"\b{bare}\s*\*|\*\s*(?:\w+\s*[.]\s*)?{bare}\b", body))


def _number(name: str) -> int | None:
    bare = name.rpartition(".")[2].lower()
    return next((value for pattern, value in _NUMBERS.items() if re.fullmatch(pattern, bare)), None)


def starting_tree(kernel: Interface) -> dict[str, Any]:
    """Return the tree of a launch file for this kernel, but for the file."""
    sizes = _Sizes(kernel)
    block = _block(kernel, sizes)
    threads = block[0] * block[1]
    if not sizes.flat:
        grid = [max(1, sizes.value // extent) for extent in block]
    elif sizes.value == _LENGTH or _BY_THREADS.search(kernel.body):
        grid = [max(1, sizes.value // block[0])]
    else:
        grid = [sizes.value]  # a block for each row
    tree: dict[str, Any] = {"kernel": kernel.chosen, "grid": grid[0] if len(grid) == 1 else grid}
    if kernel.triton:
        tree |= _of_triton(kernel, sizes)
    else:
        tree["block"] = block[0] if sizes.flat and block[1] == 1 else block
    if re.search(r"\bextern\b[^;]{0,400}?__shared__", kernel.body):
        tree["dynamic_shared_bytes"] = _DYNAMIC_BYTES * threads
    return {**tree, "arg": [_argument(p, sizes) for p in kernel.parameters if not p.constant]}


def _of_triton(kernel: Interface, sizes: _Sizes) -> dict[str, Any]:
    """Return grid, warps and constants of a Triton kernel: tiles by their number, a program for each or for a row."""
    names = [p.name for p in kernel.parameters if p.constant]
    tiles = [name for name in names if not re.search("group|stages|warps", name.lower())]
    extent = 1024 if len(tiles) < 2 else 64
    grid: list[int] = [-(-sizes.value // extent)] * 2
    if sizes.flat:
        rows = sizes.value != _LENGTH and len(tiles) < 2
        grid = [sizes.value if rows else grid[0] if sizes.value == _LENGTH else grid[0] ** 2]
        extent = max(extent, sizes.value) if rows else extent
    constants = {name: extent if name in tiles else 4 for name in names}
    return {"grid": grid[0] if len(grid) == 1 else grid, "num_warps": 4, "constexpr": constants}


def _block(kernel: Interface, sizes: _Sizes) -> list[int]:
    most = kernel.threads_max or 1024
    if kernel.threads_required:
        return list(kernel.threads_required)
    if not sizes.flat:
        tile = kernel.tile if kernel.tile in (4, 8, 16, 32) else _TILE
        return [tile, min(tile, max(1, most // tile))]
    exact = kernel.tile if kernel.tile is not None and kernel.tile % 32 == 0 and 32 <= kernel.tile <= 1024 else None
    return [min(most, exact or _THREADS), 1]


def _argument(p: Parameter, sizes: _Sizes) -> dict[str, Any]:
    kind = p.type or ("f32*" if p.size_bytes == 8 else "i32")
    if kind.endswith("*"):
        return {"name": p.name, "type": kind, "count": p.lanes * sizes.count, "fill": default_fill(kind)}
    value: str | float = 1.0
    if kind == "bytes":
        value = f"<{p.size_bytes} bytes in hex>"  # refused: zeros would be a kernel without work
    elif kind[0] in "iu":
        number = _number(p.name)
        value = min(sizes.value if number is None else number, (1 << 8 * SCALAR_BYTES[kind] - 1) - 1)
    return {"name": p.name, "type": kind, "value": value}


def starting_variables(kernel: Interface) -> dict[str, float | int]:
    """Return values of the numbers among the variables that the kernel uses and the source does not set."""
    values = dict[str, float | int]()
    for v in kernel.variables:
        bare = re.escape(v.name.rpartition("::")[2])
        if SCALAR_BYTES.get(v.type) == v.size_bytes and not v.constant and re.search(rf"\b{bare}\b", kernel.body):
            number = _number(v.name)
            values[v.name] = 1.0 if v.type[0] in "fb" else _SMALL_SIDE if number is None else number
    return values


def starting_words(kernel: Interface) -> dict[str, str]:
    """Return the words of a command line for such a call: of --grid and the like, and of each argument by its name."""
    tree = starting_tree(kernel)
    words = {}
    for option, key in (("--grid", "grid"), ("--block", "block"), ("--shared", "dynamic_shared_bytes"),
                        ("--num-warps", "num_warps")):  # fmt: skip
        if tree.get(key):
            words[option] = ",".join(map(str, tree[key])) if isinstance(tree[key], list) else str(tree[key])
    typed = {argument["name"]: argument for argument in tree["arg"]}
    for p in kernel.parameters:
        value = tree["constexpr"][p.name] if p.constant else _written(p, typed[p.name], kernel.triton)
        words[p.name] = f"{p.name}={value}"
    return words


def _written(p: Parameter, argument: dict[str, Any], triton: bool) -> str:
    """Write an argument as `--arg` takes it; its type where the kernel's is a guess."""
    typed = argument["type"].rstrip("*")
    if "count" in argument:
        return str(argument["count"]) if p.type and not triton else f"{typed}[{argument['count']}]"
    value = f"{argument['value']:g}" if isinstance(argument["value"], float) else str(argument["value"])
    return f"{typed}:{value}" if not p.type or typed == "bytes" else value


def command_line(
    kernel: Interface, file: str, command: str = "analyze", given: Sequence[str] = (), *, name: bool = True
) -> str:
    """Return the command that launches a kernel with these sizes, for a shell; `given` are more options."""
    words = ["warplens", command, file, *(["--kernel", kernel.chosen] if name else [])]
    for key, text in starting_words(kernel).items():
        words += [key, text] if key.startswith("--") else ["--arg", text]
    for variable, value in starting_variables(kernel).items():
        words += ["--global", f"{variable}={value:g}"]
    return shlex.join([*words, *given])


def launch_text(kernel: Interface, file: str, options: Options) -> str:
    """Return a launch file to begin with, with a comment wherever a number is a guess.

    `file` and the include folders of `options` are relative to it.
    """
    tree, written = starting_tree(kernel), {p.name: p.written for p in kernel.parameters}
    lines = [
        f"# A call of {_comment(kernel.demangled)}.",
        "# Grid, block, sizes and contents are guesses: set them to what your program does.",
        "# Types, fills and more: docs/reference/launch-file.md.",
        "",
        f"file = {_toml(file)}",
        f"kernel = {_toml(tree['kernel'])}",
        f"grid = {_toml(tree['grid'])}  # blocks: one number, or [x, y, z]",
    ]
    if kernel.triton:
        table = ", ".join(f"{name} = {_toml(value)}" for name, value in tree["constexpr"].items())
        lines += [f"num_warps = {tree['num_warps']}", f"constexpr = {{ {table} }}"]
    else:
        lines += [f"block = {_toml(tree['block'])}  # threads of a block: one number, or [x, y, z]"]
    if tree.get("dynamic_shared_bytes"):
        lines += [f"dynamic_shared_bytes = {tree['dynamic_shared_bytes']}  # the third number of <<< >>>"]
    keys = ("defines", "includes", "flags", "fast_math", "register_limit")
    lines += [f"{key} = {_toml(value)}" for key in keys if (value := getattr(options, key))]
    for argument in tree["arg"]:
        lines += ["", f"[[arg]]  # {_comment(written[argument['name']])}"]
        hints = _HINTS if isinstance(argument.get("value"), str) else {**_HINTS, "value": ""}
        lines += [f"{key} = {_toml(value)}{hints.get(key, '')}" for key, value in argument.items()]
    values = starting_variables(kernel)
    for variable in kernel.variables:
        if variable.name in values:
            lines += ["", f"[[global]]  # {_comment(variable.written)}", f"name = {_toml(variable.name)}"]
            lines += [f"type = {_toml(variable.type)}", f"value = {values[variable.name]}"]
            continue
        bare, kind = variable.name, variable.type.rstrip("*") or "f32"
        lines += ["", f"# [[global]]  # {_comment(variable.written)}, {variable.size_bytes} bytes: to give it a value"]
        lines += [f"# name = {_toml(bare)}", f"# type = {_toml(kind)}", '# fill = "random"']
    return "\n".join(lines) + "\n"


def _comment(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)


def _toml(value: Any) -> str:
    """Write a value as TOML."""
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return '"' + "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in escaped) + '"'
    return str(value).lower() if isinstance(value, bool) else str(value)
