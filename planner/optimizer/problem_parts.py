"""Pools, links and classes of a problem, with names resolved and service times looked up."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from planner.curves import PrefillService
from planner.optimizer.batching import Batching, decoding_work
from planner.optimizer.pass_facets import RequestWork
from planner.optimizer.rent import ByPeriod
from planner.roofline import InstanceRates
from planner.scenario import LinkTier, Slo
from planner.workload.mix import RequestMix

Part = Literal["long", "short"]


@dataclass(frozen=True)
class PoolSpec:
    """Instances of one role that serve one model at one site, with one layout."""

    name: str
    """As answers call it: the scenario's name, and what sets it apart from others made of the same pool."""
    key: str
    """Name of the scenario's pool."""
    layout: str | None
    site: str
    hardware: str
    parts: tuple[Part, ...]
    """Which prompts a prefill pool takes; none for decode."""
    n_accelerators: int
    """Accelerators per instance."""
    min_instances: int
    max_instances: int
    """Most that its own limit, its inventory, the budget and the demand leave any use for."""
    stated_max_instances: int | None
    """Its own limit; None where it states none."""
    usd_per_hour: float | None
    """Rent or amortised purchase of one instance, and its power when idle [USD/h]."""
    busy_usd_per_hour: float
    """What a busy instance costs on top [USD/h]."""
    rates: InstanceRates
    classes: tuple[int, ...]
    """Classes it serves, by index."""
    by_period: ByPeriod | None = None
    """How it is rented where its size follows the periods; None: at all times."""
    batching: Batching | None = None
    """How it prefills and decodes in one batch; None: it does one of both."""

    @property
    def is_empty(self) -> bool:
        """True if it is stated to have no instances."""
        return self.stated_max_instances == 0

    @property
    def takes_short(self) -> bool:
        """True if it prefills short prompts and does not decode: a stated ratio of prefill to decode counts those."""
        return "short" in self.parts and self.batching is None

    @property
    def is_prefill(self) -> bool:
        """True if it prefills."""
        return bool(self.parts)

    @property
    def shown_name(self) -> str:
        """Name that people know it by: of the ways to run a colocated pool one is in use, which goes by the pool's."""
        return self.name if self.batching is None else self.key

    @property
    def layout_option(self) -> tuple[str | None, int | None]:
        """Option that sets it apart from others of one pool: its layout and, of a colocated pool, tokens of a pass."""
        return self.layout, None if self.batching is None else self.batching.tokens_per_pass

    @property
    def decodes(self) -> bool:
        """True if it decodes: alone, or in one batch with prompts."""
        return not self.parts or self.batching is not None

    @property
    def role(self) -> Literal["prefill", "decode", "colocated"]:
        """Role of its instances."""
        if self.batching is not None:
            return "colocated"
        return "prefill" if self.parts else "decode"

    @property
    def work(self) -> PrefillService:
        """Instance-seconds of a prompt; of a colocated pool at the least, where its passes hold all classes.

        Raises:
            ValueError: it prefills nothing.
        """
        if self.batching is not None:
            return self.batching.work(self.batching.facets[0])
        if self.rates.prefill is None:
            raise ValueError("a decode pool has no prefill times")
        return self.rates.prefill.occupancy

    def decode_s(self, mix: RequestMix) -> float:
        """Instance-seconds in which it decodes a mean request of a class [s]; of a colocated pool at the least.

        Raises:
            ValueError: it decodes nothing.
        """
        if self.batching is not None:
            work = RequestWork(0.0, 0.0, *decoding_work(mix, mix.mean_total_tokens))
            return self.batching.facets[0].seconds(work)
        if self.rates.decode is None:
            raise ValueError("a prefill pool has no decode point")
        return self.rates.decode.seconds_per_request(mix.mean_output_tokens)

    @property
    def prompts(self) -> Part | None:
        """Which prompts it takes; None where it takes both kinds, or decodes."""
        return self.parts[0] if len(self.parts) == 1 else None


@dataclass(frozen=True)
class LinkSpec:
    """A link the formulation picks ports for."""

    name: str
    from_site: str
    to_site: str
    tiers: tuple[LinkTier, ...]
    usd_per_gb: float
    round_trip_s: float
    destination_holds_prefix: bool

    def max_gbps(self) -> float:
        """Bandwidth with every port on offer."""
        return self.gbps([tier.max_ports for tier in self.tiers])

    def gbps(self, ports: Sequence[float]) -> float:
        """Bandwidth of ports of its tiers [Gbps]."""
        return sum(m * tier.capacity_gbps for m, tier in zip(ports, self.tiers, strict=True))

    def ports_usd_per_hour(self, ports: Sequence[int]) -> float | None:
        """Price of ports of its tiers [USD/h]; None where one that is rented has no price."""
        rented = [(m, tier.usd_per_hour) for m, tier in zip(ports, self.tiers, strict=True) if m]
        return None if any(usd is None for _, usd in rented) else sum(m * (usd or 0.0) for m, usd in rented)


class Member(NamedTuple):
    """A class of the scenario."""

    name: str
    share: float


@dataclass(frozen=True)
class ClassSpec:
    """Requests that nothing tells apart: a class of the scenario, or several that are alike."""

    members: tuple[Member, ...]
    model: str | None
    """Name under [models]; None is the default."""
    mix: RequestMix
    slo: Slo | None
    arrival_scv: float
    """Squared coefficient of variation of the gaps between arrivals [fraction]."""

    @property
    def name(self) -> str:
        """Name of the class, or of the first of those that are alike."""
        return self.members[0].name

    @property
    def share(self) -> float:
        """Fraction of all requests."""
        return sum(member.share for member in self.members)

    @property
    def ttft_s(self) -> float | None:
        """TTFT that is promised [s]."""
        return None if self.slo is None else self.slo.ttft_s

    @property
    def late_allowed(self) -> float:
        """Fraction of its requests that may take longer."""
        return 1.0 if self.slo is None or self.slo.ttft_s is None else 1 - self.slo.ttft_percentile / 100


def requests_by_name(classes: Sequence[ClassSpec]) -> dict[str, tuple[float, RequestMix]]:
    """Share and requests of every class of the scenario, by name."""
    return {member.name: (member.share, spec.mix) for spec in classes for member in spec.members}
