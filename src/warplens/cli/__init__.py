"""The command line of warplens: arguments in, one answer out.

    warplens analyze kernel.toml        args ──parser──►  namespace ──main──►  one function of one module below
                                        namespace ──call──►  Request  ──api──►  Analysis ──report──►  text or JSON

The rules that every command keeps:

1. The answer comes first, on standard output. `--json` prints the same as JSON, with `schema_version` and units in the
   keys. Progress goes to standard error, and only where that is a terminal.
2. What a user can mend is one line on standard error that begins with `warplens: ` and says what to do; the exit code
   is 2. A compiler's own message follows below it. A gate that fails (`check`) exits with 1, an interrupt with 130.
3. `--machine` names the GPU in every command; `--gpu` is its synonym.
4. A command imports what it needs when it runs: `--help` takes less than 0.15 s.

The modules:

    main        runs one command, and says what went wrong
    commands    the arguments of every command as data, each option declared once
    parser      the parsers that follow from them, and the help
    call        from arguments to a kernel and its call; `init`
    kernel      analyze, advise, whatif, diff, check
    closer      show, occupancy, simulate
    machines    machine list, show, check; workload, models, predict, compare
    research    reproduce, validate, sweep, tune
    laboratory  machine measure, derive, agree
    output      text or JSON, and progress

A new command is an entry of `commands.COMMANDS` and a function in the module that it names. What is more than arguments
and output belongs to `warplens.api`.
"""

from warplens.cli.main import main

__all__ = ["main"]
