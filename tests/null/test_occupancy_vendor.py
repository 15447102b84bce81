"""Occupancy against the vendor's own calculator: `cuda_occupancy.h`, compiled here, on every compute capability.

Needs the header (it comes with the wheels that warplens needs) and a C compiler; skipped without. No GPU.
"""

from __future__ import annotations

import ctypes
import importlib.util
import itertools
import shutil
import subprocess
from pathlib import Path

import pytest

from warplens.core.errors import WarplensError
from warplens.machine import load_machine, occupancy

pytestmark = pytest.mark.cuda
MACHINES = ["gtx680", "gtx980", "gtx1060", "t4", "a100", "a40", "rtx3090", "rtx4090", "h200", "b200", "rtx5090"]
SOURCE = """
#include "cuda_occupancy.h"
int blocks(int major, int minor, int threads_per_sm, int shared_per_sm, int shared_optin, int reserved,
           int threads, int registers, int shared, int barriers) {
    cudaOccDeviceProp device = {major, minor, 1024, threads_per_sm, 65536, 65536, 32, 49152, shared_per_sm, 1,
                                shared_optin, reserved};
    cudaOccFuncAttributes kernel = {1024, registers, 0, PARTITIONED_GC_OFF, FUNC_SHMEM_LIMIT_OPTIN, shared_optin,
                                    barriers, 0};
    cudaOccDeviceState state = {CACHE_PREFER_NONE, SHAREDMEM_CARVEOUT_DEFAULT};
    cudaOccResult result;
    if (cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &kernel, &state, threads, shared)) return -1;
    return result.activeBlocksPerMultiprocessor;
}
"""


@pytest.fixture(scope="module")
def vendor(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    found = importlib.util.find_spec("nvidia")
    roots = found.submodule_search_locations or [] if found else []
    headers = [h for root in roots for h in sorted(Path(root).glob("cu*/include/cuda_occupancy.h"))]
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not headers or compiler is None:
        pytest.skip("needs cuda_occupancy.h and a C compiler")
    folder = tmp_path_factory.mktemp("vendor")
    (folder / "occupancy.c").write_text(SOURCE)
    library = folder / "occupancy.so"
    build = [compiler, "-w", "-shared", "-fPIC", "-O1", f"-I{headers[-1].parent}", str(folder / "occupancy.c"), "-o"]
    subprocess.run([*build, str(library)], check=True, timeout=60)
    return ctypes.CDLL(str(library))


@pytest.mark.parametrize("name", MACHINES)
def test_every_answer_is_the_vendors(name: str, vendor: ctypes.CDLL) -> None:
    machine = load_machine(name)
    sm = machine.sm
    major, minor = map(int, str(machine.compute_capability).split("."))
    largest = int(sm.shared_per_block_max_bytes or 49152)
    device = (
        major,
        minor,
        int(sm.warps_max * 32),
        int(sm.shared_bytes or 0),
        largest,
        int(sm.shared_reserved_bytes or 0),
    )
    threads = [1, 31, 32, 33, *range(64, 1025, 96), 1023, 1024]
    registers = [0, 1, 8, 9, 16, 24, 25, 32, 33, 40, 41, 48, 56, 63, 64, 65, 72, 80, 96, 128, 129, 168, 200, 254, 255]
    shared = [0, 1, 127, 1024, 3000, 8192, 16384, 24000, 32000, 49152, 65536, 99 * 1024, largest]
    barriers = [0, 1, 2, 3, 7, 16]
    checked = 0
    for t, r, s, b in itertools.product(threads, registers, shared, barriers):
        if r > (sm.registers_per_thread_max or 255) or s > largest or (b > 1 and (r, s) not in ((24, 0), (40, 8192))):
            continue
        try:
            ours = occupancy(
                machine, threads_per_block=t, registers_per_thread=r, shared_bytes_per_block=s, barriers_per_block=b
            ).blocks_per_sm
        except WarplensError:
            ours = 0
        assert ours == vendor.blocks(*device, t, r, s, b), (t, r, s, b)
        checked += 1
    assert checked > 3000
