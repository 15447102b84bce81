"""Outputs of the special-function unit and of tensor cores, recorded bit for bit on the GPU at hand.

    python -m warplens.laboratory.special_functions.measure [FOLDER]

Writes digests.json, measured.npz and matrices.npz. Sines and cosines are taken of turns: the factor 1 / (2 pi) that the
compiler puts before MUFU.SIN and MUFU.COS is patched to 1.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from warplens.core.driver import Driver, Gpu
from warplens.core.errors import WarplensError
from warplens.laboratory.special_functions import DATA
from warplens.laboratory.special_functions.inputs import (
    FULL,
    KEPT_WARPS,
    MATRICES,
    ONE,
    PATTERNS,
    RANGES,
    WARPS,
    Words,
    is_kept,
    matrix_inputs,
    packed,
    sampled,
)  # fmt: skip
from warplens.program import Options
from warplens.program.compile import compile_file


def _cubin(name: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        return compile_file(Path(__file__).with_name(name), Options("sm_90a"), Path(folder)).cubin.read_bytes()


def _without_factor(cubin: bytes) -> bytes:
    """Return the machine code with the factor 1 / (2 pi) before MUFU.SIN and MUFU.COS patched to 1."""
    factor, one = (0x3E22F983).to_bytes(4, "little"), ONE.to_bytes(4, "little")
    if cubin.count(factor) != 2:
        raise WarplensError(
            f"the factor 1 / (2 pi) occurs {cubin.count(factor)} times, not twice: use another compiler"
        )
    return cubin.replace(factor, one)


class _Runner:
    """The GPU with memory for the inputs and outputs of one launch."""

    def __init__(self) -> None:
        self.gpu = Gpu(Driver())
        self._buffers = [self.gpu.allocate(FULL * 4) for _ in range(4)]

    def run(self, kernel: ctypes.c_void_p, arrays: list[Words], count: int, threads: int, n: int) -> Words:
        """Launch a kernel over arrays; return that many words of its output."""
        for buffer, data in zip(self._buffers, arrays, strict=False):
            self.gpu.put(buffer, data)
        pointers = [ctypes.c_uint64(b) for b in (*self._buffers[: len(arrays)], self._buffers[3])]
        self.gpu.launch(kernel, (threads + 127) // 128, 128, 0, [*pointers, ctypes.c_uint32(n)])
        return self.gpu.get(self._buffers[3], np.zeros(count, np.uint32))


def _functions(runner: _Runner, out: Path) -> None:
    digests, kept = dict[str, str](), dict[str, npt.NDArray[Any]]({"mantissas": sampled()[:2048]})
    module = runner.gpu.load(_without_factor(_cubin("functions.cu")))
    for name, parts in RANGES.items():
        kernel = runner.gpu.function(module, f"mufu_{name}")
        for part, inputs in parts.items():
            bits = inputs()
            outputs = runner.run(kernel, [bits], len(bits), len(bits), len(bits))
            digests[f"{name}/{part}"] = hashlib.sha256(outputs.tobytes()).hexdigest()
            if is_kept(name, part):
                kept[f"{name}/{part}"] = packed(outputs)
    np.savez(out / "measured.npz", **kept)  # type: ignore[arg-type]
    about = {"gpu": runner.gpu.facts().name, "cuda": runner.gpu.facts().driver}
    (out / "digests.json").write_text(json.dumps({"about": about, "sha256": digests}, indent=0))


def _matrices(runner: _Runner, out: Path) -> None:
    found, module = dict[str, npt.NDArray[Any]](), runner.gpu.load(_cubin("matrices.cu"))
    for name in MATRICES:
        kernel = runner.gpu.function(module, name)
        for pattern in PATTERNS:
            given = matrix_inputs(name, pattern)
            outputs = runner.run(kernel, list(given), given[2].size, WARPS * 32, WARPS)
            found[f"{name}/{pattern}"] = outputs.reshape(given[2].shape)[KEPT_WARPS]
            found[f"{name}/{pattern}/sums"] = np.array([x.astype(np.uint64).sum() for x in given], np.uint64)
    np.savez_compressed(out / "matrices.npz", **found)  # type: ignore[arg-type]


def main() -> None:
    """Run all kernels and write what they gave."""
    out, runner = Path(sys.argv[1]) if len(sys.argv) > 1 else DATA, _Runner()
    _functions(runner, out)
    _matrices(runner, out)


if __name__ == "__main__":
    main()
