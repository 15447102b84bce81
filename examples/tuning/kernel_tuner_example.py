"""Kernel Tuner times only what warplens leaves: pip install kernel_tuner warplens.

python examples/tuning/kernel_tuner_example.py           # the space that is left; needs no GPU
python examples/tuning/kernel_tuner_example.py --tune    # and times it on the GPU at hand
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from kernel_tuner import tune_kernel
from kernel_tuner.searchspace import Searchspace

from warplens.tuner.hooks import kernel_tuner_restriction

FOLDER = Path(__file__).resolve().parents[2] / "data" / "h200" / "suite" / "tuning"
TUNE_PARAMS = {
    "THREADS": [64, 128, 256, 512, 1024],
    "VECTOR": [1, 2, 4],
    "UNROLL": [1, 2, 4, 8],
    "per_sm": [1, 2, 3, 4, 6, 8, 16, 32],
}


def main() -> None:
    """Show how much of the space is left, and tune it where asked."""
    restriction = kernel_tuner_restriction(FOLDER / "reduction.toml", machine="h200", keep=0.05)
    left = Searchspace(TUNE_PARAMS, restriction, max_threads=1024)
    print(f"{left.size} of {np.prod([len(v) for v in TUNE_PARAMS.values()])} configurations are left")
    if "--tune" in sys.argv:
        n = np.int32(1 << 25)
        arrays = np.random.rand(n).astype(np.float32), np.zeros(132 * 32, np.float32)
        tune_kernel(
            "reduction", FOLDER / "reduction.cu", lambda p: 132 * p["per_sm"] * p["THREADS"], [n, *arrays], TUNE_PARAMS,
            restrictions=restriction, block_size_names=["THREADS"], grid_div_x=["THREADS"],
        )  # fmt: skip


if __name__ == "__main__":
    main()
