"""Surroundings of all tests: options of a run, no law by the time that an example takes, and the wheels' toolkit."""

from __future__ import annotations

from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings

from tests.quick import Durations, Quick
from warplens.core import progress as notice
from warplens.program.toolchain import prefer_wheels

# How long one example takes says how busy the machine is, not whether a law holds.
settings.register_profile("laws", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("laws")

prefer_wheels()  # whatever toolkit is installed here: what is expected was made with them


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="what takes at most half a second, for 40 s of each worker")
    parser.addoption("--never-skip", action="store_true", help="a test that would be skipped fails")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # the process that hears of all tests
        config.pluginmanager.register(Durations(config), "durations")
    if config.getoption("--quick"):
        config.pluginmanager.register(Quick(config), "quick")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if item.config.getoption("--never-skip") and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome, report.longrepr = "failed", f"skipped: {report.longrepr}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    if collector.config.getoption("--never-skip") and report.skipped:
        report.outcome, report.longrepr = "failed", f"skipped: {report.longrepr}"
    return report


@pytest.fixture(autouse=True)
def _compiling_goes_without_saying(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a command says does not depend on what earlier ones compiled of ours; tests/null/test_native.py hears it."""
    monkeypatch.setattr(notice, "_say", lambda text: None)
