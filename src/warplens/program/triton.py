"""Triton's compiler: a kernel of a Python file to machine code, in a process of its own and without a GPU.

What a launch compiles the kernel for follows from its arguments (`warplens.workload.compiled_call`). The process reads
a request in JSON on standard input and answers in JSON; the cubin goes to the file that the request names. Triton takes
a function's text from Python's cache of source lines: the text that was checked is put there.

Of the file only the part that Triton's kernels need is taken, without running it: functions under @triton.jit, imports
of Triton's own modules, and names that stand for a literal or for `tl.constexpr(literal)`. All other lines become
empty, so that line numbers stay. What is kept may only name Triton's language, other kept functions and constants, and
the few built-in functions that Triton knows: the compiler calls whatever a kernel names, and nothing but Triton may be
called.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import json
import linecache
import os
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from msgspec import Struct

from warplens.core.errors import FileError, WarplensError, nearest
from warplens.core.files import read_text
from warplens.core.processes import MissingTool, ToolError, excess
from warplens.program import toolchain
from warplens.program.toolchain import one_line

LANGUAGE = "triton.language"
# What Triton's compiler takes from Python itself; getattr and hasattr are left out, they would get at anything.
BUILT_IN = frozenset(("len", "list", "range", "float", "int", "isinstance", "print", "min", "max", "bool", "tuple"))
_OF_TRITON = frozenset(("cdiv", "next_power_of_2"))  # functions of triton itself that kernels may call
_INSIDE = frozenset(("handle", "builder"))  # of a value: what the compiler keeps in it, which can write files
_ADDRESSES = ("load", "store", "atomic_", "make_block_ptr", "make_tensor_descriptor")  # first: an address
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
    exec(compile(text, file, "exec"), space)  # checked name by name: `_Checker`
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
    scratch = {f"{what}_scratch_bytes": getattr(kept, f"{what}_scratch_size", 0) or 0 for what in ("global", "profile")}
    return {
        "version": f"Triton {triton.__version__}", "name": kept.name, "num_warps": kept.num_warps,
        "num_ctas": kept.num_ctas, "shared_bytes": kept.shared, **scratch,
    }  # fmt: skip


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


class TritonSource(Struct, frozen=True):
    """The source that is kept: `text` has as many lines as the file; parameters by function, the constexpr marked."""

    text: str
    parameters: dict[str, dict[str, bool]]
    chains: list[str]  # names such as triton.language.load, to be looked up by whoever has Triton


def extract(text: str, file: str) -> TritonSource:
    """Return Triton's part of a Python file; `file` is for messages."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError) as error:
        line = getattr(error, "lineno", None)
        raise FileError(
            f"{file}: {f'line {line}: ' if line else ''}not Python: {getattr(error, 'msg', error)}"
        ) from None
    modules = {name: meaning for node in tree.body for name, meaning in _imported(node).items()}
    constants, kept = set[str](), list[ast.stmt]()
    for node in tree.body:
        if (name := _constant(node, modules)) is not None:
            constants.add(name)
            kept.append(node)
        elif _imported(node) or (isinstance(node, ast.FunctionDef) and _jit(node, modules) is not None):
            kept.append(node)
    functions = {node.name: node for node in kept if isinstance(node, ast.FunctionDef)}
    known = constants | functions.keys() | BUILT_IN
    chains = {chain for function in functions.values() for chain in _Checker(file, modules, known, function).chains}
    parameters = {name: _parameters(node, modules) for name, node in functions.items()}
    return TritonSource(_with_lines(text, kept, modules), parameters, sorted(chains))


def called_functions(text: str) -> set[str]:
    """Return the functions that another one calls by name."""
    return {
        node.func.id
        for function in ast.parse(text).body
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id != function.name
    }


def pointers_of(text: str) -> dict[str, set[str]]:
    """Return the parameters of each function that are pointers: where addresses of loads and stores begin."""
    pointers = dict[str, set[str]]()
    for function in (node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)):
        values = dict[str, list[ast.expr]]()
        for node in ast.walk(function):
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                values.setdefault(node.targets[0].id, []).append(node.value)
        calls = [node for node in ast.walk(function) if isinstance(node, ast.Call) and node.args]
        first = [c.args[0] for c in calls if isinstance(c.func, ast.Attribute) and c.func.attr.startswith(_ADDRESSES)]
        pointers[function.name] = {name for node in first for name in _beginnings(node, values, set())}
    return pointers


def _beginnings(node: ast.expr, values: dict[str, list[ast.expr]], seen: set[str]) -> set[str]:
    """Return the names that a sum begins with, whatever they were assigned from among them."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        return _beginnings(node.left, values, seen) or _beginnings(node.right, values, seen)
    if not isinstance(node, ast.Name) or node.id in seen:
        return set()
    seen.add(node.id)
    if node.id in values:
        return {name for value in values[node.id] for name in _beginnings(value, values, seen)}
    return {node.id}


def resolve(chains: list[str], module: Callable[[str], object]) -> None:
    """Look up what kernels name; refuse what is not of Triton's language. `module` imports one of Triton's."""
    for chain in chains:
        thing, path = module("triton"), ["triton"]
        for part in chain.split(".")[1:]:
            thing = getattr(thing, part, None)
            path.append(part)
            if thing is None:
                raise FileError(f"this Triton has no {chain}")
            home = getattr(thing, "__name__" if isinstance(thing, ModuleType) else "__module__", None) or LANGUAGE
            if chain.removeprefix("triton.") not in _OF_TRITON and not home.startswith(LANGUAGE):
                raise FileError(f"{chain}: {'.'.join(path)} is not of Triton's language")
        if isinstance(thing, ModuleType):
            raise FileError(f"{chain}: a module cannot be a value in a kernel")


def _imported(node: ast.stmt) -> dict[str, str]:
    """Return the names that an import of Triton's own brings, with what they stand for."""
    if isinstance(node, ast.Import):
        of_triton = [a for a in node.names if a.name == "triton" or a.name.startswith(LANGUAGE)]
        return {a.asname or "triton": a.name if a.asname else "triton" for a in of_triton}
    if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
        known = ("language", "jit", *_OF_TRITON) if node.module == "triton" else None
        if known or node.module.startswith(LANGUAGE):
            names = [a for a in node.names if (a.name in known if known else a.name != "*")]
            return {a.asname or a.name: f"{node.module}.{a.name}" for a in names}
    return {}


def _chain(node: ast.expr, modules: dict[str, str]) -> str | None:
    """Return what a dotted name that begins with an import stands for, such as triton.language.load."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or node.id not in modules:
        return None
    return ".".join([modules[node.id], *reversed(parts)])


def _constant(node: ast.stmt, modules: dict[str, str]) -> str | None:
    """Return the name that stands for a literal, or for one under tl.constexpr."""
    target = node.targets[0] if isinstance(node, ast.Assign) and len(node.targets) == 1 else None
    target = node.target if isinstance(node, ast.AnnAssign) else target
    value = getattr(node, "value", None)
    if not isinstance(target, ast.Name) or value is None:
        return None
    if isinstance(node, ast.AnnAssign) and _chain(node.annotation, modules) != f"{LANGUAGE}.constexpr":
        return None
    if isinstance(value, ast.Call) and _chain(value.func, modules) == f"{LANGUAGE}.constexpr":
        value = value.args[0] if len(value.args) == 1 and not value.keywords else value
    return target.id if _literal(value) else None


def _literal(node: ast.expr | None) -> bool:
    try:
        return node is None or isinstance(ast.literal_eval(node), bool | int | float | str | None)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return False


def _jit(node: ast.FunctionDef, modules: dict[str, str]) -> ast.expr | None:
    """Return the decorator that makes a function Triton's, if its options are literals."""
    for decorator in node.decorator_list:
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        if _chain(called, modules) == "triton.jit":
            options = [k.value for k in decorator.keywords] if isinstance(decorator, ast.Call) else []
            flat = [e for o in options for e in (o.elts if isinstance(o, ast.List | ast.Tuple) else [o])]
            return decorator if all(map(_literal, flat)) else None
    return None


def _parameters(node: ast.FunctionDef, modules: dict[str, str]) -> dict[str, bool]:
    def constant(annotation: ast.expr | None) -> bool:
        if isinstance(annotation, ast.Constant):
            return str(annotation.value).endswith("constexpr")
        return annotation is not None and _chain(annotation, modules) == f"{LANGUAGE}.constexpr"

    every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    return {argument.arg: constant(argument.annotation) for argument in every}


class _Checker(ast.NodeVisitor):
    """Walker of a function that refuses every name that is not among those that may be called."""

    def __init__(self, file: str, modules: dict[str, str], known: set[str] | frozenset[str], node: ast.FunctionDef):
        self.file, self.modules, self.chains = file, modules, list[str]()
        inner = list(ast.walk(node))  # the names that a function gives values to, its parameters among them
        self.known = known | {n.arg for n in inner if isinstance(n, ast.arg)}
        self.known |= {n.id for n in inner if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        if node.args.vararg or node.args.kwarg:
            self.refuse(node, f"{node.name} takes any number of arguments")
        for default in [*node.args.defaults, *(d for d in node.args.kw_defaults if d)]:
            if not _literal(default):
                self.refuse(default, "a default that is not a literal")
        for part in [*node.body, *(a.annotation for a in [*node.args.args, *node.args.kwonlyargs] if a.annotation)]:
            self.visit(part)

    def refuse(self, node: ast.AST, what: str) -> None:
        raise FileError(
            f"{self.file}: line {getattr(node, 'lineno', 0)}: {what}, which is not taken from a Triton kernel"
        )

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if node.attr.startswith("_") or node.attr in _INSIDE:
            self.refuse(node, f"the hidden attribute {node.attr}")
        chain = _chain(node, self.modules)
        if chain is None:
            self.visit(node.value)
        else:
            self.chains.append(chain)

    def visit_Name(self, node: ast.Name) -> None:
        if node.id in self.modules and isinstance(node.ctx, ast.Load):
            self.chains.append(self.modules[node.id])
        elif node.id not in self.known:
            builtin = "Python's " if hasattr(builtins, node.id) else ""
            self.refuse(node, f"{builtin}{node.id}: no @triton.jit function, Triton import or constant of this file")

    def visit_Import(self, node: ast.Import | ast.ImportFrom) -> None:
        self.refuse(node, "an import")

    visit_ImportFrom = visit_Import


def _with_lines(text: str, kept: list[ast.stmt], modules: dict[str, str]) -> str:
    """Return the text of the statements kept, on their own lines; of decorators only Triton's jit."""
    lines = text.splitlines()
    rows = [""] * len(lines)
    for node in kept:
        first, last = node.lineno, node.end_lineno or node.lineno
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [a for a in node.names if (a.asname or a.name.partition(".")[0]) in modules]
            whole = ", ".join(f"{a.name} as {a.asname}" if a.asname else a.name for a in names)
            begin = "import" if isinstance(node, ast.Import) else f"from {node.module} import"
            rows[first - 1] = f"{begin} {whole}"
            continue
        if node.col_offset or (rows[first - 1] and first == last):
            continue  # behind a semicolon: not kept, and missed where it is used
        rows[first - 1 : last] = lines[first - 1 : last]
        jit = _jit(node, modules) if isinstance(node, ast.FunctionDef) else None
        if jit is not None:
            at = (node.lineno - 2) if node.lineno > 1 else 0
            rows[at] = f"@{ast.unparse(jit)}"
    return "\n".join(rows) + "\n"
