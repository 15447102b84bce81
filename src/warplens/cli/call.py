"""The call of a kernel that a command line asks for: by a launch file, by options, or by neither yet."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from warplens.core.errors import WarplensError
from warplens.core.file_kinds import CODE, KINDS, kind_of
from warplens.core.units import printable

_MOST_SHOWN = 8  # kernels of a file with their commands


class Asked(NamedTuple):
    """The file with the kernel, the call, and what loads the kernel where it is compiled already."""

    file: str | None
    call: Any
    load: Callable[[], Any] | None = None


class NoCall(WarplensError):
    """A kernel's file without a call: nothing to analyze, but its kernels and what to write are known."""

    def __init__(self, args: argparse.Namespace, kernels: list[Any], *, named: bool) -> None:
        """Keep the interfaces of the kernels that are asked for; `named`: whether a command has to name its kernel."""
        file = args.file
        super().__init__(
            f"{file}: how is the kernel called? Give grid, block and arguments as below, or in a launch file"
        )
        self.file, self.command, self.kernels, self.named = file, args.command, kernels, named
        self.given = given(args)


def given(args: argparse.Namespace) -> list[str]:
    """Return what the arguments say of the compiler and the GPU, to be said again."""
    words = [*(f"-D{macro}" for macro in args.defines), *(f"-I{folder}" for folder in args.includes)]
    words += [f"--flag={flag}" for flag in args.flags]
    words += ["--use_fast_math"] if args.use_fast_math else []
    words += [f"--maxrregcount={args.maxrregcount}"] if args.maxrregcount is not None else []
    words += [f"--gpu={args.gpu}"] if args.gpu != "h200" else []
    return words + ([f"--toolkit={args.toolkit}"] if args.toolkit else [])


def take_launch_file(args: argparse.Namespace) -> None:
    """Take a launch file in the place of the kernel's file, `L.toml` or `L.toml:VARIANT`, for what it is."""
    file = getattr(args, "file", None)
    if file is None or not hasattr(args, "grid"):
        return
    path, variant = split_variant(str(file))
    if kind_of(path) != "launch":
        return
    if args.launch is not None:
        raise WarplensError(f"{path}: a launch file, and --launch {args.launch} is another one; give one of them")
    args.launch, args.file = path, None
    args.variant = ",".join(filter(None, (variant, args.variant)))


def split_variant(name: str) -> tuple[str, str]:
    """Return the file and the variant of `L.toml:VARIANT`; an empty variant where none is named."""
    path, _, variant = name.rpartition(":") if re.search(r"\.toml:[\w,.-]+$", name) else (name, "", "")
    return path, variant


def names_kernel(args: argparse.Namespace) -> bool:
    """Whether the arguments name a kernel to be launched, rather than a workload or a report."""
    return args.launch is not None or (args.file is not None and kind_of(args.file) in CODE)


def flags_of(args: argparse.Namespace) -> Any:
    """Return what the options say of a call."""
    from warplens.workload.command_line import Flags

    return Flags(args.grid, args.block, args.shared, args.num_warps, args.arguments, args.variables)


def asked(args: argparse.Namespace, gpu: Any) -> Asked:
    """Return the call that the arguments ask for, compiled for a GPU where its types have to be found out."""
    from warplens.cli.ahead import options
    from warplens.program.compiler_options import Options
    from warplens.program.load import is_source, load_program
    from warplens.program.triton import split_name
    from warplens.workload.command_line import call_of, changed
    from warplens.workload.compiled_call import OLDEST, architecture
    from warplens.workload.launch import load_launch

    flags = flags_of(args)
    if args.launch is not None:
        call = load_launch(args.launch, args.variant)
        return Asked(args.file, changed(call, flags) if flags else call)
    if args.file is None:
        raise WarplensError(f"{args.command} what? Name a kernel's file (.cu, .ptx, .cubin, .py) or a launch file")
    if args.variant:
        raise WarplensError("--variant is one of a launch file: it needs --launch L.toml")
    made = options(args, architecture(gpu, OLDEST)) if is_source(args.file) else Options(architecture(gpu, OLDEST))
    file, named = split_name(args.file)
    triton = Path(file).suffix == ".py"
    found, kernels = _kernels(args.file, made)
    wanted = named or args.kernel
    if not flags:
        meant = kernels if wanted is None else [chosen(kernels, wanted, args.file)]
        raise NoCall(args, meant, named=len(kernels) > 1 and named is None)
    kernel = chosen(kernels, wanted, args.file)
    if triton:
        return Asked(f"{file}:{kernel.chosen}", call_of(kernel, flags, file))
    return Asked(
        args.file,
        call_of(kernel, flags, args.file),
        lambda: load_program(args.file, kernel.demangled, made, found),
    )


def _kernels(file: str, made: Any) -> tuple[Any, list[Any]]:
    """Return the kernels of a file as they were found there, and their interfaces."""
    from warplens.program.load import found_kernels
    from warplens.program.triton import split_name
    from warplens.workload.interface import interfaces

    if kind_of(file) not in CODE:
        raise _no_kernel(file)
    found = None if Path(split_name(file)[0]).suffix == ".py" else found_kernels(Path(file), made)
    kernels = interfaces(file, made, found)
    if not kernels and found is None:
        raise WarplensError(f"{file}: not CUDA source, PTX, a cubin or a program, and no function under @triton.jit")
    if not kernels:
        raise WarplensError(f"{file}: no kernel in it")
    return found, kernels


def init(args: argparse.Namespace) -> int:
    """Write a launch file for a kernel; a file that is there is not written over."""
    from msgspec.structs import replace

    from warplens.cli.ahead import options
    from warplens.core.files import write_whole
    from warplens.machine import load_machine
    from warplens.program.triton import split_name
    from warplens.report.data import to_json
    from warplens.workload.compiled_call import OLDEST, architecture
    from warplens.workload.suggested_launch import launch_text

    how = options(args, architecture(load_machine(args.gpu), OLDEST))
    file, named = split_name(args.file)
    kernel = chosen(_kernels(args.file, how)[1], named or args.kernel, args.file)
    out = Path(args.out) if args.out else Path(file).with_suffix(".toml")
    if out.exists() and not args.force:
        raise WarplensError(f"{out} is there already: name another by -o, or give --force to write over it")
    beside, *folders = (os.path.relpath(Path(f).resolve(), out.resolve().parent) for f in (file, *how.includes))
    write_whole(out, launch_text(kernel, beside, replace(how, includes=folders)))
    if args.json:
        print(to_json({"file": str(out), "kernel": kernel.chosen}))
    else:
        print(f"{out}: a call of {printable(kernel.chosen)}; its sizes are guesses: edit them, then")
        print(f"    warplens analyze {shlex.quote(str(out))}")
    return 0


def chosen(kernels: list[Any], wanted: str | None, file: str) -> Any:
    """Return the kernel that is meant."""
    from warplens.program.kernel_names import choose

    by_name = {kernel.demangled: kernel for kernel in kernels}
    return by_name[choose(list(by_name), wanted, file)]


def _no_kernel(file: str) -> WarplensError:
    from warplens.workload.launch import load_launch

    kind = kind_of(file)
    if kind:
        return WarplensError(f"{file}: {KINDS[kind][0]}, where a kernel's file is wanted; {KINDS[kind][1]}")
    if not Path(file).exists():
        return WarplensError(f"{file}: No such file or directory")
    if Path(file).suffix == ".toml":
        load_launch(file)  # says what is wrong with it
    return WarplensError(f"{file}: neither a kernel's file (.cu, .ptx, .cubin, .py) nor a launch file")


def print_kernels(error: NoCall, *, as_json: bool) -> None:
    """Print the kernels of a file with their parameters, and the command that goes on with each."""
    from warplens.workload.suggested_launch import command_line

    commands = [command_line(k, error.file, error.command, error.given, name=error.named) for k in error.kernels]
    if as_json:
        from warplens.report.data import to_json

        rows = [
            {"kernel": k.chosen, "parameters": [{"name": p.name, "type": p.type, "written": p.written,
             "size_bytes": p.size_bytes, "constant": p.constant} for p in k.parameters],
             "variables": [{"name": v.name, "type": v.type, "size_bytes": v.size_bytes} for v in k.variables],
             "command": command}
            for k, command in zip(error.kernels, commands, strict=True)
        ]  # fmt: skip
        print(to_json({"file": error.file, "kernels": rows}))
        return
    lines = list[str]()
    for kernel, command in list(zip(error.kernels, commands, strict=True))[:_MOST_SHOWN]:
        parameters = ", ".join(f"{p.written} {p.name}".replace("* ", "*") for p in kernel.parameters)
        lines += ["", f"  {kernel.chosen}({parameters})", f"    {command}"]
    if len(error.kernels) > _MOST_SHOWN:
        lines += ["", f"  and {len(error.kernels) - _MOST_SHOWN} more: `warplens show {error.file} --list`"]
    init = ["warplens", "init", error.file, *(["--kernel", error.kernels[0].chosen] if error.named else [])]
    lines += [
        "", "The sizes are guesses: set them to what your program does. To keep them in a file:",
        f"    {shlex.join([*init, *error.given])}",
    ]  # fmt: skip
    print("\n".join(map(printable, lines)), file=sys.stderr)
