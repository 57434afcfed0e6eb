"""Every single fault planted in the reference scenario is one problem, at its line and key, that says what would do."""

from pathlib import Path
from typing import NamedTuple

import pytest

from planner.errors import InputError, InputProblem
from planner.optimizer.layout_choice import planning_problem
from planner.scenario import load_scenario, scenario_path

REFERENCE = scenario_path("prfaas-paper").read_text(encoding="utf-8")
INSTANCE = 'hardware = "h200-sxm"\nn_accelerators = 8\nprecision = "fp8"\nbasis = "measured"\nsource = "me"\n'
DECODE = "decode = { batch = 1, step_s = 1 }\n"
CHAT = '[classes.chat]\nshare = 0.7\n[classes.chat.workload]\nlengths = { kind = "constant", tokens = 9 }\n'


class Fault(NamedTuple):
    """One replacement in the text; the problem is expected on the first line of the new text that starts with `at`."""

    old: str
    new: str
    at: str
    """Empty: a problem without a line."""
    key: str
    message: str


def unknown(header: str, typo: str, meant: str) -> Fault:
    """An unknown key in a table."""
    table = header.strip("[]").removesuffix("claims") or "claims[0]."
    return Fault(
        f"{header}\n", f"{header}\n{typo} = 1\n", f"{typo} = 1", f"{table}.{typo}".replace("..", "."), f"'{meant}'"
    )


def curve(stated: str, key: str, message: str) -> Fault:
    """A fault of the measured curve that the scenario lays over the profile's."""
    new = f"[measured.table-5.prefill]\n{stated}\n\n[prices.h200-sxm]"
    return Fault("[prices.h200-sxm]", new, stated, f"measured.table-5.prefill.{key}", message)


MAX = 'objective = "max-throughput"'
FREE = 'n_instances = "free"'
FAULTS: dict[str, Fault] = {
    "unknown key, top": Fault(MAX, f"objectve = 1\n{MAX}", "objectve", "objectve", "did you mean 'objective'?"),
    "unknown key, model": unknown("[model]", "precison", "precision"),
    "unknown key, routing": unknown("[routing]", "treshold_tokens", "threshold_tokens"),
    "unknown key, site": unknown("[sites.remote]", "acelerators", "accelerators"),
    "unknown key, pool": unknown("[pools.pd-p]", "n_instance", "n_instances"),
    "unknown key, link": unknown("[links.wan]", "roundtrip_ms", "round_trip_ms"),
    "unknown key, price": unknown("[prices.h200-sxm]", "usd_per_hour", "usd_per_accelerator_hour"),
    "unknown key, comparison": unknown("[comparisons.free-link]", "titel", "title"),
    "unknown key, claim": unknown("[[claims]]", "tolerence", "tolerance"),
    "unknown key, workload": Fault(
        "[workload.lengths]",
        "[workload]\nprefix_hit = 1\n[workload.lengths]",
        "prefix_hit",
        "workload.prefix_hit",
        "'prefix_hits'",
    ),
    "unknown key, lengths of this kind": Fault(
        "mu = 9.90",
        "mu = 9.90\nweights = [1]",
        "weights",
        "workload.lengths.weights",
        "known: high_tokens, kind, low_tokens, mu",
    ),
    "unknown key, tier": Fault(
        "{ capacity_gbps = 100,",
        "{ port = 1, capacity_gbps = 100,",
        "    { port",
        "links.wan.tiers[1].port",
        "unknown key",
    ),
    "unknown key, measured": Fault(
        "[prices.h200-sxm]",
        "[measured.table-5]\nstak = 'x'\n[prices.h200-sxm]",
        "stak",
        "measured.table-5.stak",
        "'stack'",
    ),
    "unknown table": Fault("[prices.h200-sxm]", "[cluster]\n[prices.h200-sxm]", "[cluster]", "cluster", "unknown key"),
    "a key of the program's own": Fault(MAX, f"directory = '/'\n{MAX}", "directory", "directory", "unknown key"),
    "schema of another version": Fault("scenario/1", "scenario/2", "schema", "schema", "allowed: 'planner.scenario/1'"),
    "schema missing": Fault('schema = "planner.scenario/1"\n', "", "", "schema", "is required"),
    "name with blanks": Fault('name = "prfaas-paper"', 'name = "My Fleet"', "name", "name", '"My Fleet"'),
    "name of a link in capitals": Fault("[links.wan]", "[links.WAN]", "[links", "links.WAN", '"WAN"'),
    "wrong word": Fault(MAX, 'objective = "max"', "objective", "objective", "'min-cost' or 'min-ttft'"),
    "number as text": Fault(MAX, 'demand_req_per_s = "2"', "demand", "demand_req_per_s", "valid number"),
    "negative": Fault(MAX, "demand_req_per_s = -1", "demand", "demand_req_per_s", "got -1 ("),
    "zero": Fault(MAX, "budget_usd_per_hour = 0", "budget", "budget_usd_per_hour", "got 0 ("),
    "not a number": Fault(MAX, "budget_usd_per_hour = nan", "budget", "budget_usd_per_hour", "finite number"),
    "infinite": Fault(MAX, "demand_req_per_s = inf", "demand", "demand_req_per_s", "finite number"),
    "min-cost without demand": Fault(
        MAX, 'objective = "min-cost"', "", "demand_req_per_s", "required by objective min-cost"
    ),
    "model missing": Fault('profile = "prfaas-1t"\n', "", "[model]", "model.profile", "is required"),
    "model unknown": Fault('"prfaas-1t"', '"prfaas-2t"', "profile", "model.profile", "did you mean 'prfaas-1t'?"),
    "model that is a chip": Fault('"prfaas-1t"', '"h200-sxm"', "profile", "model.profile", "is no model profile"),
    "model file missing": Fault('"prfaas-1t"', '"absent.toml"', "profile", "model.profile", "cannot be read"),
    "precision unknown": Fault('precision = "fp8"', 'precision = "fp9"', "precision", "model.precision", "'fp8'"),
    "kind unknown": Fault('kind = "lognormal"', 'kind = "normal"', "kind", "workload.lengths.kind", "'lognormal'"),
    "kind missing": Fault('kind = "lognormal"\n', "", "[workload.lengths]", "workload.lengths.kind", "is required"),
    "spread of zero": Fault("sigma = 1.00", "sigma = 0", "sigma", "workload.lengths.sigma", "greater than 0"),
    "shortest above longest": Fault(
        "low_tokens = 128", "low_tokens = 999999", "[workload.lengths]", "workload.lengths", "must be below high_tokens"
    ),
    "length of zero": Fault(
        "tokens = 1024\n", "tokens = 0\n", "tokens = 0", "workload.output_lengths.tokens", "greater than or equal to 1"
    ),
    "length missing": Fault("mu = 9.90\n", "", "[workload.lengths]", "workload.lengths.mu", "is required"),
    "output missing": Fault(
        '[workload.output_lengths]\nkind = "constant"\ntokens = 1024\n',
        "",
        "[workload.lengths]",
        "workload",
        "output_lengths is required",
    ),
    "lengths and trace": Fault(
        "[routing]",
        "[workload.trace]\npath = 'x.jsonl'\n[routing]",
        "[workload.lengths]",
        "workload",
        "exactly one of lengths and trace",
    ),
    "ideal hits without trace": Fault(
        "[workload.lengths]",
        "[workload]\nprefix_hits = 'ideal'\n[workload.lengths]",
        "[workload]",
        "workload",
        "needs a trace",
    ),
    "hits above one": Fault(
        "[workload.lengths]",
        "[workload]\nprefix_hits = { kind = 'constant', fraction = 1.5 }\n[workload.lengths]",
        "prefix_hits",
        "workload.prefix_hits.fraction",
        "less than 1, got 1.5",
    ),
    "workload and classes": Fault(
        "[routing]",
        f"{CHAT}output_lengths = {{ kind = 'constant', tokens = 9 }}\n[routing]".replace("0.7", "1.0"),
        "[workload.lengths]",
        "workload",
        "exactly one of workload and classes",
    ),
    "no workload": Fault(
        REFERENCE[REFERENCE.index("[workload.lengths]") : REFERENCE.index("[routing]")],
        "",
        "",
        "workload",
        "exactly one of workload and classes",
    ),
    "shares that do not add up": Fault(
        REFERENCE[REFERENCE.index("[workload.lengths]") : REFERENCE.index("[routing]")],
        f"{CHAT}output_lengths = {{ kind = 'constant', tokens = 9 }}\n",
        "[classes.chat]",
        "classes",
        "add up to 0.7",
    ),
    "threshold below zero": Fault(
        'threshold_tokens = "free"',
        "threshold_tokens = -1",
        "threshold",
        "routing.threshold_tokens",
        "greater than or equal to 0, got -1 (0 to 1,000,000,000 tokens or 'free')",
    ),
    "ratio in words": Fault(
        'prefill_to_decode = "free"', 'prefill_to_decode = "3-5"', "prefill_to", "routing.prefill_to_decode", '"3-5"'
    ),
    "ratio with a zero": Fault(
        'prefill_to_decode = "free"', 'prefill_to_decode = "0:5"', "prefill_to", "routing.prefill_to_decode", '"0:5"'
    ),
    "ratio as a number": Fault(
        'prefill_to_decode = "free"',
        "prefill_to_decode = 0.6",
        "prefill_to",
        "routing.prefill_to_decode",
        "got 0.6 (or 'free')",
    ),
    "accelerators below zero": Fault(
        "h200-sxm = 32", "h200-sxm = -32", "accelerators", "sites.remote.accelerators.h200-sxm", "got -32"
    ),
    "accelerators of an unknown kind": Fault(
        "h200-sxm = 32",
        "h200-smx = 32",
        "accelerators",
        "sites.remote.accelerators.h200-smx",
        "did you mean 'h200-sxm'?",
    ),
    "site unknown": Fault('site = "remote"', 'site = "remte"', "site", "pools.prfaas.site", "did you mean 'remote'?"),
    "hardware unknown": Fault(
        'hardware = "h200-sxm"',
        'hardware = "h200-smx"',
        "hardware",
        "pools.prfaas.hardware",
        "did you mean 'h200-sxm'?",
    ),
    "hardware that is a model": Fault(
        'hardware = "h200-sxm"', 'hardware = "prfaas-1t"', "hardware", "pools.prfaas.hardware", "is no hardware profile"
    ),
    "hardware nobody measured": Fault(
        'hardware = "h200-sxm"',
        'hardware = "b200-sxm"',
        "[pools.prfaas]",
        "pools.prfaas",
        "no measured prefill of prfaas-1t on 8 x b200-sxm",
    ),
    "instance nobody measured": Fault(
        'site = "remote"',
        'site = "remote"\naccelerators_per_instance = 4',
        "[pools.prfaas]",
        "pools.prfaas",
        "on 4 x h200-sxm (measured: 8 x h200-sxm",
    ),
    "role unknown": Fault(
        'role = "decode"', 'role = "both"', 'role = "both"', "pools.pd-d.role", "'prefill', 'decode' or 'colocated'"
    ),
    "role missing": Fault('role = "decode"\n', "", "[pools.pd-d]", "pools.pd-d.role", "is required"),
    "no decode pool": Fault('role = "decode"', 'role = "prefill"', "[pools.prfaas]", "pools", "has no decode pool"),
    "instances in halves": Fault(
        FREE, "n_instances = 2.5", "n_instances", "pools.prfaas.n_instances", "integer, got 2.5 (or 'free')"
    ),
    "instances below zero": Fault(
        FREE, "n_instances = -1", "n_instances", "pools.prfaas.n_instances", "got -1 (0 to 1,000,000 or 'free')"
    ),
    "min above max": Fault(
        FREE,
        "min_instances = 3\nmax_instances = 2",
        "[pools.prfaas]",
        "pools.prfaas",
        "max_instances 2 is below min_instances 3",
    ),
    "prompts of a decode pool": Fault(
        'role = "decode"', 'role = "decode"\nprompts = "long"', "[pools.pd-d]", "pools.pd-d", "prefill pools only"
    ),
    "size without a limit": Fault(
        "accelerators = { h200-sxm = 32 }\n",
        "",
        "[pools.prfaas]",
        "pools.prfaas",
        "nothing limits its size to fewer than 100,000 instances",
    ),
    "link to its own site": Fault('to = "local"', 'to = "remote"', "[links.wan]", "links.wan", "two different sites"),
    "link from nowhere": Fault('from = "remote"', 'from = "remot"', "from", "links.wan.from", "did you mean 'remote'?"),
    "link without a start": Fault('from = "remote"\n', "", "[links.wan]", "links.wan.from", "is required"),
    "link of no capacity": Fault(
        "capacity_gbps = 100 ",
        "capacity_gbps = 0 ",
        "capacity_gbps",
        "links.wan.capacity_gbps",
        "got 0 (1e-06 to 1,000,000,000 Gbps or 'free')",
    ),
    "free link without tiers": Fault(
        REFERENCE[REFERENCE.index("capacity_gbps = 100 ") : REFERENCE.index("[prices.h200-sxm]")],
        'capacity_gbps = "free"\n',
        "[links.wan]",
        "links.wan",
        "or tiers to choose from",
    ),
    "tier below zero": Fault(
        "{ capacity_gbps = 100,",
        "{ capacity_gbps = -100,",
        "    { capacity_gbps = -100",
        "links.wan.tiers[1].capacity_gbps",
        "got -100",
    ),
    "rent not a number": Fault(
        "usd_per_hour = 22.5",
        "usd_per_hour = nan",
        "    { capacity_gbps = 100",
        "links.wan.tiers[1].usd_per_hour",
        "finite",
    ),
    "price below zero": Fault(
        "accelerator_hour = 2.50",
        "accelerator_hour = -2.50",
        "usd_per_acc",
        "prices.h200-sxm.usd_per_accelerator_hour",
        "got -2.5",
    ),
    "price of an unknown chip": Fault(
        "[prices.h200-sxm]", "[prices.h201-sxm]", "[prices", "prices.h201-sxm", "did you mean 'h200-sxm'?"
    ),
    "basis unknown": Fault(
        'basis = "derived"', 'basis = "guess"', 'basis = "guess"', "prices.h20-141gb.basis", "'derived'"
    ),
    "claim without its figure": Fault("published = 19400\n", "", "[[claims]]", "claims[0].published", "is required"),
    "claim with no tolerance": Fault(
        "tolerance = 0.03", "tolerance = 0", "tolerance", "claims[0].tolerance", "greater than 0"
    ),
    "curve that falls": curve("seconds = [0.44, 0.72, 0.5, 7.4]", "seconds[2]", "is 0.5 after 0.72"),
    "curve below zero": curve("seconds = [-0.44, 0.72, 0.8, 7.4]", "seconds[0]", "greater than 0"),
    "curve with a length twice": curve("tokens = [1024, 8192, 8192, 130000]", "tokens[2]", "is 8192 after 8192"),
    "curve with a value too few": curve("seconds = [0.44, 0.72, 7.4]", "seconds", "3 values for 4 tokens"),
    "curve with an interpolation of its own": curve(
        "interpolation = 'spline'", "interpolation", "'monotone-cubic' or 'linear'"
    ),
    "measured on an unknown chip": Fault(
        "[prices.h200-sxm]",
        f"[measured.mine]\n{INSTANCE.replace('sxm', 'smx')}{DECODE}[prices.h200-sxm]",
        'hardware = "h200-smx"',
        "measured.mine.hardware",
        "did you mean 'h200-sxm'?",
    ),
    "measured nothing": Fault(
        "[prices.h200-sxm]",
        f"[measured.mine]\n{INSTANCE}[prices.h200-sxm]",
        "[measured.mine]",
        "measured.mine",
        "holds no figures",
    ),
    "inferred without how": Fault(
        "[prices.h200-sxm]",
        f"[measured.mine]\n{INSTANCE.replace('measured', 'inferred')}{DECODE}[prices.h200-sxm]",
        "[measured.mine]",
        "measured.mine.how",
        "is required when basis is 'inferred'",
    ),
    "broken syntax": Fault("[routing]", "[routing", "[routing", "", "is not valid TOML"),
    "key twice": Fault(
        "mu = 9.90\n", "mu = 9.90\nmu = 9.90\n", "mu", "", "is not valid TOML: Cannot overwrite a value"
    ),
}


def planted(fault: Fault) -> str:
    assert fault.old in REFERENCE
    return REFERENCE.replace(fault.old, fault.new, 1)


def line_of(text: str, start: str) -> int | None:
    return next(i for i, line in enumerate(text.split("\n"), start=1) if line.startswith(start)) if start else None


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_one_problem_at_its_line_and_key(name: str, tmp_path: Path) -> None:
    fault = FAULTS[name]
    text = planted(fault)
    with pytest.raises(InputError) as caught:
        planning_problem(load_scenario(text, "scenario.toml", tmp_path))
    (problem,) = caught.value.problems
    line = line_of(text, fault.at)
    if name == "key twice":
        line = (line or 0) + 1
    assert (problem.file, problem.key, problem.line) == ("scenario.toml", fault.key, line)
    assert fault.message in str(problem)
    assert caught.value.exit_code == 3


def test_the_reference_scenario_has_no_fault(tmp_path: Path) -> None:
    assert planning_problem(load_scenario(REFERENCE, "scenario.toml", tmp_path)).pools


def test_the_table_has_faults_enough() -> None:
    assert len(FAULTS) >= 40


def test_faults_of_one_file_are_reported_together(tmp_path: Path) -> None:
    text = REFERENCE
    for name in ("unknown key, pool", "negative", "model unknown", "tier below zero", "claim with no tolerance"):
        assert FAULTS[name].old in text
        text = text.replace(FAULTS[name].old, FAULTS[name].new, 1)
    with pytest.raises(InputError) as caught:
        load_scenario(text, "scenario.toml", tmp_path)
    assert {problem.key for problem in caught.value.problems} == {
        "demand_req_per_s",
        "model.profile",
        "pools.pd-p.n_instance",
        "links.wan.tiers[1].capacity_gbps",
        "claims[0].tolerance",
    }


def test_a_mistyped_key_that_is_required_is_named_with_what_then_lacks(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        load_scenario(REFERENCE.replace("sigma =", "sigm ="), "scenario.toml", tmp_path)
    assert [(p.key, p.message, p.allowed) for p in caught.value.problems] == [
        ("workload.lengths.sigma", "is required", ""),
        ("workload.lengths.sigm", "unknown key", "did you mean 'sigma'?"),
    ]


def test_a_trace_that_is_missing_is_named_with_every_place_that_was_looked_in(tmp_path: Path) -> None:
    start, end = REFERENCE.index("[workload.lengths]"), REFERENCE.index("[routing]")
    text = REFERENCE[:start] + "[workload.trace]\npath = 'mine.jsonl'\n" + REFERENCE[end:]
    with pytest.raises(InputError) as caught:
        planning_problem(load_scenario(text, "scenario.toml", tmp_path), [tmp_path / "data"])
    (problem,) = caught.value.problems
    for place in (tmp_path, tmp_path / "data", tmp_path / "data" / "traces"):
        assert str(place / "mine.jsonl") in problem.message


def test_a_fault_inside_a_profile_file_is_reported_in_that_file(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('schema = "planner.hardware/1"\nname = "mine"\n', encoding="utf-8")
    text = REFERENCE.replace('hardware = "h200-sxm"', 'hardware = "mine.toml"', 1)
    with pytest.raises(InputError) as caught:
        load_scenario(text, "scenario.toml", tmp_path)
    assert {Path(problem.file).name for problem in caught.value.problems} == {"mine.toml"}


@pytest.mark.parametrize(
    ("change", "key", "message"),
    [
        ('"links.wan.capacity" = 3', '"links.wan.capacity"', "links.wan.capacity: unknown key"),
        ('"pools.prfaas.n_instances" = -1', '"pools.prfaas.n_instances"', "pools.prfaas.n_instances: should be"),
        ('"links.wan.to" = "remote"', '"links.wan.to"', "links.wan: must join two different sites"),
        ('"claims[99].unit" = "s"', '"claims[99].unit"', "'claims[99]' is no key of the scenario"),
        ('"a b" = 1', '"a b"', "is not written as a key"),
    ],
)
def test_a_fault_of_a_comparison_is_placed_at_its_change(change: str, key: str, message: str, tmp_path: Path) -> None:
    text = REFERENCE.replace('"links.wan.capacity_gbps" = "free"', change, 1)
    scenario = load_scenario(text, "scenario.toml", tmp_path)
    with pytest.raises(InputError) as caught:
        scenario.compared("free-link")
    (problem,) = caught.value.problems
    assert problem == InputProblem(
        "scenario.toml", f"comparisons.free-link.set.{key}", problem.message, problem.allowed, line_of(text, change)
    )
    assert message in problem.message
