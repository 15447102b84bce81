"""What nvdisasm itself says about a cubin: definitions and uses (-plr), blocks and edges (-bbcfg)."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from warplens.program import toolchain
from warplens.program.encoding import WORD_BYTES
from warplens.program.program import Program

_BANKS = {"GPR": "R", "PRED": "P", "UGPR": "UR", "UPRED": "UP"}
Graph = tuple[set[tuple[int, int]], set[tuple[int, int]]]
Marks = dict[tuple[str, int], tuple[set[str], set[str]]]


def live_ranges(cubin: Path) -> str:
    """Return the disassembly with machine words, and nvdisasm's columns of live ranges behind the second one."""
    return toolchain.run("nvdisasm", "-c", "-hex", "-plr", "-lrm", "narrow", cubin)


def definitions_and_uses(text: str) -> Marks:
    """Return (definitions, uses) by (function, offset): ^ defines, v uses, x does both."""
    found: Marks = {}
    section, columns, header, offset = "", None, list[str](), 0
    for row in text.splitlines():
        start = re.match(r'^\s*\.section\s+"?\.text\.(.+?)"?,"', row)
        if start:
            section, columns, header = start.group(1), None, []
            continue
        code, mark, notes = row.rpartition("// ")
        if not mark:
            continue
        if notes.startswith("+---"):
            if header:
                columns, header = _columns(header), []
        elif columns is None:
            if notes.startswith("|"):
                header.append(notes)
        elif at := re.match(r"^\s*/\*([0-9a-f]{4,})\*/", code):
            offset = int(at.group(1), 16)
        elif "/* 0x" in code and notes.startswith("|"):
            marks = [(columns[at], sign) for at, sign in _signs(notes) if at in columns]
            defined = {register for register, sign in marks if sign in "^x"}
            used = {register for register, sign in marks if sign in "vx"}
            found[section, offset] = (defined, used)
    return found


def _signs(notes: str) -> Iterator[tuple[int, str]]:
    return ((sign.start(), sign[0]) for sign in re.finditer(r"[\^vx]", notes))


def _columns(header: list[str]) -> dict[int, str]:
    """Return the register of each column: bank names in the first line, digits from top to bottom below."""
    names, digits = header[0], header[1:]
    bars = [i for i, c in enumerate(names) if c == "|"]
    columns = {}
    for left, right in pairwise(bars):
        bank = _BANKS.get(names[left + 1 : right].strip())
        for i in range(left + 1, right):
            text = "".join(line[i] for line in digits if i < len(line)).strip()
            if bank and text.isdigit():
                columns[i] = f"{bank}{int(text)}"
    return columns


def blocks_and_edges(cubin: Path, functions: list[Program]) -> dict[str, Graph]:
    """Return, by code section, the blocks (first and last offset) and the edges (first offsets)."""
    text = toolchain.run("nvdisasm", "-c", "-bbcfg", "-poff", cubin)
    by_name = {f.name: f for f in functions}
    found: dict[str, Graph] = defaultdict(lambda: (set(), set()))
    section = ""
    quoted = r'"((?:[^"\\]|\\.)*)"'
    for cluster in re.finditer(r'subgraph "cluster_(.*?)" \{(.*?)\n\}\n', text, re.S):
        name, body = cluster.groups()
        if name in by_name:
            section = name
        elif not (section and name in by_name[section].labels):
            section = next((f.name for f in functions if name in f.labels), section)
        nodes = {}
        for node, label in re.findall(rf"\n{quoted}\n\[label={quoted}\]", body):
            offsets = [int(x, 16) for x in re.findall(r"(?:\\l|>|\|<exit\d+>)([0-9a-f]{4,}):\\ ", label)]
            if offsets:
                nodes[node] = (min(offsets), max(offsets))
        blocks, edges = found[section]
        blocks.update(nodes.values())
        for a, b in re.findall(rf"\n{quoted}:\w+:\w+ -> {quoted}", body):
            if a in nodes and b in nodes:
                edges.add((nodes[a][0], nodes[b][0]))
    return found


def joined(graph: Graph, ours: set[int]) -> Graph:
    """Return a graph without the straight cuts that are not `ours` (first offsets).

    From 13.5 on nvdisasm begins a block at each EXIT, at each instruction in which the warp takes part as a whole
    (SHFL, VOTE, MATCH, REDUX), and where __syncwarp was. The same instructions run one after the other: the block above
    goes on there and nowhere else, and nothing else comes there. Any other cut is kept.
    """
    blocks, edges = graph
    behind, before = defaultdict[int, set[int]](set), defaultdict[int, set[int]](set)
    for a, b in edges:
        behind[a].add(b)
        before[b].add(a)
    above = {last + WORD_BYTES: first for first, last in blocks}
    begins, ends = dict[int, int](), dict[int, int]()  # of theirs, and of what is returned
    for first, last in sorted(blocks):
        over = above.get(first)
        straight = over is not None and behind[over] == {first} and before[first] == {over}
        begins[first] = begins[over] if over is not None and straight and first not in ours else first
        ends[begins[first]] = last
    return set(ends.items()), {(begins[a], b) for a, b in edges if begins[b] == b}
