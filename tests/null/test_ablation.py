"""The mechanisms of the ablation: every optional number that our model reads belongs to one, or is needed to run."""

import ast
import re
from pathlib import Path
from typing import Any

import msgspec

import warplens
from warplens.machine import Machine, load_machine
from warplens.papers.validation.ablation import MECHANISMS, NEEDED, lacks, without

SOURCES = Path(warplens.__file__).parent
ROOMS = (
    "simulator",
    "models/warplens",
    "emulator",
    "program/lone_warp.py",
    "workload/workload.py",
)  # what reads a machine for our model
TABLES = ("operations", "tensor", "atomics", "bandwidth")  # whose entries are read by name


def _numbers(node: Any, key: str = "") -> dict[str, Any]:
    """Return the numbers of a machine by their keys, without those that are not given."""
    if isinstance(node, dict):
        parts = [_numbers(value, f"{key}.{name}" if key else name) for name, value in node.items()]
        return {k: v for part in parts for k, v in part.items()}
    return {} if node is None or node == [] else {key: node}


def numbers(machine: Machine) -> dict[str, Any]:
    """Return the numbers of a machine by their keys; the table of latencies is one."""
    plain = msgspec.to_builtins(machine)
    sections = {name: value for name, value in plain.items() if isinstance(value, dict) and name != "sources"}
    return _numbers(sections | {"latency_distribution": plain["latency_distribution"]})


def _reads() -> tuple[set[str], dict[str, set[str]]]:
    """Return the attributes that the rooms read, and for each table the words in the files that read it."""
    attributes, words = set[str](), {table: set[str]() for table in TABLES}
    for room in ROOMS:
        path = SOURCES / room
        for file in path.rglob("*.py") if path.is_dir() else [path]:
            nodes = list(ast.walk(ast.parse(file.read_text())))
            here = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
            texts = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
            attributes |= here
            for table in here & set(TABLES):
                words[table] |= {text.lower().replace(".", "_") for text in texts if re.fullmatch(r"[\w.]{3,}", text)}
    return attributes, words


def is_read(key: str, attributes: set[str], words: dict[str, set[str]]) -> bool:
    """Return whether the rooms read a number: its section, its field, and an entry of a table by its name.

    The name of an entry may be put together of parts, as `dram_` and `read`.
    """
    section, *rest = key.split(".")
    if section in TABLES:
        parts = {rest[0], rest[0].partition("_")[0] + "_", *re.findall(r"_[a-z]+_", rest[0])}
        return rest[-1] in attributes and not parts.isdisjoint(words[section])
    return section in attributes and ("latency_to" in rest or not rest or rest[-1] in attributes)


def _owners(machine: Machine) -> dict[str, list[str]]:
    """Return the mechanisms that a number belongs to: not one that takes more than another that has it."""
    given, taken = numbers(machine), dict[str, set[str]]()
    for name in MECHANISMS:
        left = numbers(without(machine, name))
        taken[name] = {key for key, value in given.items() if left.get(key) != value}
    found = {key: [name for name, keys in taken.items() if key in keys] for key in given}
    return {key: [x for x in names if not any(taken[y] < taken[x] for y in names)] for key, names in found.items()}


def test_every_number_that_is_read_belongs_to_one_mechanism_or_is_needed() -> None:
    gpu, (attributes, words) = load_machine("h200"), _reads()
    assert gpu.shared_memory is not None
    sections = {"sm": gpu.sm, "chip": gpu.chip, "shared_memory": gpu.shared_memory}
    required = {
        f"{name}.{f.name}" for name, s in sections.items() for f in msgspec.structs.fields(type(s)) if f.required
    }
    optional = [key for key in numbers(gpu) if key not in required and is_read(key, attributes, words)]
    assert len(optional) > 200
    owners, wrong = _owners(gpu), list[tuple[str, list[str]]]()
    for key in optional:
        reasons = [why for pattern, why in NEEDED.items() if re.fullmatch(pattern, key)]
        if len(owners[key] + reasons) != 1:
            wrong.append((key, owners[key] + reasons))
    assert wrong == []
    assert [p for p in NEEDED if not any(re.fullmatch(p, key) for key in optional)] == []


def test_every_mechanism_is_in_the_machine_file_of_the_h200() -> None:
    gpu = load_machine("h200")
    assert [name for name in MECHANISMS if lacks(gpu, name)] == []
    bare = without(gpu, "register banks")
    assert bare.sm.register_banks is None and lacks(bare, "register banks")
    assert without(gpu, "packets of L2").packets.store_seconds is None
