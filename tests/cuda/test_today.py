"""The kernels under examples/today compute what they should: the emulator's outputs against NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from tests.cuda.programs import program_of
from tests.cuda.today.references import REFERENCES
from warplens.emulator.emulator import Emulator
from warplens.workload.contents import contents
from warplens.workload.launch import KernelCall, list_variants, load_launch

pytestmark = [pytest.mark.cuda, pytest.mark.xdist_group("emulator")]
FILES = sorted((Path(__file__).parents[2] / "examples" / "today").rglob("*.toml"))

# How far single precision may be from the exact value, relative to the largest; 1e-6 where nothing is said.
TOLERANCE = {
    "axpy_half": 0, "rms_norm": 1e-3, "fft_radix4": 2e-6, "fft_radix8": 2e-6, "nbody": 1e-5, "attention": 3e-6,
    "monte_carlo_option": 2e-5, "gelu.fast": 1e-3, "long_code": 0, "argmax": 0, "gather": 0, "scatter": 0,
    "transpose": 0, "scale": 0,
}  # fmt: skip
# Whole numbers that follow from rounded ones, and how many may be off by chance.
ROUNDED = {"mandelbrot": 0.02, "monte_carlo_pi": 1.0}
# Those that `make test` takes; all of them with `make test-all`.
QUICK = {"stencil2d_tiled", "radix_scatter", "spmv_vector", "softmax_warp", "hash_probe", "dot", "spill.limit32"}


def _cases() -> list[Any]:
    """Return the small calls that differ, with their names such as `spill.limit32`."""
    made = []
    for file in FILES:
        seen = set()
        for variant in ["", *(v for v in list_variants(file) if v != "small")]:
            call = load_launch(file, f"{variant},small".lstrip(","))
            same = msgspec.json.encode(msgspec.structs.replace(call, variant=""))
            if same not in seen:
                seen.add(same)
                name = f"{file.stem}.{variant}".rstrip(".")
                marks = [] if name in QUICK else [pytest.mark.slow]
                made.append(pytest.param(name, call, id=name, marks=marks))
    return made


def _given(call: KernelCall) -> dict[str, Any]:
    """Return the arguments by name, arrays as they are before the launch."""
    return {
        a.name: contents(a, i, call.folder)(np.arange(a.count or 0)) if a.is_pointer else a.value
        for i, a in enumerate(call.arguments)
    }


def _agree(name: str, ours: Any, expected: Any) -> bool:
    stem = name.partition(".")[0]
    if stem == "resize":
        return bool(np.abs(ours.view(np.uint8) - expected).max() <= 1)
    if stem in ROUNDED:
        wrong = np.abs(ours.astype(float) - expected)
        return bool(wrong.max() <= 2 if stem == "monte_carlo_pi" else (wrong > 0).mean() < ROUNDED[stem])
    if ours.dtype.kind in "iu":
        return bool((ours == expected).all())
    allowed = next((t for part, t in TOLERANCE.items() if name.startswith(part)), 1e-6)
    return bool(np.abs(ours - expected).max() <= allowed * np.abs(expected).max())


@pytest.mark.parametrize(("name", "call"), _cases())
def test_the_kernel_computes_what_it_should(name: str, call: KernelCall) -> None:
    emulator = Emulator(program_of(call), call)
    emulator.run(range(call.blocks))
    assert emulator.unknown_executed == 0
    expected = REFERENCES[name.partition(".")[0]](_given(call), call)
    outputs = [a.name for a in call.arguments if a.name.startswith("out")]
    assert sorted(outputs) == sorted(expected)
    for output in outputs:
        ours = emulator.array(output)
        assert np.isfinite(ours).all()
        assert _agree(name, ours, expected[output]), output


def _full() -> list[Any]:
    return [
        pytest.param(file, variant, id=f"{file.stem}.{variant}".rstrip("."))
        for file in FILES
        for variant in ["", *(v for v in list_variants(file) if v != "small")]
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("file", "variant"), _full())
def test_the_first_and_the_last_block_stay_inside_the_arrays(file: Path, variant: str) -> None:
    """At full size. The emulator refuses an access beyond an array's end; what it does not know, it counts."""
    call = load_launch(file, variant)
    emulator = Emulator(program_of(call), call)
    emulator.run(sorted({0, call.blocks // 2, call.blocks - 1}))
    assert emulator.unknown_executed == 0
