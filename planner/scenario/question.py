"""The question: model, workload, sites, pools, links, prices and what to optimise, as one strict frozen record."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, PrivateAttr, model_validator

from planner.errors import InputError, InputProblem
from planner.profiles import (
    HardwareProfile,
    MeasuredInstance,
    ModelProfile,
    Speculation,
    hardware_profile,
    model_profile,
)
from planner.profiles.instance_spec import StackCriteria
from planner.ranges import Name, Title
from planner.scenario.assumptions import AssumedStack, Assumption, BreakEven, completed
from planner.scenario.blame import is_within
from planner.scenario.colocated import colocated_faults
from planner.scenario.execution import Execution, execution_faults
from planner.scenario.located import located, with_experts_per_token, with_profile_measurements
from planner.scenario.measurements import Claim, Measurement, ObservedLatency
from planner.scenario.names import name_problems, of_profile
from planner.scenario.network import network_faults
from planner.scenario.overrides import assign, parsed_key
from planner.scenario.own_profiles import brought_hardware, choice_for, stack_criteria
from planner.scenario.parts import (
    DEFAULT_CLASS,
    Amount,
    CapacityRule,
    Comparison,
    Link,
    ModelChoice,
    Objective,
    Period,
    Pool,
    Price,
    Routing,
    Site,
    Slo,
    Spare,
    WorkloadClass,
)
from planner.scenario.references import reference_faults
from planner.scenario.shown import Shown, shown_faults
from planner.schema import StrictModel, TomlFile, raise_faults
from planner.toml_lines import KeyPath
from planner.workload.spec import Workload


class Scenario(StrictModel):
    """A complete question for the planner."""

    schema_version: Annotated[Literal["planner.scenario/1"], Field(alias="schema")]
    """Format of the file."""
    name: Name
    """Short name, used in answers."""
    title: Title = ""
    """One line for people."""
    notes: str = ""
    """Assumptions, in Markdown."""
    sources: tuple[str, ...] = ()
    """Citations for the report."""
    objective: Objective = "max-throughput"
    """What to optimise: the rate of a fixed fleet, inventory or budget; the cost of serving a demand; or the TTFT of a
    demand, at the percentile that the promise names, within a budget, inventory or fixed fleet."""
    demand_req_per_s: Amount | None = None
    """Rate to serve, of all classes where no factor of a period changes it; required by min-cost and min-ttft. With
    max-throughput and periods it is the scale of the demand's profile, by default 1."""
    users: Annotated[int, Field(ge=1, le=10_000_000)] | None = None
    """People who use the system, each with one request at a time, in place of a rate. Beside a rate, the plan counts on
    that one, and runs are a closed loop of the users."""
    think_s: Annotated[float, Field(ge=0, le=1e7)] | None = None
    """Mean time that a user thinks, from the end of an answer to the next request, exponential; required by users."""
    budget_usd_per_hour: Amount | None = None
    """Most that the plan may cost."""
    growth_fraction_per_month: Annotated[float, Field(ge=-0.99, le=100)] | None = None
    """Growth of the demand, compound; no plan depends on it, but `optimize --current` says when it breaks one."""
    capacity_rule: CapacityRule = "expected-work"
    """Pool capacity from the mean work per request, or, as in the paper, from the work of the mean length."""
    dispatch: Literal["shared-queue", "join-shortest-work", "round-robin"] = "shared-queue"
    """How a pool hands requests to its instances."""
    prefill_batching: Literal["one-at-a-time", "chunked"] = "one-at-a-time"
    """Whether an instance prefills one prompt at a time."""
    model: ModelChoice
    """The model that is served, and the default where there are several."""
    models: dict[Name, ModelChoice] = {}
    """Further models, by name."""
    workload: Workload | None = None
    """The only class of requests; or give `classes`."""
    classes: dict[Name, WorkloadClass] = {}
    """Several classes of requests with their shares."""
    periods: dict[Name, Period] = {}
    """Parts of the day with their demand, in order; absent: one demand at all times."""
    slo: Slo | None = None
    """Promise on latency: the plan is for the highest rate, or the least cost, at which it holds."""
    routing: Routing = Routing()
    """Threshold and prefill-to-decode ratio."""
    spare: Spare = Spare()
    """Losses that the plan must survive."""
    sites: dict[Name, Site]
    """Places, by name."""
    pools: dict[Name, Pool]
    """Pools of instances, by name."""
    links: dict[Name, Link] = {}
    """Connections between sites, by name; the first is the cross-site link of the answers."""
    prices: dict[str, Price] = {}
    """Price of an accelerator, by hardware."""
    assumed: dict[str, dict[str, Assumption]] = {}
    """Figures that hardware profiles lack, by hardware, then by the key that the profile would have."""
    stacks: dict[Name, AssumedStack] = {}
    """Software stacks of the scenario's own, by the name that pools call them by."""
    measured: dict[Name, Measurement] = {}
    """Measured instances, by name; those of the default model's profile are merged in."""
    execution: Execution = Execution()
    """How `planner simulate` runs the plan."""
    comparisons: dict[Name, Comparison] = {}
    """Variants planned beside the scenario."""
    claims: tuple[Claim, ...] = ()
    """Published figures the report holds against the answer."""
    observed: ObservedLatency | None = None
    """Latencies that users of a running system saw."""
    break_even: tuple[BreakEven, ...] = ()
    """Inputs for which the report looks for the value that turns the decision."""
    report: Shown = Shown()
    """What the report shows beside the plan."""
    _directory: Path = PrivateAttr(default=Path())
    _file: TomlFile = PrivateAttr(default_factory=lambda: TomlFile("", ""))
    _stated: dict[str, Any] = PrivateAttr(default_factory=dict)
    # What the file and the overrides say, before the model profile's measurements join it: the root of variants.
    _asked_pools: dict[str, Pool] = PrivateAttr(default_factory=dict)
    # The pools that the default software is chosen for: fleets made from a scenario to compare it with keep it.
    _on_layouts: dict[str, str] = PrivateAttr(default_factory=dict)
    # Layouts that were chosen for pools that may choose: what is varied keeps them;
    _open_pools: dict[str, Pool] = PrivateAttr(default_factory=dict)
    # and these pools as they were asked for.

    @property
    def directory(self) -> Path:
        """Folder that relative paths start from."""
        return self._directory

    @property
    def origin(self) -> str:
        """File the scenario was read from."""
        return self._file.name

    def problem(self, key: KeyPath, message: str, allowed: str = "") -> InputProblem:
        """A problem at the line of the scenario's file where the key, or what encloses it, is written."""
        return self._file.problem(key, message, allowed)

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        raise_faults(
            [
                *reference_faults(self),
                *network_faults(self),
                *colocated_faults(self),
                *shown_faults(self),
                *execution_faults(self.execution, self.pools, self.links, self.sites),
            ]
        )
        return self

    @property
    def workloads(self) -> dict[str, tuple[float, Workload]]:
        """Share and workload of every class."""
        if self.workload is not None:
            return {DEFAULT_CLASS: (1.0, self.workload)}
        return {name: (c.share, c.workload) for name, c in self.classes.items()}

    @cached_property
    def model_profile(self) -> ModelProfile:
        """The profile of the default model, with the experts per token that the scenario asks for."""
        return self.profile_of(None)

    def model_choice(self, name: str | None) -> ModelChoice:
        """A model by its name under [models]; None is the default, [model]."""
        return self.model if name is None else self.models[name]

    def choice_of(self, pool: Pool) -> ModelChoice:
        """The model that a pool serves, in the number formats of the pool."""
        return choice_for(self.model_choice(pool.model), pool)

    def profile_of(self, name: str | None) -> ModelProfile:
        """The profile of a model by its name under [models], None the default, with the experts per token asked for."""
        choice = self.model_choice(name)
        profile = model_profile(located(choice.profile, self.directory))
        wanted = choice.n_experts_per_token
        return profile if wanted is None else with_experts_per_token(profile, wanted)

    def speculation_of(self, name: str | None) -> Speculation | None:
        """Speculative decoding of a model by its name under [models], None the default; None: nothing drafts for it."""
        choice = self.model_choice(name)
        if not choice.draft_tokens or choice.acceptance is None:
            return None
        draft = choice.draft_model and model_profile(located(choice.draft_model, self.directory))
        return Speculation.of(choice.draft_tokens, choice.acceptance, draft or None)

    def model_of(self, class_name: str) -> str | None:
        """Name under [models] of the model that a class is for; None is the default."""
        return self.classes[class_name].model if class_name in self.classes else None

    def slo_of(self, class_name: str) -> Slo | None:
        """The promise to a class: its own, or the scenario's."""
        own = self.classes[class_name].slo if class_name in self.classes else None
        return self.slo if own is None else own

    @property
    def colocated_pool(self) -> str | None:
        """Name of the pool whose instances prefill and decode in one batch; None where no pool's do."""
        return next((name for name, pool in self.pools.items() if pool.role == "colocated"), None)

    @property
    def promises_latency(self) -> bool:
        """True if a TTFT or a decode step is promised to any class."""
        slos = [self.slo_of(name) for name in self.workloads]
        return any(slo is not None and (slo.ttft_s is not None or slo.tpot_ms is not None) for slo in slos)

    def classes_of(self, pool: Pool) -> tuple[str, ...]:
        """Names of the classes that a pool serves."""
        return tuple(
            name
            for name in self.workloads
            if self.model_of(name) == pool.model and (not pool.classes or name in pool.classes)
        )

    def demand_of(self, class_name: str, site: str | None = None, period: str | None = None) -> float:
        """Rate of a class in a period [req/s].

        Equation:
            demand_req_per_s share_c sites_cs demand_p by_site_ps by_class_pc

        Args:
            class_name: the class; "all" where the scenario has one `workload`.
            site: where requests arrive; None: all of them, wherever they arrive.
            period: the period; None: no period's factors.

        Returns:
            Requests per second; 0 at a site where none of the class arrive. Without demand_req_per_s, of a scale of 1.
        """
        sites = self.classes[class_name].sites if class_name in self.classes else {}
        arriving = sites if site is None else {site: sites.get(site, 0.0)}
        when = self.periods[period] if period is not None else Period()
        at_sites = sum(x * when.by_site.get(name, 1.0) for name, x in arriving.items()) if arriving else 1.0
        rate = (self.demand_req_per_s or 1.0) * self.workloads[class_name][0] * at_sites
        return rate * when.demand * when.by_class.get(class_name, 1.0)

    def hardware_of(self, pool: Pool) -> HardwareProfile:
        """The hardware profile of a pool."""
        return self.hardware_named(pool.hardware)

    def hardware_named(self, name: str) -> HardwareProfile:
        """The hardware profile of a name, an alias, or a path from the scenario's folder, with what is assumed."""
        if name not in self._completed:
            profile = self.published(name)
            self._completed[name] = completed(profile, self._assumed_of.get(profile.name, {}))
        return self._completed[name]

    def published(self, name: str) -> HardwareProfile:
        """The profile of accelerators by name or path, without the scenario's assumptions.

        A name or alias of a file that the scenario gives by path means that file, whatever the catalogue calls so.
        """
        return hardware_profile(self._brought.get(name.casefold(), located(name, self.directory)))

    @cached_property
    def _brought(self) -> dict[str, str]:
        """Files of accelerators that the scenario gives by path, by their names and aliases."""
        return brought_hardware(self)

    @cached_property
    def _completed(self) -> dict[str, HardwareProfile]:
        """Profiles looked up before: completing one means to check it again."""
        return {}

    @cached_property
    def _assumed_of(self) -> dict[str, dict[str, Assumption]]:
        """Assumptions by the name of the profile that they complete."""
        return {self.published(name).name: items for name, items in self.assumed.items()}

    @property
    def stated_pools(self) -> dict[str, Pool]:
        """The pools that the default software of every model is chosen for, also where others are planned."""
        return self._asked_pools or self.pools

    def stack_of(self, pool: Pool) -> StackCriteria:
        """Grounds for the choice of a pool's software stack: what it states, else what all pools of its model share."""
        if pool.model not in self._stack_criteria:
            self._stack_criteria[pool.model] = stack_criteria(self, pool.model)
        found = self._stack_criteria[pool.model]
        return found if pool.stack is None else replace(found, stated=located(pool.stack, self.directory))

    @property
    def own_stacks(self) -> dict[str, AssumedStack]:
        """The scenario's own stacks, by name, with what they are like as seen from its folder."""
        return {
            name: own.model_copy(update={"like": located(own.like, self.directory)})
            for name, own in self.stacks.items()
        }

    @cached_property
    def _stack_criteria(self) -> dict[str | None, StackCriteria]:
        """Grounds for the models' stacks that were found before."""
        return {}

    @property
    def stated(self) -> dict[str, Any]:
        """The data of the file and its overrides, as written."""
        return self._stated

    def value_at(self, key: str) -> Any:
        """Value that the file or an override states at a key; None where it states nothing. Raises InputError."""
        node: Any = self._stated
        for part in parsed_key(key):
            try:
                node = node[part]
            except (KeyError, IndexError, TypeError):
                return None
        return node

    def price_of(self, hardware: HardwareProfile) -> Price | None:
        """Price of an accelerator, or None when the scenario states none."""
        return self.price_named(hardware.name)

    def price_named(self, hardware: str) -> Price | None:
        """Price of the accelerator of that name, or None when the scenario states none."""
        return next((p for name, p in self.prices.items() if self.hardware_named(name).name == hardware), None)

    def measured_instance(
        self,
        hardware: HardwareProfile,
        n_accelerators: int,
        role: Literal["prefill", "decode"],
        model: str | None = None,
        precision: str | None = None,
    ) -> MeasuredInstance | None:
        """The first measurement of this instance of a model, None the default, in that role; None without any.

        Its precision is the one given, else the one stated for the model; where neither is, any will do.
        """
        names, precision = (hardware.name, *hardware.aliases), precision or self.model_choice(model).precision
        return next(
            (
                instance
                for instance in self.measurements_of(model)
                if instance.hardware in names
                and instance.n_accelerators == n_accelerators
                and getattr(instance, role) is not None
                and precision in (None, instance.precision)
            ),
            None,
        )

    def measured_for(self, pool: Pool, role: Literal["prefill", "decode"] | None = None) -> MeasuredInstance | None:
        """The measurement that a pool's times are, in its role or another; None where they are not measured ones."""
        asked = role or pool.role
        if pool.service_times == "roofline" or pool.tokens_per_pass is not None or asked == "colocated":
            return None  # passes of both roles, or of another size, were not measured
        n, hardware = pool.accelerators_per_instance, self.hardware_of(pool)
        return self.measured_instance(hardware, n, asked, pool.model, pool.precision)

    def measurements_of(self, model: str | None) -> tuple[MeasuredInstance, ...]:
        """Measurements of a model, None the default: the scenario's own, then its profile's."""
        stated = tuple(instance for instance in self.measured.values() if instance.model == model)
        return stated if model is None else (*stated, *self.profile_of(model).measured.values())

    def prompts_of(self, pool: Pool) -> Literal["long", "short"]:
        """Which prompts a prefill pool takes."""
        decodes = {p.site for p in self.pools.values() if p.role != "prefill"}
        return pool.prompts or ("short" if pool.site in decodes else "long")

    def varied(self, changes: Mapping[str, Any]) -> "Scenario":
        """The scenario with keys changed, checked as a file is. Raises InputError."""
        data = dict(self._stated)
        for key, value in changes.items():
            assign(data, parsed_key(key), value)
        found = checked(TomlFile(self.origin, ""), data, self.directory)
        kept = {name: on for name, on in self._on_layouts.items() if name in found.pools and found.pools[name].layouts}
        return found.on_layouts(kept)

    def on_layouts(self, chosen: Mapping[str, str]) -> "Scenario":
        """The scenario with pools on layouts of those that they may choose from; what is varied of it keeps them."""
        if not chosen:
            return self
        pools = {name: pool.on_layout(chosen.get(name)) for name, pool in self.pools.items()}
        found = self.model_copy(update={"pools": pools})
        found._on_layouts = {**self._on_layouts, **chosen}
        found._open_pools = {**self._open_pools, **{name: self.pools[name] for name in chosen}}
        return found

    def open_pool(self, name: str) -> Pool:
        """A pool as it was asked for, before a layout was chosen."""
        return self._open_pools.get(name, self.pools[name])

    def with_open_layouts(self) -> "Scenario":
        """The scenario before layouts were chosen: another fleet for its requests chooses its own."""
        if not self._open_pools:
            return self
        found = self.model_copy(update={"pools": {name: self.open_pool(name) for name in self.pools}})
        found._on_layouts, found._open_pools = {}, {}
        return found

    def compared(self, name: str) -> "Scenario":
        """The scenario of a comparison, without comparisons or claims of its own. Raises InputError."""
        changes = self.comparisons[name].set
        try:
            variant = self.varied(changes)
        except InputError as error:
            raise InputError([self._of_comparison(name, problem) for problem in error.problems]) from None
        if (variant.model, variant.models) == (self.model, self.models):
            variant._asked_pools = self.stated_pools  # a variant differs in what it sets, not in its default software
        return variant.model_copy(update={"comparisons": {}, "claims": (), "break_even": (), "report": Shown()})

    def _of_comparison(self, name: str, problem: InputProblem) -> InputProblem:
        """A variant's problem at the line of the change that brought it about, as far as that can be told."""
        cause = next((k for k in self.comparisons[name].set if is_within(problem.key, k)), None)
        key = ("comparisons", name, "set", *([] if cause is None else [cause]))
        return self.problem(key, f"{problem.key}: {problem.message}", problem.allowed)


def checked(file: TomlFile, stated: dict[str, Any], directory: Path) -> Scenario:
    """The scenario of its data, with the model profile's measurements, once everything in it holds."""
    problems: list[InputProblem] = []
    try:
        joined = with_profile_measurements(stated, directory)
    except InputError as error:
        problems += of_profile(file.problem, ("model", "profile"), stated["model"]["profile"], error)
        joined = {**stated, "measured": {}}  # without the profile's measurements, changes to them mean nothing
    try:
        scenario = file.record(Scenario, joined)
    except InputError as error:
        raise InputError([*problems, *error.problems]) from None
    scenario._directory, scenario._file, scenario._stated = directory, file, stated
    scenario._asked_pools = scenario.pools
    problems += name_problems(scenario)
    if problems:
        raise InputError(problems)
    return scenario
