"""Hooks for Triton's autotune and Kernel Tuner, which time the configurations that the model leaves.

Triton:        @triton.autotune(configs, key=[...], prune_configs_by={"early_config_prune": triton_prune(seconds)})
Kernel Tuner:  tune_kernel(..., tune_params, restrictions=kernel_tuner_restriction("matmul.toml", machine="h200"))
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from warplens.core.cache import Cache
from warplens.core.errors import WarplensError
from warplens.core.files import default_folder
from warplens.machine import Machine, load_machine
from warplens.tuner.run import processes
from warplens.tuner.spec import load_sweep
from warplens.tuner.tune import Tuned, tune

Config = TypeVar("Config")
Seconds = Callable[[Mapping[str, Any], Mapping[str, Any]], float]


def triton_prune(seconds: Seconds, *, keep: float = 0.1, least: int = 1) -> Callable[..., list[Any]]:
    """Return an `early_config_prune` for Triton's autotune that keeps this share of the configurations, the best.

    `seconds` predicts one: it is given the configuration's values (its meta-parameters, `num_warps`, `num_stages`) and
    the kernel's arguments by name. One that it refuses with a WarplensError, or has no finite time for, is dropped.
    """
    if not 0 < keep <= 1 or least < 1:
        raise WarplensError("keep lies between 0 and 1, and at least one configuration is kept")

    def early_config_prune(configs: Sequence[Config], named_args: Mapping[str, Any], **more: Any) -> list[Config]:
        arguments = {**named_args, **more}
        timed = [(_time(seconds, _values(c), arguments), i, c) for i, c in enumerate(configs)]
        legal = sorted((t for t in timed if math.isfinite(t[0])), key=lambda t: t[:2])
        kept = max(least, math.ceil(keep * len(configs)))
        return [config for _, _, config in legal[:kept]] or list(configs[:1])  # Triton needs one to launch

    return early_config_prune


def _values(config: Any) -> dict[str, Any]:
    named = {name: getattr(config, name) for name in ("num_warps", "num_stages") if hasattr(config, name)}
    return {**config.kwargs, **named}


def _time(seconds: Seconds, values: Mapping[str, Any], arguments: Mapping[str, Any]) -> float:
    try:
        return float(seconds(values, arguments))
    except WarplensError:
        return math.inf


def kernel_tuner_restriction(
    spec: str | Path | Tuned,
    machine: str | Machine = "h200",
    *,
    keep: float = 0.1,
    share: float | None = None,
    cache: str | Path | None = None,
) -> Callable[[Mapping[str, Any]], bool]:
    """Return a restriction function for Kernel Tuner: only the best share `keep` of a tuned space passes.

    The axes of the sweep file are Kernel Tuner's `tune_params`, by name. What is not in the space does not pass. A
    tuned space may be given instead of its file.
    """
    if not 0 < keep <= 1:
        raise WarplensError("keep lies between 0 and 1")
    if isinstance(spec, Tuned):
        found = spec
    else:
        gpu = load_machine(machine) if isinstance(machine, str) else machine
        found = tune(load_sweep(spec), gpu, share=share, cache=Cache(cache or default_folder()), engine=processes())
    best = sorted(found.candidates, key=lambda c: c.seconds)[: max(1, math.ceil(keep * len(found.candidates)))]
    names = list(found.best.values)
    passing = {tuple(c.values[name] for name in names) for c in best}

    def restriction(parameters: Mapping[str, Any]) -> bool:
        missing = [name for name in names if name not in parameters]
        if missing:
            raise WarplensError(f"Kernel Tuner's tune_params lack {missing[0]!r}, an axis of {found.kernel}")
        return tuple(_plain(parameters[name]) for name in names) in passing

    return restriction


def _plain(value: Any) -> Any:
    """Return a NumPy number as Python's."""
    return value.item() if hasattr(value, "item") else value
