"""Tiers of tests by measurement: tests/slow.txt has those that take more than SLOW_S CPU seconds by themselves.

A plugin of pytest. Listed tests are marked `slow`, and above CAMPAIGN_S `campaign` instead; `make durations` writes the
list anew from a run of all tests. Those that are marked `campaign` where they are written are not listed. What a
fixture or a cached answer cost is counted for every test that uses it, as if that test ran alone.
"""

from collections import defaultdict
from collections.abc import Generator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.cpu_cost import cpu_s, shared_s

LIST = Path(__file__).with_name("slow.txt")
ROOT = LIST.parents[1]
SLOW_S = 0.3
"""A test above is listed."""
CAMPAIGN_S = 16.0
"""A test above waits for a campaign."""
TIERS = ("quick", "slow", "campaign")
CHANGED = 1.5
"""Factor by which a listed figure may be off before it is written anew, so that the list says what has changed."""

_STARTED_S, _IS_TIMED = pytest.StashKey[float](), pytest.StashKey[bool]()
_fixture_s: dict[tuple[str, str], float] = {}
"""By name and module: what a fixture that several tests share cost when it was last made."""


def read() -> dict[str, float]:
    """CPU seconds by test, or by the name of a test all of whose cases are listed."""
    lines = LIST.read_text(encoding="utf-8").splitlines() if LIST.is_file() else []
    return {node: float(seconds) for seconds, _, node in (line.partition(" ") for line in lines)}


def listed_s(node: str, listed: Mapping[str, float]) -> float:
    """CPU seconds of a test as the list has them; 0 where it has none."""
    return listed.get(node) or listed.get(_name(node), 0.0)


def tier_of(node: str, listed: Mapping[str, float]) -> str:
    """One of TIERS, by the list.

    >>> [tier_of(node, {"a": 1.0, "b": 99.0}) for node in ("a[1]", "b", "c")]
    ['slow', 'campaign', 'quick']
    """
    seconds = listed_s(node, listed)
    return "campaign" if seconds > CAMPAIGN_S else "slow" if seconds else "quick"


def _name(node: str) -> str:
    """A test without its case."""
    return node.partition("[")[0]


def file_of(node: str) -> str:
    """File of a test, from the root of the checkout."""
    return node.partition("::")[0]


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leaves a file without a listed test unread where `-m` asks for listed tests only."""
    asked = set(str(config.getoption("markexpr")).split(" or "))
    if collection_path.is_dir() or not asked <= set(TIERS[1:]):
        return None
    return str(collection_path.relative_to(ROOT)) not in listed_files() or None


@cache
def listed_files() -> set[str]:
    """Files with a listed test, from the root of the checkout."""
    return {file_of(node) for node in read()}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what is listed."""
    listed = read()
    for item in items:
        item.stash[_IS_TIMED] = item.get_closest_marker("campaign") is None
        if item.stash[_IS_TIMED] and (tier := tier_of(item.nodeid, listed)) != "quick":
            item.add_marker(tier)


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
    modules = (file_of(item.nodeid).removesuffix(".py").replace("/", "."), "tests.conftest")
    for key in ((name, module) for name in getattr(item, "fixturenames", ()) for module in modules):
        if key in before and before[key] == _fixture_s[key]:
            shared_s[key] = before[key]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Hands the CPU seconds of a test to its last report."""
    report = yield
    if call.when == "teardown" and item.stash[_IS_TIMED]:
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
            measured = {node: s for node, s in self.seconds.items() if node not in self.skipped}
            kept = {node: listed_s(node, listed) for node in self.skipped}
            found = to_list(measured, kept, listed) | self._of_other_files(listed)
            lines = (f"{found[node]:.2g} {node}\n" for node in sorted(found))
            LIST.write_text("".join(lines), encoding="utf-8")
        above = {node: s for node, s in self.seconds.items() if s > SLOW_S and not listed_s(node, listed)}
        if above:
            terminalreporter.section(f"dearest tests that tests/slow.txt does not list ({len(above)} in all)")
        for node in sorted(above, key=lambda one: -above[one])[:20]:
            terminalreporter.line(f"{above[node]:8.2f} CPU s  {node}")
        sums = {tier: sum(s for node, s in self.seconds.items() if tier_of(node, listed) == tier) for tier in TIERS}
        told = ", ".join(f"{seconds:.0f} {tier}" for tier, seconds in sums.items() if seconds)
        terminalreporter.line(f"CPU s, each test as if by itself: {told}")

    def _of_other_files(self, listed: Mapping[str, float]) -> dict[str, float]:
        """What is listed of files that the session did not run, so that a list can be measured file by file."""
        ran = {file_of(node) for node in self.seconds}
        return {n: s for n, s in listed.items() if file_of(n) not in ran and (ROOT / file_of(n)).is_file()}


def to_list(
    measured: Mapping[str, float], skipped: Mapping[str, float], listed: Mapping[str, float]
) -> dict[str, float]:
    """Tests to list, sorted, with their seconds; one line for all cases of a test where all are of one tier.

    A figure stays as it was listed while the measured one is within a factor of it.

    Args:
        measured: CPU seconds of the tests that ran.
        skipped: those that did not, with what is listed of them, or 0.
        listed: the list.

    >>> to_list({"b": 1.0, "c[1]": 1.0, "c[2]": 2.0, "d[1]": 0.25, "d[2]": 0.25}, {"e": 9.0}, {"d[1]": 0.35})
    {'b': 1.0, 'c': 2.0, 'd[1]': 0.35, 'e': 9.0}
    >>> to_list({"c[1]": 1.0, "c[2]": 20.0}, {}, {})
    {'c[1]': 1.0, 'c[2]': 20.0}
    """
    stays = {node: s if _is_near(s, listed_s(node, listed)) else 0.0 for node, s in measured.items()}
    slow = {n: listed_s(n, listed) if stays[n] else s for n, s in measured.items() if stays[n] or s > SLOW_S}
    slow |= {node: s for node, s in skipped.items() if s}
    cases, tiers = defaultdict[str, list[float]](list), defaultdict[str, set[str]](set)
    for node, s in slow.items():
        cases[_name(node)].append(s)
    for node in {*measured, *skipped}:
        tiers[_name(node)].add(tier_of(node, slow))
    found = {_name(node) if len(tiers[_name(node)]) == 1 else node: s for node, s in slow.items()}
    return {node: found[node] if node in slow else max(cases[node]) for node in sorted(found)}


def _is_near(seconds: float, listed: float) -> bool:
    """True where a measured figure says nothing new of a listed one."""
    return listed / CHANGED < seconds < listed * CHANGED
