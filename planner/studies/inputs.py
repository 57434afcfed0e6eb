"""Inputs of a case, and where they come from."""

from collections.abc import Iterator, Mapping

from planner.profiles import MeasuredInstance
from planner.results.case import SourceNote
from planner.roofline import InstanceRates
from planner.scenario import Pool, Price, Scenario, Site
from planner.units import percent, usd


def measured_times(scenario: Scenario, key: str, rates: InstanceRates) -> MeasuredInstance | None:
    """The figures that the service times of a scenario's pool come from; None where it is the roofline."""
    if rates.stack is not None:
        return None
    return scenario.measured_for(scenario.pools[key])


def roofline_source(stack: str | None) -> str:
    """Source, in words, of service times that follow from shapes, datasheets and a stack's factors."""
    return f"roofline of shapes and datasheets with the factors of {stack}"


def citation(scenario: Scenario, pool: Pool, source: str) -> str:
    """The text of a source id of the profile of a pool's model; other text stands for itself."""
    return scenario.profile_of(pool.model).sources.get(source, source)


def price_words(price: Price) -> str:
    """A price as it was stated.

    >>> price_words(Price(usd_per_accelerator_hour=2.5, discount_fraction=0.2, basis="quoted", source="a cloud"))
    '2 USD per accelerator-hour, 20 % off'
    """
    off = f", {percent(price.discount_fraction, 0)} off" if price.discount_fraction else ""
    if price.paid_usd is None:
        return f"{price.hourly_usd:g} USD per accelerator-hour{off}"
    each = f"{price.paid_usd:g} USD each{off}{',' if off else ''}"
    return f"{each} over {price.amortized_years:g} years, {usd(price.hourly_usd)} USD/h"


def draw_words(site: Site) -> str:
    """The draw of a site's accelerators as it was stated.

    >>> draw_words(Site(draw_fraction=1.2, idle_draw_fraction=0.3))
    '1.2 of the TDP at work and 0.3 idle'
    """
    busy = f"{site.draw_fraction:g} of the TDP"
    return busy if site.idle_draw_fraction is None else f"{busy} at work and {site.idle_draw_fraction:g} idle"


def _assumptions(scenario: Scenario) -> Iterator[SourceNote]:
    """Figures that profiles lack, and stacks that nobody calibrated."""
    for hardware, items in scenario.assumed.items():
        for key, item in items.items():
            yield SourceNote(what=f"{key} of {hardware}: {item.value:g}", basis="assumed", source=item.source)
    for name, own in scenario.stacks.items():
        stated = {**own.factors, **own.settings}
        listed = ", ".join(f"{key} {value:g}" for key, value in stated.items() if value is not None)
        what = f"stack {name}, like {own.like}" + (f" but for {listed}" if listed else "")
        yield SourceNote(what=what, basis="assumed", source=own.source)


def input_notes(scenario: Scenario, rates: Mapping[str, InstanceRates]) -> tuple[SourceNote, ...]:
    """Every measured instance, assumption, price and link price that went in; service times by pool."""
    notes = []
    for name, pool in scenario.pools.items():
        n = "" if pool.layouts else f"{pool.accelerators_per_instance} x "  # else the plan chooses
        what = f"{pool.role} of {name}, {n}{scenario.hardware_of(pool).name}"
        if measured := measured_times(scenario, name, rates[name]):
            how = (measured.decode.how if pool.role == "decode" and measured.decode else None) or measured.how
            source = citation(scenario, pool, measured.source) + (f": {how}" if how else "")
            notes.append(SourceNote(what=what, basis=measured.basis, source=source))
        else:
            source = roofline_source(rates[name].stack)
            notes.append(SourceNote(what=what, basis=rates[name].basis, source=source))
    notes += _assumptions(scenario)
    for name, price in scenario.prices.items():
        what = f"price of {name}: {price_words(price)}"
        notes.append(SourceNote(what=what, basis=price.basis, source=price.source or "the scenario"))
    for name, site in scenario.sites.items():
        if site.usd_per_kwh:
            what = f"power at {name}: {site.usd_per_kwh:g} USD/kWh, PUE {site.pue:g}, {draw_words(site)}"
            basis = "quoted" if site.power_source else "assumed"
            notes.append(SourceNote(what=what, basis=basis, source=site.power_source or "the scenario"))
    for name, link in scenario.links.items():
        if link.source:
            notes.append(SourceNote(what=f"price of {name}", basis=link.basis, source=link.source))
    return tuple(dict.fromkeys(notes))
