"""Names that a scenario takes from elsewhere: profiles, experts, assumptions and break-evens that must exist."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from planner.errors import InputError, InputProblem
from planner.profiles import ModelProfile, model_profile
from planner.scenario.assumptions import assumption_faults
from planner.scenario.located import located
from planner.scenario.overrides import KEY
from planner.scenario.own_profiles import shared_names
from planner.toml_lines import KeyPath

if TYPE_CHECKING:
    from planner.scenario.question import Scenario

AtKey = Callable[[KeyPath, str, str], InputProblem]
"""A problem at the line of a key: what is wrong, and what is allowed."""


def name_problems(scenario: "Scenario") -> Iterator[InputProblem]:
    """Resolve every profile now, so that a wrong name is an error of the file and not of the run."""
    yield from _with_one_choice(_name_problems(scenario))


def _with_one_choice(problems: Iterable[InputProblem]) -> Iterator[InputProblem]:
    """Problems, of which those that say the same of a name do not list again what is allowed."""
    told: set[str] = set()
    for problem in problems:
        yield replace(problem, allowed="") if problem.message in told else problem
        told.add(problem.message)


def _name_problems(scenario: "Scenario") -> Iterator[InputProblem]:
    names: list[tuple[KeyPath, str]] = [(("pools", n, "hardware"), pool.hardware) for n, pool in scenario.pools.items()]
    names += [(("prices", n), n) for n in scenario.prices]
    names += [(("assumed", n), n) for n in scenario.assumed]
    names += [(("sites", s, "accelerators", n), n) for s, site in scenario.sites.items() for n in site.accelerators]
    for key, name in names:
        try:
            scenario.published(name)
        except InputError as error:
            yield from of_profile(scenario.problem, key, name, error)
    yield from shared_names(scenario)
    yield from _assumption_problems(scenario)
    yield from _model_problems(scenario)
    yield from _repeated(scenario, "prices", "priced")
    yield from _break_even_problems(scenario)
    own = {n: m.hardware for n, m in scenario.measured.items() if n in scenario.stated.get("measured", {})}
    for name, hardware in own.items():
        try:
            scenario.published(hardware)
        except InputError as error:
            yield from of_profile(scenario.problem, ("measured", name, "hardware"), hardware, error)


def _model_problems(scenario: "Scenario") -> Iterator[InputProblem]:
    """Further models without a profile, experts that a model cannot have, and measurements hidden by others."""
    known: dict[str | None, ModelProfile] = {}
    for name in (None, *scenario.models):
        try:
            known[name] = scenario.profile_of(name)
        except InputError as error:
            if name is not None:  # that of the default is reported already
                key = ("models", name, "profile")
                yield from of_profile(scenario.problem, key, scenario.models[name].profile, error)
    for name, profile in known.items():
        yield from _expert_problems(scenario, name, profile)
        yield from _draft_problems(scenario, name, profile)
    hidden = known[None].measured if None in known else {}
    for name in (name for name, instance in scenario.measured.items() if instance.model is not None and name in hidden):
        what = f"would hide the measurement '{name}' of {scenario.model_profile.name}"
        yield scenario.problem(("measured", name), what, "a name of its own")


def _expert_problems(scenario: "Scenario", name: str | None, profile: ModelProfile) -> Iterator[InputProblem]:
    """Experts per token that a model cannot have."""
    wanted, moe = scenario.model_choice(name).n_experts_per_token, profile.architecture.moe
    if wanted is None or (moe and wanted <= moe.n_experts):
        return
    key = ("model",) if name is None else ("models", name)
    allowed = f"at most {moe.n_experts}, its experts" if moe else "a model with experts, or leave it out"
    yield scenario.problem((*key, "n_experts_per_token"), f"is {wanted}", allowed)


def _draft_problems(scenario: "Scenario", name: str | None, profile: ModelProfile) -> Iterator[InputProblem]:
    """Drafts by a model without a profile, or by MTP layers that a model does not have."""
    choice = scenario.model_choice(name)
    key = ("model",) if name is None else ("models", name)
    if choice.draft_model is not None:
        try:
            model_profile(located(choice.draft_model, scenario.directory))
        except InputError as error:
            yield from of_profile(scenario.problem, (*key, "draft_model"), choice.draft_model, error)
    elif choice.draft_tokens and not profile.architecture.n_mtp_layers:
        what = f"is {choice.draft_tokens}, and {profile.name} has no MTP layers by its profile"
        yield scenario.problem((*key, "draft_tokens"), what, "with draft_model, or no draft tokens")


def _assumption_problems(scenario: "Scenario") -> Iterator[InputProblem]:
    """Assumptions about figures that are none, or that are known."""
    for name, items in scenario.assumed.items():
        try:
            profile = scenario.published(name)
        except InputError:
            continue  # reported as an unknown name already
        for key, what, allowed in assumption_faults(profile, items):
            yield scenario.problem(("assumed", name, key), what, allowed)
    yield from _repeated(scenario, "assumed", "completed")


def _break_even_problems(scenario: "Scenario") -> Iterator[InputProblem]:
    """Break-evens of keys at which no number stands: there would be nothing to vary."""
    for i, item in enumerate(scenario.break_even):
        if not KEY.fullmatch(item.key):
            yield scenario.problem(
                ("break_even", i, "key"), f"'{item.key}' is not written as a key", "as --set takes it"
            )
            continue
        value = scenario.value_at(item.key)
        if isinstance(value, bool) or not isinstance(value, int | float):
            what = f"'{item.key}' is no number that the scenario states"
            yield scenario.problem(("break_even", i, "key"), what, "a key as --set takes it, with a number")


def _repeated(scenario: "Scenario", table: Literal["prices", "assumed"], done: str) -> Iterator[InputProblem]:
    """Two entries of one accelerator under different names: only one of them could count."""
    first: dict[str, str] = {}
    for name in getattr(scenario, table):
        try:
            hardware = scenario.published(name).name
        except InputError:
            continue  # reported as an unknown name already
        if first.setdefault(hardware, name) != name:
            message = f"'{name}' is {done} already as {table}.{first[hardware]}"
            allowed = "one price per accelerator" if table == "prices" else "one table per accelerator"
            yield scenario.problem((table, name), message, allowed)


def of_profile(problem: AtKey, key: KeyPath, name: str, error: InputError) -> list[InputProblem]:
    """Problems of finding a profile, at the key that names it; those inside the profile's file stay there."""
    return [p if p.key or p.line else problem(key, f"'{name}' {p.message}", p.allowed) for p in error.problems]
