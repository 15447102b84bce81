"""Triton's autotune times only what warplens leaves: pip install triton torch warplens. Launching needs a GPU.

    python examples/tuning/triton_autotune.py

The kernel scales rows. Its time by configuration is predicted in closed form: what a program of so many warps loads,
the registers that this takes, and how the programs lie on the SMs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import triton
import triton.language as tl

import warplens as wl
from warplens.tuner.hooks import triton_prune

GPU = wl.load_machine("h200")
CONFIGS = [
    triton.Config({"BLOCK": block}, num_warps=warps)
    for block in (128, 256, 512, 1024, 2048, 4096, 8192)
    for warps in (1, 2, 4, 8, 16)
]


def seconds(values: Mapping[str, Any], arguments: Mapping[str, Any]) -> float:
    """Predict one configuration: every thread loads and stores BLOCK / (32 num_warps) floats, up to four at a time."""
    each = max(1.0, values["BLOCK"] / (32 * values["num_warps"]))
    wide = min(4.0, each)
    moves = each / wide
    access = {"count": moves, "bytes_per_thread": 4 * wide, "transactions": wide, "transaction_bytes": 128.0}
    workload = wl.Workload(
        name="scale",
        launch=wl.Launch(
            grid=math.ceil(arguments["n"] / values["BLOCK"]),
            block=32 * values["num_warps"],
            registers_per_thread=min(255, 16 + math.ceil(each)),
        ),
        instructions={"fp32": each, "int": 12.0 + 2 * moves},
        accesses=[wl.Access(**access), wl.Access(**access, kind="store")],
        mlp=moves,
    )
    return float(wl.predict(workload, GPU, "volkov").seconds)  # type: ignore[arg-type]


@triton.autotune(configs=CONFIGS, key=["n"], prune_configs_by={"early_config_prune": triton_prune(seconds, keep=0.15)})
@triton.jit
def scale(x, out, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    """Scale an array."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, 2.0 * tl.load(x + i, mask=i < n), mask=i < n)


def main() -> None:
    """Show what is left, and let Triton time it where there is a GPU."""
    n = 1 << 26
    left = triton_prune(seconds, keep=0.15)(CONFIGS, {"n": n})
    print(f"{len(left)} of {len(CONFIGS)} configurations are left: {', '.join(map(str, left))}")
    try:
        import torch
    except ImportError:
        return
    if torch.cuda.is_available():
        x = torch.rand(n, device="cuda")
        scale[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, torch.empty_like(x), n)
        print(f"Triton takes {scale.best_config}")


if __name__ == "__main__":
    main()
