"""Engines that run a sweep: anything with the Executor interface of concurrent.futures. Another one is a few lines.

An engine starts an executor, and may be asked for a new one when that broke. Processes on this machine are the
default; `dask` takes the workers of a Dask cluster, which needs Dask (extra `dask`), and on which the files of
the sweep and the cache's folder are where they are here.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor
from typing import Any

from msgspec import Struct

from warplens.core.errors import WarplensError


class Engine(Struct, frozen=True):
    """An executor that can be started again."""

    workers: int  # tasks at a time
    start: Callable[[], Executor]
    close: Callable[[], None] = lambda: None
    lost: Callable[[], str | None] = lambda: None  # names a scheduler that does not answer any more


def processes(workers: int | None = None) -> Engine:
    """Return the engine of processes on this machine, one per core by default."""
    count = workers or os.cpu_count() or 1
    return Engine(count, lambda: ProcessPoolExecutor(count, multiprocessing.get_context("spawn"), _begin))


def _begin() -> None:
    """Leave Ctrl-C to the process that runs the sweep, and end with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End when the process that runs the sweep does: killed, it would leave its workers waiting for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def dask(address: str) -> Engine:
    """Return the engine of a Dask cluster by the address of its scheduler."""
    try:
        from distributed import Client
    except ImportError:
        raise WarplensError("--engine dask needs Dask: pip install distributed") from None
    try:
        client: Any = Client(address, timeout=10)
        client.wait_for_workers(1, timeout=30)
    except (OSError, TimeoutError, ValueError) as error:
        raise WarplensError(f"no Dask cluster at {address}: {error}") from None
    for name in [name for name in logging.root.manager.loggerDict if name.startswith("distributed")]:
        logging.getLogger(name).setLevel(logging.CRITICAL)  # our errors are one line
    threads = sum(worker["nthreads"] for worker in client.scheduler_info()["workers"].values())

    def lost() -> str | None:
        return None if client.status == "running" else f"the Dask scheduler at {address}"

    return Engine(threads, lambda: client.get_executor(pure=False), lambda: client.close(timeout=2), lost)
