"""The kernel and call that a command line names, and what is printed where the call is missing."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warplens.core.errors import WarplensError, refuse
from warplens.core.file_kinds import CODE, kind_of
from warplens.core.units import printable

if TYPE_CHECKING:
    from warplens.api import Options, Workload
    from warplens.api.request import Request
    from warplens.machine import Machine

DEFAULT_MACHINE = "h200"
_MOST_SHOWN = 8  # kernels of a file with their commands


def options_of(args: argparse.Namespace) -> Options:
    """Return how to compile, for no architecture yet."""
    from warplens.api import Options
    from warplens.program.compile import split_flags

    macros, folders, others = split_flags(args.flags)
    limit, includes = args.maxrregcount, [*args.includes, *folders]
    missing = [folder for folder in includes if not Path(folder).is_dir()]
    refuse(limit is not None and not 16 <= limit <= 255, f"--maxrregcount takes 16 to 255 registers, not {limit}")
    refuse(missing, f"-I {' '.join(missing[:1])}: no such folder")
    return Options("", [*args.defines, *macros], includes, args.use_fast_math, limit, others)


def request_of(args: argparse.Namespace) -> Request:
    """Return the kernel and call that are asked for, with compiled kernels kept unless --no-cache is given."""
    from warplens.api.request import Request
    from warplens.core.cache import Cache
    from warplens.core.files import default_folder
    from warplens.workload.command_line import Flags
    from warplens.workload.launch import load_launch

    if args.file is None and args.launch is None:
        raise WarplensError(f"{args.command} what? Name a kernel's file (.cu, .ptx, .cubin, .py) or a launch file")
    refuse(args.launch is None and args.variant, "--variant is one of a launch file: it needs --launch L.toml")
    return Request(
        file=args.file,
        launch=None if args.launch is None else load_launch(args.launch, args.variant),
        kernel=args.kernel,
        flags=Flags(args.grid, args.block, args.shared, args.num_warps, args.arguments, args.variables),
        options=options_of(args),
        cache=Cache(None if getattr(args, "no_cache", False) else default_folder()),
    )


def take_launch_file(args: argparse.Namespace) -> None:
    """Take a launch file that is given as the kernel's file, `L.toml` or `L.toml:VARIANT`, for what it is."""
    file = getattr(args, "file", None)
    if file is None or not hasattr(args, "grid"):
        return
    from warplens.api.request import split_variant

    path, variant = split_variant(str(file))
    if kind_of(path) != "launch":
        return
    if args.launch is not None:
        raise WarplensError(f"{path}: a launch file, and --launch {args.launch} is another one; give one of them")
    args.launch, args.file = path, None
    args.variant = ",".join(filter(None, (variant, args.variant)))


def names_kernel(args: argparse.Namespace) -> bool:
    """Return whether the arguments name a kernel to be launched, rather than a workload or a report."""
    return args.launch is not None or (args.file is not None and kind_of(args.file) in CODE)


def counted(args: argparse.Namespace, machine: Machine) -> Workload:
    """Return the workload of a saved file or a profiler's report, or count the kernel that is called."""
    from warplens.api.counting import counted, load_any
    from warplens.api.request import load
    from warplens.cli.output import watching

    if args.file is not None and not names_kernel(args):
        return load_any(args.file, machine, alpha=getattr(args, "alpha", None))
    with watching("analysing") as say:
        return counted(*load(request_of(args), machine), machine, progress=say)


def init(args: argparse.Namespace) -> int:
    """Write a launch file for a kernel; a file that is there is not written over."""
    from msgspec.structs import replace

    from warplens.api.request import chosen, kernels_of
    from warplens.core.files import write_whole
    from warplens.machine import load_machine
    from warplens.program.triton import split_name
    from warplens.report.data import document
    from warplens.workload.compiled_call import OLDEST, architecture
    from warplens.workload.suggested_launch import launch_text

    how = replace(options_of(args), arch=architecture(load_machine(args.machine), OLDEST))
    file, named = split_name(args.file)
    kernel = chosen(kernels_of(args.file, how)[1], named or args.kernel, args.file)
    out = Path(args.out) if args.out else Path(file).with_suffix(".toml")
    if out.exists() and not args.force:
        raise WarplensError(f"{out} is there already: name another by -o, or give --force to write over it")
    beside, *folders = (os.path.relpath(Path(f).resolve(), out.resolve().parent) for f in (file, *how.includes))
    write_whole(out, launch_text(kernel, beside, replace(how, includes=folders)))
    if args.json:
        print(document({"file": str(out), "kernel": kernel.chosen}))
    else:
        print(f"{out}: a call of {printable(kernel.chosen)}; its sizes are guesses: edit them, then")
        print(f"    warplens analyze {shlex.quote(str(out))}")
    return 0


def print_kernels(error: WarplensError, args: argparse.Namespace) -> None:
    """Print, where only the call is missing, the kernels of the file and the command that goes on with each."""
    from warplens.api import NoCall
    from warplens.workload.suggested_launch import command_line

    if not isinstance(error, NoCall):
        return None
    words = _repeated(args)
    commands = [command_line(k, error.file, args.command, words, name=error.several) for k in error.kernels]
    if args.json:
        from warplens.report.data import document

        kernels = [{"kernel": k.chosen, "parameters": k.parameters, "variables": k.variables, "command": command}
                   for k, command in zip(error.kernels, commands, strict=True)]  # fmt: skip
        return print(document({"file": error.file, "kernels": kernels}))
    lines = list[str]()
    for kernel, command in list(zip(error.kernels, commands, strict=True))[:_MOST_SHOWN]:
        parameters = ", ".join(f"{p.written} {p.name}".replace("* ", "*") for p in kernel.parameters)
        lines += ["", f"  {kernel.chosen}({parameters})", f"    {command}"]
    if len(error.kernels) > _MOST_SHOWN:
        lines += ["", f"  and {len(error.kernels) - _MOST_SHOWN} more: `warplens show {error.file} --list`"]
    init = ["warplens", "init", error.file, *(["--kernel", error.kernels[0].chosen] if error.several else [])]
    lines += [
        "", "The sizes are guesses: set them to what your program does. To keep them in a file:",
        f"    {shlex.join([*init, *words])}",
    ]  # fmt: skip
    return print("\n".join(map(printable, lines)), file=sys.stderr)


def _repeated(args: argparse.Namespace) -> list[str]:
    """Return what the arguments say of the compiler and the machine, for the commands that go on."""
    words: list[Any] = [*(f"-D{macro}" for macro in args.defines), *(f"-I{folder}" for folder in args.includes)]
    words += [f"--flag={flag}" for flag in args.flags]
    words += ["--use_fast_math"] if args.use_fast_math else []
    words += [f"--maxrregcount={args.maxrregcount}"] if args.maxrregcount is not None else []
    words += [f"--machine={args.machine}"] if args.machine != DEFAULT_MACHINE else []
    return words + ([f"--toolkit={args.toolkit}"] if args.toolkit else [])
