"""Rents of accelerators for whoever states none: what is known of them, and what is written where nothing is."""

from typing import NamedTuple


class Rent(NamedTuple):
    """Rent of an accelerator, as a scenario states it."""

    usd_per_accelerator_hour: str
    basis: str
    source: str


PRICES = {
    "h200-sxm": Rent("2.50", "quoted", "low end of cloud offers, May 2026"),
    "h20-141gb": Rent("1.25", "assumed", "half an H200"),
}
UNPRICED = Rent("1.00", "assumed", "not known: at 1 USD each the bill counts accelerators")


def rent_of(hardware: str, stated: str | None) -> Rent:
    """Rent of an accelerator; `UNPRICED` where nothing is known of it.

    Args:
        hardware: name of its profile; empty of a file of one's own, whose name may be that of another accelerator.
        stated: what `--price` says of it; None: nothing.

    >>> rent_of("h200-sxm", None).usd_per_accelerator_hour, rent_of("l40s", "0.9").usd_per_accelerator_hour
    ('2.50', '0.9')
    >>> rent_of("l40s", None) is UNPRICED
    True
    """
    if stated is not None:
        return Rent(stated, "assumed", "as stated by --price")
    return PRICES.get(hardware, UNPRICED)
