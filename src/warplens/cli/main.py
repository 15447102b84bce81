"""Entry of the command line: runs one command; what a user can mend is one line on stderr and exit code 2."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from warplens.cli import call
from warplens.cli.commands import COMMANDS
from warplens.cli.parser import parser
from warplens.core.errors import RefusedSource, WarplensError, refuse
from warplens.core.units import printable


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit code."""
    if sys.stdout is None or sys.stderr is None:  # closed by the caller
        sys.stdout = sys.stdout or Path(os.devnull).open("w")  # noqa: SIM115
        sys.stderr = sys.stderr or Path(os.devnull).open("w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):  # what the terminal cannot show becomes a question mark
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    with contextlib.suppress(ValueError):  # not in the main thread
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that temporary folders go
    args: argparse.Namespace | None = None
    try:
        args = _parsed(sys.argv[1:] if arguments is None else arguments)
        code = 0 if args is None else _run(args)
        sys.stdout.flush()
        return code
    except WarplensError as error:
        line = " ".join((error.line if isinstance(error, RefusedSource) else str(error)).split())
        print("warplens: " + printable(line), file=sys.stderr)
        if isinstance(error, RefusedSource):  # a compiler's own lines, without what a terminal would obey
            print(error.message, file=sys.stderr)
        if args is not None and "warplens.api" in sys.modules:  # else no kernel was looked for
            try:
                call.print_kernels(error, args)
            except BrokenPipeError:
                _discard_output()
        return 2
    except KeyboardInterrupt:
        print("warplens: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader went away, as `| head` does: not an error
        _discard_output()
        return 0
    except OSError as error:  # a full disk behind standard output
        _discard_output()
        print(f"warplens: cannot write the output: {error.strerror or error}", file=sys.stderr)
        return 2


def _parsed(given: Sequence[str]) -> argparse.Namespace | None:
    """Parse the arguments; without any, print the help and return nothing."""
    top = parser(given)
    args, rest = top.parse_known_args(given)
    if args.command is None and not rest:
        print(top.format_help(), end="")
        return None
    if rest:
        asked = top if args.command is None else top.commands.choices[args.command]
        asked.unknown(rest[0])
    for name in ("html", "save", "trace"):
        refuse(getattr(args, name, None) == "-", f"--{name} -: it is written to a file only; give its name")
    return args


def _run(args: argparse.Namespace) -> int:
    command, verb = COMMANDS[args.command], getattr(args, "verb", "")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # NumPy's: nothing here multiplies matrices, and they spin
    if hasattr(args, "launch"):
        call.take_launch_file(args)
    module = importlib.import_module(f"warplens.cli.{(command.verbs[verb] if command.verbs else command).module}")
    run: Callable[[argparse.Namespace], int | None] = getattr(module, "_".join(filter(None, (args.command, verb))))
    if getattr(args, "toolkit", None) is None:
        return run(args) or 0
    from warplens.program.toolchain import using

    with using(args.toolkit):
        return run(args) or 0


def _discard_output() -> None:
    """Point standard output nowhere, so that its last flush at exit cannot fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
