"""JSON of all commands: the same content as the terminal, arrays as lists, nothing that JSON cannot say."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec
import numpy as np

from warplens.models import Prediction

SCHEMA_VERSION = 1  # of the commands' JSON: another one where a key is renamed or means something else


_WITH_UNITS = {"limits": "limits_cycles", "parts": "parts_cycles"}
_PREDICTION = (
    "model", "machine", "workload", "per", "warps_per_sm", "cycles", "seconds", "bound", "limited_by",
    "needed_warps_per_sm", "throughput_warps_per_cycle", "ipc", "fp32_ops_per_cycle", "dram_bytes_per_second", "limits",
    "parts", "terms", "notes", "flags", "interval_seconds", "interval_about", "why_not_ours",
)  # fmt: skip


def to_json(thing: Any) -> str:
    """Encode structures, predictions and arrays as indented JSON; not-a-number and infinity become null."""
    text = msgspec.json.format(msgspec.json.encode(_plain(thing)), indent=2).decode()
    # What a terminal would obey is written as JSON's `\u`.
    return re.sub(r"[^ -~\n]", lambda c: c[0] if c[0].isprintable() else json.dumps(c[0])[1:-1], text)


def document(fields: dict[str, Any]) -> str:
    """Encode the answer of a command as JSON, its schema version before all else."""
    return to_json({"schema_version": SCHEMA_VERSION, **fields})


def _plain(thing: Any) -> Any:
    if isinstance(thing, Prediction):  # as the design names its parts, the rates included, the internals left out
        return {_WITH_UNITS.get(name, name): _plain(getattr(thing, name)) for name in _PREDICTION}
    if isinstance(thing, np.ndarray):
        return thing.tolist()
    if isinstance(thing, np.generic):
        return thing.item()
    if isinstance(thing, msgspec.Struct):
        thing = dict(zip(thing.__struct_encode_fields__, msgspec.structs.astuple(thing), strict=True))
    if isinstance(thing, dict):
        return {str(key): _plain(value) for key, value in thing.items()}
    if isinstance(thing, (list, tuple)):
        return [_plain(value) for value in thing]
    return thing
