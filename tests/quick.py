"""Durations of tests, kept from run to run, and the choice of `make quick`: what takes at most half a second.

Every run writes what each test took to pytest's cache. `--quick` leaves out those that took longer than half a second,
takes files whose tests are short first, and skips what is left when a worker has used forty seconds of processor time.
So nobody keeps a list: a test that becomes slow drops out by itself, and one that nobody knows yet runs.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
from collections import defaultdict
from collections.abc import Iterator

import pytest

AT_MOST_SECONDS, BUDGET_SECONDS = 0.5, 40.0
_KEY = "warplens/seconds"
_OVER = f"the {BUDGET_SECONDS:.0f} s of --quick are over"


def name_of(test: str) -> str:
    """Return a test's name without the suffix by which pytest-xdist tells its group."""
    return re.sub(r"@[\w-]+$", "", test)


def spent_seconds() -> float:
    """Return the processor time of this process and of all that it started: a busy machine runs as many tests."""
    return sum(os.times()[:4])


def chosen(seconds: dict[str, float], tests: list[str]) -> list[int]:
    """Return the positions of the tests that `--quick` takes, those of a file together, short files first."""
    files = defaultdict[str, list[int]](list)
    for at, test in enumerate(tests):
        if seconds.get(name_of(test), 0.0) <= AT_MOST_SECONDS:
            files[test.partition("::")[0]].append(at)

    def mean(positions: list[int]) -> float:
        return sum(seconds.get(name_of(tests[at]), 0.0) for at in positions) / len(positions)

    return [at for positions in sorted(files.values(), key=mean) for at in positions]


class Durations:
    """What each test of a run takes, added to what earlier runs found."""

    def __init__(self, config: pytest.Config) -> None:
        self.config, self.seconds, self.skipped = config, defaultdict[str, float](float), set[str]()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add a phase of a test: its setup, the call, or its teardown."""
        name = name_of(report.nodeid)
        self.seconds[name] += report.duration
        if report.skipped and _OVER in str(report.longrepr) and report.when == "setup":
            self.skipped.add(name)

    def pytest_sessionfinish(self) -> None:
        """Keep what was found."""
        if (cache := getattr(self.config, "cache", None)) is not None and self.seconds:
            found = {name: round(spent, 3) for name, spent in self.seconds.items() if name not in self.skipped}
            cache.set(_KEY, dict(sorted((cache.get(_KEY, {}) | found).items())))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say how many tests `--quick` has left out for want of time."""
        if self.skipped:
            ran = len(self.seconds) - len(self.skipped)
            terminalreporter.write_line(f"{ran} tests ran, {len(self.skipped)} did not: {_OVER}")


class Quick:
    """The choice of `--quick`."""

    def __init__(self, config: pytest.Config) -> None:
        cache = getattr(config, "cache", None)
        self.seconds: dict[str, float] = cache.get(_KEY, {}) if cache is not None else {}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Leave out what takes long; order the rest."""
        kept = [items[at] for at in chosen(self.seconds, [item.nodeid for item in items])]
        config.hook.pytest_deselected(items=[item for item in items if item not in set(kept)])
        items[:] = kept

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        """Skip a test when time is over."""
        if spent_seconds() > BUDGET_SECONDS:
            pytest.skip(_OVER)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Iterator[None]:
        """End a test that is still running when time is over."""

        def end(number: int, frame: object) -> None:
            pytest.skip(_OVER)

        with contextlib.suppress(ValueError):  # not in the main thread
            signal.signal(signal.SIGPROF, end)
            signal.setitimer(signal.ITIMER_PROF, max(0.1, BUDGET_SECONDS + 5.0 - spent_seconds()))
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0.0)
