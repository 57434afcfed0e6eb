"""The gate's check of parameter counts: shapes give the published total within its digits."""

from collections.abc import Iterator

from planner.errors import Problem
from planner.profiles.checked import CheckedFile
from planner.profiles.model import ModelProfile
from planner.profiles.parameters import total_parameters


def published_parameters(checked: CheckedFile) -> Iterator[Problem]:
    """The total from shapes, where all are known, is the published one within `ParameterCount.tolerance`."""
    if not isinstance(checked.profile, ModelProfile):
        return
    published, total = checked.profile.published.total_parameters, total_parameters(checked.profile)
    if published is None or total is None or abs(total - published.value) <= published.tolerance:
        return
    message = f"is {published.value}, but the shapes give {total}"
    allowed = f"within {published.tolerance / published.value:.2%}, as {published.digits} digits are published"
    yield checked.file.problem(("published", "total_parameters", "value"), message, allowed)
