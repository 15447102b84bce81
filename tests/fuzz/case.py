"""One case: a seed, its injuries, a command, and what may come of it. Runs in a process that may be lost."""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import io
import json
import os
import random
import re
import resource
import sys
import tempfile
import time
import traceback
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from msgspec import Struct

from .mutate import injured

LIMIT_SECONDS = 5.0  # on the processor, tools included: the machine may have other things to do
PATIENCE_SECONDS = 20.0  # by the clock
# How many of ten thousand; each kind's commands, FILE for the file.
SHARE = {
    "cubin": 3000, "nvdisasm": 900, "cuobjdump": 900, "kepler": 1000, "fat": 700, "program": 600, "cu": 400,
    "ptx": 400, "machine": 700, "workload": 700, "json": 700,
}  # fmt: skip
_SHOW = ("show FILE --json", "show FILE --json", "show FILE", "show FILE --list")
_PREDICT = ("compare FILE --json", "predict FILE", "workload show FILE --json", "occupancy FILE --json")
COMMANDS = {
    **dict.fromkeys(("nvdisasm", "cuobjdump", "kepler", "fat", "program"), _SHOW),
    **dict.fromkeys(("cubin", "cu", "ptx"), (*_SHOW, "occupancy FILE --json")),
    **dict.fromkeys(("workload", "json"), _PREDICT),
    "machine": ("machine check FILE", "machine show FILE --json", "predict saxpy --gpu FILE --json"),
}
_TEXT = ("nvdisasm", "cuobjdump", "kepler", "cu", "ptx", "machine", "workload", "json")


class Result(Struct, frozen=True):
    """What came of a case, in seconds by the clock and on the processor; `wrong` says what may not be."""

    number: int
    kind: str
    command: str
    seconds: float
    processor_seconds: float
    code: int | None
    wrong: str = ""
    peak_bytes: int = 0


def prepared(number: int, seed: int, seeds: dict[str, list[Path]], folder: Path) -> tuple[str, Path, list[str]]:
    """Write the injured file of a case; return kind, file and command. The same numbers make the same case."""
    chance = random.Random(f"{seed}-{number}")
    kinds = [kind for kind in SHARE if seeds.get(kind)]
    kind = chance.choices(kinds, [SHARE[k] for k in kinds])[0]
    path = chance.choice(seeds[kind])
    others = [p.read_bytes() for p in seeds[kind]] + [chance.choice(seeds[chance.choice(kinds)]).read_bytes()]
    file = folder / f"{number}-{kind}{path.suffix}"
    file.write_bytes(injured(path.read_bytes(), others, chance, text=kind in _TEXT))
    command = chance.choice(COMMANDS[kind]).split()
    if path.name.startswith("two") and command[0] == "show" and "--list" not in command:
        command += ["--kernel", chance.choice(("choose", "scale"))]
    return kind, file, [str(file) if word == "FILE" else word for word in command]


def serve(numbers: Connection, seed: int, seeds: dict[str, list[Path]], folder: Path) -> None:
    """Answer case numbers with results until there are no more."""
    places = {name: folder / name for name in ("case", "temporary", "work")}
    for place in places.values():
        place.mkdir(parents=True)
    tempfile.tempdir = os.environ["TMPDIR"] = str(places["temporary"])
    os.environ["HOME"] = str(places["work"])
    os.chdir(places["work"])
    ctypes.CDLL(None).prctl(36, 1)  # children that lose their parent become ours, and are seen
    seen: list[str] = []
    sys.addaudithook(lambda event, given: _watch(event, given, folder, seen))
    with (folder / "stack").open("w+") as stack:
        while (number := numbers.recv()) is not None:
            kind, file, command = prepared(number, seed, seeds, places["case"])
            seen.clear()
            stack.truncate(0)
            faulthandler.dump_traceback_later(0.9 * PATIENCE_SECONDS, file=stack)
            numbers.send(_run(number, kind, command, places, seen))
            faulthandler.cancel_dump_traceback_later()
            file.unlink(missing_ok=True)


def _watch(event: str, given: tuple[Any, ...], folder: Path, seen: list[str]) -> None:
    """Note what a case may not do: start a shell, write outside its folder."""
    if event == "subprocess.Popen" and Path(os.fsdecode(given[0] or given[1][0])).name in ("sh", "bash", "dash"):
        seen.append(f"starts a shell: {given[1]}")
    elif event in ("os.system", "os.exec"):
        seen.append(f"{event}: {given}")
    elif event == "open" and isinstance(given[0], str | bytes) and given[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
        path = Path(os.fsdecode(given[0])).absolute()
        if not path.is_relative_to(folder) and "__pycache__" not in path.parts and path != Path(os.devnull):
            seen.append(f"writes {path}")


def _run(number: int, kind: str, command: list[str], places: dict[str, Path], seen: list[str]) -> Result:
    from warplens.cli import main

    out, err, start, before = io.StringIO(), io.StringIO(), time.perf_counter(), _processor_seconds()
    code: int | None = None
    wrong = ""
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(command)
        except BaseException:
            wrong = traceback.format_exc()
    seconds, busy = time.perf_counter() - start, _processor_seconds() - before
    wrong = wrong or _judged(code, out.getvalue(), err.getvalue(), "--json" in command)
    left = [path for place in ("temporary", "work") for path in places[place].iterdir()]
    wrong = wrong or (f"left behind: {left[:3]}" if left else "") or "; ".join(seen)
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children")
    if not wrong and children.exists() and children.read_text().split():
        wrong = "left a process behind"
    peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    if not wrong and busy > LIMIT_SECONDS:
        wrong = f"took {busy:.1f} s"
    return Result(number, kind, " ".join(command), seconds, busy, code, wrong, peak * 1024)


def _processor_seconds() -> float:
    return sum(os.times()[:4])


def _judged(code: int | None, out: str, err: str, as_json: bool) -> str:
    """Say what is wrong with an answer: it is one line of error and exit code 2, or clean output."""
    err = re.sub(r"^warplens: compiling .*\n", "", err, flags=re.MULTILINE)  # said once, of our own code
    if any(not (c.isprintable() or c == "\n") for c in err + ("" if as_json else out)):
        return f"control characters in the output: {err[:500]!r}"
    if code == 2:
        ours = err.count("\n") == 1 or re.match(r"warplens: .* refused it:\n", err)  # a compiler's message follows
        return "" if out == "" and ours else f"not one line: {err[:1000]!r}"
    if code != 0 or err:
        return f"exit code {code}: {err[:1000]!r}"
    if as_json:
        try:
            json.loads(out, parse_constant=_unknown)
        except ValueError as error:
            return f"not JSON: {error}"
    return ""


def _unknown(name: str) -> None:
    raise ValueError(f"{name} is no JSON")
