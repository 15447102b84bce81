"""The parser of every command, and the help that names them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from warplens.cli import laboratory
from warplens.cli.options import (
    Commands,
    Parser,
    add_command,
    call_options,
    compiler_options,
    json_option,
    machine_option,
    no_cache_option,
)
from warplens.core.version import __version__

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
_KERNEL = "CUDA source, PTX, a cubin or program, Triton's file.py:kernel, a launch file"


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
    top.commands = commands = top.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    builders = {
        ("analyze",): _analyze, ("advise",): _advise, ("diff",): _diff, ("whatif",): _whatif, ("check",): _check,
        ("tune", "sweep"): _spaces, ("show",): _show, ("occupancy",): _occupancy, ("simulate",): _simulate,
        ("init",): _init, ("machine",): _machine, ("workload",): _workload, ("predict", "compare", "models"): _models,
        ("reproduce",): _reproduce, ("validate",): _validate,
    }  # fmt: skip
    asked = [build for names, build in builders.items() if arguments and arguments[0] in names]
    for build in asked or builders.values():
        build(commands)
    return top


def _analyze(commands: Commands) -> None:
    command = add_command(
        commands,
        "analyze",
        "a kernel's time, what limits it and what would help",
        """\
The first line is the predicted time and what we are 90 % sure of. Below it stand the time that each limit alone would
take, the remedies with what each would buy, and what was counted.

  warplens analyze kernel.toml
  warplens analyze kernel.cu --grid 32768 --block 256 --arg n=8388608 --arg x=8388608
  warplens analyze report.ncu-rep --html report.html""",
    )
    command.add_argument("file", nargs="?", metavar="FILE", help=f"{_KERNEL}, or a profiler's report (.ncu-rep)")
    machine_option(command, several=True)
    which = command.add_mutually_exclusive_group()
    which.add_argument("--model", help="ask this model instead (`warplens models` lists them)")
    which.add_argument("--fast", action="store_true", help="emulate less and simulate nothing: no remedies")
    command.add_argument("--exact", action="store_true", help="emulate the whole grid, however long it takes")
    command.add_argument("--save", metavar="W.json", help="save what was counted, for advise, whatif, diff and check")
    command.add_argument("--html", metavar="FILE", help="also write the report, one HTML page")
    _of_kernel(command)


def _advise(commands: Commands) -> None:
    command = add_command(
        commands,
        "advise",
        "what to change in a kernel, and what each remedy would buy",
        """\
Each remedy is predicted as a change of the kernel: the factor is the time now over the time with it. Below it stand the
source lines that it concerns, what to write there, and whether the kernel then computes the same numbers.

  warplens advise kernel.toml
  warplens advise saved.json --all""",
    )
    _kernel_file(command)
    command.add_argument("--all", action="store_true", help="also the remedies that would not help, with the reason")
    _of_kernel(command)


def _diff(commands: Commands) -> None:
    command = add_command(
        commands,
        "diff",
        "two kernels: what changed, how much faster the second is, and why",
        """\
The first line is the factor between the two predicted times and the reason. Below it stand the limits, the counts and
the code that differ.

  warplens diff before.toml after.toml
  warplens diff kernel.toml kernel.toml:fast      a launch file and a variant of it""",
    )
    for name in ("before", "after"):
        command.add_argument(name, metavar=name.upper(), help="a launch file, L.toml[:VARIANT], or a saved W.json")
    machine_option(command)
    command.add_argument("--toolkit", metavar="DIR|wheels", help="the CUDA toolkit that compiles")
    json_option(command)


def _whatif(commands: Commands) -> None:
    command = add_command(
        commands,
        "whatif",
        "the time if numbers of the kernel or of the GPU were others",
        """\
The answer is the prediction before and after. Several --set are applied together.

  warplens whatif kernel.toml --set launch.registers=64
  warplens whatif kernel.toml --set machine.dram=8e12 --set machine.sms=160
  warplens whatif kernel.toml --set line:42.conflict=1
  warplens whatif kernel.toml --set machine=a100""",
    )
    _kernel_file(command)
    command.add_argument("--set", dest="changes", action="append", default=[], metavar="KEY=VALUE",
                         help="a number to replace; --list has all keys")  # fmt: skip
    command.add_argument("--list", action="store_true", help="list what can be set")
    command.add_argument("--model", help="ask this model instead (default: ours, or volkov for a written workload)")
    _of_kernel(command)


def _check(commands: Commands) -> None:
    command = add_command(
        commands,
        "check",
        "fail (exit 1) where a kernel is too slow, or slower than it was",
        """\
For continuous integration: the exit code is 0 where the predicted time passes and 1 where it does not.

  warplens check kernel.toml --max-time 120us
  warplens check kernel.toml --against saved.json --tolerance 5%""",
    )
    command.add_argument("file", nargs="?", metavar="FILE", help=f"{_KERNEL}, a saved workload, or a profiler's report")
    command.add_argument("--max-time", metavar="TIME", help="the longest time allowed, such as 120us")
    command.add_argument("--against", metavar="W.json", help="no slower than this: a saved workload or a report")
    command.add_argument("--tolerance", default="1%", metavar="SHARE", help="how much slower is allowed (default: 1%%)")
    machine_option(command)
    command.add_argument("--model", help="ask this model instead (default: ours, or the best one that speaks)")
    call_options(command)
    compiler_options(command)
    json_option(command)


def _spaces(commands: Commands) -> None:
    tune = add_command(
        commands,
        "tune",
        "the fastest launch and macros of a kernel, by prediction",
        """\
SPEC.toml names the kernel and the values to try (docs/reference/sweep-file.md). A cheap model orders all of them, and
only the best few are emulated.

  warplens tune space.toml --top 3""",
    )
    tune.add_argument("spec", metavar="SPEC.toml", help="a space with one kernel: docs/reference/sweep-file.md")
    machine_option(tune, default=None)
    tune.add_argument("--model", default="warplens", help="the model that decides (default: warplens)")
    tune.add_argument("--share", metavar="SHARE", help="of the space to emulate at most (default: 5%%, and five)")
    tune.add_argument("--top", type=int, default=5, metavar="K", help="candidates to show and measure (default: 5)")
    tune.add_argument("--measure", action="store_true", help="time the top ones on the GPU at hand")
    tune.add_argument("--workers", type=int, metavar="N", help="processes that compile (default: one per core)")
    sweep = add_command(commands, "sweep", "predict a space of launches, macros, machines and models over many kernels")
    sweep.add_argument("spec", metavar="SPEC.toml", help="the space: docs/reference/sweep-file.md")
    sweep.add_argument("--out", metavar="FOLDER", help="results and journal (default: SPEC.sweep beside the file)")
    sweep.add_argument("--restart", action="store_true", help="throw away what an earlier run left there")
    sweep.add_argument("--engine", choices=("processes", "dask"), default="processes", help="where it runs")
    sweep.add_argument("--workers", type=int, metavar="N", help="processes (default: one per core)")
    sweep.add_argument("--scheduler", metavar="ADDRESS", help="of the Dask cluster, such as tcp://host:8786")
    for command in (tune, sweep):
        command.add_argument("--cache", metavar="FOLDER", help="of compiled and emulated results (default: "
                             "~/.cache/warplens)")  # fmt: skip
        command.add_argument("--no-cache", action="store_true", help="keep nothing, and take nothing from the cache")
        command.add_argument("--toolkit", metavar="DIR|wheels", help="the CUDA toolkit that compiles")
        json_option(command)


def _kernel_file(command: argparse.ArgumentParser) -> None:
    """Add the file of a kernel or of a saved workload, and the machine."""
    command.add_argument("file", nargs="?", metavar="FILE", help=f"{_KERNEL}, or what `analyze --save` wrote")
    machine_option(command)


def _of_kernel(command: argparse.ArgumentParser) -> None:
    """Add the options that every command on a kernel's call has."""
    call_options(command)
    compiler_options(command)
    no_cache_option(command)
    json_option(command)


def _show(commands: Commands) -> None:
    command = add_command(commands, "show", "a kernel's machine code, and what is known of each instruction")
    command.add_argument("file", nargs="?", metavar="FILE", help="CUDA source, PTX, a cubin, a program or library, a "
                         "disassembly (.sass), or a launch file: with how often each instruction runs")  # fmt: skip
    command.add_argument("--list", action="store_true", help="only list the kernels")
    command.add_argument("--arch", default="sm_90", help="architecture to compile for (default: sm_90)")
    command.add_argument("--simulate", action="store_true", help="of a call: what warps wait for at each instruction")
    machine_option(command)
    call_options(command)
    compiler_options(command)
    json_option(command)


def _occupancy(commands: Commands) -> None:
    command = add_command(
        commands,
        "occupancy",
        "what fits on an SM, and what to change for more",
        """\
  warplens occupancy kernel.toml
  warplens occupancy kernel.cu --block 256
  warplens occupancy --registers 64 --shared 16384 --block 256""",
    )
    command.add_argument("workload", nargs="?", metavar="FILE", help="a workload's name or file (.toml, .json), a "
                         "launch file, or a kernel's .cu, .ptx or .cubin")  # fmt: skip
    _workload_options(command)
    command.add_argument("--model", default="volkov", help="for a workload: the model of the curve (default: volkov)")
    kernel = command.add_argument_group("a kernel's .cu, .ptx or .cubin, or --registers alone")
    kernel.add_argument("--kernel", metavar="NAME", help="which kernel of the file, by its name or a part of it")
    kernel.add_argument("--block", type=int, metavar="N", help="threads per block (default: the launch bound, or 256)")
    kernel.add_argument("--registers", type=int, metavar="N", help="registers per thread, instead of the compiler's")
    kernel.add_argument("--shared", type=int, metavar="BYTES", help="static shared memory, instead of the compiler's")
    kernel.add_argument("--dynamic-shared", type=int, default=0, metavar="BYTES", help="dynamic shared memory")
    kernel.add_argument("--html", metavar="FILE", help="also write the report, one HTML page")
    compiler_options(command)


def _simulate(commands: Commands) -> None:
    command = add_command(commands, "simulate", "one SM, cycle by cycle: the time, and what warps wait for")
    command.add_argument("file", nargs="?", metavar="FILE", help="a kernel's file or launch file, a workload's name "
                         "or file, or a graph (docs/reference/graph-file.md)")  # fmt: skip
    machine_option(command)
    command.add_argument("--warps", type=float, metavar="N", help="warps per SM, instead of the computed occupancy")
    command.add_argument("--alpha", type=float, help="for a mix: arithmetic instructions per other one (inf allowed)")
    command.add_argument("--policy", metavar="NAME", help="order of warps: least-issued (default where measured), "
                         "greedy-oldest (elsewhere), greedy-youngest, oldest, youngest, round-robin")  # fmt: skip
    command.add_argument("--mode", choices=("warplens", "lemeire", "lemeire-refined"), default="warplens",
                         help="or the paper's; refined, with an issue limit and latency under load")  # fmt: skip
    command.add_argument("--full", action="store_true", help="simulate every block and iteration")
    command.add_argument("--set", dest="changes", action="append", default=[], metavar="KEY=N",
                         help="what if: shared.latency=60, machine.sms=144, shared.conflict_degree=4")  # fmt: skip
    command.add_argument("--trace", metavar="FILE", help="write a trace for Perfetto or chrome://tracing")
    command.add_argument("--events", type=int, default=100_000, metavar="N", help="events in the trace at most")
    command.add_argument("--top", type=int, default=12, metavar="N", help="instructions to show (default: 12)")
    command.add_argument("--seed", type=int, default=1, help="of random latencies (default: 1)")
    call_options(command)
    compiler_options(command)
    json_option(command)


def _init(commands: Commands) -> None:
    command = add_command(
        commands,
        "init",
        "write a launch file for a kernel, to edit",
        """\
Names and types come from the source; the sizes are guesses.

  warplens init kernel.cu --kernel step -o step.toml""",
    )
    command.add_argument("file", metavar="FILE", help="CUDA source, PTX, a cubin or program, or Triton's file.py")
    command.add_argument("--kernel", metavar="NAME", help="which kernel of the file, by its name or a part of it")
    command.add_argument("-o", "--out", metavar="L.toml", help="the file to write (default: FILE's name with .toml)")
    command.add_argument("--force", action="store_true", help="write over a file that is there")
    machine_option(command)
    compiler_options(command)
    json_option(command)


def _machine(commands: Commands) -> None:
    machine = add_command(commands, "machine", "list, show or check machine files; measure a GPU")
    verbs = machine.add_subparsers(dest="verb", required=True, metavar="list|show|check|measure|derive|agree")
    json_option(add_command(verbs, "list", "the machines that ship with warplens"))
    show = add_command(verbs, "show", "the important numbers of a machine")
    show.add_argument("name", help="id, alias or path of a machine file")
    show.add_argument("--all", action="store_true", help="every number with its source, some thousands")
    json_option(show)
    check = add_command(verbs, "check", "check machine files: sources, units, ranges, keys")
    check.add_argument("files", nargs="+", metavar="FILE", help="machine file, or the name of one that ships")
    json_option(check)
    laboratory.add_commands(verbs)


def _workload(commands: Commands) -> None:
    workload = add_command(commands, "workload", "list or show the workloads that ship with warplens")
    verbs = workload.add_subparsers(dest="verb", required=True, metavar="list|show")
    json_option(add_command(verbs, "list", "names and sources"))
    show = add_command(verbs, "show", "the counts of a workload")
    show.add_argument("name", help="name or path of a workload")
    show.add_argument("--alpha", type=float, help="for a mix: arithmetic instructions per other one")
    show.add_argument("--save", metavar="FILE", help="save it as JSON")
    json_option(show)


def _models(commands: Commands) -> None:
    predict = add_command(commands, "predict", "a workload's time by one model, or all")
    predict.add_argument("--model", help="a model's name, or all (default: ours for a counted kernel, else the most "
                         "complete published one whose answer is possible)")  # fmt: skip
    compare = add_command(commands, "compare", "all models side by side, on one or several machines")
    compare.add_argument("--html", metavar="FILE", help="also write the report, one HTML page")
    for command in (predict, compare):
        command.add_argument("workload", help="a workload's name (`warplens workload list`), or a .toml or .json file")
        _workload_options(command)
    json_option(add_command(commands, "models", "list the models"))


def _workload_options(command: argparse.ArgumentParser) -> None:
    """Add the options of commands that take a workload."""
    machine_option(command, several=True)
    command.add_argument("--warps", type=float, metavar="N", help="warps per SM, instead of the computed occupancy")
    command.add_argument("--alpha", type=float, help="for a mix: arithmetic instructions per other one (inf allowed)")
    json_option(command)


def _reproduce(commands: Commands) -> None:
    command = add_command(commands, "reproduce", "the papers' tables and figures: ours, theirs, difference")
    command.add_argument("what", nargs="?", help="a paper (volkov) or an item (volkov-table-3.4); default: all")
    command.add_argument("--list", action="store_true", help="list the items")
    command.add_argument(
        "--machine",
        "--gpu",
        dest="machine",
        metavar="NAME",
        help="for a GPU that the laboratory measured: h200, or a journal of `machine measure`",
    )
    command.add_argument("--disagreements", action="store_true", help="show only what differs from the paper")
    command.add_argument("--html", metavar="FILE", help="write tables and pictures to a self-contained HTML file")
    json_option(command)


def _validate(commands: Commands) -> None:
    command = add_command(commands, "validate", "each model's error over the measurements that ship")
    machine_option(command)
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
