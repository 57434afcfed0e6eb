"""`planner diff`: what changed between two plans, what caused it, and nothing else."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from typer.testing import CliRunner, Result

from planner import __version__
from planner.cli import app
from planner.errors import CheckFailedError, InfeasibleError, InputError, UndecidedError, UsageError
from planner.profiles import profile_names
from planner.report.diff_comment import MOST_CHARACTERS, diff_markdown
from planner.report.diff_words import diff_headline
from planner.results.plan import Plan
from planner.results.plan_diff import PlanDiff, ValueChange
from planner.results.plan_file import plan_from
from planner.results.plan_parts import PlanInputs
from planner.scenario import bundled_scenarios, load_scenario, read_scenario
from planner.studies.diff import FIGURES, MOST_NOISE, SOLVER_NOISE, Condition, plan_diff
from planner.studies.plan_inputs import plan_inputs, scenario_inputs
from tests.builders import SMALL, sketch
from tests.cpu_cost import cached
from tests.planted import shipped_text

PRICE = "prices.h200-sxm.usd_per_accelerator_hour"
COSTS = {
    "usd_per_hour",
    "usd_per_month",
    "usd_per_million_input_tokens",
    "usd_per_million_output_tokens",
}


@cached
def planned(*overrides: str) -> str:
    """What `optimize` prints of the reference case."""
    arguments = [part for text in overrides for part in ("--set", text)]
    found = CliRunner().invoke(app, ["optimize", *arguments, "--format", "json"])
    assert found.exit_code == 0, (found.output, found.exception)
    return found.stdout


def plan(*overrides: str) -> Plan:
    return plan_from(planned(*overrides), "plan.json")


def compared(before: Plan, after: Plan) -> PlanDiff:
    return plan_diff(("a.json", before), ("b.json", after))


def diff(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["diff", *arguments])


@pytest.fixture(name="files")
def folder_of_plans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the reference plan, and one at another price."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.json").write_text(planned(), encoding="utf-8")
    (tmp_path / "b.json").write_text(planned(f"{PRICE}=3"), encoding="utf-8")
    return tmp_path


# Inputs


def other(value: Any) -> Any:
    """Another value of the same kind, near enough to be allowed wherever one may be."""
    return value + 1 if isinstance(value, int) else value * 0.99


def variants(name: str) -> Iterator[tuple[str, Any, Any]]:
    """Every number of a scenario's inputs: its key, and the scenario before and after it alone is changed."""
    scenario = read_scenario(name)
    for key, value in scenario_inputs(scenario).items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            try:
                yield key, scenario, scenario.varied({key: other(value)})
            except InputError:  # shares add up to 1, and the like
                continue


@pytest.mark.parametrize("name", [n for n in bundled_scenarios() if n != "mooncake-conversation"])
def test_changing_one_number_of_a_scenario_names_that_key_and_no_other(name: str) -> None:
    n = 0
    for key, before, after in variants(name):
        inputs = [PlanInputs(planner="1", scenario=scenario_inputs(item)) for item in (before, after)]
        found = compared(*(plan().model_copy(update={"inputs": item}) for item in inputs))
        assert [item.key for item in found.inputs] == [key]
        n += 1
    assert n >= 8


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("title", "another title"),
        ("notes", "more"),
        ("links.wan.source", "an offer"),
        ("sites.local.title", "here"),
        ("claims", []),
        ("prices.h200-sxm.source", "an invoice"),
    ],
)
def test_what_no_plan_depends_on_is_no_input(key: str, value: Any) -> None:
    scenario = read_scenario("prfaas-paper")
    assert scenario_inputs(scenario.varied({key: value})) == scenario_inputs(scenario)


def test_a_default_that_is_stated_is_no_other_input() -> None:
    scenario = read_scenario("prfaas-paper")
    assert scenario_inputs(scenario.varied({"dispatch": "shared-queue"})) == scenario_inputs(scenario)


def test_names_that_are_also_words_for_readers_keep_their_inputs() -> None:
    text = SMALL.replace("[pools.fast]", "[pools.title]").replace("[links.wan]", "[links.source]")
    found = scenario_inputs(load_scenario(text, "odd.toml", Path()))
    assert found["pools.title.role"] == "prefill"
    assert found["links.source.capacity_gbps"] == 100


@pytest.mark.parametrize(
    ("figure", "old", "new"),
    [
        ("figures.memory_gb", "{ value = 141.0", "{ value = 140.0"),
        ("figures.tdp_w", "{ value = 700.0", "{ value = 690.0"),
    ],
)
def test_a_figure_of_a_profile_that_changed_is_named_with_its_profile(
    figure: str, old: str, new: str, tmp_path: Path
) -> None:
    text = shipped_text("h200-sxm")
    assert old in text
    own = "\n".join("aliases = []" if line.startswith("aliases") else line for line in text.splitlines())
    sides = []
    for folder, profile in (("before", own), ("after", own.replace(old, new))):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mine.toml").write_text(profile.replace('"h200-sxm"', '"mine"'), encoding="utf-8")
        unmeasured = SMALL[: SMALL.index("[measured.fast]")].replace("h200-sxm", "mine.toml")
        scenario = load_scenario(unmeasured.replace("mine.toml =", '"mine.toml" ='), "s.toml", tmp_path / folder)
        sides.append(plan().model_copy(update={"inputs": plan_inputs(scenario, plan(), __version__)}))
    found = compared(*sides)
    assert [item.key for item in found.inputs] == [f"hardware mine: {figure}"]


def test_a_trace_with_another_content_is_named(tmp_path: Path) -> None:
    sides = []
    for folder, tokens in (("before", 100), ("after", 101)):
        (tmp_path / folder).mkdir()
        rows = "".join(f"2026-01-01 00:00:0{i}.0000000,{tokens},5\n" for i in range(3))
        (tmp_path / folder / "day.csv").write_text(f"TIMESTAMP,ContextTokens,GeneratedTokens\n{rows}", encoding="utf-8")
        head, tail = SMALL.split("[workload]")
        text = f'{head}[workload]\ntrace = {{ path = "day.csv" }}\n[sites{tail.split("[sites", 1)[1]}'
        scenario = load_scenario(text, "s.toml", tmp_path / folder)
        sides.append(plan().model_copy(update={"inputs": plan_inputs(scenario, plan(), __version__)}))
    assert [item.key for item in compared(*sides).inputs] == ["trace day.csv"]


def test_the_software_behind_every_measured_pool_is_among_the_profiles() -> None:
    inputs = plan().inputs
    assert inputs is not None
    stacks = {pool.stack for pool in plan().pools if pool.stack}
    named = {name.removeprefix("stack ") for name in inputs.profiles if name.startswith("stack ")}
    assert stacks
    assert named <= set(profile_names("stack"))
    assert all(any(stack.startswith(name) for name in named) for stack in stacks)


# The difference


def test_one_price_changes_the_price_its_consequences_and_nothing_else() -> None:
    found = compared(plan(), plan(f"{PRICE}=3"))
    assert found.inputs == (ValueChange(key=PRICE, before=2.5, after=3.0),)
    assert {figure.name for figure in found.changed_figures} == COSTS
    assert found.answers == ()
    assert not any(bind.is_changed for bind in found.binds)
    cost = found.figure("usd_per_hour")
    assert cost is not None
    assert cost.change == pytest.approx(0.5 * plan().pool("prfaas").n_accelerators)


def test_a_plan_and_its_json_are_no_change() -> None:
    scenario = read_scenario("prfaas-paper")
    again = plan().model_copy(update={"inputs": plan_inputs(scenario, plan(), __version__)})
    found = compared(plan(), again)
    assert not found.is_changed
    assert (found.inputs, found.answers, found.changed_figures) == ((), (), ())


def test_there_and_back_are_the_same_changes() -> None:
    sides = plan(), plan("objective=min-cost", "demand_req_per_s=2")
    there, back = compared(*sides), compared(*reversed(sides))
    for forth, reverse in ((there.answers, back.answers), (there.inputs, back.inputs)):
        assert {(item.key, str(item.before), str(item.after)) for item in forth} == {
            (item.key, str(item.after), str(item.before)) for item in reverse
        }
    assert {f.name for f in there.changed_figures} == {f.name for f in back.changed_figures}
    assert there.answers
    assert {item.key for item in there.inputs} == {"objective", "demand_req_per_s"}


def with_bill(item: Plan, factor: float, gap: float) -> Plan:
    cost = item.cost.model_copy(update={"usd_per_hour": (item.cost.usd_per_hour or 0.0) * factor})
    return item.model_copy(update={"cost": cost, "gap": gap})


@given(st.floats(0, 0.2), st.floats(0, 0.2), st.floats(0.5, 1.5))
def test_another_bill_of_the_same_fleet_is_told_whatever_the_gaps(one: float, two: float, factor: float) -> None:
    found = compared(with_bill(plan(), 1.0, one), with_bill(plan(), factor, two))
    distance = abs(factor - 1) / max(factor, 1)
    if abs(distance - SOLVER_NOISE) > 1e-9:
        is_told = {figure.name for figure in found.changed_figures} == {"usd_per_hour", "usd_per_month"}
        assert is_told == (distance > SOLVER_NOISE)
        assert found.n_within_gaps == (2 if 0 < distance < SOLVER_NOISE else 0)


@given(st.floats(0, 0.2), st.floats(0, 0.2), st.floats(0.5, 1.5))
def test_another_bill_of_another_fleet_is_told_beyond_the_gaps_or_a_hundredth(
    one: float, two: float, factor: float
) -> None:
    pool = plan().pools[0]
    other = pool.model_copy(update={"n_instances": pool.n_instances + 1})
    after = with_bill(plan().model_copy(update={"pools": (other, *plan().pools[1:])}), factor, two)
    found = compared(with_bill(plan(), 1.0, one), after)
    noise = min(max(one + two, SOLVER_NOISE), MOST_NOISE)
    distance = abs(factor - 1) / max(factor, 1)
    if abs(distance - noise) > 1e-9:
        told = {figure.name for figure in found.changed_figures}
        assert ("usd_per_hour" in told) == (distance > noise)


def test_a_bill_that_is_not_known_any_more_is_the_headline() -> None:
    without = plan().model_copy(update={"cost": plan().cost.model_copy(update={"usd_per_hour": None})})
    assert diff_headline(compared(plan(), without)).startswith("The bill is not known any more: 182.50")
    assert diff_headline(compared(without, plan())).startswith("The bill is not known before: ")


def test_instances_ports_and_layouts_that_differ_are_told_whatever_the_gaps() -> None:
    before = plan().model_copy(update={"gap": 0.5})
    pool, link = before.pools[0], before.links[0]
    changes = {"n_instances": pool.n_instances + 1, "layout": "tp=4,ep=8,dp=2,pp=1"}
    after = before.model_copy(
        update={
            "pools": (pool.model_copy(update=changes), *before.pools[1:]),
            "links": (link.model_copy(update={"n_ports": link.n_ports + 1}),),
        }
    )
    keys = {item.key for item in compared(before, after).answers}
    assert keys == {f"pools.{pool.name}.n_instances", f"pools.{pool.name}.layout", f"links.{link.name}.n_ports"}


def test_a_pool_that_came_or_went_is_one_decision() -> None:
    whole = plan()
    less = whole.model_copy(update={"pools": whole.pools[1:]})
    (gone,) = [item for item in compared(whole, less).answers if item.key.startswith("pools.")]
    assert (gone.key, gone.after) == (f"pools.{whole.pools[0].name}", None)
    assert str(whole.pools[0].n_instances) in gone.before


def test_a_promise_stands_beside_what_is_predicted_of_it() -> None:
    part = plan().classes[0]
    latency = part.latency.model_copy(update={"ttft_p90_s": 6.5})
    kept = part.model_copy(update={"slo": {"ttft_s": 8.0, "ttft_percentile": 90.0}, "latency": latency})
    looser = kept.model_copy(update={"slo": {"ttft_s": 9.0, "ttft_percentile": 90.0}})
    sides = (plan().model_copy(update={"classes": (item,)}) for item in (kept, looser))
    (found,) = compared(*sides).changed_figures
    assert (found.before, found.after, found.promised_before, found.promised_after) == (6.5, 6.5, 8.0, 9.0)


def test_a_plan_without_inputs_says_so_in_place_of_causes() -> None:
    old = plan().model_copy(update={"inputs": None})
    found = compared(old, plan(f"{PRICE}=3"))
    assert (found.inputs, found.inputs_unknown) == ((), ("a.json",))
    assert "the plan of a.json does not carry its inputs" in diff_markdown(found)


# The comment


@pytest.mark.usefixtures("files")
def test_the_comment_begins_with_its_marker_and_is_whole_markdown() -> None:
    text = diff("a.json", "b.json", "--format", "markdown").stdout
    first, *lines = text.splitlines()
    assert first == "<!-- planner diff: prfaas-paper -->"
    assert text.count("<details>") == text.count("</details>") == 1
    tokens = MarkdownIt("commonmark").enable("table").parse("\n".join(lines))
    assert {"heading_open", "table_open"} <= {token.type for token in tokens}
    assert PRICE in text
    assert "+8.8 %" in text


@pytest.mark.usefixtures("files")
def test_no_change_has_a_form_of_its_own() -> None:
    text = diff("a.json", "a.json", "--format", "markdown").stdout
    assert "no change" in text
    assert "Inputs that changed" not in text
    assert "All figures" in text


@pytest.mark.parametrize("n", [0, 12, 13, 500, 1500])
def test_a_comment_stays_short_enough_whatever_changed(n: int) -> None:
    found = compared(plan(), plan(f"{PRICE}=3"))
    many = tuple(ValueChange(key=f"pools.p{i}.n_instances", before=i, after="x" * 300) for i in range(n))
    text = diff_markdown(found.model_copy(update={"answers": many, "inputs": many}))
    assert len(text) <= MOST_CHARACTERS
    assert text.count("<details>") == text.count("</details>") == 1
    assert ("... and " in text) == (n > 12)


@given(st.text(max_size=60))
def test_no_name_or_value_changes_the_form_of_the_comment(text: str) -> None:
    hostile = (ValueChange(key=f"k {text}", before=text, after=f"{text}|</details><img src=x>"),)
    found = compared(plan(), plan(f"{PRICE}=3")).model_copy(update={"answers": hostile})
    shown = diff_markdown(found)
    assert shown.count("</details>") == shown.count("<details>") == 1
    assert "<img" not in shown
    assert shown.startswith("<!-- planner diff: prfaas-paper -->\n")


# Conditions

GOOD = {
    "cost>+5%": True,
    "cost>+10%": False,
    "cost>5%": True,
    "cost<-1%": False,
    "cost>+15": True,
    "cost>+17": False,
    "cost>198": True,
    "cost>199": False,
    "rate<-2%": False,
    "rate<3": False,
    "accelerators>96": False,
    "accelerators > 95": True,
    "cost-per-month>+11000": True,
    "cost-per-million-input-tokens>.6": True,
}


@pytest.mark.parametrize(("condition", "is_broken"), GOOD.items())
@pytest.mark.usefixtures("files")
def test_a_condition_decides_the_exit_code(condition: str, is_broken: bool) -> None:
    found = diff("a.json", "b.json", "--fail-on", condition)
    assert isinstance(found.exception, CheckFailedError) == is_broken, (found.output, found.exception)
    assert (found.exit_code == 0) == (not is_broken)
    assert "in short" in found.stdout
    if is_broken:
        assert condition.strip() in str(found.exception)
        assert "fails" in found.stdout
        comment = diff("a.json", "b.json", "--fail-on", condition, "--format", "markdown").stdout
        assert f"- **Fails:** {condition.strip()}: " in comment


@given(st.sampled_from(["cost", "rate"]), st.floats(-90, 90), st.sampled_from("<>"), st.floats(0.2, 3))
def test_a_condition_in_per_cent_holds_where_the_change_does(name: str, limit: float, sign: str, factor: float) -> None:
    before = plan()
    update = {"cost": with_bill(before, factor, 0).cost, "throughput_req_per_s": before.throughput_req_per_s * factor}
    found = compared(before, before.model_copy(update=update))
    limit = round(limit, 3)
    broken = Condition.parsed(f"{name}{sign}{limit:+.3f}%").broken_by(found)
    change = 100 * (factor - 1)
    if abs(change - limit) > 1e-6:
        assert (broken is not None) == (change > limit if sign == ">" else change < limit)


@pytest.mark.parametrize(
    "text",
    ["", "cost", "cost>", ">5%", "cost=5%", "cost>=5%", "cost>five", "cost>5%%", "cost>1e3", "kost>5%", "cost>\x1b"],
)
def test_what_is_no_condition_is_a_fault_of_usage_that_says_what_is_allowed(text: str) -> None:
    found = diff("gone.json", "gone.json", "--fail-on", text)
    assert isinstance(found.exception, UsageError)
    assert "cost" in str(found.exception)
    assert "\x1b" not in str(found.exception)


@pytest.mark.usefixtures("files")
def test_a_condition_on_what_a_plan_does_not_state_is_undecided() -> None:
    assert isinstance(diff("a.json", "b.json", "--fail-on", "goodput<-1%").exception, UndecidedError)


def test_every_figure_of_the_grammar_is_one_of_a_difference() -> None:
    promised = read_scenario("prfaas-paper", ["objective=min-cost", "demand_req_per_s=2", "slo.ttft_s=30"])
    found = compared(sketch(promised), plan())
    assert set(FIGURES.values()) <= {figure.name for figure in found.figures}


# The command


@pytest.mark.usefixtures("files")
def test_changes_exit_6_only_when_asked() -> None:
    assert diff("a.json", "b.json").exit_code == 0
    assert isinstance(diff("a.json", "b.json", "--exit-code").exception, CheckFailedError)
    assert diff("a.json", "a.json", "--exit-code").exit_code == 0


@pytest.mark.usefixtures("files")
def test_a_plan_and_a_scenario_are_compared_as_two_plans_are() -> None:
    mixed = json.loads(diff("a.json", "prfaas-paper", "--set", f"{PRICE}=3", "--format", "json").stdout)
    plans = json.loads(diff("a.json", "b.json", "--format", "json").stdout)
    assert mixed["schema"] == "planner.diff/1"
    for field in ("inputs", "answers", "is_changed"):
        assert mixed[field] == plans[field]
    figures = [[(f["name"], f["is_changed"]) for f in item["figures"]] for item in (mixed, plans)]
    assert figures[0] == figures[1]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"schema": "planner.run/1"}', "is not planner.plan/1"),
        ("{", "is not JSON"),
        ('{"schema": "planner.plan/1"}', "is required"),
        ("[]", "is not planner.plan/1"),
    ],
)
def test_what_is_no_plan_is_bad_input_and_names_the_file(content: str, said: str, files: Path) -> None:
    (files / "bad.json").write_text(content, encoding="utf-8")
    found = diff("a.json", "bad.json")
    assert isinstance(found.exception, InputError)
    assert str(found.exception).startswith("bad.json")
    assert said in str(found.exception)


@pytest.mark.usefixtures("files")
def test_what_is_not_there_is_bad_input() -> None:
    assert isinstance(diff("a.json", "gone.json").exception, InputError)
    assert isinstance(diff("a.json", "gone").exception, InputError)


@pytest.mark.usefixtures("files")
def test_a_change_of_a_plan_that_is_none_of_a_scenario_is_a_fault_of_usage() -> None:
    assert isinstance(diff("a.json", "b.json", "--set", "demand_req_per_s=2").exception, UsageError)


def test_no_plan_of_one_side_is_infeasible_and_names_that_side(files: Path) -> None:
    text = SMALL.replace('name = "small"', 'name = "small"\nobjective = "min-cost"\ndemand_req_per_s = 500.0')
    (files / "more.toml").write_text(text, encoding="utf-8")
    found = diff("a.json", "more.toml", "--time-limit", "5")
    assert isinstance(found.exception, InfeasibleError)
    assert str(found.exception).startswith("more.toml: ")
