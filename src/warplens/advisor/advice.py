"""What the advisor says: remedies, each with what it would buy, where, and on which assumption.

remove-conflicts   2.31x   276 us   then limited by shared memory and l1      matmul_tiled.cu:29
                   assumes that padding or another layout removes all conflicts

`speedup` is the time now over the time with the remedy, both by the same form of our model. A remedy that cannot help
stays in the list with its reason: that is advice too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from warplens.models.prediction import Prediction


class Place(Struct, frozen=True):
    """Where in the source a remedy is applied, and which instructions it concerns (by number)."""

    file: str
    line: int | None
    instructions: tuple[int, ...] = ()

    def __str__(self) -> str:
        """Write it as compilers do: `saxpy.cu:4`."""
        name = self.file.rpartition("/")[2] or "code"
        return f"{name}:{self.line}" if self.line is not None else name


class Advice(Struct, frozen=True, kw_only=True):
    """One remedy. `changes` is the overlay as data; `simulated` says which form of the model was asked.

    `seconds` is the predicted time with the remedy, `interval_seconds` what we are 90 % sure of, `bound_after` the
    limit that holds then. `form_of` names the better remedy that makes the same change: several elements per thread,
    several turns of a loop at once, another block size, less overhead. `how` says what to write; `changes_results`
    whether the kernel then computes other numbers, be it in the last bits.
    """

    name: str
    title: str
    speedup: float
    seconds: float
    interval_seconds: tuple[float, float] | None = None
    bound_after: str = ""
    assumption: str = ""
    where: tuple[Place, ...] = ()
    helps: bool = True
    reason: str = ""
    changes: dict[str, Any] = {}
    simulated: bool = False
    form_of: str = ""
    how: str = ""
    changes_results: bool = False


class Benefits(Struct, frozen=True, kw_only=True):
    """Sim et al. 2012: the four potential benefits and what they are made of, in cycles of the whole kernel.

    A benefit is at most this: what would be saved if that cause alone went away (Equations (18) to (23)).
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
        """Whether memory takes longer than computation."""
        return self.t_mem > self.t_comp


class Advised(Struct, frozen=True, kw_only=True):
    """All advice on one kernel: what helps first, by its gain; then what cannot help. It is the list of its advice."""

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
