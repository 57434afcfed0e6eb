"""The workload of the system, as a scenario states it."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from planner.schema import StrictModel
from planner.workload.lengths import Lengths
from planner.workload.prefixes import PrefixHits

LEAST_SQUARED_CV, MOST_SQUARED_CV = 1e-4, 16.0
"""Of gaps. Beyond, most requests come at the same moments, as no renewal process of users does: their rate changes."""


class PoissonArrivals(StrictModel):
    """Independent users: exponential gaps between arrivals."""

    kind: Literal["poisson"] = "poisson"

    @property
    def squared_cv(self) -> float:
        """Squared coefficient of variation of the gaps, variance / mean^2."""
        return 1.0


class GammaGaps(StrictModel):
    """Independent gaps with a Gamma distribution: bursty above a squared_cv of 1, paced below."""

    kind: Literal["gamma"]
    squared_cv: Annotated[float, Field(ge=LEAST_SQUARED_CV, le=MOST_SQUARED_CV)]
    """Squared coefficient of variation of the gaps, variance / mean^2: 16 at most, as what is burstier is a rate that
    changes (`periods`; in runs `execution.arrivals`). Waits are validated from 0.25 to 4."""


Arrivals = Annotated[PoissonArrivals | GammaGaps, Field(discriminator="kind")]
"""Renewal arrivals; `kind` tells them apart."""


TraceFormat = Literal["auto", "mooncake", "azure"]
TimeUnit = Literal["s", "ms", "us", "ns"]
BlockTokens = Annotated[int, Field(ge=1, le=1_000_000)]


class TraceFile(StrictModel):
    """Recorded requests to plan for."""

    path: str
    """File name: absolute, beside the scenario, or in a data directory or its `traces` folder."""

    format: TraceFormat = "auto"
    """Format of the file; auto: recognised by its first line."""

    time_unit: TimeUnit | None = None
    """Unit of timestamps that are numbers; absent: milliseconds, or what their size or the other fields tell."""

    block_tokens: BlockTokens | None = None
    """Tokens of a block of `hash_ids`; absent: 512, or what the numbers of blocks tell."""

    skip_invalid: bool = False
    """Whether rows that are no requests, such as answers of 0 tokens, are left out: at most 5 % of all, or one."""


class Workload(StrictModel):
    """The requests: their lengths, or a trace; what a prefix cache finds of them; how they arrive."""

    lengths: Lengths | None = None
    """Prompt lengths; exactly one of `lengths` and `trace` is given."""

    trace: TraceFile | None = None
    """Recorded requests; exactly one of `lengths` and `trace` is given."""

    output_lengths: Lengths | None = None
    """Answer lengths, independent of the prompt; required with `lengths`. A trace brings its own."""

    prefix_hits: PrefixHits = "none"
    """Share of a prompt found in the prefix cache: none, ideal (a trace with block hashes), or a distribution."""

    arrivals: Arrivals = PoissonArrivals()
    """How requests arrive."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.lengths is None) == (self.trace is None):
            raise ValueError("exactly one of lengths and trace must be given")
        if self.lengths is not None and self.output_lengths is None:
            raise ValueError("output_lengths is required with lengths")
        if self.trace is not None and self.output_lengths is not None:
            raise ValueError("output_lengths must not be given with a trace, which has its own")
        if self.lengths is not None and self.prefix_hits == "ideal":
            raise ValueError('prefix_hits = "ideal" needs a trace with block hashes; state a distribution instead')
        return self
