"""A number with where it comes from: what every fact about an accelerator is made of."""

from typing import Annotated, Literal

from pydantic import Field

from planner.profiles.base import Text
from planner.ranges import FigureValue, Whole
from planner.schema import StrictModel

Basis = Literal["datasheet", "measured", "derived", "inferred", "announced", "quoted", "lead", "assumed"]


class Figure(StrictModel):
    """A number with where it comes from."""

    value: FigureValue
    """The number, in the unit its key ends in."""
    source: Text
    """Id of one of the profile's [sources]."""
    basis: Basis
    """datasheet: the vendor's specification, public or not, also as repeated by others. measured: read off a device.
    derived: arithmetic on sourced figures. inferred: concluded from related facts. announced: the vendor's claim before
    sale. quoted: stated by a third party, such as a price. lead: its page could not be attributed. assumed: chosen
    where sources disagree."""
    note: Text | None = None
    """What a reader must know to use it."""


class Count(Figure):
    """A whole number with where it comes from."""

    value: Whole
    """The number."""


class Year(Figure):
    """A calendar year with where it comes from."""

    value: Annotated[int, Field(ge=2000, le=2100)]
    """The year."""
