"""Advice: remedies, each with its gain, its source lines and its assumption; and the benefits of Sim et al. 2012.

remove-conflicts   2.31x   276 us   then limited by shared memory and l1      matmul_tiled.cu:29
                   assumes that padding or another layout removes all conflicts

`speedup` is the time now over the time with the remedy, both by the same form of our model. A remedy that cannot help
stays in the list with its reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from warplens.core.errors import WarplensError
from warplens.machine import Machine
from warplens.models.bounds import residency
from warplens.models.prediction import Prediction
from warplens.models.published import sim2012
from warplens.workload.workload import Workload


class Location(Struct, frozen=True):
    """A source line that a remedy changes, and the numbers of its instructions."""

    file: str
    line: int | None
    instructions: tuple[int, ...] = ()

    def __str__(self) -> str:
        """Write it as compilers do: `saxpy.cu:4`."""
        name = self.file.rpartition("/")[2] or "code"
        return f"{name}:{self.line}" if self.line is not None else name


class Advice(Struct, frozen=True, kw_only=True):
    """One remedy."""

    name: str
    title: str
    speedup: float
    seconds: float  # predicted, with the remedy
    interval_seconds: tuple[float, float] | None = None  # at 90 %
    bound_after: str = ""  # the limit with the remedy
    assumption: str = ""
    where: tuple[Location, ...] = ()
    helps: bool = True
    reason: str = ""  # why it does not help
    changes: dict[str, Any] = {}  # the overlay as data
    simulated: bool = False  # by the simulator, else by the closed form
    # The better remedy that makes the same change: several elements per thread, several iterations of a loop at once,
    # another block size, less overhead.
    form_of: str = ""
    how: str = ""  # what to write
    changes_results: bool = False  # be it in the last bits


class Benefits(Struct, frozen=True, kw_only=True):
    """Four potential benefits of Sim et al. 2012 and their terms, in cycles of the whole kernel.

    A benefit is an upper bound: what would be saved if that cause alone went away (Equations (18) to (23)).
    """

    t_exec: float
    t_comp: float
    t_mem: float
    t_overlap: float
    t_fp: float
    t_mem_min: float
    b_itilp: float
    b_memlp: float
    b_fp: float
    b_serial: float

    @property
    def memory_bound(self) -> bool:
        """True if memory takes longer than computation."""
        return self.t_mem > self.t_comp


class Advised(Struct, frozen=True, kw_only=True):
    """All advice on one kernel, as a sequence: what helps first, by its gain; then what cannot help."""

    base: Prediction
    advice: tuple[Advice, ...]
    combinations: tuple[Advice, ...] = ()
    benefits: Benefits | None = None
    notes: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Advice]:
        """Go through the advice, best first."""
        return iter(self.advice)

    def __len__(self) -> int:
        """Count the advice."""
        return len(self.advice)

    def __getitem__(self, which: int) -> Advice:
        """Return one advice."""
        return self.advice[which]

    @property
    def helpful(self) -> tuple[Advice, ...]:
        """Those that help, best first; the same change in another form does not count again."""
        return tuple(a for a in self.advice if a.helps and not a.form_of)

    def forms(self, a: Advice) -> tuple[Advice, ...]:
        """Return the other forms of a remedy's change that help, best first."""
        return tuple(b for b in self.advice if b.helps and b.form_of == a.name)

    def named(self, name: str) -> Advice | None:
        """Return the advice of this name."""
        return next((a for a in self.advice if a.name == name), None)


_SYMBOLS = {
    "t_exec": "T_exec", "t_comp": "T_comp", "t_mem": "T_mem", "t_overlap": "T_overlap", "t_fp": "T_fp",
    "t_mem_min": "T_mem_min", "b_itilp": "B_itilp", "b_memlp": "B_memlp", "b_fp": "B_fp", "b_serial": "B_serial",
}  # fmt: skip


def benefits(workload: Workload, machine: Machine) -> Benefits | None:
    """Return the benefits in cycles, None where Sim's model has no answer, as of a machine without its parameters."""
    try:
        terms = sim2012.predict(workload, machine, residency(workload, machine)).terms
    except WarplensError:
        return None
    return Benefits(**{name: float(terms[symbol].value) for name, symbol in _SYMBOLS.items()})
