"""Tiers of tests by measurement: tests/slow.txt lists those that take more than LIMIT_S CPU seconds by themselves.

A plugin of pytest. Listed tests are marked `slow`; `make durations` writes the list anew from a run of all tests. What
a fixture or a cached answer cost is counted for every test that uses it, as if that test ran alone.
"""

from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.cpu_cost import cpu_s, shared_s

LIST = Path(__file__).with_name("slow.txt")
LIMIT_S = 0.3
"""A test above is listed."""
STAYS_S = 0.2
"""A listed test below is no longer listed: between the two the list stays as it is."""

_STARTED_S = pytest.StashKey[float]()
_fixture_s: dict[tuple[str, str], float] = {}
"""By name and module: what a fixture that several tests share cost when it was last made."""


def is_listed(node: str, listed: set[str]) -> bool:
    """True where the list has the test, or all cases of it."""
    return node in listed or node.partition("[")[0] in listed


def read() -> set[str]:
    """Tests that are listed."""
    return set(LIST.read_text(encoding="utf-8").splitlines()) if LIST.is_file() else set()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what is listed."""
    listed = read()
    for item in items:
        if is_listed(item.nodeid, listed):
            item.add_marker("slow")


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
) -> Generator[None, object, object]:
    """Notes what a shared fixture costs."""
    start_s = cpu_s()
    try:
        return (yield)
    finally:
        if request.scope != "function":
            _fixture_s[fixturedef.argname, fixturedef.func.__module__] = cpu_s() - start_s


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None]:
    """Starts the count, with the shared fixtures that are there already."""
    shared_s.clear()
    item.stash[_STARTED_S] = cpu_s()
    before = dict(_fixture_s)
    yield
    modules = (item.nodeid.partition("::")[0].removesuffix(".py").replace("/", "."), "tests.conftest")
    for key in ((name, module) for name in getattr(item, "fixturenames", ()) for module in modules):
        if key in before and before[key] == _fixture_s[key]:
            shared_s[key] = before[key]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Hands the CPU seconds of a test to its last report."""
    report = yield
    if call.when == "teardown":
        report.user_properties.append(("cpu_s", cpu_s() - item.stash[_STARTED_S] + sum(shared_s.values())))
    return report


class Durations:
    """CPU seconds of the tests of a session, as their reports say."""

    def __init__(self, config: pytest.Config) -> None:
        self.rewrites = bool(config.getoption("--durations-list"))
        self.seconds: dict[str, float] = {}
        self.skipped: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Takes in a report."""
        if report.skipped and not hasattr(report, "wasxfail"):
            self.skipped.add(report.nodeid)
        self.seconds.update((report.nodeid, s) for name, s in report.user_properties if name == "cpu_s")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Writes the list, or says which tests should be on it."""
        listed = read()
        if self.rewrites:
            slow = slow_tests(self.seconds, self.skipped, listed)
            LIST.write_text("".join(f"{line}\n" for line in slow), encoding="utf-8")
        above = {node: s for node, s in self.seconds.items() if s > LIMIT_S and not is_listed(node, listed)}
        if above:
            terminalreporter.section(f"dearest tests that tests/slow.txt does not list ({len(above)} in all)")
        for node in sorted(above, key=lambda one: -above[one])[:20]:
            terminalreporter.line(f"{above[node]:8.2f} CPU s  {node}")


def slow_tests(seconds: dict[str, float], skipped: Iterable[str], listed: set[str]) -> list[str]:
    """Tests to list, sorted; one line for a test whose cases are all slow, and what was skipped stays as it was.

    >>> slow_tests({"a::b": 1.0, "a::c[1]": 1.0, "a::c[2]": 1.0, "a::d[1]": 0.25, "a::d[2]": 0.25}, [], {"a::d[1]"})
    ['a::b', 'a::c', 'a::d[1]']
    """
    least_s = {node: STAYS_S if is_listed(node, listed) else LIMIT_S for node in seconds}
    slow = {node for node, s in seconds.items() if s > least_s[node]} - set(skipped)
    slow |= {node for node in skipped if is_listed(node, listed)}
    quick = {node.partition("[")[0] for node in {*seconds, *skipped} - slow}
    names = {node: node.partition("[")[0] for node in slow}
    return sorted({node if name in quick else name for node, name in names.items()})
