"""The executed part of a report: what was run, beside what was promised, the same on every machine."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from planner.comparison import Planned, solved
from planner.errors import InputError
from planner.executor import run as executor_run
from planner.executor.kernel.records import Records
from planner.executor.run import simulate
from planner.executor.run_question import RunQuestion
from planner.optimizer.layout_choice import planning_problem
from planner.promises.validation import TOLERANCES
from planner.report.figures import charts, digest
from planner.report.markdown import report_markdown
from planner.results.case import Case
from planner.results.executed import Executed
from planner.scenario import Scenario, load_scenario
from planner.studies.case import build_case
from planner.studies.executed import as_printed
from tests.builders import SMALL, small_with
from tests.cpu_cost import cached
from tests.test_report_records import make_case, make_executed, make_figure, make_load

N_REQUESTS = 24_000
RUNS = {"loads": [0.5, 0.8], "n_requests": N_REQUESTS, "n_replications": 3, "seed": 7, "scheduler_load": 0.7}
SIZES = {
    "pools.fast.n_instances": 2,
    "pools.near.n_instances": 2,
    "pools.decode.n_instances": 3,
    "objective": "max-throughput",
}


def question(**changes: Any) -> Scenario:
    return small_with({**SIZES, "execution.report": RUNS | changes})


@cached
def case() -> Case:
    return build_case(question())


def executed() -> Executed:
    found = case().executed
    assert found is not None
    return found


def test_the_rates_that_are_run_are_parts_of_the_highest() -> None:
    highest = case().plan.max_throughput_req_per_s
    assert [at.offered_req_per_s / highest for at in executed().loads] == pytest.approx([0.5, 0.8], rel=1e-3)
    assert executed().max_throughput_req_per_s.executed == pytest.approx(highest, rel=0.02)


def test_every_figure_stands_beside_both_promises() -> None:
    problem = planning_problem(question())
    solution = solved(problem)
    for at in executed().loads:
        promised = Planned(problem, solution).at(at.offered_req_per_s)
        assert at.ttft_mean_s.by_paper == promised.latency.ttft_unloaded_mean_s
        assert at.ttft_p90_s.by_paper == promised.latency.ttft_unloaded_p90_s
        assert at.ttft_mean_s.predicted == promised.latency.ttft_mean_s
        assert at.links_gbps["wan"].predicted == promised.links[0].mean_gbps
    mean_length = case().other_rule
    assert mean_length is not None
    assert executed().max_throughput_req_per_s.by_paper == mean_length.max_throughput_req_per_s


def test_what_came_is_what_simulate_sees_of_the_plan_as_printed() -> None:
    plan, at = as_printed(case().plan), executed().loads[1]
    load = at.offered_req_per_s / plan.throughput_req_per_s
    run, _ = simulate(question(), plan, RunQuestion(N_REQUESTS, 7, load, 3))
    assert at.ttft_mean_s.executed == pytest.approx(run.ttft_mean_s, rel=1e-9)
    assert at.ttft_p90_s.ci_high == pytest.approx(run.intervals["ttft_p90_s"].high, rel=1e-9)
    assert at.links_gbps["wan"].executed == pytest.approx(run.links["wan"].mean_gbps, rel=1e-9)


def test_a_plan_as_printed_has_whole_thresholds_and_the_digits_of_its_report() -> None:
    plan = case().plan
    printed = as_printed(plan)
    assert plan.threshold_tokens is not None
    assert printed.threshold_tokens == round(plan.threshold_tokens)
    assert printed.classes[0].threshold_tokens == printed.threshold_tokens
    assert printed.throughput_req_per_s == float(f"{plan.throughput_req_per_s:.4g}")
    assert printed.pools[0].n_instances == plan.pools[0].n_instances


def test_a_prediction_is_judged_where_the_whole_interval_says_the_same() -> None:
    """The interval of a made figure is 2 % to either side, and 5 % are allowed."""
    assert make_figure(10.0, predicted=10.2).holds
    far = make_figure(10.0, predicted=10.9)
    assert far.holds is False
    assert far.decided
    near = make_figure(10.0, predicted=10.6)
    assert near.holds is None
    assert not near.decided
    assert near.error == pytest.approx(0.06)
    assert near.enough_requests(1000) == 2000  # the interval is narrow, but ends where the tolerance does
    assert far.enough_requests(1000) is None
    assert make_figure(10.0, by_paper=4.0).error_of_paper == pytest.approx(-0.6)
    unknown = make_figure(10.0).model_copy(update={"predicted": None})
    assert (unknown.holds, unknown.decided, unknown.enough_requests(1000)) == (None, True, None)


def test_allowances_are_those_of_the_reference_case() -> None:
    at = executed().loads[0]
    assert (at.ttft_mean_s.allowed, at.ttft_p90_s.allowed) == (0.05, 0.10)
    assert (at.links_gbps["wan"].allowed, executed().max_throughput_req_per_s.allowed) == (0.03, 0.02)
    assert TOLERANCES["ttft_mean_s"] == 0.05


def test_every_pattern_is_run_with_every_kind_of_scheduling() -> None:
    found = executed().schedulers
    assert found is not None
    assert {(run.pattern, run.scheduler) for run in found.runs} >= {
        (pattern, kind) for pattern in ("steady", "bursts", "diurnal") for kind in ("static", "short-term")
    }
    assert len(executed().scheduler_series) == len(found.runs)
    assert found.seed == 7


def shown(found: Case) -> tuple[str, dict[str, str]]:
    return report_markdown(found), {name: digest(chart) for name, chart in charts(found).items()}


def test_noise_in_the_last_bits_of_arrivals_changes_no_digit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other machines have other last digits of logarithms; a committed report must not hang on them."""
    draw, noise = executor_run.drawn_requests, np.random.default_rng(1)

    def noisy(*arguments: Any) -> Records:
        requests = draw(*arguments)
        times = requests["arrival_s"] * (1 + 1e-14 * noise.uniform(-1, 1, len(requests)))
        requests["arrival_s"] = np.maximum.accumulate(times)
        return requests

    before = shown(case())
    monkeypatch.setattr(executor_run, "drawn_requests", noisy)
    again = build_case(question())
    assert again.executed is not None
    assert again.executed.loads[0].ttft_mean_s.executed != executed().loads[0].ttft_mean_s.executed
    assert shown(again) == before


def test_a_report_says_what_came_and_what_failed() -> None:
    text = report_markdown(make_case())
    assert "## Run request by request" in text
    assert "Predictions within what is allowed: 5 of 7." in text
    assert text.count("**fails**") == 2
    assert "it promises 2.20 s in the mean and 3.43 s at P90, at any load" in text
    assert "2.4 and 3.0 times as long" in text
    assert "| bursts | static | 3.40 s | 3.30 to 3.50 |" in text
    assert "- *bursts*: more at times" in text
    assert "9,838 to 39,354" in text


def test_a_report_says_where_a_run_is_too_short_to_judge() -> None:
    near = make_load(0.9, 5.3, 10.4).model_copy(update={"ttft_mean_s": make_figure(5.3, 2.2, 5.3 * 1.06)})
    text = report_markdown(make_case(executed=make_executed(loads=(near,))))
    assert text.count("| undecided |") == 1
    assert "1 is undecided, as only a part of the interval is within what is allowed: about" in text


def test_a_figure_without_an_interval_shows_none_and_is_judged_by_itself() -> None:
    alike = {"ci_low": None, "ci_high": None}
    near, far = (make_figure(2.0, predicted=value).model_copy(update=alike) for value in (2.05, 2.5))
    assert (near.holds, far.holds) == (True, False)
    found = make_executed()
    at, *others = found.loads
    loads = (at.model_copy(update={"ttft_mean_s": near}), *others)
    case = make_case().model_copy(update={"executed": found.model_copy(update={"loads": loads})})
    (row,) = (line for line in report_markdown(case).splitlines() if "| 2.05 s |" in line)
    assert "| – |" in row
    assert " to " not in row
    assert charts(case)


def test_a_report_without_runs_or_without_scheduling_says_nothing_of_them() -> None:
    assert "request by request" not in report_markdown(make_case(executed=None))
    text = report_markdown(make_case(executed=make_executed(schedulers=None, scheduler_series=())))
    assert "## Run request by request" in text
    assert "scheduling would be worth" not in text


def test_a_scenario_that_asks_for_nothing_is_not_run() -> None:
    assert build_case(small_with(SIZES)).executed is None


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        ("loads = [0.8, 0.6]", "do not ascend"),
        ("loads = [1.0]", "less than 1"),
        ("loads = []", "loads"),
        ("loads = [0.5]\nn_replications = 1", "greater than or equal to 2"),
        ("load = [0.5]", "did you mean 'loads'"),
    ],
)
def test_what_cannot_be_reported_is_said_at_its_line(stated: str, said: str) -> None:
    text = f"{SMALL}\n[execution.report]\n{stated}\n"
    with pytest.raises(InputError, match=said) as caught:
        load_scenario(text, "small.toml", Path())
    assert all((problem.line or 0) > SMALL.count("\n") for problem in caught.value.problems)


def test_runs_of_a_network_are_refused_in_one_message() -> None:
    with pytest.raises(InputError, match="one demand and one model only") as caught:
        build_case(question().varied({"periods": {"day": {"hours": 12.0}, "night": {"hours": 12.0, "demand": 0.5}}}))
    assert len(caught.value.problems) == 1
