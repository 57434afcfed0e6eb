"""`--set` and variants: checked as the file is, blamed on whoever set it, and never changing what they start from."""

from pathlib import Path
from typing import Any

import pytest

from planner.errors import InputError, InputProblem, UsageError
from planner.scenario import Scenario, load_scenario, read_scenario, scenario_path

REFERENCE = scenario_path("prfaas-paper").read_text(encoding="utf-8")


def with_set(*overrides: str) -> Scenario:
    return load_scenario(REFERENCE, "scenario.toml", Path(), overrides)


def problems(*overrides: str) -> tuple[InputProblem, ...]:
    with pytest.raises(InputError) as caught:
        with_set(*overrides)
    return caught.value.problems


@pytest.mark.parametrize(
    ("override", "read"),
    [
        ("pools.pd-p.n_instances=3", lambda s: s.pools["pd-p"].n_instances == 3),
        ("capacity_rule=mean-length", lambda s: s.capacity_rule == "mean-length"),
        ('capacity_rule = "mean-length" ', lambda s: s.capacity_rule == "mean-length"),
        ("routing.prefill_to_decode=3:5", lambda s: s.routing.prefill_to_decode == "3:5"),
        ("links.wan.capacity_gbps=free", lambda s: s.links["wan"].capacity_gbps == "free"),
        (
            "links.wan.tiers[1].capacity_gbps=40",
            lambda s: [t.capacity_gbps for t in s.links["wan"].tiers] == [10, 40, 400],
        ),
        ("links.wan.tiers=[]", lambda s: s.links["wan"].tiers == ()),
        ("links.wan.destination_holds_prefix=false", lambda s: s.links["wan"].destination_holds_prefix is False),
        ('sites.remote.accelerators."h200-sxm"=16', lambda s: s.sites["remote"].accelerators == {"h200-sxm": 16}),
        (
            "workload.prefix_hits={ kind = 'constant', fraction = 0.25 }",
            lambda s: getattr(s.workload.prefix_hits, "fraction", None) == 0.25,
        ),
        ("title=a = b", lambda s: s.title == "a = b"),
        ("title=", lambda s: s.title == ""),
        ("demand_req_per_s=2", lambda s: s.demand_req_per_s == 2.0),
        (
            "measured.table-5.prefill.interpolation=linear",
            lambda s: s.measured["table-5"].prefill.interpolation == "linear",
        ),
        ("claims[0].published=1", lambda s: s.claims[0].published == 1.0),
    ],
)
def test_an_override_changes_one_key(override: str, read: Any) -> None:
    assert not read(with_set())
    assert read(with_set(override))


def test_the_last_of_two_overrides_of_a_key_counts() -> None:
    assert with_set("demand_req_per_s=1", "demand_req_per_s=2").demand_req_per_s == 2.0


def test_overrides_may_make_an_entry_together() -> None:
    scenario = with_set(
        "sites.third.title=x", "pools.more.site=local", "pools.more.hardware=h20-141gb", "pools.more.role=decode"
    )
    assert scenario.pools["more"].site == "local"
    assert scenario.sites["third"].title == "x"


def test_an_override_does_not_change_the_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(REFERENCE, encoding="utf-8")
    read_scenario(str(path), ["links.wan.tiers[0].capacity_gbps=40"])
    assert path.read_text(encoding="utf-8") == REFERENCE
    assert read_scenario(str(path)).links["wan"].tiers[0].capacity_gbps == 10


@pytest.mark.parametrize(
    ("override", "key", "message"),
    [
        ("pools.pd-p.n_instance=3", "pools.pd-p.n_instance", "unknown key (did you mean 'n_instances'?)"),
        ("pool.pd-p.n_instances=3", "pool", "unknown key (did you mean 'pools'?)"),
        ("directory=/", "directory", "unknown key"),
        ("pools.pd-p.n_instances=-1", "pools.pd-p.n_instances", "got -1 (0 to 1,000,000 or 'free')"),
        ("pools.pd-p.n_instances=two", "pools.pd-p.n_instances", 'got "two"'),
        ("pools.pd-p.site=locl", "pools.pd-p.site", "did you mean 'local'?"),
        ("pools.pd-p.hardware=h21", "pools.pd-p.hardware", "is no hardware profile"),
        ("model.profile=prfaas-2t", "model.profile", "did you mean 'prfaas-1t'?"),
        ("demand_req_per_s=nan", "demand_req_per_s", "finite number"),
        ("demand_req_per_s=0", "demand_req_per_s", "greater than 0"),
        ("objective=min-cost", "demand_req_per_s", "required by objective min-cost"),
        ("links.wan.to=remote", "links.wan", "two different sites"),
        ("links.wan.tiers[1].capacity_gbps=-3", "links.wan.tiers[1].capacity_gbps", "got -3"),
        ("links.wan.tiers[7].capacity_gbps=3", "links.wan.tiers[7].capacity_gbps", "'links.wan.tiers[7]' is no key"),
        ("links.wan[0]=3", "links.wan[0]", "'links.wan[0]' is no key"),
        ("pools.prfaas.site.x=3", "pools.prfaas.site.x", "'pools.prfaas.site.x' is no key"),
        ("links=3", "links", "should be a table, got 3"),
        ("links.wan.tiers[x].capacity_gbps=3", "links.wan.tiers[x].capacity_gbps", "is not written as a key"),
        ("..=3", "..", "is not written as a key"),
        ("a b=3", "a b", "is not written as a key"),
        ("workload.trace={ path = 'x.jsonl' }", "workload", "exactly one of lengths and trace"),
        ("name=" + "[" * 5000, "name", "is nested too deep"),
    ],
)
def test_a_wrong_override_is_one_problem_blamed_on_it(override: str, key: str, message: str) -> None:
    (problem,) = problems(override)
    given = override.partition("=")[0]
    place = "--set " + (override if len(override) <= 100 else override[:97] + "...")
    assert (problem.file, problem.key, problem.line) == (place, "" if key == given else key, None)
    assert message in str(problem)


def test_of_several_overrides_the_one_within_whose_key_the_problem_is_gets_the_blame() -> None:
    (problem,) = problems("pools.pd-p.n_instances=3", "links.wan.capacity_gbps=x")
    assert str(problem).startswith("--set links.wan.capacity_gbps=x: should be a valid number")


def test_a_new_entry_that_is_not_complete_is_taken_for_a_mistyped_name() -> None:
    found = problems("pools.pd-q.n_instances=3")
    assert {p.key for p in found} == {"pools.pd-q.site", "pools.pd-q.hardware", "pools.pd-q.role"}
    assert {p.allowed for p in found} == {"'pd-q' is new; did you mean 'pd-p'?"}


@pytest.mark.parametrize("override", ["", "x", "=3", " = 3"])
def test_an_override_that_is_no_pair_is_a_usage_error(override: str) -> None:
    with pytest.raises(UsageError, match="not KEY=VALUE"):
        with_set(override)


def test_faults_of_the_file_stay_with_the_file() -> None:
    text = REFERENCE.replace("capacity_gbps = 100 ", "capacity_gbps = -100 ", 1)
    with pytest.raises(InputError) as caught:
        load_scenario(text, "scenario.toml", Path(), ["pools.pd-p.n_instances=-1"])
    places = {problem.key or problem.file: (problem.file, problem.line) for problem in caught.value.problems}
    assert places["--set pools.pd-p.n_instances=-1"][1] is None
    assert places["links.wan.capacity_gbps"][0] == "scenario.toml"
    assert text.split("\n")[places["links.wan.capacity_gbps"][1] - 1].startswith("capacity_gbps = -100")


def test_an_override_can_mend_a_file() -> None:
    text = REFERENCE.replace("capacity_gbps = 100 ", "capacity_gbps = -100 ", 1)
    assert load_scenario(text, "x.toml", Path(), ["links.wan.capacity_gbps=25"]).links["wan"].capacity_gbps == 25


def test_a_variant_differs_in_its_keys_alone_and_leaves_the_original_untouched() -> None:
    original = with_set("demand_req_per_s=1")
    before = original.model_dump()
    variant = original.varied(
        {"links.wan.tiers[0].max_ports": 9, "pools.pd-p": {"site": "local", "hardware": "h20-96gb", "role": "prefill"}}
    )
    assert original.model_dump() == before
    assert variant.links["wan"].tiers[0].max_ports == 9
    assert variant.pools["pd-p"].hardware == "h20-96gb"
    same = {"links", "pools"}
    assert {k: v for k, v in variant.model_dump().items() if k not in same} == {
        k: v for k, v in before.items() if k not in same
    }


def test_a_variant_of_a_variant_keeps_the_first_changes_and_the_overrides() -> None:
    variant = with_set("demand_req_per_s=1").varied({"title": "x"}).varied({"notes": "y"})
    assert (variant.demand_req_per_s, variant.title, variant.notes) == (1.0, "x", "y")
    assert (variant.origin, variant.directory) == ("scenario.toml", Path())


def test_a_variant_with_another_model_has_that_models_measurements_under_the_scenarios_own() -> None:
    own = {
        "hardware": "h200-sxm",
        "n_accelerators": 8,
        "precision": "fp8",
        "basis": "measured",
        "source": "me",
        "decode": {"batch": 3, "step_s": 0.5},
    }
    original = with_set().varied({"measured.mine": own, "measured.table-5.note": "mine"})
    assert set(original.measured) == {*with_set().model_profile.measured, "mine"}
    assert original.measured["table-5"].note == "mine"
    assert original.measured["table-5"].prefill == with_set().model_profile.measured["table-5"].prefill
    other = with_set().varied({"model.profile": "minimax-m2.5", "measured.mine": own})
    assert set(other.measured) == {*other.model_profile.measured, "mine"}
    assert set(other.model_profile.measured) != set(with_set().model_profile.measured)


def test_a_variant_is_checked_as_a_file_is() -> None:
    with pytest.raises(InputError, match=r"scenario\.toml: links\.wan\.to: names the unknown site 'mars'"):
        with_set().varied({"links.wan.to": "mars"})


@pytest.mark.parametrize(
    "name",
    [
        "ascend-h20",
        "egress-at-scale",
        "mooncake-conversation",
        "not-worth-it",
        "prfaas-paper",
        "prfaas-roofline",
        "rubin-groq",
    ],
)
def test_every_comparison_of_a_bundled_scenario_is_a_scenario_without_comparisons(name: str) -> None:
    scenario = read_scenario(name)
    assert scenario.comparisons
    for comparison in scenario.comparisons:
        variant = scenario.compared(comparison)
        assert (variant.comparisons, variant.claims) == ({}, ())
        assert variant != scenario
