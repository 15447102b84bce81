"""Triton's compiler in a process of its own, without a GPU: what `warplens.program.triton` asks of it.

The process reads a request in JSON on standard input and answers in JSON; the cubin goes to the file that the request
names. Triton takes a function's text from Python's cache of source lines: the text that was checked is put there.
"""

from __future__ import annotations

import importlib
import json
import linecache
import os
import re
import sys
from pathlib import Path
from typing import Any

from warplens.core.errors import WarplensError
from warplens.program.triton_source import resolve


def serve() -> None:
    """Answer one request on standard input (runs in the child process)."""
    request = json.loads(sys.stdin.buffer.read())
    answers, sys.stdout = sys.stdout, sys.stderr  # a kernel's static_print must not get among the answers
    try:
        os.environ["TRITON_CACHE_DIR"] = str(Path(request["out"]).parent / "cache")
        answer = _compile(request)
    except ImportError as error:
        answer = {"missing": str(error)}
    except WarplensError as error:
        answer = {"error": str(error)}
    except Exception as error:  # whatever Triton raises is about the user's kernel
        answer = {"error": f"{type(error).__name__}: {_innermost(error)}"}
    answers.write(json.dumps(answer))


def _innermost(error: BaseException) -> str:
    """Return the message at the bottom of a chain of errors, behind the one that shows the place in the source."""
    inner = error
    while inner.__cause__ is not None:
        inner = inner.__cause__
    return str(error) if inner is error else f"{error}: {inner}"


def _compile(request: dict[str, Any]) -> dict[str, Any]:
    triton = importlib.import_module("triton")
    compiler = importlib.import_module("triton.compiler")
    target = importlib.import_module("triton.backends.compiler").GPUTarget("cuda", int(request["capability"]), 32)
    resolve(request["chains"], importlib.import_module)
    function = _functions(request["text"], request["file"])[request["kernel"]]
    names = list(function.arg_names)
    constants = {name: _value(value, triton.language) for name, value in request["constexprs"].items()}
    source = compiler.ASTSource(
        function,
        signature={name: request["signature"][name] for name in names},
        constexprs={(names.index(name),): value for name, value in constants.items()},
        attrs={(names.index(name),): [["tt.divisibility", 16]] for name in request["divisible"]},
    )
    _mend_lines(Path(str(triton.__file__)).parents[1])
    made = triton.compile(source, target=target, options=request["options"])
    Path(request["out"]).write_bytes(made.asm["cubin"])
    kept = made.metadata
    return {
        "version": f"Triton {triton.__version__}",
        "name": kept.name,
        "num_warps": kept.num_warps,
        "num_ctas": kept.num_ctas,
        "shared_bytes": kept.shared,
        "global_scratch_bytes": getattr(kept, "global_scratch_size", 0) or 0,
        "profile_scratch_bytes": getattr(kept, "profile_scratch_size", 0) or 0,
    }


def _mend_lines(installed: Path) -> None:
    """Let Triton's PTX name the right lines, and its own files by their names below where it is `installed`.

    LLVM counts the lines of inline assembly, as which Triton writes its loads, on from the line of the source.
    """
    backend = importlib.import_module("triton.backends.nvidia.compiler").CUDABackend
    made = backend.make_ptx

    def mended(self: Any, *given: Any) -> str:
        parts = re.split(r"(// begin inline asm\n.*?// end inline asm\n)", made(self, *given), flags=re.S)
        parts[1::2] = [re.sub(r"(?m)^\s*\.loc\s.*\n", "", part) for part in parts[1::2]]
        return "".join(parts).replace(f"{installed}/", "")

    backend.make_ptx = mended


def _functions(text: str, file: str) -> dict[str, Any]:
    """Run what was kept of a file: imports of Triton, constants, and functions under its decorator."""
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    space: dict[str, Any] = {"__name__": "kernels"}
    exec(compile(text, file, "exec"), space)  # checked line by line in triton_source.py
    return space


def _value(value: Any, language: Any) -> Any:
    """Return a constant; "tl.float16" and the like name types."""
    if isinstance(value, str) and value.startswith("tl."):
        found = getattr(language, value.removeprefix("tl."), None)
        if not isinstance(found, language.dtype):
            raise WarplensError(f"constexpr {value!r}: no type of Triton's language")
        return found
    return value
