"""Limits of machine code: the units that a prediction is held against are those that the simulator issues to."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import warplens as wl
from warplens.cli import main

pytestmark = [pytest.mark.cuda, pytest.mark.xdist_group("emulator")]
GPU = wl.load_machine("h200")
SOURCE = """
typedef unsigned u32;
extern "C" __global__ void additions(u32* out, u32 k, int n) { // VIADD and LOP3: products' units and whole numbers'
  u32 a = threadIdx.x, b = a ^ 3, c = a ^ 5, d = a ^ 7;
  #pragma unroll 1
  for (int i = 0; i < n; i++) {
    #pragma unroll
    for (int r = 0; r < 16; r++) { a += 0x1234 + r; b ^= a; b += 77 + r; c ^= b; c += 33; d ^= c; d += 11; a ^= d; }
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = a ^ b ^ c ^ d;
}
extern "C" __global__ void hash(u32* out, u32 k, int n) {
  u32 x = blockIdx.x * blockDim.x + threadIdx.x;
  for (int i = 0; i < n; i++) {
    x ^= x >> 16; x *= 0x85ebca6b; x ^= x >> 13; x *= 0xc2b2ae35; x ^= x >> 16; x += k;
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = x;
}
extern "C" __global__ void shifts(u32* out, u32 k, int n) {
  u32 x = blockIdx.x * blockDim.x + threadIdx.x, y = k;
  for (int i = 0; i < n; i++) { x = (x << (y & 31)) ^ (x >> 3); y = (y >> (x & 7)) + i; x ^= x << 7; y += x << 4; }
  out[blockIdx.x * blockDim.x + threadIdx.x] = x ^ y;
}
extern "C" __global__ void packed(u32* out, u32 k, int n) {
  u32 x = blockIdx.x * blockDim.x + threadIdx.x, a = x, b = x ^ 3;
  for (int i = 0; i < n; i++) {
    a = __vadd2(a, b ^ i); b = __vmaxs2(a, k); a = __vaddus4(a, b); b = __vabsdiffu4(a, b) + i;
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = a ^ b;
}
extern "C" __global__ void few_lanes(u32* out, u32 k, int n) {
  u32 x = blockIdx.x * blockDim.x + threadIdx.x, a = x;
  if ((threadIdx.x & 31) < 3) for (int i = 0; i < n; i++) { a ^= a << 13; a ^= a >> 17; a ^= a << 5; a += k; }
  else for (int i = 0; i < n / 2; i++) { a = a * k + i; a ^= a >> 3; }
  out[x] = a;
}
"""
LAUNCH = """
file = "units.cu"
kernel = "{kernel}"
source = "ours"
grid = 2112
block = 256
arg = [{{ name = "out", type = "u32*", count = 540672 }}, {{ name = "k", type = "u32", value = 12345 }},
       {{ name = "n", type = "i32", value = 60 }}]
"""
KERNELS = ("additions", "hash", "shifts", "packed", "few_lanes")


@cache
def workload(kernel: str) -> wl.Workload:
    with TemporaryDirectory() as folder:
        (Path(folder) / "units.cu").write_text(SOURCE)
        launch = Path(folder) / "launch.toml"
        launch.write_text(LAUNCH.format(kernel=kernel))
        return wl.count(None, launch, GPU)


@pytest.mark.parametrize("kernel", KERNELS)
def test_our_own_answer_is_shown_and_breaks_no_limit(kernel: str) -> None:
    found = wl.compare(workload(kernel), GPU)
    assert found.headline is not None and found.headline.model == "warplens"
    assert found.headline.flags == [] and found.headline.why_not_ours == ""
    assert wl.predict(workload(kernel), GPU).model == "warplens"


def test_additions_are_shared_between_two_units() -> None:
    """Of VIADD and LOP3 in turn each unit takes half; a unit that took all would need twice the issue limit."""
    p = wl.predict(workload("additions"), GPU, "warplens")
    assert float(p.limits["integer"]) == pytest.approx(float(p.limits["integer products"]), rel=0.05)
    assert float(p.limits["integer"]) <= float(p.limits["issue"]) <= float(p.cycles or 0)


def test_a_time_that_a_unit_denies_is_still_called_impossible() -> None:
    """Twice the rate of a kernel that issue limits to 95 % and more is about 1.9 times the peak of its busy units."""
    from msgspec.structs import replace

    from warplens.models.plausibility import flagged

    w = workload("additions")
    p = wl.predict(w, GPU, "warplens")
    rate = p.throughput_warps_per_cycle
    assert rate is not None
    flags = flagged(replace(p, throughput_warps_per_cycle=2 * rate), w, GPU).flags
    assert {flag.rpartition(" of ")[2] for flag in flags} == {"issue", "integer", "integer products"}


def test_check_asks_the_model_that_analyze_shows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved = tmp_path / "w.json"
    workload("hash").save(saved)
    assert main(["check", str(saved), "--max-time", "1s"]) == 0
    out = capsys.readouterr().out
    assert " by warplens, limited by " in out and "not by our own model" not in out
    assert main(["check", "saxpy", "--max-time", "1s"]) == 0
    assert "by volkov-contention (not by our own model: warplens needs " in capsys.readouterr().out
