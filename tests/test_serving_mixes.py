"""Any mix of sites, serving, requests, periods and promises is planned: a pairwise cover, and all commands on a few."""

import json
from itertools import combinations
from pathlib import Path

import pytest
from typer.testing import CliRunner

from planner.cli import app
from planner.comparison import best_fleet
from planner.errors import CheckFailedError, InputError
from planner.optimizer.network.judged_moves import excess
from tests.serving_mixes import AXES, Mix, asked, every_mix, pairs, pairwise, written

COVER = pairwise()
ANSWERED = [Mix(1, "colocated", "one", "always", "none"), Mix(1, "both", "one", "always", "ttft")]
"""Mixes that all commands are run on;"""
ALSO_ANSWERED = [
    Mix(2, "colocated", "models", "always", "none"),
    Mix(2, "both", "one", "day", "none"),
    Mix(3, "separate", "one", "always", "ttft"),
    Mix(1, "colocated", "three", "rent", "none"),
]
"""and those of a release."""
LIMIT_S = 5.0


def check_planned(mix: Mix) -> None:
    """A plan that serves every request of every period, within its promises and its own bound."""
    found = best_fleet(asked(mix), (), LIMIT_S)
    problem, solution = found.problem, found.solution
    assert solution.bound <= solution.objective * (1 + 1e-6)
    for p, one in enumerate(solution.operations):
        for demand in problem.demands:
            served = sum(d.req_per_s for d in one.decodings if d.stream in demand.streams)
            assert served == pytest.approx(demand.req_per_s[p], rel=1e-5)
    if problem.has_batches:
        assert excess(problem, solution.operations, solution.ports) <= 1e-5
    assert found.fleet.cost.usd_per_hour == pytest.approx(found.objective, rel=1e-6)
    roles = {pool.role for pool in found.fleet.pools if pool.n_instances}
    assert roles <= ({"prefill", "decode"} if mix.serving == "separate" else {"prefill", "decode", "colocated"})


def test_the_cover_has_every_two_values_of_two_axes() -> None:
    met = set().union(*map(pairs, COVER))
    assert len(met) == sum(len(AXES[a]) * len(AXES[b]) for a, b in combinations(AXES, 2))


@pytest.mark.parametrize("mix", COVER, ids=lambda mix: "-".join(map(str, mix)))
def test_a_mix_is_planned(mix: Mix) -> None:
    check_planned(mix)


@pytest.mark.campaign
@pytest.mark.parametrize(
    "mix", [mix for mix in every_mix() if mix not in COVER], ids=lambda mix: "-".join(map(str, mix))
)
def test_every_mix_is_planned(mix: Mix) -> None:
    check_planned(mix)


@pytest.mark.parametrize("n_sites", [1, 2])
@pytest.mark.parametrize("promise", ["none", "ttft"])
def test_a_colocated_pool_that_is_ruled_out_changes_nothing(n_sites: int, promise: str) -> None:
    apart, both = (asked(Mix(n_sites, serving, "one", "always", promise)) for serving in ("separate", "both"))
    ruled_out = {
        name: pool if pool.role != "colocated" else pool.model_copy(update={"n_instances": 0})
        for name, pool in both.pools.items()
        if name in apart.pools or pool.role == "colocated"
    }
    without, with_none = (
        best_fleet(one, (), LIMIT_S) for one in (apart, both.model_copy(update={"pools": apart.pools | ruled_out}))
    )
    for one, other in ((without, with_none), (with_none, without)):
        assert one.objective <= other.objective * (1 + max(one.solution.gap, 1e-3))
        assert one.objective >= other.solution.bound * (1 - 1e-6)


@pytest.mark.parametrize("n_sites", [1, 2])
def test_of_both_kinds_the_plan_is_never_dearer_than_either_alone(n_sites: int) -> None:
    kinds = {
        serving: best_fleet(asked(Mix(n_sites, serving, "one", "always", "ttft")), (), LIMIT_S)
        for serving in AXES["serving"]
    }
    assert kinds["both"].objective <= min(found.objective for found in kinds.values()) * (1 + 1e-3)


def check_commands(mix: Mix, folder: Path) -> None:
    """Every command answers, or says in a message of its own why not."""
    file = folder / "mix.toml"
    file.write_text(written(mix))
    for words in (
        ("optimize", "--no-run", "--format", "json"),
        ("validate", "--requests", "4000"),
        ("simulate", "--requests", "4000"),
        ("explain",),
        ("diff", str(file), "--set", "demand_req_per_s=12"),
        ("sweep", "--over", "demand_req_per_s=12,24"),
        ("report", "--out", str(folder / "report")),
        ("explore", "--out", str(folder / "page.html")),
        ("export", "--to", "vllm", "--out", str(folder / "export")),
    ):
        done = CliRunner().invoke(app, [words[0], str(file), *words[1:], "--time-limit", "4"])
        is_refused = words[0] == "export" and isinstance(done.exception, InputError)
        is_judged = words[0] == "validate" and isinstance(done.exception, CheckFailedError)  # by its bands
        assert done.exit_code == 0 or is_refused or is_judged, (
            words,
            done.exit_code,
            done.output[-500:],
            done.exception,
        )


@pytest.mark.parametrize("mix", ANSWERED, ids=lambda mix: "-".join(map(str, mix)))
def test_every_command_answers(mix: Mix, tmp_path: Path) -> None:
    check_commands(mix, tmp_path)


@pytest.mark.campaign
@pytest.mark.parametrize("mix", ALSO_ANSWERED, ids=lambda mix: "-".join(map(str, mix)))
def test_every_command_answers_on_larger_mixes(mix: Mix, tmp_path: Path) -> None:
    check_commands(mix, tmp_path)


def test_a_fleet_that_stands_is_named_by_the_pools_of_the_scenario_whatever_options_they_have(tmp_path: Path) -> None:
    """The file of a plan, and one by hand with instances of both kinds."""
    file, plan, hand = (tmp_path / name for name in ("mix.toml", "plan.json", "hand.toml"))
    file.write_text(written(Mix(1, "both", "one", "always", "ttft")))
    asked_for = ("optimize", str(file), "--no-run", "--format", "json", "--time-limit", "10")
    first = CliRunner().invoke(app, asked_for)
    plan.write_text(first.stdout)
    hand.write_text("[pools]\nhome-prefill = 2\nhome-decode = 1\nhome-colocated = 1\n")
    stands = {}
    for stated in (plan, hand):
        done = CliRunner().invoke(app, (*asked_for, "--current", str(stated)))
        assert done.exit_code == 0, (done.output[-500:], done.exception)
        stands[stated.name] = json.loads(done.stdout)["current"]["stay"]
    assert stands["plan.json"]["holds"]
    assert stands["plan.json"]["usd_per_hour"] == pytest.approx(json.loads(first.stdout)["cost"]["usd_per_hour"])
    assert stands["hand.toml"]["n_instances"] == {"home-prefill": 2, "home-decode": 1, "home-colocated": 1}
