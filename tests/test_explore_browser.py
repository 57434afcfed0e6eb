"""The page in a real Chromium: it opens without a request, draws its marks, and says what `planner optimize` says."""

import json
import os
import random
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from planner.comparison import best_fleet
from planner.report.explore_page import explore_html
from planner.results.case import CaseFront
from planner.results.explorer import Explorer, Tables
from planner.results.plan import Fleet
from planner.results.studies import Hour
from planner.scenario import read_scenario
from planner.studies.explore.combination import Knobs, fleet_req_per_s, usd_per_hour
from tests.browser import Browser, Opened, started
from tests.explore_cases import followed_page, page_of_network, planned_with, tables_of_case
from tests.explore_cases import page as page_of
from tests.explore_reference import fleet_latency
from tests.test_explore_page import hostile
from tests.test_report_records import make_executed
from tests.test_report_studies import make_front, make_sensitivity

EXACT = 1e-6
TIMES = ("ttft_mean_s", "ttft_p50_s", "ttft_p90_s", "ttft_p99_s", "tpot_mean_s")
AXE = [Path(os.environ.get("AXE_CORE", "")), Path(__file__).resolve().parents[1] / "node_modules/axe-core/axe.min.js"]
SHOWN = {"capacity", "ttft", "cost", "use", "map", "money", "throughput", "prices"}
"""Charts of the reference case without a report's studies."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with started() as found:
        yield found


@pytest.fixture(scope="module")
def reference(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Path:
    del browser  # first: without one, nothing is planned
    return written(page_of("reference"), tmp_path_factory.mktemp("pages") / "plan.html")


def written(page: Explorer, path: Path) -> Path:
    path.write_text(explore_html(page), encoding="utf-8")
    return path


def assert_silent(opened: Opened, path: Path) -> None:
    assert opened.requests == [path.as_uri()]
    assert opened.said == []


def test_the_page_opens_without_a_request_or_an_error_and_draws_its_marks(browser: Browser, reference: Path) -> None:
    with browser.opened(reference) as opened:
        assert_silent(opened, reference)
        marks = opened.marks()
        assert marks.keys() == SHOWN
        names = len(tables_of_case("reference").pools)
        assert all(n >= 1 for n in marks.values())
        assert marks["capacity"] >= names + 4  # a line each, the area, two rules and a point
        assert marks["use"] == 2 * (names + 1)  # a bar and a tick for every pool and the link
        assert marks["money"] == names + 1
        assert marks["throughput"] > len(page_of("reference").plan.baselines)


def test_the_slider_at_a_node_gives_the_numbers_of_optimize(browser: Browser, reference: Path) -> None:
    tables = tables_of_case("reference")
    assert tables.exact is not None
    sizes = tuple(pool.n_planned for pool in tables.pools)
    node, rate = tables.node_tokens[3], tables.exact.req_per_s[1]
    with browser.opened(reference) as opened:
        box = opened.page.locator("#tokens")
        box.fill(repr(node))
        box.press("Tab")
        box = opened.page.locator("#req-per-s")
        box.fill(repr(rate))
        box.press("Tab")
        opened.page.wait_for_function(f"location.hash.includes('r={rate!r}')")
        assert "that of planner optimize" in opened.page.locator("#status").inner_text()
        assert_is_fleet(opened.figures(), planned_with("reference", Knobs(sizes, node, rate)))
        assert_silent(opened, reference)


def assert_is_fleet(figures: dict[str, float | None], fleet: Fleet, times: float = EXACT) -> None:
    for key in TIMES:
        assert figures[key] == pytest.approx(getattr(fleet.latency, key), rel=times), key
    assert figures["max_throughput_req_per_s"] == pytest.approx(fleet.max_throughput_req_per_s, rel=EXACT)
    assert figures["throughput_req_per_s"] == pytest.approx(fleet.throughput_req_per_s, rel=EXACT)
    assert figures["offload_fraction"] == pytest.approx(fleet.offload_fraction, rel=EXACT)
    for key in ("usd_per_hour", "usd_per_million_input_tokens", "usd_per_million_output_tokens"):
        assert figures[key] == pytest.approx(getattr(fleet.cost, key), rel=EXACT), key


def test_the_page_computes_what_python_computes_from_the_same_tables(browser: Browser, reference: Path) -> None:
    tables, rng = tables_of_case("reference"), random.Random(24)
    with browser.opened(reference) as opened:
        for _ in range(20):
            sizes = tuple(rng.choice(pool.waits.n_instances) for pool in tables.pools if pool.waits)
            knobs = Knobs(sizes, rng.uniform(tables.node_tokens[0], tables.node_tokens[-1]), 1.0)
            knobs = knobs._replace(req_per_s=rng.uniform(0.2, 0.98) * fleet_req_per_s(tables, knobs))
            opened.turn(sizes=list(sizes), threshold=knobs.threshold_tokens, rate=knobs.req_per_s)
            figures, expected = opened.figures(), fleet_latency(tables, knobs)
            assert expected is not None
            assert figures["max_throughput_req_per_s"] == pytest.approx(fleet_req_per_s(tables, knobs), rel=1e-12)
            assert figures["usd_per_hour"] == pytest.approx(usd_per_hour(tables, knobs), rel=1e-12)
            for key in TIMES:
                assert figures[key] == pytest.approx(expected[key], rel=1e-7), (knobs, key)


def test_steppers_and_the_command_that_is_copied_agree_with_optimize(browser: Browser, reference: Path) -> None:
    with browser.opened(reference) as opened:
        opened.page.get_by_role("button", name="one instance less of pd-d").click()
        opened.page.get_by_role("button", name="one instance more of pd-p").click()
        opened.page.wait_for_function("location.hash.includes('n=4,4,4')")
        command = shlex.split(opened.page.locator("#command").inner_text())
        assert command[:3] == ["planner", "optimize", "--set"]
        overrides = [text for flag, text in zip(command[2::2], command[3::2], strict=True) if flag == "--set"]
        fleet = best_fleet(read_scenario("prfaas-paper", overrides)).fleet
        assert [pool.n_instances for pool in fleet.pools] == [4, 4, 4]
        assert_is_fleet(opened.figures(), fleet, times=0.02)
        assert "interpolated" in opened.page.locator("#status").inner_text()


def test_the_address_brings_the_same_knobs_back_and_nonsense_in_it_is_left_alone(
    browser: Browser, reference: Path
) -> None:
    with browser.opened(reference) as opened:
        opened.turn(threshold=15000, rate=2.25, sizes=[3, 4, 4])
        address = opened.page.evaluate("location.hash")
        figures = opened.figures()
    with browser.opened(reference, fragment=address) as opened:
        assert opened.figures() == figures
    with browser.opened(reference, fragment="#t=<b>&r=-1&n=1,2,alert(1)&h=x") as opened:
        assert opened.page.evaluate("state.sizes") == opened.page.evaluate("START.sizes")
        assert opened.said == []


def test_a_reader_without_a_mouse_reaches_every_knob(browser: Browser, reference: Path) -> None:
    with browser.opened(reference) as opened:
        page = opened.page
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.id") == "threshold"
        before = page.evaluate("state.threshold")
        page.keyboard.press("ArrowRight")
        page.wait_for_function(f"state.threshold > {before!r}")
        seen = set()
        for _ in range(25):
            page.keyboard.press("Tab")
            seen.add(page.evaluate("document.activeElement.id || document.activeElement.ariaLabel"))
        assert {"tokens", "rate", "req-per-s", "reset", "copy", "json", "csv"} <= seen
        assert {f"one instance more of {pool.name}" for pool in tables_of_case("reference").pools} <= seen


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1200])
def test_both_themes_and_a_phone_show_everything_in_their_width(
    browser: Browser, reference: Path, scheme: str, width: int, tmp_path: Path
) -> None:
    with browser.opened(reference, width=width, scheme=scheme) as opened:
        assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
        assert opened.marks().keys() == SHOWN
        wide = opened.page.evaluate(
            "[...document.querySelectorAll('.chart svg')].map((s) => s.clientWidth / s.parentElement.clientWidth)"
        )
        assert all(0.5 < part <= 1.01 for part in wide)
        dark = opened.page.evaluate("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
        assert dark == (scheme == "dark")
        kept = Path(os.environ.get("SCREENSHOTS", tmp_path))
        opened.page.screenshot(path=kept / f"{scheme}-{width}.png", full_page=True)


def test_a_printed_page_has_its_figures_and_no_knobs(browser: Browser, reference: Path) -> None:
    with browser.opened(reference) as opened:
        opened.page.emulate_media(media="print")
        assert not opened.page.locator(".knobs").is_visible()
        assert opened.page.locator("#figures").is_visible()
        assert opened.page.locator("#figure-capacity svg").is_visible()


def test_data_leaves_the_page_as_json_and_csv(browser: Browser, reference: Path) -> None:
    with browser.opened(reference) as opened:
        for kind in ("json", "csv"):
            with opened.page.expect_download() as saved:
                opened.page.locator(f"#{kind}").click()
            text = Path(saved.value.path()).read_text(encoding="utf-8")
            if kind == "json":
                assert json.loads(text) == json.loads(json.dumps(page_of("reference").answer()))
            else:
                assert text.startswith('"figure","plan","as set"\n"throughput_req_per_s",')
                assert '"capacity: capacity"' in text


def test_hostile_names_are_shown_and_never_run(browser: Browser, tmp_path: Path) -> None:
    path = written(hostile(page_of("reference")), tmp_path / "hostile.html")
    with browser.opened(path) as opened:
        assert_silent(opened, path)
        assert opened.page.locator("img").count() == 0
        assert "<img src=x" in opened.page.locator("h1").inner_text()
        assert opened.page.evaluate("cell('=1+1')") == '"\'=1+1"'
        assert opened.page.evaluate('quoted("a\'b")') == """'a'"'"'b'"""


def with_every_study(page: Explorer) -> Explorer:
    """The page with all that a report's studies may add to it."""
    fronts = (CaseFront(title=kind, set={}, front=make_front(kind)) for kind in ("throughput", "goodput", "ttft"))
    hours = (
        Hour(
            demand_req_per_s=2.0,
            utilization={"prfaas": busy, "pd-d": 0.5, "wan": 0.1},
            ttft_mean_s=None,
            ttft_p90_s=None,
            usd_per_hour=180.0,
            usd_per_million_input_tokens=None,
            usd_per_million_output_tokens=None,
        )
        for busy in (0.2, 0.9)
    )
    executed = make_executed(schedulers=None, scheduler_series=())
    studies = {"fronts": tuple(fronts), "hours": tuple(hours), "executed": executed, "sensitivity": make_sensitivity()}
    return page.model_copy(update=studies)


def test_every_study_that_a_page_may_have_is_drawn(browser: Browser, tmp_path: Path) -> None:
    path = written(with_every_study(page_of("reference")), tmp_path / "plan.html")
    with browser.opened(path) as opened:
        assert_silent(opened, path)
        marks = opened.marks()
        assert marks.keys() == {*SHOWN, "goodput", "first-token", "hours", "tornado", "executed"}
        assert marks["hours"] == 4  # two pools in two hours
        assert marks["tornado"] == 2
        assert marks["executed"] == 10  # two lines, and two loads of two figures, each with its interval


def test_where_no_time_is_known_no_chart_of_times_is_shown(browser: Browser, reference: Path) -> None:
    with browser.opened(reference) as opened:
        most = opened.page.evaluate("highestRate(TABLES, START)")
        opened.turn(rate=1.2 * most)
        assert opened.marks().keys() == SHOWN - {"ttft"}
        assert "More than this fleet serves" in opened.page.locator("#status").inner_text()
        assert {key for key, value in opened.figures().items() if value is None} >= set(TIMES)
        opened.turn(sizes=[4, 20, 20], rate=2.0)
        assert "More than there is: 320 of 64 h20-141gb at local" in opened.page.locator("#status").inner_text()


def test_a_fleet_that_follows_its_day_is_shown_period_by_period(browser: Browser, tmp_path: Path) -> None:
    page = followed_page()
    path = written(page, tmp_path / "plan.html")
    plan = page.plan
    with browser.opened(path) as opened:
        assert_silent(opened, path)
        used = [pool for period in plan.periods for pool in period.pools]
        assert opened.marks().keys() - {"throughput", "first-token"} == {"use", "map", "hours", "money"}
        assert opened.marks()["hours"] == len([pool for pool in used if pool.utilization * pool.n_instances > 0])
        for i, period in enumerate(plan.periods):
            opened.page.locator("#period").select_option(str(i))
            opened.page.wait_for_function(f"location.hash === '#h={i}'")
            figures = opened.page.evaluate("periodFigures()")
            assert figures["throughput_req_per_s"] == pytest.approx(period.demand_req_per_s)
            assert figures["ttft_p90_s"] == pytest.approx(period.latency.ttft_p90_s)
            busy = {row["name"]: row["exactly"] for row in opened.page.evaluate("useRows()")}
            assert busy == pytest.approx({x.name: x.utilization for x in (*period.pools, *period.links)})
        bills = opened.page.evaluate(
            "PERIODS.map((p, i) => { state.period = i; return [p.hours, periodFigures().usd_per_hour]; })"
        )
        mean = sum(hours * usd for hours, usd in bills) / sum(hours for hours, _ in bills)
        assert mean == pytest.approx(plan.cost.usd_per_hour)
        assert bills[0][1] >= bills[1][1]


def test_a_network_is_turned_in_every_period_as_python_turns_its_tables(browser: Browser, tmp_path: Path) -> None:
    page, rng = page_of_network("two classes"), random.Random(24)
    path = written(page, tmp_path / "plan.html")
    with browser.opened(path) as opened:
        assert_silent(opened, path)
        assert {"capacity", "cost", "use", "map", "hours", "money"} <= opened.marks().keys()
        for p, tables in enumerate(page.tables):
            opened.page.locator("#period").select_option(str(p))
            opened.page.wait_for_function(f"location.hash.endsWith('&h={p}')")
            assert ("ttft" in opened.marks()) == (len(steady_tokens(tables)) > 1)  # one threshold is no curve
            assert opened.page.evaluate("state.threshold") == tables.planned_tokens
            assert_tables(opened, tables, Knobs(sizes_of(tables), tables.planned_tokens, tables.planned_req_per_s))
            assert "with the ways of the plan" in opened.page.locator("#status").inner_text()
            for _ in range(3):
                sizes = tuple(rng.choice(pool.waits.n_instances) for pool in tables.pools if pool.waits)
                knobs = Knobs(sizes, tables.planned_tokens * rng.uniform(0.8, 1.2), 1.0)
                knobs = knobs._replace(req_per_s=0.6 * fleet_req_per_s(tables, knobs))
                opened.turn(sizes=list(sizes), threshold=knobs.threshold_tokens, rate=knobs.req_per_s)
                assert_tables(opened, tables, knobs)
            opened.page.locator("#reset").click()
            opened.page.wait_for_function("same(state.sizes, START.sizes)")


def steady_tokens(tables: Tables) -> list[float]:
    """Thresholds at which the fleet as planned serves its demand."""
    at = [Knobs(sizes_of(tables), tokens, tables.planned_req_per_s) for tokens in tables.fine_tokens]
    return [knobs.threshold_tokens for knobs in at if fleet_req_per_s(tables, knobs) > knobs.req_per_s]


def sizes_of(tables: Tables) -> tuple[int, ...]:
    return tuple(pool.n_planned for pool in tables.pools)


def assert_tables(opened: Opened, tables: Tables, knobs: Knobs) -> None:
    figures, expected = opened.figures(), fleet_latency(tables, knobs)
    assert expected is not None
    assert figures["max_throughput_req_per_s"] == pytest.approx(fleet_req_per_s(tables, knobs), rel=1e-12)
    assert figures["usd_per_hour"] == pytest.approx(usd_per_hour(tables, knobs), rel=1e-12)
    for key in TIMES:
        assert figures[key] == pytest.approx(expected[key], rel=1e-7), (knobs, key)


def test_a_network_of_another_period_keeps_its_knobs_beside_the_plan(browser: Browser, tmp_path: Path) -> None:
    page = page_of_network("two periods")
    path = written(page, tmp_path / "plan.html")
    first, second = page.tables
    with browser.opened(path, fragment=f"#t={first.node_tokens[4]}&r=1&n=2,2,4&h=0") as opened:
        assert opened.page.evaluate("state.sizes") == [2, 2, 4]
        opened.page.locator("#period").select_option("1")
        opened.page.wait_for_function("location.hash.endsWith('&h=1')")
        assert opened.page.evaluate("state.threshold") == second.node_tokens[4]
        rate = opened.page.evaluate("state.rate") / second.planned_req_per_s
        assert rate == pytest.approx(1 / first.planned_req_per_s)
        assert opened.page.evaluate("state.sizes") == [2, 2, 4]
        address = opened.page.evaluate("location.hash")
    with browser.opened(path, fragment=address) as opened:
        assert opened.page.evaluate("location.hash") == address


def test_axe_finds_no_serious_violation(browser: Browser, reference: Path) -> None:
    script = next((path for path in AXE if path.is_file()), None)
    if script is None:
        pytest.skip("axe-core is not installed (npm install axe-core)")
    for scheme in ("light", "dark"):
        with browser.opened(reference, scheme=scheme) as opened:
            opened.page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
            opened.page.evaluate(script.read_text(encoding="utf-8"))
            found = opened.page.evaluate("axe.run()")["violations"]
            serious = [v for v in found if v["impact"] in ("serious", "critical")]
            assert not [(v["id"], [n["html"] for n in v["nodes"]][:3]) for v in serious], scheme
