"""Durations of tests, kept from run to run, and the choice of `make quick`: what takes at most half a second.

Every run writes what each test took to pytest's cache. `--quick` leaves out those that took longer than half a second,
takes files whose tests are short first, and skips what is left when a worker has used forty seconds of processor time.
So nobody keeps a list: a test that becomes slow drops out by itself. Tests that no run has timed yet get two seconds
of processor time per file, so that a clean clone tries every file.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
from collections import defaultdict
from collections.abc import Iterator

import pytest

AT_MOST_SECONDS, BUDGET_SECONDS, UNTIMED_SECONDS = 0.5, 28.0, 2.0
_KEY = "warplens/seconds"
_OVER = "the time of --quick is over"


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
        self.file, self.began = "", 0.0

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Leave out what takes long; order the rest."""
        kept = [items[at] for at in chosen(self.seconds, [item.nodeid for item in items])]
        config.hook.pytest_deselected(items=[item for item in items if item not in set(kept)])
        items[:] = kept

    def _left(self, test: str) -> float:
        """Return the processor time that a test may take."""
        file = test.partition("::")[0]
        if file != self.file:
            self.file, self.began = file, spent_seconds()
        left = BUDGET_SECONDS - spent_seconds()
        untimed = name_of(test) not in self.seconds
        return min(left, self.began + UNTIMED_SECONDS - spent_seconds()) if untimed else left

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Skip a test when time is over."""
        if self._left(item.nodeid) <= 0:
            pytest.skip(_OVER)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        """End a test that is still running when time is over."""

        def end(number: int, frame: object) -> None:
            pytest.skip(_OVER)

        with contextlib.suppress(ValueError):  # not in the main thread
            signal.signal(signal.SIGPROF, end)
            signal.setitimer(signal.ITIMER_PROF, max(AT_MOST_SECONDS, self._left(item.nodeid)))
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0.0)
