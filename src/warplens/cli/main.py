"""Parse the arguments and run one command. Errors a user can mend are one line on stderr, exit code 2."""

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
from typing import Any, NoReturn

from warplens.cli import laboratory, sweeps
from warplens.errors import RefusedSource, WarplensError
from warplens.units import printable
from warplens.version import __version__

_EXAMPLES = """examples:
  warplens analyze --launch examples/saxpy.toml   a kernel from its code and a launch file
  warplens compare saxpy                          what every model says, on the H200
  warplens predict volkov-add-load --alpha 64 --gpu gtx980 --model volkov-contention
  warplens occupancy volkov-add-load --gpu kepler --model sim2012
  warplens machine show h200                      every number with its source
  warplens reproduce volkov-table-3.4             a paper's table: ours, theirs, difference
"""
_COMPILING = {
    "analyze",
    "advise",
    "whatif",
    "diff",
    "show",
    "occupancy",
    "simulate",
    "profile",
    "sweep",
    "tune",
    "check",
}


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, as all of ours are."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and where help is, and exit with 2."""
        self.exit(2, f"warplens: {' '.join(message.split())}; see `{self.prog} --help`\n")


def parser(arguments: Sequence[str] = ()) -> argparse.ArgumentParser:
    """Build the parser of the command that the arguments begin with, or of all; what they need is imported later."""
    top = _Parser(
        prog="warplens",
        description="How long a GPU kernel takes and what holds it back, by the published models side by side.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"warplens {__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND")
    builders = {
        ("predict", "compare"): _predict_commands, ("occupancy",): _occupancy_command, ("analyze",): _analyze_command,
        ("advise", "whatif", "diff"): _advise_commands, ("show",): _show_command, ("simulate",): _simulate_command,
        ("models",): _models_command, ("machine",): _machine_command, ("workload",): _shipped_command,
        ("reproduce",): _reproduce_command, ("validate",): _validate_command, ("profile",): _profile_command,
        ("sweep", "tune", "check"): sweeps.add_commands,
    }  # fmt: skip
    asked = [build for names, build in builders.items() if arguments and arguments[0] in names]
    for build in asked or builders.values():
        build(commands)
    for name in _COMPILING.intersection(commands.choices):
        commands.choices[name].add_argument("--toolkit", metavar="DIR|wheels", help="the CUDA toolkit that compiles "
            "(default: CUDA_HOME, that of nvcc on the PATH, /usr/local/cuda, the pip wheels)")  # fmt: skip
    return top


def _predict_commands(commands: argparse._SubParsersAction[_Parser]) -> None:
    predict = _workload_command(commands, "predict", "predict a workload's time with one model, or all")
    predict.add_argument(
        "--model", help="a model's name, or all (default: ours for a counted kernel, else volkov-contention or volkov)"
    )
    compare = _workload_command(commands, "compare", "all models side by side, on one or several GPUs")
    compare.add_argument("--html", metavar="FILE", help="also write a self-contained HTML report")


def _models_command(commands: argparse._SubParsersAction[_Parser]) -> None:
    _json(commands.add_parser("models", help="list the models"))


def _machine_command(commands: argparse._SubParsersAction[_Parser]) -> None:
    machine = commands.add_parser("machine", help="list, show or check machine files; measure a GPU")
    verbs = machine.add_subparsers(dest="verb", required=True, metavar="list|show|check|measure|derive|agree")
    _json(verbs.add_parser("list", help="the machines that ship with warplens"))
    show = verbs.add_parser("show", help="every number of a machine with its source")
    show.add_argument("name", help="id, alias or path of a machine file")
    _json(show)
    check = verbs.add_parser("check", help="check machine files: sources, units, ranges, keys")
    check.add_argument("files", nargs="+", metavar="FILE", help="machine file, or the name of one that ships")
    _json(check)
    laboratory.add_commands(verbs)


def _shipped_command(commands: argparse._SubParsersAction[_Parser]) -> None:
    workload = commands.add_parser("workload", help="list or show the workloads that ship with warplens")
    verbs = workload.add_subparsers(dest="verb", required=True, metavar="list|show")
    _json(verbs.add_parser("list", help="names and sources"))
    show = verbs.add_parser("show", help="the counts of a workload")
    show.add_argument("name", help="name or path of a workload")
    show.add_argument("--alpha", type=float, help="for a mix: arithmetic instructions per other one")
    show.add_argument("--save", metavar="FILE", help="save it as JSON")
    _json(show)


def _reproduce_command(commands: argparse._SubParsersAction[_Parser]) -> None:
    reproduce = commands.add_parser("reproduce", help="the papers' tables and figures: ours, theirs, difference")
    reproduce.add_argument("what", nargs="?", help="a paper (volkov) or an item (volkov-table-3.4); default: all")
    reproduce.add_argument("--list", action="store_true", help="list the items")
    reproduce.add_argument(
        "--gpu", metavar="NAME", help="for a GPU that the laboratory measured: h200, or a journal of `machine measure`"
    )
    reproduce.add_argument("--disagreements", action="store_true", help="show only what differs from the paper")
    reproduce.add_argument("--html", metavar="FILE", help="write tables and pictures to a self-contained HTML file")
    _json(reproduce)


def _profile_command(commands: argparse._SubParsersAction[_Parser]) -> None:
    text = "run a program under ncu, and predict its kernel from the profiler's counts and from the emulator's"
    command = commands.add_parser("profile", help=text, description=text)
    command.add_argument("--launch", metavar="L.toml", help="the call that the program makes")
    command.add_argument("--workload", metavar="W.json", help="instead: this call, as `analyze --save` kept it (where "
                         "there is no emulator)")  # fmt: skip
    command.add_argument("--variant", default="", metavar="NAME[,NAME]", help="variants of the launch file to apply")
    command.add_argument("--file", help="CUDA source, PTX or a cubin (default: what the launch file names)")
    command.add_argument("--kernel", help="which kernel, by name or a part of it")
    command.add_argument("--gpu", default="h200", metavar="NAME", help="machine id, alias or file (default: h200)")
    command.add_argument("--model", default="warplens", help="a model's name (default: warplens)")
    command.add_argument("--skip", type=int, default=0, metavar="N", help="launches of the kernel to pass over")
    _compiler_options(command)
    _json(command)
    command.add_argument("program", nargs=argparse.REMAINDER, metavar="CMD ...", help="the program and its arguments")


def _validate_command(commands: argparse._SubParsersAction[_Parser]) -> None:
    command = commands.add_parser("validate", help="each model's error over the measurements that ship")
    command.add_argument("--gpu", default="h200", metavar="NAME", help="machine id or alias (default: h200)")
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
    _json(command)


def _occupancy_command(commands: argparse._SubParsersAction[_Parser]) -> None:
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
    _compiler_options(command)


def _analyze_command(commands: argparse._SubParsersAction[_Parser]) -> None:
    text = "predict a kernel's time from its code and a launch file, without a GPU"
    analyze = commands.add_parser("analyze", help=text, description=text)
    analyze.add_argument("file", nargs="?", help="CUDA source, PTX, a cubin, Triton's file.py:kernel (default: what "
                         "the launch file names), or a profiler's report (.ncu-rep)")  # fmt: skip
    analyze.add_argument("--launch", metavar="L.toml", help="grid, block and arguments of the call")
    analyze.add_argument("--variant", default="", metavar="NAME[,NAME]", help="variants of the launch file to apply")
    analyze.add_argument("--kernel", help="which kernel, by name or a part of it")
    analyze.add_argument("--gpu", default="h200", metavar="NAME[,NAME]", help="machine id, alias or file")
    which = analyze.add_mutually_exclusive_group()
    which.add_argument("--model", help="a model's name (default: the most complete one that speaks)")
    which.add_argument("--fast", action="store_true", help="our model's analytical form, fewer blocks: no advice")
    analyze.add_argument("--exact", action="store_true", help="emulate the whole grid, however long it takes")
    analyze.add_argument("--save", metavar="W.json", help="save the workload, with the profile")
    analyze.add_argument("--html", metavar="FILE", help="also write a self-contained HTML report")
    _compiler_options(analyze)
    _cache_option(analyze)
    _json(analyze)


def _advise_commands(commands: argparse._SubParsersAction[_Parser]) -> None:
    command = _kernel_command(commands, "advise", "what to change in a kernel, and what each remedy would buy")
    command.add_argument("--all", action="store_true", help="all remedies that would not help, and Sim's benefit chart")
    text = "replace numbers of a kernel or of the GPU, and see the prediction before and after"
    command = _kernel_command(commands, "whatif", text)
    command.add_argument("--set", dest="changes", action="append", default=[], metavar="KEY=VALUE",
                         help="occupancy=32, machine.sms=144, machine.clock=1.5e9, machine.dram=4e12, "
                         "shared.latency=30, launch.registers=64, line:42.conflict=1, gpu=a100")  # fmt: skip
    command.add_argument("--model", help="a model's name (default: ours, or volkov for a hand-written workload)")
    text = "two kernels: what changed in the code, in what it does, in the limits and in the time, and why"
    command = commands.add_parser("diff", help=text, description=text)
    for name in ("before", "after"):
        command.add_argument(name, metavar=name.upper(), help="a launch file, L.toml[:VARIANT], or a saved W.json")
    command.add_argument("--gpu", default="h200", metavar="NAME", help="machine id, alias or file (default: h200)")
    _json(command)


def _kernel_command(commands: argparse._SubParsersAction[_Parser], name: str, text: str) -> argparse.ArgumentParser:
    """Add a command on one kernel: of a launch file, or saved."""
    command = commands.add_parser(name, help=text, description=text)
    command.add_argument("file", nargs="?", help="CUDA source, PTX or a cubin, or a workload saved by `analyze --save`")
    command.add_argument("--launch", metavar="L.toml", help="grid, block and arguments of the call")
    command.add_argument("--variant", default="", metavar="NAME[,NAME]", help="variants of the launch file to apply")
    command.add_argument("--kernel", help="which kernel, by name or a part of it")
    command.add_argument("--gpu", default="h200", metavar="NAME", help="machine id, alias or file (default: h200)")
    _compiler_options(command)
    _cache_option(command)
    _json(command)
    return command


def _simulate_command(commands: argparse._SubParsersAction[_Parser]) -> None:
    text = "simulate one SM: time, and what warps wait for, instruction by instruction"
    which = "a workload's name or file (.toml, .json), or a graph's (docs/formats/graph.md)"
    command = _workload_command(commands, "simulate", text, optional=which)
    command.add_argument("--launch", metavar="L.toml", help="emulate this call and simulate its machine code")
    command.add_argument("--variant", default="", metavar="NAME[,NAME]", help="variants of the launch file to apply")
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


def _show_command(commands: argparse._SubParsersAction[_Parser]) -> None:
    show = commands.add_parser("show", help="the annotated machine code of a kernel (.cu, .ptx, .cubin, programs)")
    show.add_argument("file", help="CUDA source, PTX, a cubin, a program or library, or a disassembly (.sass)")
    show.add_argument("--kernel", help="which kernel, by name or a part of it")
    show.add_argument("--list", action="store_true", help="only list the kernels")
    show.add_argument("--arch", default="sm_90", help="architecture to compile for (default: sm_90)")
    show.add_argument("--gpu", default="h200", metavar="NAME", help="machine whose latencies count (default: h200)")
    show.add_argument("--launch", metavar="L.toml", help="emulate this call, and show how often each instruction runs")
    show.add_argument("--variant", default="", metavar="NAME[,NAME]", help="variants of the launch file to apply")
    show.add_argument("--simulate", action="store_true", help="with --launch: what warps wait for at each instruction")
    _compiler_options(show)
    _json(show)


def _compiler_options(command: argparse.ArgumentParser) -> None:
    more: dict[str, Any] = {"action": "append", "default": []}
    command.add_argument("-D", dest="defines", metavar="NAME[=VALUE]", help="define a macro", **more)
    command.add_argument("-I", dest="includes", metavar="FOLDER", help="include folder", **more)
    command.add_argument(
        "--flag", dest="flags", metavar="=FLAG", help="another nvcc flag, such as --flag=-std=c++20", **more
    )
    command.add_argument("--use_fast_math", action="store_true", help="pass on to the compiler")
    command.add_argument("--maxrregcount", type=int, metavar="N", help="pass on to the compiler: 16 to 255")


def _cache_option(command: argparse.ArgumentParser) -> None:
    command.add_argument("--no-cache", action="store_true", help="compile again, and keep nothing")


def _json(command: argparse.ArgumentParser) -> None:
    command.add_argument("--json", action="store_true", help="print JSON instead of text")


def _workload_command(
    commands: argparse._SubParsersAction[_Parser], name: str, text: str, *, optional: str = ""
) -> argparse.ArgumentParser:
    command = commands.add_parser(name, help=text, description=text)
    which = "a workload's name (`warplens workload list`), or a .toml or .json file"
    if optional:
        command.add_argument("workload", nargs="?", help=optional)
    else:
        command.add_argument("workload", help=which)
    command.add_argument(
        "--gpu", default="h200", metavar="NAME[,NAME]", help="machine id, alias or file (default: h200)"
    )
    command.add_argument("--warps", type=float, metavar="N", help="warps per SM, instead of the computed occupancy")
    command.add_argument("--alpha", type=float, help="for a mix: arithmetic instructions per other one (inf allowed)")
    _json(command)
    return command


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
    try:
        given = sys.argv[1:] if arguments is None else arguments
        top = parser(given)
        args, rest = top.parse_known_args(given)
        if rest:
            top.error(f"unknown argument {rest[0]!r}")
        if args.command is None:
            top.error(
                "name a command: analyze, advise, whatif, diff, predict, compare, occupancy, show, simulate, models, "
                "machine, workload, reproduce, validate, profile, sweep, tune, check"
            )
        with _toolkit(getattr(args, "toolkit", None)):
            code = _run(args)
        sys.stdout.flush()
        return code
    except WarplensError as error:
        line = " ".join((error.line if isinstance(error, RefusedSource) else str(error)).split())
        print("warplens: " + printable(line), file=sys.stderr)
        if isinstance(error, RefusedSource):  # a compiler's own lines, without what a terminal would obey
            print(error.message, file=sys.stderr)
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


def _toolkit(named: str | None) -> contextlib.AbstractContextManager[None]:
    if named is None:
        return contextlib.nullcontext()
    from warplens.frontend.toolkits import using

    return using(named)


def _run(args: argparse.Namespace) -> int:
    if args.command == "machine" and args.verb in ("measure", "derive", "agree"):
        return laboratory.run(args)
    if args.command in ("sweep", "tune", "check"):
        return sweeps.run(args)
    if args.command not in ("analyze", "advise", "whatif"):
        from warplens.cli import commands

        return commands.run(args)
    gc.disable()  # until the kernel is there: what is imported stays
    from warplens.cli import ahead

    with ahead.loading(args) as args.load:
        if args.command == "analyze":  # most wait for this one: without what the others import
            from warplens.cli import analysis

            return analysis.run(args)
        from warplens.cli import commands

        return commands.run(args)


def _discard_output() -> None:
    """Point standard output nowhere, so that its last flush at exit cannot fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
