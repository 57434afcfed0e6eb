"""Ranges of the numbers that files may state, far beyond any fleet, model or measurement, and patterns of their names.

They keep slips of the keyboard, and numbers that overflow or vanish in arithmetic, out of everything behind the
readers. A test holds every field of every record that is read against them. A name is safe wherever it is written:
in a script, in YAML, in Markdown.
"""

from typing import Annotated

from pydantic import Field

Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$", max_length=100)]
"""A name that a scenario gives: of a site, a pool, a link, a class, a period."""
ProfileName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]*$", max_length=100)]
"""A name that a profile gives: of an accelerator, a model, a stack."""
PoolName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]*( [a-z0-9][a-z0-9_=,.-]*)*$", max_length=500)]
"""A pool's name, with what sets it apart from others made of the same."""
LayoutName = Annotated[str, Field(pattern=r"^[a-z_]+=[0-9]{1,5}(,[a-z_]+=[0-9]{1,5})*$", max_length=200)]
"""Sizes of a parallel layout."""
StackName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.+-]*$", max_length=200)]
"""Serving software with its version."""
Format = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_.-]*$", max_length=100)]
"""A number format."""
Repository = Annotated[str, Field(pattern=r"^[A-Za-z0-9_/][A-Za-z0-9_./:@-]*$", max_length=500)]
"""Where a checkpoint is published."""
LossName = Annotated[str, Field(pattern=r"^[a-z]+:[a-z0-9][a-z0-9_=,. -]*$", max_length=500)]
"""A single loss, such as `link:wan`."""
PoolRatio = Annotated[str, Field(pattern=r"^[0-9]{1,10}:[0-9]{1,10}$")]
"""Instances of one pool to those of another, such as `3:5`."""
SloKey = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$", max_length=100)]
"""A key of a promise on latency."""
Title = Annotated[str, Field(max_length=300)]
"""A line for people, which stands in tables and figures."""
Whole = Annotated[int, Field(ge=1, le=10**9)]
"""A count, or a number of tokens, of one at least."""
WholeOrNone = Annotated[int, Field(ge=0, le=10**9)]
"""A count that may be 0."""
Seed = Annotated[int, Field(ge=0, le=2**63 - 1)]
"""What random numbers start from."""
Layers = Annotated[int, Field(ge=1, le=10_000)]
"""Layers of a model: pattern and totals are counted out one by one."""
LayersOrNone = Annotated[int, Field(ge=0, le=10_000)]
"""Layers of a kind that a model may lack."""
Heads = Annotated[int, Field(ge=1, le=100_000)]
"""Heads, groups or experts of a layer, and the length of its short convolution."""
HeadsOrNone = Annotated[int, Field(ge=0, le=100_000)]
"""Experts or heads that a layer may lack."""
Width = Annotated[int, Field(ge=1, le=100_000_000)]
"""Values of a vector, or entries of a vocabulary."""
Parameters = Annotated[int, Field(ge=1, le=10**18)]
"""Parameters of a model."""
Accelerators = Annotated[int, Field(ge=1, le=1_000_000)]
"""Accelerators of one instance."""
Batch = Annotated[int, Field(ge=1, le=10_000_000)]
"""Sequences decoded together."""
Seconds = Annotated[float, Field(ge=1e-15, le=1e9)]
"""From a femtosecond, which stands for no time at all, to thirty years."""
Bytes = Annotated[float, Field(ge=1, le=1e18)]
"""Up to an exabyte."""
LEAST_POSITIVE = 1e-9
"""Least figure above 0."""
Positive = Annotated[float, Field(ge=LEAST_POSITIVE, le=1e9)]
"""A figure above 0, in the unit that its key ends in."""
FigureValue = Annotated[float, Field(ge=1e-15, le=1e21)]
"""A published figure, wide enough for one in another unit than its key's: the gate names the unit."""
NonNegative = Annotated[float, Field(ge=0, le=1e9)]
"""A figure that may be 0."""
Share = Annotated[float, Field(ge=1e-9, le=1)]
"""A part of something, above 0."""
Fraction = Annotated[float, Field(ge=0, le=1)]
"""A part of something."""

Quantity = Annotated[float, Field(ge=-1e-6, le=1e30)]
"""A figure of an answer: 0 or more, but for what a solver's rounding leaves below 0."""
Signed = Annotated[float, Field(ge=-1e30, le=1e30)]
"""A figure of an answer that may be below 0, such as a gain or a price of a constraint."""
Counted = Annotated[int, Field(ge=0, le=10**15)]
"""A count in an answer."""
