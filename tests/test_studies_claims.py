"""Published figures beside the plan's: what a metric names, what a quotient divides, and what is no figure."""

import pytest

from planner.errors import InputError
from planner.results.case import ClaimResult
from planner.results.plan import Plan
from planner.scenario import Claim
from planner.studies.claims import claim_results
from tests.test_report_records import LOADED, WAN, make_plan


def plan() -> Plan:
    return make_plan(latency=LOADED)


def claimed(metric: str, published: float = 2.0, **fields: object) -> ClaimResult:
    claim = Claim(what="x", metric=metric, published=published, source="y", **fields)  # type: ignore[arg-type]
    (result,) = claim_results([claim], {"plan": plan(), "other": plan(), "none": None}, "small.toml")
    return result


@pytest.mark.parametrize(
    ("metric", "figure"),
    [
        ("plan.max_throughput_req_per_s", lambda p: p.max_throughput_req_per_s),
        ("other.max_throughput_req_per_s", lambda p: p.max_throughput_req_per_s),
        ("plan.threshold_tokens", lambda p: p.threshold_tokens),
        ("plan.pools.prfaas.n_instances", lambda p: p.pool("prfaas").n_instances),
        ("plan.links.wan.mean_gbps", lambda p: p.links[0].mean_gbps),
        ("plan.latency.ttft_mean_s", lambda p: p.latency.ttft_mean_s),
        ("plan.cost.usd_per_hour", lambda p: p.cost.usd_per_hour),
        ("plan.classes.all.mean_total_tokens", lambda p: p.classes[0].mean_total_tokens),
        ("plan.baselines.homogeneous-pd.ratio", lambda p: p.baseline("homogeneous-pd").ratio),
        (
            "plan.baselines.homogeneous-pd.pools.pd-p.n_instances",
            lambda p: p.baseline("homogeneous-pd").pool("pd-p").n_instances,
        ),
        (
            "plan.max_throughput_req_per_s / plan.baselines.homogeneous-pd.max_throughput_req_per_s",
            lambda p: p.baseline("homogeneous-pd").ratio,
        ),
        ("plan.throughput_req_per_s/ 1".replace("/ 1", " / plan.throughput_req_per_s"), lambda _: 1.0),
    ],
)
def test_a_metric_is_the_figure_its_path_leads_to(metric: str, figure: object) -> None:
    assert callable(figure)
    assert claimed(metric).planned == pytest.approx(figure(plan()), rel=1e-12)


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        ("plann.threshold_tokens", "'plann.threshold_tokens': no 'plann' (did you mean 'plan'?)"),
        ("plan.treshold_tokens", "no 'treshold_tokens' (did you mean 'threshold_tokens'?)"),
        ("plan.pools.prfass.n_instances", "no 'prfass' (did you mean 'prfaas'?)"),
        ("plan.pools.0.n_instances", "no '0' (known: pd-d, pd-p, prfaas)"),
        ("plan.baselines.naive.ratio", "no 'naive'"),
        ("plan.threshold_tokens.tokens", "no 'tokens'"),
        ("plan.scenario", "'plan.scenario' is not a figure"),
        ("plan.pools", "'plan.pools' is not a figure"),
        ("plan.verdict.worth_it", "'plan.verdict.worth_it' is not a figure"),
        ("plan", "'plan' is not a figure"),
        ("", "no ''"),
        ("plan.throughput_req_per_s / ", "no ''"),
        ("plan.throughput_req_per_s * 2", "no 'throughput_req_per_s * 2'"),
    ],
)
def test_a_metric_that_names_no_figure_is_an_input_error(metric: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        claimed(metric)
    (problem,) = caught.value.problems
    assert message in str(problem)
    assert str(problem).startswith("small.toml: claims: ")


def test_a_figure_of_a_plan_that_there_is_not_is_unknown() -> None:
    for metric in ("none.threshold_tokens", "plan.threshold_tokens / none.threshold_tokens", "plan.goodput_req_per_s"):
        result = claimed(metric, tolerance=0.1)
        assert (result.planned, result.difference, result.holds) == (None, None, None)


def test_division_by_nothing_is_unknown_and_no_crash() -> None:
    assert plan().links[0].usd_per_hour == 22.5
    free = make_plan(links=(WAN.model_copy(update={"usd_per_hour": 0.0}),))
    claim = Claim(what="x", metric="plan.cost.usd_per_hour / plan.links.wan.usd_per_hour", published=1, source="y")
    (result,) = claim_results([claim], {"plan": free}, "small.toml")
    assert (result.planned, result.holds) == (None, None)


@pytest.mark.parametrize(
    ("published", "tolerance", "holds"),
    [
        (1.0, 0.1, True),
        (1.05, 0.05, True),
        (0.95, 0.05, False),
        (1.06, 0.05, False),
        (1.0, None, None),
        (-1.0, 0.1, False),
    ],
)
def test_a_claim_holds_within_its_relative_tolerance(
    published: float, tolerance: float | None, holds: bool | None
) -> None:
    result = claimed("plan.throughput_req_per_s / plan.throughput_req_per_s", published, tolerance=tolerance)
    assert result.planned == 1.0
    assert result.difference == pytest.approx(1 / published - 1)
    assert result.holds is holds


def test_a_published_zero_has_no_relative_difference() -> None:
    result = claimed("plan.throughput_req_per_s", 0.0, tolerance=0.1)
    assert (result.difference, result.holds) == (None, None)


def test_what_a_claim_says_of_itself_is_kept() -> None:
    result = claimed("plan.threshold_tokens", 7.0, unit="tokens", kind="input", note="n", tolerance=0.5)
    assert result.model_dump(include={"what", "published", "unit", "kind", "note", "source", "tolerance"}) == {
        "what": "x",
        "published": 7.0,
        "unit": "tokens",
        "kind": "input",
        "note": "n",
        "source": "y",
        "tolerance": 0.5,
    }
