"""Functions as machine code: compiled by Numba once, kept, and loaded without Numba from then on.

Importing Numba and having it read what it kept takes half a second in every process; LLVM's loader takes a tenth of
that. A function is kept with a stamp of its sources, Numba, LLVM and the processor: what has another one is compiled
again, and replaced; so is a file that was damaged. Numba itself is imported when something has to be compiled. Of
several processes that need the same function one compiles it, and the others wait for that.

    @later                 what only compiled code calls
    Function(...)          what compiled code calls by its address
    Entry(...)             what Python calls, with arrays and whole numbers
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import importlib.util
import os
import signal
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from msgspec import Struct, msgpack

from warplens.core.errors import refuse
from warplens.core.files import default_folder, keep, sealed, unsealed
from warplens.core.progress import waiting

# Functions that Numba's code calls after an error, or to free arrays that it allocated: code that allocates none
# (NRT_MemInfo_alloc) and raises nothing does not.
_NEVER_CALLED = (
    "NRT_Free", "NRT_MemInfo_call_dtor", "numba_do_raise", "numba_gil_", "numba_runtime_build_excinfo_struct",
    "numba_unpickle",
)  # fmt: skip
_ONE_AT_A_TIME = threading.RLock()
_FINE = (0, -2)  # what Numba's functions return: a result, or nothing
_ANY = "*"  # a name that only Numba knows
_LONGEST_WAIT_SECONDS, _PAUSE_SECONDS = 300.0, 0.1  # for a process that compiles: the longest takes a tenth of that
_WAITING = "warplens: waiting for another process, which compiles the emulator and the simulator for this machine"
_say_once = cache(print)


class Later:
    """A function that Numba compiles once something that uses it is compiled; it stands for Numba's own until then."""

    def __init__(self, make: Callable[[], Any], function: Callable[..., Any] | None = None) -> None:
        self._make, self.py_func = make, function
        self.__doc__ = function.__doc__ if function else make.__doc__

    @cached_property
    def compiled(self) -> Any:
        """Numba's compiled function."""
        return self._make()

    @cached_property
    def _numba_type_(self) -> Any:
        from numba.core import registry

        target: Any = registry.cpu_target
        compiled = self.compiled
        target.typing_context.refresh()  # what is new has to be known there
        target.target_context.refresh()
        return target.typing_context.resolve_value_type(compiled)

    @property
    def targetoptions(self) -> Any:
        """Numba's options, which say whether it is to be inlined."""
        return getattr(self.compiled, "targetoptions", {})

    def __call__(self, *arguments: Any) -> Any:
        """Call it from Python."""
        return self.compiled(*arguments)


class _Kept(Struct, frozen=True):
    """A compiled function as it is on the disk."""

    stamp: str
    symbol: str
    needs: list[str]
    code: bytes
    returns: bool = True


def there() -> bool:
    """Return whether Numba is installed; it is not imported."""
    return importlib.util.find_spec("numba") is not None


def refuse_without_numba(what: str) -> None:
    """Raise an error where Numba is missing: plain Python would take hours."""
    refuse(not there(), f"{what} needs Numba: pip install numba")


@cache
def stamp(sources: tuple[Path, ...]) -> str:
    """Return a digest of these files and of all else that machine code depends on."""
    from llvmlite import __version__, binding

    numba: Any = importlib.util.find_spec("numba")
    digest = hashlib.sha256(f"{sys.version} {__version__} {binding.get_host_cpu_name()}".encode())
    digest.update(binding.get_host_cpu_features().flatten().encode())
    for file in (*sources, Path(numba.origin).with_name("_version.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()


class Kept:
    """One compiled function on the disk: found by its stamp and loaded, or compiled and written."""

    def __init__(self, name: str, package: Path, stamp: str) -> None:
        given = os.environ.get("NUMBA_CACHE_DIR")
        folders = [Path(given)] if given else [package / "__pycache__", default_folder()]
        self.files = [folder / f"{name}.{sys.implementation.cache_tag}.code" for folder in folders]
        self.stamp, self.package = stamp, package
        self.found = self._looked_up()

    def _looked_up(self) -> _Kept | None:
        """Return what was kept of the same sources; a damaged file is none."""
        for file in self.files:
            with contextlib.suppress(OSError, ValueError):
                body = unsealed(file.read_bytes())
                kept = msgpack.decode(body, type=_Kept) if body is not None else None
                if kept is not None and kept.stamp == self.stamp:
                    return kept
        return None

    def address(self, compile: Callable[[], tuple[bytes, str, bool]]) -> int:
        """Load the function; return its address. Where it is not there, it is compiled: here, and nowhere else.

        `compile` returns machine code, the function's symbol and whether it returns anything.
        """
        if self.found is None:
            with _alone(self.files):
                self.found = self._looked_up()  # another process may have compiled it meanwhile
                if self.found is None:
                    with _obeying_signals(), compiling(self.package, 1):
                        code, symbol, returns = compile()
                    self.found = _Kept(self.stamp, symbol, _undefined(code), code, returns)
                    keep(self.files, sealed(msgpack.encode(self.found)))
        return loaded(self.found)


@contextlib.contextmanager
def _obeying_signals() -> Iterator[None]:
    """End the command line at once on SIGTERM and Ctrl-C, for LLVM takes seconds.

    This process has nothing to clear away. A program that has imported us keeps its own handlers.
    """
    before = {one: signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGINT)}
    ours = str(getattr(before[signal.SIGTERM], "__module__", "")).startswith("warplens.cli")
    changed = before if ours and threading.current_thread() is threading.main_thread() else {}
    for one in changed:
        signal.signal(one, signal.SIG_DFL)
    try:
        yield
    finally:
        for one, handler in changed.items():
            signal.signal(one, handler)


@contextlib.contextmanager
def _alone(files: list[Path]) -> Iterator[None]:
    """Exclude other processes from compiling a function; one that waits says so, and goes on after very long.

    The lock is a locked file in the first folder that takes it. It ends with its process, however that ends.
    """
    lock, handle, end = _lock_of(files), None, time.monotonic() + _LONGEST_WAIT_SECONDS
    with contextlib.suppress(OSError, ImportError):  # a folder or a system without locks
        while lock and (handle := _locked(lock)) is None and time.monotonic() < end:
            _say_once(_WAITING, file=sys.stderr, flush=True)
            time.sleep(_PAUSE_SECONDS)
    try:
        yield
    finally:
        if lock and handle is not None:
            with contextlib.suppress(OSError):
                lock.unlink()
            os.close(handle)


def _lock_of(files: list[Path]) -> Path | None:
    for file in files:
        with contextlib.suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True)
            if os.access(file.parent, os.W_OK):
                return file.with_suffix(".lock")
    return None


def _locked(lock: Path) -> int | None:
    """Lock a file and return it, open; nothing where another process has it, or has just taken it away."""
    import fcntl  # not on Windows

    handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(handle), lock.stat()):
            return handle
    except (BlockingIOError, FileNotFoundError):
        pass
    except OSError:
        os.close(handle)
        raise
    os.close(handle)
    return None


def _undefined(code: bytes) -> list[str]:
    """Return the names that machine code leaves open (of an ELF file of 64 bits; of others that is not known)."""
    if code[:5] != b"\x7fELF\x02":
        return [_ANY]
    (start,), (size, count, _) = struct.unpack_from("<Q", code, 40), struct.unpack_from("<3H", code, 58)
    headers = [struct.unpack_from("<IIQQQQIIQQ", code, start + i * size) for i in range(count)]
    found = []
    for _, kind, _, _, at, length, names, *_ in headers:
        for row in range(at, at + length, 24) if kind == 2 else ():  # the table of symbols
            name, _, _, section = struct.unpack_from("<IBBH", code, row)
            if name and not section:
                first = headers[names][4] + name
                found.append(code[first : code.index(b"\0", first)].decode())
    return found


@cache
def _loader() -> Any:
    """Return LLVM's loader."""
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    target = binding.Target.from_default_triple().create_target_machine(jit=True, codemodel="jitdefault")
    return binding.create_mcjit_compiler(binding.parse_assembly(""), target)


def loaded(kept: _Kept) -> int:
    """Load a function; return where it is."""
    from llvmlite import binding

    loader = _loader()  # knows all that this process has, from then on
    stop = ctypes.cast(ctypes.pythonapi.Py_FatalError, ctypes.c_void_p).value
    missing = [name for name in kept.needs if binding.address_of_symbol(name) is None]
    if all(name.startswith(_NEVER_CALLED) for name in missing):
        for name in missing:
            binding.add_symbol(name, stop)
    else:
        importlib.import_module("numba.core.registry").cpu_target.target_context.refresh()
    loader.add_object_file(binding.ObjectFileRef.from_data(kept.code))
    return int(loader.get_function_address(kept.symbol))


class Function:
    """A function of whole numbers and pointers that compiled code calls by its address, and Python too."""

    def __init__(
        self, function: Callable[..., Any], signature: Callable[[], Any], options: dict[str, Any],
        sources: Callable[[], tuple[Path, ...]],
    ) -> None:  # fmt: skip
        self.function, self.signature, self.options, self.sources = function, signature, options, sources
        self.__doc__, self.__name__ = function.__doc__, function.__name__

    @cached_property
    def _kept(self) -> Kept:
        return Kept(_name(self.function), _package(self.function), stamp(self.sources()))

    @property
    def address(self) -> int:
        """Where the compiled function is."""
        with _ONE_AT_A_TIME:
            if "_address" not in self.__dict__:
                self._address = self._kept.address(self._compile)
            return self._address

    def _compile(self) -> tuple[bytes, str, bool]:
        from numba.core import ccallback

        callbacks: Any = ccallback  # its types describe less than there is
        signature = self.signature()
        compiled = callbacks.CFunc(self.function, (signature.args, signature.return_type), {}, self.options)
        compiled.compile()
        return compiled._library.serialize_using_object_code()[2][0], compiled.native_name, True

    @cached_property
    def call(self) -> Callable[..., int]:
        """The compiled function, to be called from Python with whole numbers."""
        count = self.function.__code__.co_argcount
        return ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * count)(self.address)

    def is_ready(self) -> bool:
        """Return whether it is compiled already."""
        return "_address" in self.__dict__ or self._kept.found is not None


class Entry:
    """A function that Python calls with arrays and whole numbers; it returns a whole number, or nothing.

    It is called as Numba's own functions call one another: addresses for the result and for an exception, then of each
    array its owners (unused), item count and size, address, shape and strides.
    """

    def __init__(
        self, function: Callable[..., Any], options: dict[str, Any], sources: Callable[[], tuple[Path, ...]]
    ) -> None:
        self.py_func, self.options, self.sources = function, options, sources
        self.__doc__, self.__name__ = function.__doc__, function.__name__
        self._variants: dict[tuple[Any, ...], tuple[Callable[..., int], bool]] = {}

    def __call__(self, *arguments: Any) -> Any:
        """Run it, compiled for arrays of these kinds."""
        kinds = tuple([_kind(a) for a in arguments])
        if kinds not in self._variants:
            with _ONE_AT_A_TIME:  # Numba is not itself while the engine is compiled
                if kinds not in self._variants:
                    self._variants[kinds] = self._loaded(kinds, arguments)
        run, returns = self._variants[kinds]
        result = (ctypes.c_int64 * 2)()
        at = ctypes.addressof(result)
        status = run(at, at + 8, *[word for a in arguments for word in _words(a)])
        if status not in _FINE:
            raise RuntimeError(f"{self.__name__} failed with {status}")
        return result[0] if returns else None

    def _loaded(self, kinds: tuple[Any, ...], arguments: Sequence[Any]) -> tuple[Callable[..., int], bool]:
        named = tuple([kind if kind == "int" else (str(kind[0]), *kind[1:]) for kind in kinds])
        which = hashlib.sha256(repr(named).encode()).hexdigest()[:8]
        kept = Kept(f"{_name(self.py_func)}-{which}", _package(self.py_func), stamp(self.sources()))
        address = kept.address(lambda: self._compile(arguments))
        words = 2 + sum(len(_words(a)) for a in arguments)
        run = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_int64] * words)(address)
        return run, bool(kept.found and kept.found.returns)

    def _compile(self, arguments: Sequence[Any]) -> tuple[bytes, str, bool]:
        import numba

        jit: Any = numba.njit  # their types describe less than they take
        item: Any = numba.from_dtype
        compiled = jit(no_cpython_wrapper=True, no_cfunc_wrapper=True, **self.options)(self.py_func)
        kinds = (numba.types.Array(item(a.dtype), a.ndim, "C") if _is_array(a) else numba.int64 for a in arguments)
        compiled.compile(tuple(kinds))
        (result,) = compiled.overloads.values()
        code = result.library.codegen._tm.emit_object(result.library._final_module)
        return code, result.fndesc.llvm_func_name, result.signature.return_type != numba.types.none


# What is compiled, by its package: what it is called, and the seconds that a function takes (Xeon, one core).
_PARTS = {"emulator": ("the emulator", 2.5), "simulator": ("the simulator", 25.0)}


def compiling(package: Path, functions: int) -> contextlib.AbstractContextManager[None]:
    """Say on stderr, meanwhile, that so many functions of a package are compiled, and how long that takes."""
    what, seconds = _PARTS.get(package.name, ("a part of warplens", 2.0))
    about = max(5, 5 * round(functions * seconds / 5))
    return waiting(f"compiling {what} for this machine, once", f"{about} s")


def _name(function: Callable[..., Any]) -> str:
    return f"{function.__module__.rpartition('.')[2]}.{function.__name__}"


def _package(function: Callable[..., Any]) -> Path:
    return Path(function.__code__.co_filename).parent


def _is_array(argument: Any) -> bool:
    return bool(getattr(argument, "ndim", 0))


def _kind(argument: Any) -> Any:
    """Return what machine code depends on: as little as possible, for another kind is compiled again."""
    if not _is_array(argument):
        return "int"
    assert argument.flags.c_contiguous
    return argument.dtype, argument.ndim


def _words(argument: Any) -> tuple[int, ...]:
    if not _is_array(argument):
        return (int(argument),)
    where = argument.ctypes.data  # its other views of itself list all fields
    return (0, 0, argument.size, argument.itemsize, where, *argument.shape, *argument.strides)
