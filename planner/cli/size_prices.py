"""Rents of the accelerators of a size: what `--price` states, else what is known."""

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite

from planner.cli.known_prices import UNPRICED, rent_of
from planner.errors import UsageError, printable
from planner.profiles import hardware_profile, labels
from planner.scenario import Price, is_path

MOST_USD = 1e6
ALLOWED = f"above 0, at most {MOST_USD:g} USD an hour"


def size_prices(kinds: Sequence[str], texts: Sequence[str]) -> dict[str, Price]:
    """Rents by the names of accelerators.

    Args:
        kinds: accelerators as they were asked for.
        texts: prices as they were stated, each one or several with commas.

    Raises:
        UsageError: one is no price, of no accelerator that was asked for, or there are two of one.
        InputError: no such accelerator.
    """
    chips = {kind: hardware_profile(kind) for kind in kinds}
    names = list(dict.fromkeys(chip.name for chip in chips.values()))
    called = {label.casefold(): chip.name for chip in chips.values() for label in labels(chip)}
    called |= {kind.casefold(): chip.name for kind, chip in chips.items()}
    stated: dict[str, float] = {}
    for name, usd in _stated(texts, names, called):
        if name in stated:
            raise UsageError(f"--price: {name} has two prices, {stated[name]:g} and {usd:g} (one of each accelerator)")
        stated[name] = usd
    own_files = {chip.name for kind, chip in chips.items() if is_path(kind)}
    return {name: _price("" if name in own_files else name, stated.get(name)) for name in names}


def unpriced(prices: Mapping[str, Price]) -> tuple[str, ...]:
    """Accelerators whose rent nobody knows, so that 1 USD an hour stands for it."""
    return tuple(name for name, price in prices.items() if price.source == UNPRICED.source)


def _stated(texts: Sequence[str], names: Sequence[str], called: Mapping[str, str]) -> Iterator[tuple[str, float]]:
    """Accelerators and their prices as they were stated. Raises UsageError."""
    for part in (part.strip() for text in texts for part in text.split(",")):
        named, has_name, text = part.rpartition("=")
        shown = f"--price {printable(part, 100)}"
        try:
            usd = float(text)
        except ValueError:
            usd = 0.0
        if not (isfinite(usd) and 0 < usd <= MOST_USD):
            raise UsageError(f"{shown}: is no price ({ALLOWED}, as {','.join(f'{name}=USD' for name in names)})")
        if not has_name and len(names) > 1:
            which = ", ".join(f"{name}={usd:g}" for name in names)
            raise UsageError(f"{shown}: does not say of which accelerator ({which})")
        if has_name and named.strip().casefold() not in called:
            raise UsageError(f"{shown}: {printable(named, 100)} is not asked about, which is {', '.join(names)}")
        yield called[named.strip().casefold()] if has_name else names[0], usd


def _price(name: str, stated: float | None) -> Price:
    rent = rent_of(name, None if stated is None else str(stated))
    return Price.model_validate({**rent._asdict(), "usd_per_accelerator_hour": float(rent.usd_per_accelerator_hour)})
