"""Arguments of every command, as data: each option is declared once, and each command lists what it takes.

An option is its names, the word for its value in the help (none for a switch), and a line on its meaning. A value of
`N`, `K`, `INDEX` or `BYTES` is a whole number. A command's module is the one of this package that has its function.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

_WHOLE = ("N", "INDEX", "BYTES", "K")  # values that are whole numbers


class Option(NamedTuple):
    """One argument, as argparse takes it."""

    names: list[str]
    given: dict[str, Any]


class Group(NamedTuple):
    """Options under a title of their own; of those with neither title nor text, one only may be given."""

    title: str
    options: list[Option]
    text: str | None = None


class Command(NamedTuple):
    """A command: what it does in one line, the module of its function, what it takes, and how it is used.

    The keys of `verbs` stand for its own name where it has several.
    """

    text: str
    module: str = ""
    takes: Sequence[Option | Group] = ()
    more: str = ""
    verbs: dict[str, Command] | None = None


def _option(names: str, value: str, text: str, **more: Any) -> Option:
    kind: dict[str, Any] = {} if "choices" in more else {"action": "store_true"}
    if value:
        kind = {"metavar": value, "type": int} if value in _WHOLE else {"metavar": value}
    return Option(names.split(), {**kind, "help": text, **more})


def _list(names: str, value: str, text: str, **more: Any) -> Option:
    """Return an option that may be given several times."""
    return _option(names, value, text, action="append", default=[], **more)


def _machine(value: str = "NAME", default: str | None = "h200", told: str = "") -> Option:
    several = ", or several" if "," in value else ""
    text = told or f"the GPU: a name of `warplens machine list` or a machine file{several} (default: {default})"
    return _option("--machine --gpu", value, text, dest="machine", default=default)


_SOURCES = "CUDA source, PTX, a cubin or program, Triton's file.py:kernel, a launch file"
_JSON = _option("--json", "", "print the answer as JSON")
_HTML = _option("--html", "FILE", "also write the report, one HTML page")
_LIST = _option("--list", "", "only list the kernels")
_KERNEL = _option("--kernel", "NAME", "which kernel of the file, by its name or a part of it")
_WARPS = _option("--warps", "N", "warps per SM, instead of the computed occupancy", type=float)
_ALPHA = _option("--alpha", "ALPHA", "for a mix: arithmetic instructions per other one (inf allowed)", type=float)
_NO_CACHE = _option("--no-cache", "", "compile again, and keep nothing")
_TOOLKIT = _option("--toolkit", "DIR|wheels", "the CUDA toolkit that compiles (default: CUDA_HOME, that of nvcc on the "
                   "PATH, /usr/local/cuda, the pip wheels)")  # fmt: skip
_COMPILER = Group("the compiler", [
    _list("-D", "NAME[=VALUE]", "define a macro", dest="defines"),
    _list("-I", "FOLDER", "look for included files here", dest="includes"),
    _list("--flag", "=FLAG", "another flag of nvcc, such as --flag=-std=c++20", dest="flags"),
    _option("--use_fast_math", "", "as nvcc has it"),
    _option("--maxrregcount", "N", "as nvcc has it: 16 to 255 registers per thread"),
    _TOOLKIT,
])  # fmt: skip
_CALL: list[Option | Group] = [_KERNEL, Group("the call", [
    _option("--launch", "L.toml", "a launch file; it may also be given as FILE"),
    _option("--variant", "NAME[,NAME]", "variants of the launch file to apply", default=""),
    _option("--grid", "X[,Y[,Z]]", "blocks of the grid"),
    _option("--block", "X[,Y[,Z]]", "threads of a block"),
    _option("--shared", "BYTES", "dynamic shared memory of a block"),
    _option("--num-warps", "N", "for Triton: warps of a program"),
    _list("--arg", "NAME=VALUE", "an argument: n=1024, a=2.5, x=f32[1024]:random; of a pointer the number of elements "
          "will do: x=1024", dest="arguments"),
    _list("--global", "NAME=VALUE", "the same of a __constant__ or __device__ variable", dest="variables"),
], "A launch file (docs/reference/launch-file.md), or its values here. Without either, a command to go on with."),
]  # fmt: skip
_OF_KERNEL = [*_CALL, _COMPILER, _NO_CACHE, _JSON]
_OF_WORKLOAD: list[Option | Group] = [_machine("NAME[,NAME]"), _WARPS, _ALPHA, _JSON]
_SAVED = _option("file", "FILE", f"{_SOURCES}, or what `analyze --save` wrote", nargs="?")
_WORKLOAD = _option("workload", "WORKLOAD", "a workload's name (`warplens workload list`), or a .toml or .json file")
_SPACE: list[Option | Group] = [
    _option("--cache", "FOLDER", "of compiled and emulated results (default: ~/.cache/warplens)"),
    _option("--no-cache", "", "keep nothing, and take nothing from the cache"), _TOOLKIT, _JSON,
]  # fmt: skip
_JOURNAL = "what `machine measure` wrote, plain, gzipped or by xz"


def _asked(default: str) -> Option:
    return _option("--model", "MODEL", f"ask this model instead (default: {default})")


COMMANDS = {
    "analyze": Command("a kernel's time, what limits it and what would help", "kernel", [
        _option("file", "FILE", f"{_SOURCES}, or a profiler's report (.ncu-rep)", nargs="?"),
        _machine("NAME[,NAME]"),
        Group("", [
            _option("--model", "MODEL", "ask this model instead (`warplens models` lists them)"),
            _option("--fast", "", "emulate less and simulate nothing: no remedies"),
        ]),
        _option("--exact", "", "emulate the whole grid, however long it takes"),
        _option("--save", "W.json", "save what was counted, for advise, whatif, diff and check"),
        _HTML, *_OF_KERNEL,
    ], """\
The first line is the predicted time and what we are 90 % sure of. Below it stand the time that each limit alone would
take, the remedies with what each would buy, and what was counted.

  warplens analyze kernel.toml
  warplens analyze kernel.cu --grid 32768 --block 256 --arg n=8388608 --arg x=8388608
  warplens analyze report.ncu-rep --html report.html"""),
    "advise": Command("what to change in a kernel, and what each remedy would buy", "kernel", [
        _SAVED, _machine(),
        _option("--all", "", "also what would not help, with the reason, and the benefits of Sim et al. 2012"),
        *_OF_KERNEL,
    ], """\
Each remedy is predicted as a change of the kernel: the factor is the time now over the time with it. Below it stand the
source lines that it concerns, what to write there, and whether the kernel then computes the same numbers.

  warplens advise kernel.toml
  warplens advise saved.json --all"""),
    "diff": Command("two kernels: what changed, how much faster the second is, and why", "kernel", [
        *(_option(name, name.upper(), "a launch file, L.toml[:VARIANT], or a saved W.json")
          for name in ("before", "after")),
        _machine(), _TOOLKIT, _JSON,
    ], """\
The first line is the factor between the two predicted times and the reason. Below it stand the limits, the counts and
the code that differ.

  warplens diff before.toml after.toml
  warplens diff kernel.toml kernel.toml:fast      a launch file and a variant of it"""),
    "whatif": Command("the time if numbers of the kernel or of the GPU were others", "kernel", [
        _SAVED, _machine(),
        _list("--set", "KEY=VALUE", "a number to replace; --list has all keys", dest="changes"),
        _option("--list", "", "list what can be set"),
        _asked("ours, or volkov for a written workload"), *_OF_KERNEL,
    ], """\
The answer is the prediction before and after. Several --set are applied together.

  warplens whatif kernel.toml --set launch.registers=64
  warplens whatif kernel.toml --set machine.dram=8e12 --set machine.sms=160
  warplens whatif kernel.toml --set line:42.conflict=1
  warplens whatif kernel.toml --set machine=a100"""),
    "check": Command("fail (exit 1) where a kernel is too slow, or slower than it was", "kernel", [
        _option("file", "FILE", f"{_SOURCES}, a saved workload, or a profiler's report", nargs="?"),
        _option("--max-time", "TIME", "the longest time allowed, such as 120us"),
        _option("--against", "W.json", "no slower than this: a saved workload or a report"),
        _option("--tolerance", "SHARE", "how much slower is allowed (default: 1%%)", default="1%"),
        _machine(), _asked("ours, or the best one that speaks"), *_CALL, _COMPILER, _JSON,
    ], """\
For continuous integration: the exit code is 0 where the predicted time passes and 1 where it does not.

  warplens check kernel.toml --max-time 120us
  warplens check kernel.toml --against saved.json --tolerance 5%"""),
    "tune": Command("the fastest launch and macros of a kernel, by prediction", "research", [
        _option("spec", "SPEC.toml", "a space with one kernel: docs/reference/sweep-file.md"),
        _machine(default=None, told="the GPU: a name of `warplens machine list` or a machine file (default: the first "
                 "one that the file names)"),
        _option("--model", "MODEL", "the model that decides (default: warplens)", default="warplens"),
        _option("--share", "SHARE", "of the space to emulate at most (default: 5%%, and five)"),
        _option("--top", "K", "candidates to show and measure (default: 5)", default=5),
        _option("--measure", "", "time the top ones on the GPU at hand"),
        _option("--workers", "N", "processes that compile (default: one per core)"), *_SPACE,
    ], """\
SPEC.toml names the kernel and the values to try (docs/reference/sweep-file.md). A cheap model orders all of them, and
only the best few are emulated.

  warplens tune space.toml --top 3"""),
    "show": Command("a kernel's machine code, and what is known of each instruction", "closer", [
        _option("file", "FILE", "CUDA source, PTX, a cubin, a program or library, a disassembly (.sass), or a launch "
                "file: with how often each instruction runs", nargs="?"),
        _LIST,
        _option("--arch", "ARCH", "architecture to compile for (default: sm_90)", default="sm_90"),
        _option("--simulate", "", "of a call: what warps wait for at each instruction"),
        _machine(), *_CALL, _COMPILER, _JSON,
    ]),
    "occupancy": Command("what fits on an SM, and what to change for more", "closer", [
        _option("workload", "FILE", "a workload's name or file (.toml, .json), a launch file, or a kernel's .cu, .ptx "
                "or .cubin", nargs="?"),
        *_OF_WORKLOAD,
        _option("--model", "MODEL", "for a workload: the model of the curve (default: volkov)", default="volkov"),
        Group("a kernel's .cu, .ptx or .cubin, or --registers alone", [
            _KERNEL,
            _option("--block", "N", "threads per block (default: the launch bound, or 256)"),
            _option("--registers", "N", "registers per thread, instead of the compiler's"),
            _option("--shared", "BYTES", "static shared memory, instead of the compiler's"),
            _option("--dynamic-shared", "BYTES", "dynamic shared memory", default=0), _HTML,
        ]),
        _COMPILER,
    ], """\
  warplens occupancy kernel.toml
  warplens occupancy kernel.cu --block 256
  warplens occupancy --registers 64 --shared 16384 --block 256"""),
    "simulate": Command("one SM, cycle by cycle: the time, and what warps wait for", "closer", [
        _option("file", "FILE", "a kernel's file or launch file, a workload's name or file, or a graph "
                "(docs/reference/graph-file.md)", nargs="?"),
        _machine(), _WARPS, _ALPHA,
        _option("--policy", "NAME", "order of warps: least-issued (default where measured), greedy-oldest (elsewhere), "
                "greedy-youngest, oldest, youngest, round-robin"),
        _option("--mode", "", "or the paper's; refined, with an issue limit and latency under load",
                choices=("warplens", "lemeire", "lemeire-refined"), default="warplens"),
        _option("--full", "", "simulate every block and iteration"),
        _list("--set", "KEY=N", "what if: shared.latency=60, machine.sms=144, shared.conflict_degree=4",
              dest="changes"),
        _option("--trace", "FILE", "write a trace for Perfetto or chrome://tracing"),
        _option("--events", "N", "events in the trace at most", default=100_000),
        _option("--top", "N", "instructions to show (default: 12)", default=12),
        _option("--seed", "N", "of random latencies (default: 1)", default=1), *_CALL, _COMPILER, _JSON,
    ]),
    "init": Command("write a launch file for a kernel, to edit", "call", [
        _option("file", "FILE", "CUDA source, PTX, a cubin or program, or Triton's file.py"),
        _KERNEL,
        _option("-o --out", "L.toml", "the file to write (default: FILE's name with .toml)"),
        _option("--force", "", "write over a file that is there"), _machine(), _COMPILER, _JSON,
    ], """\
Names and types come from the source; the sizes are guesses.

  warplens init kernel.cu --kernel step -o step.toml"""),
    "machine": Command("list, show or check machine files; measure a GPU", verbs={
        "list": Command("the machines that ship with warplens", "machines", [_JSON]),
        "show": Command("the important numbers of a machine", "machines", [
            _option("name", "NAME", "id, alias or path of a machine file"),
            _option("--all", "", "every number with its source, some thousands"), _JSON,
        ]),
        "check": Command("check machine files: sources, units, ranges, keys", "machines", [
            _option("files", "FILE", "machine file, or the name of one that ships", nargs="+"), _JSON,
        ]),
        "measure": Command("measure the GPU at hand: every number of a machine file", "laboratory", [
            _option("--out", "FOLDER", "folder of the journal (default: measured)", default="measured"),
            _option("--only", "PATTERN", "only these, such as chase.l2 or 'mix.*'", nargs="+", default=[]),
            _option("--quick", "", "under a minute: enough for every field of the machine file"),
            _option("--repetitions", "N", "of each launch (default: 3; --quick: 2)"),
            _option("--gpu", "INDEX", "which GPU (default: 0)", default=0),
            _option("--shared-gpu", "", "go on though others compute on the GPU"),
            _option("--cubins", "FOLDER", "keep compiled kernels here, and take them from here"),
            _option("--check", "", "only compile and check the kernels; needs no GPU"),
            _option("--arch", "ARCH", "for --check: architecture (default: sm_90)", default="sm_90"),
            _option("--list", "", "list the measurements"), _JSON,
        ]),
        "derive": Command("from the journal of a measurement to a machine file", "laboratory", [
            _option("journal", "JOURNAL", _JOURNAL),
            _option("more", "MORE", "journals of such GPUs, for the measurements that the first one lacks", nargs="*"),
            _option("--out", "FILE.toml", "machine file to write (default: standard output)"),
            _option("--base", "NAME", "machine whose vendor facts are kept (default: the one that ships for this GPU)"),
            _option("--also", "JOURNAL", "another run on such a GPU, in one journal or several: how far it is off is "
                    "put beside each number", nargs="+", default=[]), _JSON,
        ]),
        "agree": Command("how far two measurements of GPUs of one kind agree", "laboratory", [
            _option("journals", "JOURNAL", _JOURNAL, nargs=2), _JSON,
        ]),
    }),
    "workload": Command("list or show the workloads that ship with warplens", verbs={
        "list": Command("names and sources", "machines", [_JSON]),
        "show": Command("the counts of a workload", "machines", [
            _option("name", "NAME", "name or path of a workload"), _ALPHA,
            _option("--save", "FILE", "save it as JSON"), _JSON,
        ]),
    }),
    "sweep": Command("predict a space of launches, macros, machines and models over many kernels", "research", [
        _option("spec", "SPEC.toml", "the space: docs/reference/sweep-file.md"),
        _option("--out", "FOLDER", "results and journal (default: SPEC.sweep beside the file)"),
        _option("--restart", "", "throw away what an earlier run left there"),
        _option("--engine", "", "where it runs", choices=("processes", "dask"), default="processes"),
        _option("--workers", "N", "processes (default: one per core)"),
        _option("--scheduler", "ADDRESS", "of the Dask cluster, such as tcp://host:8786"), *_SPACE,
    ]),
    "predict": Command("a workload's time by one model, or all", "machines", [
        _option("--model", "MODEL", "a model's name, or all (default: ours for a counted kernel, else the most "
                "complete published one whose answer is possible)"),
        _WORKLOAD, *_OF_WORKLOAD,
    ]),
    "compare": Command("all models side by side, on one or several machines", "machines", [
        _HTML, _WORKLOAD, *_OF_WORKLOAD,
    ]),
    "models": Command("list the models", "machines", [_JSON]),
    "reproduce": Command("the papers' tables and figures: ours, theirs, difference", "research", [
        _option("what", "WHAT", "a paper (volkov) or an item (volkov-table-3.4); default: all", nargs="?"),
        _option("--list", "", "list the items"),
        _machine(default=None, told="for a GPU that the laboratory measured: h200, or a journal of `machine measure`"),
        _option("--disagreements", "", "show only what differs from the paper"),
        _option("--html", "FILE", "write tables and pictures to a self-contained HTML file"), _JSON,
    ]),
    "validate": Command("each model's error over the measurements that ship", "research", [
        _machine(),
        _option("--simulate", "", "for the mixes: the simulator too (a minute or two)"),
        _option("--kernels", "", "over the measured kernels instead of the mixes"),
        _option("--tuning", "NAME", "tune the measured spaces (all, or these) by prediction, and hold the choices "
                "against the best", nargs="*"),
        _option("--ladders", "", "over optimisations that were applied and timed: what the advisor said before, what "
                "came of it (minutes)"),
        _option("--html", "FILE", "of the mixes or --kernels: write tables and pictures to a self-contained HTML file"),
        Group("with --kernels", [
            _option("--models", "NAME[,NAME]", "only these (default: all; `warplens` takes minutes)"),
            _option("--calibrate", "", "keep the train set's errors for intervals"),
            _option("--ablation", "", "what each mechanism of `warplens` is worth (of the first of --models), over "
                    "every 4th launch unless --every says otherwise"),
            _option("--ncu", "", "our models from ncu's counts beside the emulator's"),
            _option("--stalls", "", "what warps wait for, simulated against ncu's samples"),
            _option("--every", "N", "only every N-th launch"),
            _option("--processes", "N", "processes that predict (default: 2)"),
            _option("--unblind", "", "name launches of the test set too: when no model is to be changed any more"),
        ]), _JSON,
    ]),
}  # fmt: skip
