"""What the kernels under examples/today compute, in NumPy: a function per launch file.

A function takes the arguments by name (arrays as they are before the launch) and the call, and returns the outputs by
name: of floating-point type in double precision, of whole numbers exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from warplens.workload.launch import KernelCall

Values = dict[str, Any]
Reference = Callable[[Values, KernelCall], Values]
