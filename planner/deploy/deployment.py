"""A plan as something to deploy: its pools by cluster, and for every site that decodes the pools of its requests."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import floor
from typing import Literal

from planner.deploy.names import label
from planner.deploy.parameters import Parameters
from planner.deploy.versions import PRODUCTS, RESOURCE
from planner.errors import InputError, InputProblem
from planner.results.plan import ClassPlan, DeployedModel, Drafts, PeriodPlan, Plan, PoolPlan, Work

Duty = Literal["prefill", "decode", "colocated", "both"]
"""What instances do with KV caches: hand them over, take them, keep their own, or keep their own and take others."""


@dataclass(frozen=True)
class ParallelSizes:
    """Parallel sizes of an instance."""

    tp: int = 1
    ep: int = 1
    dp: int = 1
    pp: int = 1

    @classmethod
    def of(cls, pool: PoolPlan, n_accelerators: int) -> "ParallelSizes":
        """That of a pool; where nobody said, tensor parallel over the instance."""
        if pool.layout is None:
            return cls(tp=n_accelerators)
        return cls(**{key: int(size) for key, size in re.findall(r"\b(tp|ep|dp|pp)=(\d+)", pool.layout)})


@dataclass(frozen=True)
class Unit:
    """A pool with instances, as it is deployed."""

    pool: PoolPlan
    model: DeployedModel
    name: str
    """Label that names everything of it."""
    cluster: str
    n_accelerators: int
    """Of an instance."""
    layout: ParallelSizes
    product: str
    """Value of the label that its nodes have; empty where it is not known."""
    resource: str
    """What its pods ask for."""

    @property
    def role(self) -> str:
        """Prefill, decode or colocated."""
        return self.pool.role

    @property
    def tokens_per_pass(self) -> int | None:
        """Most tokens of a pass on an attention replica, where the plan says: at least one of each that decodes."""
        told = self.pool.engine
        if self.pool.tokens_per_pass is not None or told is None:
            return self.pool.tokens_per_pass
        return max(told.tokens_per_pass, self.replica_batch or 0)

    @property
    def replica_batch(self) -> int | None:
        """Most sequences that an attention replica decodes together, where the plan says."""
        limit = None if self.role == "prefill" else self.pool.batch_limit
        return -(-limit // self.layout.dp) if limit else None

    @property
    def kv_precision(self) -> str:
        """Number format of the KV cache."""
        return self.pool.kv_precision or self.model.kv_precision


@dataclass(frozen=True)
class Group:
    """The pools that serve the requests of one model which are decoded at one site."""

    model: DeployedModel
    site: str
    cluster: str
    name: str
    short: tuple[Unit, ...]
    """What prefills prompts up to the threshold; all prompts where there is none."""
    long: tuple[Unit, ...]
    """What prefills longer ones; none where there is no threshold."""
    decode: tuple[Unit, ...]
    threshold_tokens: int | None
    """Most uncached tokens of a short prompt; None where all prompts are alike."""
    by_class: tuple[tuple[str, float | None], ...]
    """What the plan says of each class: tokens beyond which its prompts are long; None: none is."""

    @property
    def prefill(self) -> tuple[Unit, ...]:
        """Everything that prefills, once."""
        return tuple(dict.fromkeys((*self.short, *self.long)))

    @property
    def units(self) -> tuple[Unit, ...]:
        """All of its pools, once."""
        return tuple(dict.fromkeys((*self.prefill, *self.decode)))

    @property
    def remote(self) -> tuple[Unit, ...]:
        """Units that hand KV caches over to others."""
        return tuple(unit for unit in self.prefill if unit not in self.decode)

    @property
    def colocated(self) -> tuple[Unit, ...]:
        """Units that decode prompts that they have prefilled themselves."""
        return tuple(unit for unit in self.prefill if unit in self.decode)

    @property
    def crosses_sites(self) -> bool:
        """True if KV caches come from another site."""
        return any(unit.pool.site != self.site for unit in self.prefill)

    @property
    def crosses_clusters(self) -> bool:
        """True if some of what prefills is in another cluster than what decodes."""
        return any(unit.cluster != self.cluster for unit in self.prefill)

    def least_tokens(self, unit: Unit) -> int:
        """Shortest prompt that a prefill pool of it takes [tokens]."""
        return 0 if self.threshold_tokens is None or unit in self.short else self.threshold_tokens + 1

    def most_tokens(self, unit: Unit) -> int | None:
        """Longest prompt that a prefill pool of it takes [tokens]; None: of any length."""
        return None if unit in self.long else self.threshold_tokens


@dataclass(frozen=True)
class Deployment:
    """A plan with what is deployed of it, and where."""

    plan: Plan
    parameters: Parameters
    origin: str
    """File or scenario that the plan came from."""
    period: PeriodPlan | None
    """The one whose instances and thresholds are deployed; None where demand does not change."""
    units: tuple[Unit, ...]
    groups: tuple[Group, ...]

    @property
    def name(self) -> str:
        """Prefix of its names."""
        return self.parameters.name or label(self.plan.scenario)

    @cached_property
    def clusters(self) -> tuple[str, ...]:
        """Clusters that anything is deployed in."""
        return tuple(dict.fromkeys(unit.cluster for unit in self.units))

    def units_in(self, cluster: str) -> tuple[Unit, ...]:
        """Units that are deployed in a cluster."""
        return tuple(unit for unit in self.units if unit.cluster == cluster)

    def groups_in(self, cluster: str) -> tuple[Group, ...]:
        """Groups that decode in a cluster."""
        return tuple(group for group in self.groups if group.cluster == cluster)

    def checkpoint_of(self, model: DeployedModel) -> str:
        """Repository or path of the weights: what a parameter says, else where they are published, else the name."""
        return self.parameters.checkpoint.get(model.name) or next(iter(model.checkpoints), model.name)

    def draft_checkpoint_of(self, drafts: Drafts) -> str | None:
        """The same of the model that drafts; None where the model's own MTP layers do."""
        if drafts.model is None:
            return None
        return self.parameters.checkpoint.get(drafts.model) or next(iter(drafts.checkpoints), drafts.model)

    def image_of(self, unit: Unit, pinned: str | None) -> str:
        """Container image of a pool's engine: what parameters say, else the pinned one."""
        told = self.parameters
        return told.images.get(unit.pool.hardware) or told.image or pinned or ""

    def hosts_of(self, unit: Unit) -> str | None:
        """Machines of a pool, separated by commas; None where no parameter says."""
        hosts = self.parameters.hosts
        return hosts.get(unit.pool.name) or hosts.get(unit.name)

    def groups_of(self, unit: Unit) -> tuple[Group, ...]:
        """Groups that a pool belongs to."""
        return tuple(group for group in self.groups if unit in group.units)

    def duty_of(self, unit: Unit) -> Duty:
        """Duty of a pool's instances with KV caches, as the plan routes prompts."""
        if unit.role != "colocated":
            return "prefill" if unit.role == "prefill" else "decode"
        groups = self.groups_of(unit)
        if not any(group.remote for group in groups):
            return "colocated"
        return "both" if any(unit in group.colocated for group in groups) else "decode"

    @cached_property
    def hands_over(self) -> bool:
        """True if any pool hands KV caches over."""
        return any(group.remote for group in self.groups)

    @cached_property
    def tied_to_wan(self) -> frozenset[Unit]:
        """Pools that hand KV caches over between sites, and all that exchange any with those."""
        tied: set[Unit] = set()
        for _ in self.groups:
            for group in self.groups:
                if group.crosses_sites or tied & {*group.units}:
                    tied |= {*group.units}
        return frozenset(tied)


def deployment(plan: Plan, parameters: Parameters, origin: str) -> Deployment:
    """The deployment of a plan.

    Raises:
        InputError: the plan does not say what its pools serve.
    """
    models = {model.name: model for model in plan.models}
    unknown = [pool.name for pool in plan.pools if pool.model not in models or pool.accelerators_per_instance is None]
    if unknown:
        what = f"do not say what they serve: {', '.join(unknown)}"
        raise InputError(InputProblem(origin, "pools", what, "the answer of this version of planner optimize"))
    period = _period(plan, parameters)
    pools = [pool for pool in (plan.in_period(period) if period else plan).pools if pool.n_instances]
    units = tuple(_unit(pool, models, parameters) for pool in pools)
    return Deployment(plan, parameters, origin, period, units, tuple(_groups(plan, period, units)))


def _period(plan: Plan, parameters: Parameters) -> PeriodPlan | None:
    if not plan.periods:
        return None
    if parameters.period is not None:
        return plan.period(parameters.period)
    return max(plan.periods, key=lambda period: period.demand_req_per_s)


def _unit(pool: PoolPlan, models: dict[str, DeployedModel], parameters: Parameters) -> Unit:
    n, hardware = pool.accelerators_per_instance or 1, pool.hardware
    return Unit(
        pool=pool,
        model=models[pool.model or ""],
        name=label(pool.name),
        cluster=label(pool.site) if parameters.clusters == "per-site" else "all-sites",
        n_accelerators=n,
        layout=ParallelSizes.of(pool, n),
        product=parameters.label.get(hardware) or PRODUCTS.get(hardware, ""),
        resource=parameters.resource.get(hardware, RESOURCE),
    )


def _groups(plan: Plan, period: PeriodPlan | None, units: Sequence[Unit]) -> Iterator[Group]:
    decoding = [unit for unit in units if unit.role != "prefill"]
    places = dict.fromkeys((unit.model.name, unit.pool.site) for unit in decoding)
    several = len({model for model, _ in places}) > 1
    for model, site in places:
        decode = tuple(unit for unit in decoding if (unit.model.name, unit.pool.site) == (model, site))
        by_class = _thresholds(plan, period, model, site)
        limit = by_class[0][1] if by_class else None
        colocated = tuple(unit for unit in decode if unit.role == "colocated")
        short = colocated or _prefill(plan, period, units, decode[0], "short")
        long = _prefill(plan, period, units, decode[0], "long")
        is_split = limit is not None and limit > 0 and short and long and {*short} != {*long}
        alike = (long or short) if limit is not None and (limit <= 0 or not short) else (short or long)
        yield Group(
            model=decode[0].model,
            site=site,
            cluster=decode[0].cluster,
            name=label(model, site) if several else label(site),
            short=short if is_split else alike,
            long=long if is_split else (),
            decode=decode,
            threshold_tokens=floor(limit) if is_split and limit is not None else None,
            by_class=by_class,
        )


def _thresholds(plan: Plan, period: PeriodPlan | None, model: str, site: str) -> tuple[tuple[str, float | None], ...]:
    """Thresholds of a model's classes at a site, of the class with the most requests first."""
    found: list[tuple[float, str, float | None]] = []
    for one in _classes_at(plan, model, site):
        if period is None:
            found.append((one.share, one.name, one.threshold_tokens))
        elif site in period.thresholds.get(one.name, {}):
            rate = period.decoded_req_per_s.get(one.name, {}).get(site, one.share)
            found.append((rate, one.name, period.thresholds[one.name][site]))
    return tuple((name, tokens) for _, name, tokens in sorted(found, key=lambda item: -item[0]))


def _classes_at(plan: Plan, model: str, site: str) -> Iterator[ClassPlan]:
    """Classes of a model that are decoded at a site: those whose shares say so, and those that have none."""
    here = {pool.name for pool in plan.pools if pool.site == site}
    for one in plan.classes:
        decoding = one.pool_shares.get("decode", {})
        if one.model == model and (not decoding or here & {*decoding}):
            yield one


def _prefill(
    plan: Plan, period: PeriodPlan | None, units: Sequence[Unit], decode: Unit, work: Work
) -> tuple[Unit, ...]:
    """Pools that prefill short or long prompts for a pool that decodes: those that the plan gives a share, if it does.

    Where the plan names no shares, those at the site, and those that a link leads from.
    """
    prefilling = [unit for unit in units if unit.role == "prefill" and unit.model == decode.model]
    shares = _shares(plan, period, decode, work)
    if shares:
        return tuple(unit for unit in prefilling if shares.get(unit.pool.name, 0) > 0)
    site = decode.pool.site
    near = {site, *(link.from_site for link in plan.links if link.to_site == site and link.capacity_gbps > 0)}
    return tuple(unit for unit in prefilling if unit.pool.site in near and unit.pool.prompts in (work, None))


def _shares(plan: Plan, period: PeriodPlan | None, decode: Unit, work: Work) -> dict[str, float]:
    """The largest share of any class that each pool has in that work; none where the plan does not say."""
    total: dict[str, float] = {}
    for one in _classes_at(plan, decode.model.name, decode.pool.site):
        of_site = period.pool_shares.get(one.name, {}).get(decode.pool.site, {}) if period else one.pool_shares
        for name, share in of_site.get(work, {}).items():
            total[name] = max(total.get(name, 0.0), share)
    return total
