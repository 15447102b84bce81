"""Options that several commands share, and the parser whose errors are one line."""

from __future__ import annotations

import argparse
from typing import Any, NoReturn, TypeAlias

from warplens.core.errors import nearest

Commands: TypeAlias = "argparse._SubParsersAction[Any]"


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, with the name that was meant."""

    def __init__(self, **given: Any) -> None:
        """Keep the lines of descriptions and examples as they are written."""
        super().__init__(formatter_class=argparse.RawDescriptionHelpFormatter, **given)

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and where help is, and exit with 2."""
        said = " ".join(message.split())
        self.exit(2, f"warplens: {said}{' See' if said.endswith('?') else '; see'} `{self.prog} --help`\n")

    def unknown(self, argument: str) -> NoReturn:
        """Say that there is no such argument, and which one is meant."""
        there = [name for action in self._actions for name in action.option_strings if name.startswith("--")]
        hint = nearest(argument.partition("=")[0], there) if argument.startswith("-") else ""
        self.error(f"unknown argument {argument!r}{hint}")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        known = list(map(str, action.choices))
        hint = nearest(str(value), known) or f"; there are: {', '.join(known)}"
        what = "unknown command" if isinstance(action, argparse._SubParsersAction) else "unknown value"
        raise argparse.ArgumentError(None if what == "unknown command" else action, f"{what} {value!r}{hint}")


def add_command(commands: Commands, name: str, text: str, more: str = "") -> argparse.ArgumentParser:
    """Add a command: `text` says in one line what it does, `more` how it is used, with examples."""
    about = f"{text[0].upper()}{text[1:]}."
    command: argparse.ArgumentParser = commands.add_parser(name, help=text, description=about, epilog=more or None)
    return command


def json_option(command: argparse.ArgumentParser) -> None:
    """Add --json."""
    command.add_argument("--json", action="store_true", help="print the answer as JSON")


def machine_option(command: argparse.ArgumentParser, *, several: bool = False, default: str | None = "h200") -> None:
    """Add --machine, and its synonym --gpu."""
    text = "the GPU: a name of `warplens machine list` or a machine file"
    text += ", or several" if several else ""
    text += f" (default: {default})" if default else " (default: the first one that the file names)"
    name = "NAME[,NAME]" if several else "NAME"
    command.add_argument("--machine", "--gpu", dest="machine", default=default, metavar=name, help=text)


def compiler_options(command: argparse.ArgumentParser) -> None:
    """Add what goes on to the compiler."""
    more: dict[str, Any] = {"action": "append", "default": []}
    group = command.add_argument_group("the compiler")
    group.add_argument("-D", dest="defines", metavar="NAME[=VALUE]", help="define a macro", **more)
    group.add_argument("-I", dest="includes", metavar="FOLDER", help="look for included files here", **more)
    group.add_argument(
        "--flag", dest="flags", metavar="=FLAG", help="another flag of nvcc, such as --flag=-std=c++20", **more
    )
    group.add_argument("--use_fast_math", action="store_true", help="as nvcc has it")
    group.add_argument("--maxrregcount", type=int, metavar="N", help="as nvcc has it: 16 to 255 registers per thread")
    group.add_argument("--toolkit", metavar="DIR|wheels", help="the CUDA toolkit that compiles (default: CUDA_HOME, "
                       "that of nvcc on the PATH, /usr/local/cuda, the pip wheels)")  # fmt: skip


def no_cache_option(command: argparse.ArgumentParser) -> None:
    """Add --no-cache."""
    command.add_argument("--no-cache", action="store_true", help="compile again, and keep nothing")


def call_options(command: argparse.ArgumentParser) -> None:
    """Add what says how a kernel is launched: a launch file, or its values one by one, or both."""
    command.add_argument("--kernel", metavar="NAME", help="which kernel of the file, by its name or a part of it")
    call = command.add_argument_group(
        "the call",
        "A launch file (docs/reference/launch-file.md), or its values here. Without either, a command to go on with.",
    )
    call.add_argument("--launch", metavar="L.toml", help="a launch file; it may also be given as FILE")
    call.add_argument("--variant", default="", metavar="NAME[,NAME]", help="variants of the launch file to apply")
    call.add_argument("--grid", metavar="X[,Y[,Z]]", help="blocks of the grid")
    call.add_argument("--block", metavar="X[,Y[,Z]]", help="threads of a block")
    call.add_argument("--shared", type=int, metavar="BYTES", help="dynamic shared memory of a block")
    call.add_argument("--num-warps", type=int, metavar="N", help="for Triton: warps of a program")
    more: dict[str, Any] = {"action": "append", "default": []}
    call.add_argument("--arg", dest="arguments", metavar="NAME=VALUE", help="an argument: n=1024, a=2.5, "
                      "x=f32[1024]:random; of a pointer the number of elements will do: x=1024", **more)  # fmt: skip
    call.add_argument("--global", dest="variables", metavar="NAME=VALUE", help="the same of a __constant__ or "
                      "__device__ variable", **more)  # fmt: skip
