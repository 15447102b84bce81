"""The parser of every command, and the help that names them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from warplens.cli import laboratory, sweeps
from warplens.cli.options import (
    Commands,
    Parser,
    cache_option,
    call_options,
    compiler_options,
    gpu_option,
    json_option,
    toolkit_option,
)
from warplens.core.version import __version__

_GROUPS = {
    "your kernel": ("analyze", "advise", "diff", "whatif", "check", "tune"),
    "look closer": ("show", "occupancy", "simulate", "init"),
    "GPUs and workloads": ("machine", "workload", "sweep"),
    "the papers' models": ("predict", "compare", "models", "reproduce", "validate"),
}
_COMPILING = frozenset(("analyze", "advise", "whatif", "diff", "show", "occupancy", "simulate", "sweep",
                        "tune", "check", "init"))  # fmt: skip
_EPILOG = """examples:
  warplens analyze kernel.cu                      its kernels, and the command that goes on with each
  warplens analyze kernel.cu --grid 32768 --block 256 --arg n=8388608 --arg x=8388608
  warplens init kernel.cu                         the same as a file, kernel.toml, to edit and to keep
  warplens advise kernel.toml                     what to change, and what it would buy
  warplens whatif kernel.toml --set launch.registers=64 --set gpu=a100
  warplens diff before.toml after.toml            what changed, and why the time did
  warplens check kernel.toml --max-time 120us     for continuous integration

exit codes:
  0    done
  1    check: too slow; sweep, machine measure: nothing, or not all, came of it
  2    a wrong argument or file: one line on standard error says what to do
  130  interrupted
"""


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
    top = _Top(prog="warplens", description="How long a GPU kernel takes, what holds it back, and what would help.")
    top.add_argument("--version", action="version", version=f"warplens {__version__}")
    top.commands = commands = top.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    builders = {
        ("predict", "compare"): _predict_commands, ("occupancy",): _occupancy_command, ("analyze",): _analyze_command,
        ("advise", "whatif", "diff"): _advise_commands, ("show",): _show_command, ("simulate",): _simulate_command,
        ("models",): _models_command, ("machine",): _machine_command, ("workload",): _shipped_command,
        ("reproduce",): _reproduce_command, ("validate",): _validate_command,
        ("init",): _init_command, ("sweep", "tune", "check"): sweeps.add_commands,
    }  # fmt: skip
    asked = [build for names, build in builders.items() if arguments and arguments[0] in names]
    for build in asked or builders.values():
        build(commands)
    for name in _COMPILING.intersection(commands.choices):
        toolkit_option(commands.choices[name])
    return top


def _predict_commands(commands: Commands) -> None:
    predict = _workload_command(commands, "predict", "predict a workload's time with one model, or all")
    predict.add_argument(
        "--model", help="a model's name, or all (default: ours for a counted kernel, else volkov-contention or volkov)"
    )
    compare = _workload_command(commands, "compare", "all models side by side, on one or several GPUs")
    compare.add_argument("--html", metavar="FILE", help="also write a self-contained HTML report")


def _models_command(commands: Commands) -> None:
    json_option(commands.add_parser("models", help="list the models"))


def _machine_command(commands: Commands) -> None:
    machine = commands.add_parser("machine", help="list, show or check machine files; measure a GPU")
    verbs = machine.add_subparsers(dest="verb", required=True, metavar="list|show|check|measure|derive|agree")
    json_option(verbs.add_parser("list", help="the machines that ship with warplens"))
    show = verbs.add_parser("show", help="the important numbers of a machine; --all: every one, with its source")
    show.add_argument("name", help="id, alias or path of a machine file")
    show.add_argument("--all", action="store_true", help="every number with its source, some thousands")
    json_option(show)
    check = verbs.add_parser("check", help="check machine files: sources, units, ranges, keys")
    check.add_argument("files", nargs="+", metavar="FILE", help="machine file, or the name of one that ships")
    json_option(check)
    laboratory.add_commands(verbs)


def _shipped_command(commands: Commands) -> None:
    workload = commands.add_parser("workload", help="list or show the workloads that ship with warplens")
    verbs = workload.add_subparsers(dest="verb", required=True, metavar="list|show")
    json_option(verbs.add_parser("list", help="names and sources"))
    show = verbs.add_parser("show", help="the counts of a workload")
    show.add_argument("name", help="name or path of a workload")
    show.add_argument("--alpha", type=float, help="for a mix: arithmetic instructions per other one")
    show.add_argument("--save", metavar="FILE", help="save it as JSON")
    json_option(show)


def _reproduce_command(commands: Commands) -> None:
    reproduce = commands.add_parser("reproduce", help="the papers' tables and figures: ours, theirs, difference")
    reproduce.add_argument("what", nargs="?", help="a paper (volkov) or an item (volkov-table-3.4); default: all")
    reproduce.add_argument("--list", action="store_true", help="list the items")
    reproduce.add_argument(
        "--gpu",
        "--machine",
        dest="gpu",
        metavar="NAME",
        help="for a GPU that the laboratory measured: h200, or a journal of `machine measure`",
    )
    reproduce.add_argument("--disagreements", action="store_true", help="show only what differs from the paper")
    reproduce.add_argument("--html", metavar="FILE", help="write tables and pictures to a self-contained HTML file")
    json_option(reproduce)


def _validate_command(commands: Commands) -> None:
    command = commands.add_parser("validate", help="each model's error over the measurements that ship")
    gpu_option(command)
    command.add_argument("--simulate", action="store_true", help="for the mixes: the simulator too (a minute or two)")
    command.add_argument("--kernels", action="store_true", help="over the measured kernels instead of the mixes")
    command.add_argument("--tuning", nargs="*", metavar="NAME", help="tune the measured spaces (all, or these) by "
                         "prediction, and hold the choices against the best")  # fmt: skip
    command.add_argument("--ladders", action="store_true", help="over optimisations that were applied and timed: what "
                         "the advisor said before, what came of it (minutes)")  # fmt: skip
    command.add_argument("--html", metavar="FILE", help="of the mixes or --kernels: write tables and pictures to a "
                         "self-contained HTML file")  # fmt: skip
    kernels = command.add_argument_group("with --kernels")
    kernels.add_argument("--models", metavar="NAME[,NAME]", help="only these (default: all; `warplens` takes minutes)")
    kernels.add_argument("--calibrate", action="store_true", help="keep the train set's errors for intervals")
    kernels.add_argument("--ablation", action="store_true", help="what each mechanism of `warplens` is worth (of the "
                         "first of --models), over every 4th launch unless --every says otherwise")  # fmt: skip
    kernels.add_argument("--ncu", action="store_true", help="our models from ncu's counts beside the emulator's")
    kernels.add_argument("--stalls", action="store_true", help="what warps wait for, simulated against ncu's samples")
    kernels.add_argument("--every", type=int, metavar="N", help="only every N-th launch")
    kernels.add_argument("--processes", type=int, metavar="N", help="processes that predict (default: 2)")
    kernels.add_argument("--unblind", action="store_true", help="name launches of the test set too: when no model is "
                         "to be changed any more")  # fmt: skip
    json_option(command)


def _occupancy_command(commands: Commands) -> None:
    text = "what fits on an SM, what to change for more, and throughput against occupancy"
    which = "a workload's name or file (.toml, .json), or a kernel's .cu, .ptx or .cubin"
    command = _workload_command(commands, "occupancy", text, optional=which)
    command.add_argument("--model", default="volkov", help="for a workload: the model for the curve (default: volkov)")
    kernel = command.add_argument_group("a kernel's .cu, .ptx or .cubin, or --registers alone")
    kernel.add_argument("--kernel", help="which kernel, by name or a part of it")
    kernel.add_argument("--block", type=int, metavar="N", help="threads per block (default: the launch bound, or 256)")
    kernel.add_argument("--registers", type=int, metavar="N", help="registers per thread, instead of the compiler's")
    kernel.add_argument("--shared", type=int, metavar="BYTES", help="static shared memory, instead of the compiler's")
    kernel.add_argument("--dynamic-shared", type=int, default=0, metavar="BYTES", help="shared memory asked at launch")
    kernel.add_argument("--html", metavar="FILE", help="also write a self-contained HTML report")
    compiler_options(command)


def _analyze_command(commands: Commands) -> None:
    text = "a kernel's time, what limits it and what would help, without a GPU"
    analyze = commands.add_parser("analyze", help=text, description=text)
    analyze.add_argument("file", nargs="?", metavar="FILE", help="CUDA source, PTX, a cubin or program, Triton's "
                         "file.py:kernel, a launch file, or a profiler's report (.ncu-rep)")  # fmt: skip
    call_options(analyze)
    gpu_option(analyze, several=True)
    which = analyze.add_mutually_exclusive_group()
    which.add_argument("--model", help="a model's name (default: the most complete one that speaks)")
    which.add_argument("--fast", action="store_true", help="our model's analytical form, fewer blocks: no advice")
    analyze.add_argument("--exact", action="store_true", help="emulate the whole grid, however long it takes")
    analyze.add_argument("--save", metavar="W.json", help="save the workload, with the profile")
    analyze.add_argument("--html", metavar="FILE", help="also write a self-contained HTML report")
    compiler_options(analyze)
    cache_option(analyze)
    json_option(analyze)


def _advise_commands(commands: Commands) -> None:
    command = _kernel_command(commands, "advise", "what to change in a kernel, and what each remedy would buy")
    command.add_argument("--all", action="store_true", help="all remedies that would not help, and Sim's benefit chart")
    text = "replace numbers of a kernel or of the GPU, and see the prediction before and after"
    command = _kernel_command(commands, "whatif", text)
    command.add_argument("--set", dest="changes", action="append", default=[], metavar="KEY=VALUE",
                         help="occupancy=32, machine.sms=144, machine.clock=1.5e9, machine.dram=4e12, "
                         "shared.latency=30, launch.registers=64, line:42.conflict=1, gpu=a100")  # fmt: skip
    command.add_argument("--list", action="store_true", help="list what can be set")
    command.add_argument("--model", help="a model's name (default: ours, or volkov for a hand-written workload)")
    text = "two kernels: what changed in the code, in what it does, in the limits and in the time, and why"
    command = commands.add_parser("diff", help=text, description=text)
    for name in ("before", "after"):
        command.add_argument(name, metavar=name.upper(), help="a launch file, L.toml[:VARIANT], or a saved W.json")
    gpu_option(command)
    json_option(command)


def _kernel_command(commands: Commands, name: str, text: str) -> argparse.ArgumentParser:
    """Add a command on one kernel: that is launched, or saved."""
    command: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text)
    command.add_argument("file", nargs="?", metavar="FILE", help="CUDA source, PTX, a cubin or program, Triton's "
                         "file.py:kernel, a launch file, or what `analyze --save` kept")  # fmt: skip
    call_options(command)
    gpu_option(command)
    compiler_options(command)
    cache_option(command)
    json_option(command)
    return command


def _init_command(commands: Commands) -> None:
    text = "write a launch file for a kernel, with names and types from the source, to edit"
    command = commands.add_parser("init", help=text, description=text)
    command.add_argument("file", metavar="FILE", help="CUDA source, PTX, a cubin or program, or Triton's file.py")
    command.add_argument("--kernel", metavar="NAME", help="which kernel of the file, by name or a part of it")
    command.add_argument("-o", "--out", metavar="L.toml", help="the file to write (default: FILE's name with .toml)")
    command.add_argument("--force", action="store_true", help="write over a file that is there")
    gpu_option(command)
    compiler_options(command)
    json_option(command)


def _simulate_command(commands: Commands) -> None:
    text = "simulate one SM: time, and what warps wait for, instruction by instruction"
    command = commands.add_parser("simulate", help=text, description=text)
    command.add_argument("file", nargs="?", metavar="FILE", help="a kernel's file or launch file, a workload's name "
                         "or file, or a graph (docs/reference/graph-file.md)")  # fmt: skip
    call_options(command)
    gpu_option(command)
    command.add_argument("--warps", type=float, metavar="N", help="warps per SM, instead of the computed occupancy")
    command.add_argument("--alpha", type=float, help="for a mix: arithmetic instructions per other one (inf allowed)")
    command.add_argument("--policy", metavar="NAME", help="order of warps: least-issued (default where measured), "
                         "greedy-oldest (elsewhere), greedy-youngest, oldest, youngest, round-robin")  # fmt: skip
    command.add_argument("--mode", choices=("warplens", "lemeire"), default="warplens", help="or the paper's own model")
    command.add_argument("--full", action="store_true", help="simulate every block and iteration")
    command.add_argument("--set", dest="changes", action="append", default=[], metavar="KEY=N",
                         help="what if: shared.latency=60, machine.sms=144, shared.conflict_degree=4")  # fmt: skip
    command.add_argument("--trace", metavar="FILE", help="write a trace for Perfetto or chrome://tracing")
    command.add_argument("--events", type=int, default=100_000, metavar="N", help="events in the trace at most")
    command.add_argument("--top", type=int, default=12, metavar="N", help="instructions to show (default: 12)")
    command.add_argument("--seed", type=int, default=1, help="of random latencies (default: 1)")
    compiler_options(command)
    json_option(command)


def _show_command(commands: Commands) -> None:
    text = "the annotated machine code of a kernel (.cu, .ptx, .cubin, programs)"
    show = commands.add_parser("show", help=text, description=text)
    show.add_argument("file", nargs="?", metavar="FILE", help="CUDA source, PTX, a cubin, a program or library, a "
                      "disassembly (.sass), or a launch file: with how often each instruction runs")  # fmt: skip
    show.add_argument("--list", action="store_true", help="only list the kernels")
    show.add_argument("--arch", default="sm_90", help="architecture to compile for (default: sm_90)")
    gpu_option(show)
    call_options(show)
    show.add_argument("--simulate", action="store_true", help="of a call: what warps wait for at each instruction")
    compiler_options(show)
    json_option(show)


def _workload_command(commands: Commands, name: str, text: str, *, optional: str = "") -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text)
    which = "a workload's name (`warplens workload list`), or a .toml or .json file"
    if optional:
        command.add_argument("workload", nargs="?", help=optional)
    else:
        command.add_argument("workload", help=which)
    gpu_option(command, several=True)
    command.add_argument("--warps", type=float, metavar="N", help="warps per SM, instead of the computed occupancy")
    command.add_argument("--alpha", type=float, help="for a mix: arithmetic instructions per other one (inf allowed)")
    json_option(command)
    return command
