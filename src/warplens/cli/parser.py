"""The parsers of all commands, whose errors are one line, and the help that names the commands."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, NoReturn, TypeAlias

from warplens.cli.commands import COMMANDS, Command, Group, Option
from warplens.core.errors import nearest
from warplens.core.version import __version__

Commands: TypeAlias = "argparse._SubParsersAction[Any]"
_GROUPS = {
    "your kernel": ("analyze", "advise", "diff", "whatif", "check", "tune"),
    "look closer": ("show", "occupancy", "simulate", "init"),
    "machines and workloads": ("machine", "workload", "sweep"),
    "the papers' models": ("predict", "compare", "models", "reproduce", "validate"),
}
_EPILOG = """examples:
  warplens analyze kernel.cu                      its kernels, and the command that goes on with each
  warplens analyze kernel.cu --grid 32768 --block 256 --arg n=8388608 --arg x=8388608
  warplens init kernel.cu                         the same as a file, kernel.toml, to edit and to keep
  warplens advise kernel.toml                     what to change, and what it would buy
  warplens whatif kernel.toml --set launch.registers=64 --set machine=a100
  warplens diff before.toml after.toml            what changed, and why the time did
  warplens check kernel.toml --max-time 120us     for continuous integration

exit codes:
  0    done
  1    check: too slow; sweep, machine measure: nothing, or not all, came of it
  2    a wrong argument or file: one line on standard error says what to do
  130  interrupted
"""


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


class _Top(Parser):
    """The parser of all commands; its help has them in groups."""

    commands: Commands

    def format_help(self) -> str:
        """Return usage, commands by group, examples and exit codes."""
        told = {action.dest: action.help or "" for action in self.commands._choices_actions}
        lines = ["usage: warplens COMMAND ...", "", self.description or ""]
        for title, names in _GROUPS.items():
            lines += ["", f"{title}:", *(f"  {name:10} {told[name]}" for name in names if name in told)]
        return "\n".join([*lines, "", "warplens COMMAND --help has the options of one.", "", _EPILOG])


def parser(arguments: Sequence[str] = ()) -> _Top:
    """Build the parser of the command that the arguments begin with, or of all; what they need is imported later."""
    top = _Top(prog="warplens", description="How long a GPU kernel takes, what limits it, and what would help.")
    top.add_argument("--version", action="version", version=f"warplens {__version__}")
    top.commands = top.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    for name, command in COMMANDS.items():
        if name in arguments[:1] or not COMMANDS.keys() & set(arguments[:1]):
            _add(top.commands, name, command)
    return top


def _add(commands: Commands, name: str, command: Command) -> None:
    about = f"{command.text[0].upper()}{command.text[1:]}."
    taker = commands.add_parser(name, help=command.text, description=about, epilog=command.more or None)
    _take(taker, command.takes)
    if command.verbs:
        verbs = taker.add_subparsers(dest="verb", required=True, metavar="|".join(command.verbs))
        for verb, one in command.verbs.items():
            _add(verbs, verb, one)


def _take(taker: Any, options: Sequence[Option | Group]) -> None:
    """Add options to a parser, or to a group of it."""
    for one in options:
        if isinstance(one, Option):
            taker.add_argument(*one.names, **one.given)
        elif one.title:
            _take(taker.add_argument_group(one.title, one.text), one.options)
        else:
            _take(taker.add_mutually_exclusive_group(), one.options)
