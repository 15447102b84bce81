"""The command line: run one command. Errors a user can mend are one line on stderr, exit code 2."""

from __future__ import annotations

import argparse
import contextlib
import gc
import io
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from warplens.cli import laboratory, sweeps
from warplens.cli.call import NoCall, init, print_kernels, take_launch_file
from warplens.cli.parser import parser
from warplens.core.errors import RefusedSource, WarplensError
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
        with _toolkit(getattr(args, "toolkit", None)):
            code = 0 if args is None else _run(args)
        sys.stdout.flush()
        return code
    except WarplensError as error:
        line = " ".join((error.line if isinstance(error, RefusedSource) else str(error)).split())
        print("warplens: " + printable(line), file=sys.stderr)
        if isinstance(error, RefusedSource):  # a compiler's own lines, without what a terminal would obey
            print(error.message, file=sys.stderr)
        if isinstance(error, NoCall):
            try:
                print_kernels(error, as_json=bool(args and args.json))
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
        if getattr(args, name, None) == "-":
            raise WarplensError(f"--{name} -: it is written to a file only; give its name")
    return args


def _toolkit(named: str | None) -> contextlib.AbstractContextManager[None]:
    if named is None:
        return contextlib.nullcontext()
    from warplens.program.toolchain import using

    return using(named)


def _run(args: argparse.Namespace) -> int:
    if args.command == "machine" and args.verb in ("measure", "derive", "agree"):
        return laboratory.run(args)
    if hasattr(args, "launch"):
        take_launch_file(args)
    if args.command == "init":
        return init(args)
    if args.command in ("sweep", "tune", "check"):
        return sweeps.run(args)
    if args.command not in ("analyze", "advise", "whatif"):
        return _command(args)
    gc.disable()  # until the kernel is there: what is imported stays
    from warplens.cli import ahead

    with ahead.loading(args) as args.load:
        return _command(args)


def _command(args: argparse.Namespace) -> int:
    if args.command == "analyze":  # most wait for this one: without what the others import
        from warplens.cli import analysis

        return analysis.run(args)
    from warplens.cli import commands

    return commands.run(args)


def _discard_output() -> None:
    """Point standard output nowhere, so that its last flush at exit cannot fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
