"""Many models, classes, sites and periods: what a scenario states of them, and every fault at its line."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from planner.errors import InputError
from planner.optimizer.layout_choice import planning_problem
from planner.optimizer.service_times import Decoded, service_times
from planner.profiles import hardware_profile, model_profile
from planner.scenario import Scenario, load_scenario
from tests.builders import small, small_with

NETWORK = """
schema = "planner.scenario/1"
name = "network"
objective = "min-cost"
demand_req_per_s = 10

[model]
profile = "prfaas-1t"

[models.small]
profile = "kimi-linear-48b"
precision = "fp8"
kv_precision = "fp8"

[classes.chat]
share = 0.75
sites = { east = 0.25, west = 0.75 }
slo = { ttft_s = 2.0, ttft_percentile = 95, tpot_ms = 40 }
[classes.chat.workload]
lengths = { kind = "constant", tokens = 4000 }
output_lengths = { kind = "constant", tokens = 200 }

[classes.files]
share = 0.25
model = "small"
sites = { west = 1 }
[classes.files.workload]
lengths = { kind = "constant", tokens = 60000 }
output_lengths = { kind = "constant", tokens = 500 }

[slo]
ttft_s = 9.0

[routing]
thresholds = "per-model"
role_conversion = true

[periods.day]
hours = 16
demand = 1.0
by_site = { west = 2.0 }
[periods.night]
hours = 8
demand = 0.5
by_class = { files = 3.0 }

[spare]
survive = ["instance", "link", "site"]

[sites.east]
usd_per_kwh = 0.05
idle_draw_fraction = 0.3
[sites.west]
[sites.north]

[pools.east-prefill]
site = "east"
hardware = "h200-sxm"
role = "prefill"
prompts = "long"
[pools.east-decode]
site = "east"
hardware = "h20-141gb"
role = "decode"
[pools.west-decode]
site = "west"
hardware = "h20-141gb"
role = "decode"
classes = ["chat"]
[pools.small-prefill]
site = "west"
hardware = "h200-sxm"
role = "prefill"
model = "small"
layouts = ["tp=8,ep=8", "tp=4,dp=2"]
[pools.small-decode]
site = "west"
hardware = "h200-sxm"
role = "decode"
model = "small"
classes = ["files"]

[links.wan]
from = "east"
to = "west"
capacity_gbps = 100
usd_per_hour = 20

[prices]
h200-sxm = { usd_per_accelerator_hour = 4.0, basis = "assumed", source = "a test" }
h20-141gb = { usd_per_accelerator_hour = 2.0, basis = "assumed", source = "a test" }

[measured.mine]
hardware = "h200-sxm"
n_accelerators = 8
precision = "fp8"
basis = "measured"
source = "a test"
model = "small"
prefill = { tokens = [1000, 100000], seconds = [0.1, 9.0], interpolation = "linear" }
kv = { tokens = [1000, 100000], bytes = [1e7, 1e9], interpolation = "linear" }
"""


def network(changes: dict[str, Any] | None = None, text: str = NETWORK) -> Scenario:
    scenario = load_scenario(text, "network.toml", Path())
    return scenario.varied(changes) if changes else scenario


class Planted(NamedTuple):
    """One replacement in the text; the problem is expected on the first line of the new text that starts with `at`."""

    old: str
    new: str
    at: str
    key: str
    says: str


CHAT_SITES = "sites = { east = 0.25, west = 0.75 }"
PLANTED: dict[str, Planted] = {
    "unknown key, models": Planted("kv_precision", "kv_precison", "kv_precison", "models.small.kv_precison", "did you"),
    "unknown key, periods": Planted(
        "hours = 16", "hour = 16", "hour = 16", "periods.day.hour", "did you mean 'hours'?"
    ),
    "unknown key, spare": Planted("survive", "survives", "survives", "spare.survives", "did you mean 'survive'?"),
    "unknown key, promise of a class": Planted(
        "tpot_ms = 40", "tpot = 40", "slo = ", "classes.chat.slo.tpot", "did you mean 'tpot_ms'?"
    ),
    "name of a model in capitals": Planted("[models.small]", "[models.Small]", "[models", "models.Small", '"Small"'),
    "name of a period with blanks": Planted(
        "[periods.day]", '[periods."a day"]', "[periods", 'periods."a day"', "a day"
    ),
    "profile of a further model unknown": Planted(
        '"kimi-linear-48b"',
        '"kimi-linear-84b"',
        'profile = "kimi',
        "models.small.profile",
        "did you mean 'kimi-linear-48b'?",
    ),
    "experts of a further model": Planted(
        'kv_precision = "fp8"',
        'kv_precision = "fp8"\nn_experts_per_token = 9999',
        "n_experts_per",
        "models.small.n_experts_per_token",
        "at most",
    ),
    "model of a class unknown": Planted(
        'share = 0.25\nmodel = "small"',
        'share = 0.25\nmodel = "smal"',
        'model = "smal"',
        "classes.files.model",
        "names the unknown model 'smal' (did you mean 'small'?)",
    ),
    "model of a pool unknown": Planted(
        'role = "prefill"\nmodel = "small"',
        'role = "prefill"\nmodel = "smal"',
        'model = "smal"',
        "pools.small-prefill.model",
        "did you mean 'small'?",
    ),
    "model of a measurement unknown": Planted(
        'source = "a test"\nmodel = "small"',
        'source = "a test"\nmodel = "smal"',
        'model = "smal"',
        "measured.mine.model",
        "did you mean 'small'?",
    ),
    "measurement that hides the profile's": Planted(
        "[measured.mine]", "[measured.table-5]", "[measured", "measured.table-5", "would hide the measurement 'table-5'"
    ),
    "site of a class unknown": Planted(
        CHAT_SITES, "sites = { east = 0.25, wset = 0.75 }", "sites", "classes.chat.sites.wset", "did you mean 'west'?"
    ),
    "sites that do not add up": Planted(
        CHAT_SITES,
        "sites = { east = 0.25, west = 0.7 }",
        "sites",
        "classes.chat.sites",
        "has fractions that add up to 0.95 (they must add up to 1)",
    ),
    "no requests from a site": Planted(
        CHAT_SITES, "sites = { east = 0, west = 1 }", "sites", "classes.chat.sites.east", "got 0 ("
    ),
    "site that does not decode the class": Planted(
        "sites = { west = 1 }",
        "sites = { west = 0.5, north = 0.5 }",
        "sites = { west = 0.5",
        "classes.files.sites.north",
        "no pool at 'north' decodes this class (sites that decode it: west)",
    ),
    "class that no pool prefills": Planted(
        'prompts = "long"',
        'prompts = "long"\nmodel = "small"',
        "[classes.chat]",
        "classes.chat",
        "no prefill pool serves it (a prefill pool of the default model that takes its class)",
    ),
    "class that no pool decodes": Planted(
        'role = "decode"\nmodel = "small"\nclasses = ["files"]',
        'role = "decode"',
        "[classes.files]",
        "classes.files",
        "no decode pool serves it (a decode pool of the model 'small' that takes its class)",
    ),
    "promise of nothing to a class": Planted(
        "slo = { ttft_s = 2.0, ttft_percentile = 95, tpot_ms = 40 }",
        "slo = { ttft_percentile = 95 }",
        "slo",
        "classes.chat.slo",
        "promises nothing",
    ),
    "class of a pool unknown": Planted(
        'classes = ["chat"]', 'classes = ["chatt"]', "classes =", "pools.west-decode.classes[0]", "did you mean 'chat'?"
    ),
    "class of another model": Planted(
        'classes = ["chat"]',
        'classes = ["chat", "files"]',
        "classes =",
        "pools.west-decode.classes[1]",
        "names the class 'files' of the model 'small' (a class of the default model, which the pool serves)",
    ),
    "layout and layouts": Planted(
        "layouts =", 'layout = "tp=8"\nlayouts =', "layouts", "pools.small-prefill.layouts", "beside layout (one of"
    ),
    "layout of another size": Planted(
        '"tp=4,dp=2"]',
        '"tp=4"]\naccelerators_per_instance = 8',
        "layouts",
        "pools.small-prefill.layouts[1]",
        "is 'tp=4', 4 accelerators (8, as accelerators_per_instance)",
    ),
    "layout in words": Planted('"tp=4,dp=2"]', '"all"]', "layouts", "pools.small-prefill.layouts[1]", 'got "all"'),
    "layout with a size twice": Planted(
        '"tp=4,dp=2"]', '"tp=8,tp=8"]', "layouts", "pools.small-prefill.layouts[1]", "states a size twice"
    ),
    "period of no time": Planted("hours = 16", "hours = 0", "hours", "periods.day.hours", "got 0 ("),
    "demand below zero": Planted("demand = 0.5", "demand = -1", "demand = -1", "periods.night.demand", "got -1"),
    "no demand at any time": Planted(
        "demand = 1.0\nby_site = { west = 2.0 }\n[periods.night]\nhours = 8\ndemand = 0.5",
        "demand = 0\nby_site = { west = 2.0 }\n[periods.night]\nhours = 8\ndemand = 0",
        "[periods.day]",
        "periods",
        "has no demand in any period",
    ),
    "site of a period unknown": Planted(
        "by_site = { west", "by_site = { wset", "by_site", "periods.day.by_site.wset", "did you mean 'west'?"
    ),
    "site of a period where nothing arrives": Planted(
        "by_site = { west",
        "by_site = { north",
        "by_site",
        "periods.day.by_site.north",
        "names the site 'north', where no class arrives (classes arrive at: east, west)",
    ),
    "sites of a period for a class without": Planted(
        "sites = { west = 1 }\n",
        "",
        "by_site",
        "periods.day.by_site",
        "cannot apply to the class 'files', which does not say where it arrives",
    ),
    "class of a period unknown": Planted(
        "by_class = { files", "by_class = { file", "by_class", "periods.night.by_class.file", "did you mean 'files'?"
    ),
    "loss unknown": Planted(
        '"instance"', '"pool"', "survive", "spare.survive[0]", "allowed: 'instance', 'link' or 'site'"
    ),
    "thresholds unknown": Planted('"per-model"', '"per-site"', "thresholds", "routing.thresholds", "'per-class' or"),
    "idle draw above busy draw": Planted(
        "idle_draw_fraction = 0.3",
        "idle_draw_fraction = 1.1",
        "idle_draw",
        "sites.east.idle_draw_fraction",
        "is 1.1 (at most draw_fraction, 1)",
    ),
    "idle draw below zero": Planted(
        "idle_draw_fraction = 0.3",
        "idle_draw_fraction = -0.1",
        "idle_draw",
        "sites.east.idle_draw_fraction",
        "got -0.1",
    ),
    "least TTFT of no demand": Planted(
        'objective = "min-cost"\ndemand_req_per_s = 10\n',
        'objective = "min-ttft"\n',
        "",
        "demand_req_per_s",
        "is required by objective min-ttft",
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_one_problem_at_its_line_and_key(name: str) -> None:
    planted = PLANTED[name]
    assert NETWORK.count(planted.old) >= 1
    text = NETWORK.replace(planted.old, planted.new, 1)
    with pytest.raises(InputError) as caught:
        load_scenario(text, "network.toml", Path())
    (problem,) = caught.value.problems
    line = next(
        (i for i, line in enumerate(text.split("\n"), start=1) if planted.at and line.startswith(planted.at)), None
    )
    assert (problem.file, problem.key, problem.line) == ("network.toml", planted.key, line)
    assert planted.says in str(problem)


def test_models_without_a_profile_are_reported_together() -> None:
    text = NETWORK.replace("prfaas-1t", "prfaas-2t").replace("kimi-linear-48b", "kimi-linear-84b")
    with pytest.raises(InputError) as caught:
        network(text=text)
    assert [problem.key for problem in caught.value.problems] == ["model.profile", "models.small.profile"]


def test_a_name_of_a_model_is_unknown_where_there_are_no_further_models() -> None:
    with pytest.raises(InputError, match=r"pools.fast.model: names the unknown model 'x' \(the scenario has no \[mod"):
        small_with({"pools.fast.model": "x"})


def test_a_workload_needs_pools_of_the_default_model() -> None:
    models = {"models.other.profile": "qwen3-32b"}
    with pytest.raises(InputError, match="pools: has no decode pool of the default model"):
        small_with(models | {"pools.decode.model": "other"})


def test_a_promise_of_nothing_states_the_percentile_of_the_least_ttft() -> None:
    question = {"objective": "min-ttft", "demand_req_per_s": 1.0, "slo": {"ttft_percentile": 99.0}}
    scenario = small_with(question)
    assert scenario.slo is not None
    assert (scenario.slo.ttft_percentile, scenario.slo.promises_something) == (99.0, False)
    with pytest.raises(InputError, match="slo: promises nothing"):
        small_with(question | {"objective": "max-throughput"})


def test_a_model_is_the_one_that_is_named_or_the_default() -> None:
    scenario = network()
    assert scenario.model_choice(None).profile == "prfaas-1t"
    assert scenario.model_choice("small").kv_precision == "fp8"
    assert scenario.profile_of(None) is scenario.profile_of(None)
    assert scenario.profile_of("small") == model_profile("kimi-linear-48b")
    assert [scenario.model_of(name) for name in scenario.classes] == [None, "small"]
    with pytest.raises(KeyError):
        scenario.profile_of("large")


def test_a_further_model_has_the_experts_asked_for() -> None:
    scenario = network({"models.small.n_experts_per_token": 2})
    moe = scenario.profile_of("small").architecture.moe
    assert moe is not None
    assert moe.n_experts_per_token == 2


def test_a_class_has_its_own_promise_or_that_of_all() -> None:
    scenario = network()
    own, common = scenario.slo_of("chat"), scenario.slo_of("files")
    assert own is not None
    assert (own.ttft_s, own.ttft_percentile) == (2.0, 95.0)
    assert common is scenario.slo
    assert small().slo_of("all") is None


def test_a_pool_serves_the_classes_it_names_or_all_of_its_model() -> None:
    scenario = network()
    assert {name: scenario.classes_of(pool) for name, pool in scenario.pools.items()} == {
        "east-prefill": ("chat",),
        "east-decode": ("chat",),
        "west-decode": ("chat",),
        "small-prefill": ("files",),
        "small-decode": ("files",),
    }
    assert small().classes_of(small().pools["fast"]) == ("all",)


def test_demand_is_the_product_of_rate_share_site_and_factors_of_the_period() -> None:
    scenario = network()
    # 10 req/s: chat has 0.75 of them, a quarter of those in the east; files 0.25, all in the west.
    assert scenario.demand_of("chat", "east") == pytest.approx(10 * 0.75 * 0.25)
    assert scenario.demand_of("chat", "west", "day") == pytest.approx(10 * 0.75 * 0.75 * 1.0 * 2.0)
    assert scenario.demand_of("chat", "east", "day") == pytest.approx(10 * 0.75 * 0.25 * 1.0)
    assert scenario.demand_of("chat", "west", "night") == pytest.approx(10 * 0.75 * 0.75 * 0.5)
    assert scenario.demand_of("files", "west", "night") == pytest.approx(10 * 0.25 * 0.5 * 3.0)
    assert scenario.demand_of("files", "east", "night") == 0
    assert scenario.demand_of("chat", "north") == 0


def test_demand_at_all_sites_is_the_sum_of_them() -> None:
    scenario = network()
    for period in (None, "day", "night"):
        for name in scenario.classes:
            parts = [scenario.demand_of(name, site, period) for site in scenario.sites]
            assert scenario.demand_of(name, None, period) == pytest.approx(sum(parts))
    assert scenario.demand_of("chat") + scenario.demand_of("files") == pytest.approx(10)


def test_a_class_without_sites_has_its_demand_anywhere() -> None:
    scenario = small_with({"periods": {"peak": {"demand": 3.0, "by_class": {"all": 0.5}}}})
    assert scenario.demand_req_per_s is None
    assert scenario.demand_of("all") == 1.0
    assert scenario.demand_of("all", None, "peak") == pytest.approx(1.5)


def test_measurements_are_those_of_the_pools_own_model() -> None:
    scenario, h200 = network(), hardware_profile("h200-sxm")
    default = scenario.measured_instance(h200, 8, "prefill")
    assert default is not None
    assert default.prefill == model_profile("prfaas-1t").measured["table-5"].prefill
    own = scenario.measured_instance(h200, 8, "prefill", "small")
    assert own is not None
    assert own is scenario.measured["mine"]
    assert scenario.measured_instance(h200, 8, "decode", "small") is None
    assert {m.model for m in scenario.measured.values()} == {None, "small"}


def test_measurements_of_a_further_models_profile_are_found() -> None:
    scenario = small_with({"models.big.profile": "prfaas-1t"})
    found = scenario.measured_instance(hardware_profile("h200-sxm"), 8, "prefill", "big")
    assert found == model_profile("prfaas-1t").measured["table-5"]
    assert found not in scenario.measured.values()


def requests_of(context_tokens: float) -> Decoded:
    """Requests that are all alike."""
    return Decoded(context_tokens, np.array([context_tokens]), np.ones(1))


def test_service_times_are_those_of_the_pools_model() -> None:
    scenario = network()
    pools, h200 = scenario.pools, hardware_profile("h200-sxm")
    by_default = service_times(scenario, "east-prefill", pools["east-prefill"], h200, requests_of(4000.0))
    small_ones = service_times(scenario, "small-prefill", pools["small-prefill"], h200, requests_of(60_000.0))
    decode = service_times(scenario, "small-decode", pools["small-decode"], h200, requests_of(60_000.0))
    assert by_default.n_layers == model_profile("prfaas-1t").architecture.n_layers
    assert small_ones.n_layers == decode.n_layers == model_profile("kimi-linear-48b").architecture.n_layers
    assert small_ones.prefill is not None
    assert float(small_ones.prefill.curve(100_000.0)) == pytest.approx(9.0)
    assert decode.stack is not None


def test_the_decode_step_keeps_the_promise_to_the_classes_of_the_pool() -> None:
    pools, h200 = network().pools, hardware_profile("h200-sxm")
    steps = []
    for promise in (20.0, 8.0):
        scenario = network({"classes.files.slo": {"tpot_ms": promise}})
        decode = service_times(scenario, "small-decode", pools["small-decode"], h200, requests_of(60_000.0)).decode
        assert decode is not None
        assert decode.step_s <= promise / 1e3
        steps.append(decode.batch)
    assert steps[1] < steps[0]


PEAK = {"periods": {"peak": {}}}
TWO = {
    "workload": None,
    "classes": {
        name: {
            "share": 0.5,
            "workload": {
                "lengths": {"kind": "constant", "tokens": tokens},
                "output_lengths": {"kind": "constant", "tokens": 100},
            },
        }
        for name, tokens in (("chat", 1000), ("files", 9000))
    },
}


@pytest.mark.parametrize(
    ("changes", "is_plain"),
    [
        ({}, True),
        (TWO, True),
        (PEAK, True),
        ({"periods": {"day": {}, "night": {"demand": 0.4}}}, False),
        ({"models": {"other": {"profile": "qwen3-32b"}}}, True),
        ({"spare": {"survive": ["link"]}}, False),
        ({"spare": {"survive": []}}, True),
        ({"routing.role_conversion": True}, False),
        ({"routing.thresholds": "per-model"}, True),
        (TWO | {"routing.thresholds": "per-model"}, False),
        ({"slo": {"ttft_s": 1.0}}, True),
        (TWO | {"slo": {"tpot_ms": 100.0}}, True),
        (TWO | {"slo": {"ttft_s": 1.0}}, False),
        (TWO | {"classes.chat.slo": {"tpot_ms": 100.0}}, True),
        (TWO | {"classes.chat.sites": {"local": 1.0}}, True),
        ({"pools.fast.layouts": ["tp=8", "tp=4,dp=2"]}, True),
        (TWO | {"pools.near.classes": ["chat"]}, False),
    ],
)
def test_routes_say_all_of_one_model_at_one_rate_from_anywhere(changes: dict[str, Any], is_plain: bool) -> None:
    assert planning_problem(small_with(changes)).is_plain is is_plain
