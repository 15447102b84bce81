"""The kernel of a launch, loaded by a process of its own while this one gets ready for it.

Compiling takes 0.1 s and more, importing our modules and loading the emulator 0.3 s: on two cores neither waits for the
other. The process is a fork, made as long as there is little more here than the
arguments. Until it has answered, nobody here looks for garbage: what is imported stays, and looking takes a tenth of
that time.
"""

from __future__ import annotations

import argparse
import gc
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from msgspec import DecodeError, msgpack

from warplens.core.cache import Cache
from warplens.core.errors import RefusedSource, WarplensError
from warplens.core.files import default_folder
from warplens.machine.loader import capability
from warplens.program import Options
from warplens.program.compile_cache import kept
from warplens.program.compiler_options import split_flags
from warplens.program.program import Program
from warplens.program.triton import split_name
from warplens.workload.compiled_call import OLDEST, known_to_compilers, source_of
from warplens.workload.launch import load_launch

Wait = Callable[[], Program | None]
_Answer = Program | str | tuple[str, str] | None  # a program, a message, one with a compiler's below it, or nothing
_GARBAGE = 100_000  # new objects, after which it is looked for


def options(args: argparse.Namespace, arch: str) -> Options:
    """How to compile, from the command line."""
    macros, folders, others = split_flags(args.flags)
    limit, includes = args.maxrregcount, [*args.includes, *folders]
    missing = [folder for folder in includes if not Path(folder).is_dir()]
    if limit is not None and not 16 <= limit <= 255:
        raise WarplensError(f"--maxrregcount takes 16 to 255 registers, not {limit}")
    if missing:
        raise WarplensError(f"-I {missing[0]}: no such folder")
    return Options(arch, [*args.defines, *macros], includes, args.use_fast_math, limit, others)


@contextmanager
def loading(args: argparse.Namespace) -> Iterator[Wait]:
    """Begin to load the kernel that the arguments name, and yield what waits for it.

    That returns nothing where the kernel has to be loaded as usual: without fork, for several GPUs, in a process that
    has imported the rest before or has threads, for Triton, for what is no plain file, and if the process broke off.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # NumPy's: nothing here multiplies matrices, and they spin
    ready = "numpy" in sys.modules or threading.active_count() > 1 or not hasattr(os, "fork")
    if ready or "," in args.gpu or not Path(args.launch or "").is_file():
        gc.enable()
        yield lambda: None
    else:
        there = _Late(None if args.no_cache else default_folder())
        with forked(lambda: _loaded(args, there), there.keep) as wait:
            yield wait


class _Late(Cache):
    """A cache that writes when it is told to: whoever waits for what was made does not wait for the disk."""

    def __init__(self, folder: Path | None) -> None:
        super().__init__(folder)
        self.waiting = list[tuple[str, Any]]()

    def put(self, key: str, value: Any) -> None:
        """Take an entry."""
        self.waiting.append((key, value))

    def keep(self) -> None:
        """Write the entries that were taken."""
        for key, value in self.waiting:
            super().put(key, value)


def _loaded(args: argparse.Namespace, there: Cache | None = None) -> Program | None:
    call = load_launch(args.launch, args.variant)
    arch = known_to_compilers(capability(args.gpu)) or OLDEST
    path, how = source_of(call, arch, args.file, options(args, ""))
    if Path(split_name(str(path))[0]).suffix == ".py" or not path.is_file():
        return None
    kernel, there = args.kernel or call.kernel, there or Cache(None if args.no_cache else default_folder())
    return kept(path, kernel, how, there)


@contextmanager
def forked(load: Wait, behind: Callable[[], None] = lambda: None) -> Iterator[Wait]:
    """Load a program in a forked process, and yield what waits for it; the process ends here at the latest.

    `behind`: what is left to do there when it has answered.
    """
    answer, answers = os.pipe()
    gc.disable()
    process = os.fork()
    if not process:
        _serve(load, behind, answers)
    os.close(answers)
    with os.fdopen(answer, "rb") as stream:
        answered = list[bytes]()
        try:
            yield lambda: _received(stream, answered)
        finally:
            _collect()
            if not answered:  # one that has answered ends by itself
                os.kill(process, signal.SIGTERM)
            os.waitpid(process, 0)


def _serve(load: Wait, behind: Callable[[], None], answers: int) -> NoReturn:
    """Load, answer, do what is left and end, in the forked process: a program, a message, or nothing."""
    try:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # so that tools and temporary folders go
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # what it prints then
        try:
            made: _Answer = load()
        except RefusedSource as error:
            made = (error.line, error.message)
        except WarplensError as error:
            made = str(error)
        with os.fdopen(answers, "wb") as stream:
            stream.write(msgpack.encode(made))
        behind()
    finally:
        os._exit(0)


def _received(stream: BinaryIO, answered: list[bytes]) -> Program | None:
    """Wait for a program; what the user can mend is raised here as it was there."""
    decoder: msgpack.Decoder[_Answer] = msgpack.Decoder(_Answer)  # it looks at all types first
    answered.append(stream.read())
    _collect()
    try:
        made = decoder.decode(answered[0])
    except DecodeError:
        return None
    if isinstance(made, str):
        raise WarplensError(made)
    if isinstance(made, tuple):
        raise RefusedSource(*made)
    return made


def _collect() -> None:
    """Look for garbage again, but not among what is there by now, and rarely: a prediction makes little of it."""
    if not gc.isenabled():
        gc.freeze()
        gc.set_threshold(_GARBAGE)
        gc.enable()
