"""These tests need the CUDA wheels (NVRTC, nvdisasm), and no GPU."""

from __future__ import annotations

import pytest

from warplens.core.errors import WarplensError
from warplens.program import nvrtc, toolchain


@pytest.fixture(scope="session", autouse=True)
def _tools() -> None:
    try:
        nvrtc.library()
        toolchain.tool("nvdisasm")
    except WarplensError as error:
        pytest.skip(str(error))
