"""Options that several commands share, and the parser whose errors are one line."""

from __future__ import annotations

import argparse
from typing import Any, NoReturn, TypeAlias

from warplens.core.errors import nearest

Commands: TypeAlias = "argparse._SubParsersAction[Any]"


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, as all of ours are, with the name that was meant."""

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


def json_option(command: argparse.ArgumentParser) -> None:
    """Add --json."""
    command.add_argument("--json", action="store_true", help="print JSON instead of text")


def gpu_option(command: argparse.ArgumentParser, *, several: bool = False, default: str | None = "h200") -> None:
    """Add --gpu, which --machine is another name for."""
    text = "machine id, alias or file" + (f" (default: {default})" if default else "")
    name = "NAME[,NAME]" if several else "NAME"
    command.add_argument("--gpu", "--machine", dest="gpu", default=default, metavar=name, help=text)


def compiler_options(command: argparse.ArgumentParser) -> None:
    """Add what goes on to the compiler."""
    more: dict[str, Any] = {"action": "append", "default": []}
    command.add_argument("-D", dest="defines", metavar="NAME[=VALUE]", help="define a macro", **more)
    command.add_argument("-I", dest="includes", metavar="FOLDER", help="include folder", **more)
    command.add_argument(
        "--flag", dest="flags", metavar="=FLAG", help="another nvcc flag, such as --flag=-std=c++20", **more
    )
    command.add_argument("--use_fast_math", action="store_true", help="pass on to the compiler")
    command.add_argument("--maxrregcount", type=int, metavar="N", help="pass on to the compiler: 16 to 255")


def toolkit_option(command: argparse.ArgumentParser) -> None:
    """Add --toolkit."""
    command.add_argument("--toolkit", metavar="DIR|wheels", help="the CUDA toolkit that compiles (default: CUDA_HOME, "
                         "that of nvcc on the PATH, /usr/local/cuda, the pip wheels)")  # fmt: skip


def cache_option(command: argparse.ArgumentParser) -> None:
    """Add --no-cache."""
    command.add_argument("--no-cache", action="store_true", help="compile again, and keep nothing")


def call_options(command: argparse.ArgumentParser) -> None:
    """Add what says how a kernel is called: a launch file, or its keys one by one, or both."""
    command.add_argument("--kernel", metavar="NAME", help="which kernel of the file, by name or a part of it")
    call = command.add_argument_group(
        "the call",
        "a launch file (docs/reference/launch-file.md), or its values here; without any, the command that would do",
    )
    call.add_argument("--launch", metavar="L.toml", help="a launch file; as FILE, the same")
    call.add_argument("--variant", default="", metavar="NAME[,NAME]", help="variants of the launch file to apply")
    call.add_argument("--grid", metavar="X[,Y[,Z]]", help="blocks")
    call.add_argument("--block", metavar="X[,Y[,Z]]", help="threads of a block")
    call.add_argument("--shared", type=int, metavar="BYTES", help="shared memory of a block that the launch gives")
    call.add_argument("--num-warps", type=int, metavar="N", help="for Triton: warps of a program")
    more: dict[str, Any] = {"action": "append", "default": []}
    call.add_argument("--arg", dest="arguments", metavar="NAME=VALUE", help="n=1024, a=2.5, x=f32[1024]:random; of a "
                      "pointer the number of elements will do: x=1024; without NAME: the next one", **more)  # fmt: skip
    call.add_argument("--global", dest="variables", metavar="NAME=VALUE", help="the same of a __constant__ or "
                      "__device__ variable", **more)  # fmt: skip
