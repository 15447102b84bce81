"""Triton's compiler: a kernel of a Python file to machine code, in a process of its own and without a GPU.

Only Triton's part of the file is read (triton_source.py). What a launch compiles the kernel for follows from its
arguments (`warplens.workload.compiled_call`). The process reads a request in JSON on standard input and answers in
JSON; the cubin goes to the file that the request names. Triton takes a function's text from Python's cache of source
lines: the text that was checked is put there.
"""

from __future__ import annotations

import importlib
import json
import linecache
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from msgspec import Struct

from warplens.core.errors import FileError, WarplensError, nearest
from warplens.core.files import read_text
from warplens.core.processes import MissingTool, ToolError, excess
from warplens.program import toolchain
from warplens.program.toolchain import one_line
from warplens.program.triton_source import TritonSource, extract, resolve

TRITON_SECONDS = 240.0  # of processor time: a large kernel takes half a minute


class Target(Struct, frozen=True):
    """The specialisation of a kernel: types by parameter, constants, parameters that 16 divides, compiler options."""

    signature: dict[str, str]
    constexprs: dict[str, bool | int | float | str | None]
    divisible: list[str]
    options: dict[str, int]


def split_name(file: str) -> tuple[str, str | None]:
    """Split `file.py:kernel` at the colon."""
    found = re.fullmatch(r"(.+\.py):(\w+)", file)
    return (found.group(1), found.group(2)) if found else (file, None)


def read_source(path: Path, kernel: str | None) -> tuple[TritonSource, str]:
    """Return Triton's part of a Python file, and the name of the kernel that is meant."""
    source = extract(read_text(path), str(path))
    names = list(source.parameters)
    if not names:
        raise FileError(f"{path}: no function under @triton.jit in it")
    if kernel is None and len(names) == 1:
        return source, names[0]
    if kernel not in names:
        asked = "name one of its kernels" if kernel is None else f"no kernel {kernel!r}{nearest(kernel, names)}"
        raise FileError(f"{path}: {asked}; there are: {', '.join(names)}")
    return source, kernel


def compile_source(
    source: TritonSource, name: str, path: Path, target: Target, arch: str
) -> tuple[bytes, dict[str, Any]]:
    """Compile a kernel; return its cubin and the compiler's facts: warps, shared memory, version."""
    what = f"{path}:{name}"
    with tempfile.TemporaryDirectory(prefix="warplens-") as folder:
        out = Path(folder) / "kernel.cubin"
        request = {
            "text": source.text, "file": str(path), "kernel": name, "chains": source.chains,
            "capability": int(re.sub(r"\D", "", arch)), "out": str(out), "signature": target.signature,
            "constexprs": target.constexprs, "divisible": target.divisible, "options": target.options,
        }  # fmt: skip
        code, said = toolchain.serve("program.triton", json.dumps(request).encode(), TRITON_SECONDS)
        if beyond := excess(code, b"", TRITON_SECONDS):
            raise ToolError(f"{what}: Triton {beyond}")
        try:
            answer: dict[str, Any] = json.loads(said)
        except ValueError:
            raise ToolError(f"{what}: Triton broke off (exit code {code})") from None
        if "missing" in answer:
            raise MissingTool(f"Triton is not installed ({answer['missing']}); `pip install triton` brings it")
        if "error" in answer:
            raise WarplensError(f"{what}: {one_line(str(answer['error']))}")
        return out.read_bytes(), answer


def serve() -> None:
    """Answer one request on standard input (runs in the child process)."""
    request = json.loads(sys.stdin.buffer.read())
    answers, sys.stdout = sys.stdout, sys.stderr  # a kernel's static_print is no answer
    try:
        os.environ["TRITON_CACHE_DIR"] = str(Path(request["out"]).parent / "cache")
        answer = _compile(request)
    except ImportError as error:
        answer = {"missing": str(error)}
    except WarplensError as error:
        answer = {"error": str(error)}
    except Exception as error:  # whatever Triton raises is about the user's kernel
        inner: BaseException = error  # the message, behind the one that shows the position in the source
        while inner.__cause__ is not None:
            inner = inner.__cause__
        message = str(error) if inner is error else f"{error}: {inner}"
        answer = {"error": f"{type(error).__name__}: {message}"}
    answers.write(json.dumps(answer))


def _compile(request: dict[str, Any]) -> dict[str, Any]:
    triton = importlib.import_module("triton")
    compiler = importlib.import_module("triton.compiler")
    target = importlib.import_module("triton.backends.compiler").GPUTarget("cuda", int(request["capability"]), 32)
    resolve(request["chains"], importlib.import_module)
    text, file = request["text"], request["file"]
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    space: dict[str, Any] = {"__name__": "kernels"}
    exec(compile(text, file, "exec"), space)  # checked line by line in triton_source.py
    function = space[request["kernel"]]
    names = list(function.arg_names)
    constants = {name: _value(value, triton.language) for name, value in request["constexprs"].items()}
    source = compiler.ASTSource(
        function,
        signature={name: request["signature"][name] for name in names},
        constexprs={(names.index(name),): value for name, value in constants.items()},
        attrs={(names.index(name),): [["tt.divisibility", 16]] for name in request["divisible"]},
    )
    _correct_lines(Path(str(triton.__file__)).parents[1])
    compiled = triton.compile(source, target=target, options=request["options"])
    Path(request["out"]).write_bytes(compiled.asm["cubin"])
    kept = compiled.metadata
    return {
        "version": f"Triton {triton.__version__}",
        "name": kept.name,
        "num_warps": kept.num_warps,
        "num_ctas": kept.num_ctas,
        "shared_bytes": kept.shared,
        "global_scratch_bytes": getattr(kept, "global_scratch_size", 0) or 0,
        "profile_scratch_bytes": getattr(kept, "profile_scratch_size", 0) or 0,
    }


def _correct_lines(installed: Path) -> None:
    """Correct the lines in Triton's PTX, and the names of its own files to those below where it is `installed`.

    LLVM counts the lines of inline assembly, as which Triton writes its loads, on from the line of the source.
    """
    backend = importlib.import_module("triton.backends.nvidia.compiler").CUDABackend
    theirs = backend.make_ptx

    def corrected(self: Any, *arguments: Any) -> str:
        parts = re.split(r"(// begin inline asm\n.*?// end inline asm\n)", theirs(self, *arguments), flags=re.S)
        parts[1::2] = [re.sub(r"(?m)^\s*\.loc\s.*\n", "", part) for part in parts[1::2]]
        return "".join(parts).replace(f"{installed}/", "")

    backend.make_ptx = corrected


def _value(value: Any, language: Any) -> Any:
    """Return a constant; "tl.float16" and the like name types."""
    if isinstance(value, str) and value.startswith("tl."):
        found = getattr(language, value.removeprefix("tl."), None)
        if not isinstance(found, language.dtype):
            raise WarplensError(f"constexpr {value!r}: no type of Triton's language")
        return found
    return value
