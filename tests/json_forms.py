"""What an answer of the contract is made of, and where one is not of that form."""

from typing import Any


class Either:
    """One of several forms."""

    def __init__(self, *forms: Any) -> None:
        self.forms = forms


class Only:
    """One of several words."""

    def __init__(self, *words: str) -> None:
        self.words = words


def faults(found: Any, form: Any, path: str = "answer") -> list[str]:
    """Where an answer is not of the form; more fields than the contract's are welcome."""
    match form:
        case Either():
            return [] if any(not faults(found, one) for one in form.forms) else [f"{path} is {found!r}"]
        case Only():
            return [] if found in form.words else [f"{path} is {found!r}"]
        case dict():
            if not isinstance(found, dict):
                return [f"{path} is no object"]
            lacking = [f"{path}.{key} is missing" for key in form if key not in found]
            return lacking + [
                fault for key in form if key in found for fault in faults(found[key], form[key], f"{path}.{key}")
            ]
        case list():
            if not isinstance(found, list) or (found and not form):
                return [f"{path} is {found!r}"]
            return [fault for i, item in enumerate(found) for fault in faults(item, form[0], f"{path}[{i}]")]
        case None:
            return [] if found is None else [f"{path} is {found!r}"]
    numbers = (int, float) if form is float else (form,)
    return [] if isinstance(found, numbers) and (form is bool) == isinstance(found, bool) else [f"{path} is {found!r}"]


MAYBE = Either(float, None)
