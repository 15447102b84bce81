"""What was assumed, what is not known, and the numbers of the GPU with their sources."""

from __future__ import annotations

from warplens.core.units import quantity, unit_of
from warplens.report.page import origins
from warplens.report.page.answer import counts
from warplens.report.page.content import Content
from warplens.report.page.markup import Markup, joined, more, table, tag


def assumptions(content: Content) -> Markup:
    """Return the section on what the answer rests on."""
    p, workload, profile = content.prediction, content.workload, content.workload.profile
    known = [
        "the clock is the machine file's, and stays there",
        *counts(content),
        *(f"note: {note}" for note in (*workload.notes, *p.notes)),
    ]
    unknown = [f"{what}: {why}" for what, why in content.missing.items()]
    if profile is not None:
        for share, what in (
            (profile.known_instructions, "instructions executed"),
            (profile.known_addresses, "addresses"),
        ):
            if share < 1:
                unknown.append(f"{1 - share:.2%} of the {what} are not known to the emulator")
        if not profile.exact and profile.largest_error:
            off = f"{profile.largest_error:.1%}"
            unknown.append(f"the counts of single instructions may be off by {off}: a part of the grid was emulated")
    unknown.append("which threads of a warp touch which sectors and banks")
    if workload.code:
        unknown.append("lines of included files are not told apart from lines of this file")
    flags = [tag("li", flag, class_="flag") for flag in p.flags]
    made = [
        tag("div", tag("h3", "Assumed and counted"), tag("ul", *flags, *(tag("li", x) for x in known))),
        tag("div", tag("h3", "Not known"), tag("ul", *(tag("li", x) for x in unknown))),
    ]
    return joined((tag("div", *made, class_="two"), _traffic(content), _machine(content)))


def _traffic(content: Content) -> Markup | str:
    profile = content.workload.profile
    if profile is None or not profile.traffic:
        return ""
    columns = ("l2_read_bytes", "l2_written_bytes", "dram_read_bytes", "dram_written_bytes")
    rows = [[t.name, *(quantity(getattr(t, name), "B", 3) for name in columns)] for t in profile.traffic]
    head = ["array", "read from L2", "written to L2", "read from DRAM", "written to DRAM"]
    return more("Traffic by array", table(head, rows, range(1, 5), caption="traffic by array"))


def _machine(content: Content) -> Markup:
    machine = content.machine
    rows = []
    for key in origins.used_keys(content.workload, machine):
        source, found = machine.sources[key], origins.value_of(machine, key)
        number = quantity(found, unit_of(key.rpartition(".")[2])) if isinstance(found, (int, float)) else str(found)
        rows.append(
            [tag("code", key), number, f"{source.source}{f', {source.date}' if source.date else ''}", source.ref]
        )
    head = ["number", "value", "source", "reference"]
    made = table(head, rows, (1,), caption="numbers of the machine")
    return more(f"Numbers of {machine.name} ({len(rows)})", made, printed=False)
