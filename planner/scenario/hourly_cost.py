"""Cost of an accelerator by the hour: rent or purchase, and electricity where a site prices it apart."""

from typing import TYPE_CHECKING

from planner.errors import InputError
from planner.profiles import HardwareProfile

if TYPE_CHECKING:
    from planner.scenario.question import Scenario

WATTS_PER_KILOWATT = 1e3


def accelerator_usd_per_hour(scenario: "Scenario", site: str, hardware: HardwareProfile) -> float | None:
    """Cost of an accelerator at a site, busy or not, power included; None when the scenario states no price.

    Equation:
        rent, or purchase / (years 8760 h), + TDP draw PUE usd_per_kwh / 1000, with the draw of an idle accelerator
        where the site states it

    Raises:
        InputError: the site prices electricity, and the accelerator's TDP is unknown.
    """
    price, place = scenario.price_of(hardware), scenario.sites[site]
    if price is None:
        return None
    draw = place.draw_fraction if place.idle_draw_fraction is None else place.idle_draw_fraction
    return price.hourly_usd + draw * _tdp_usd_per_hour(scenario, site, hardware)


def busy_usd_per_hour(scenario: "Scenario", site: str, hardware: HardwareProfile) -> float:
    """Cost of a busy accelerator at a site beyond an idle one; 0 where power is the same or unpriced.

    Equation:
        TDP (draw - idle draw) PUE usd_per_kwh / 1000

    Raises:
        InputError: the site prices electricity, and the accelerator's TDP is unknown.
    """
    place = scenario.sites[site]
    if place.idle_draw_fraction is None or scenario.price_of(hardware) is None:
        return 0.0
    return (place.draw_fraction - place.idle_draw_fraction) * _tdp_usd_per_hour(scenario, site, hardware)


def _tdp_usd_per_hour(scenario: "Scenario", site: str, hardware: HardwareProfile) -> float:
    """Electricity of an accelerator that draws its TDP all the time [USD/h]."""
    place = scenario.sites[site]
    if not place.usd_per_kwh:
        return 0.0
    if hardware.tdp_w is None:
        what = f"prices electricity, and the TDP of {hardware.name} is unknown"
        raise InputError(scenario.problem(("sites", site, "usd_per_kwh"), what, "a profile with tdp_w, or all-in rent"))
    return hardware.tdp_w / WATTS_PER_KILOWATT * place.pue * place.usd_per_kwh
