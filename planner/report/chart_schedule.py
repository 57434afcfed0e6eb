"""The figure of a fleet that follows the hours: demand, and instances by pool and period."""

from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from planner.report import canvas
from planner.results import Case

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class ScheduleChart:
    """A day in steps."""

    edges_h: tuple[float, ...]
    """Starts of the periods and the end of the last [h]."""
    demand_req_per_s: tuple[float, ...]
    n_instances: tuple[tuple[str, tuple[int, ...]], ...]
    """Pool, and its instances by period."""

    def draw(self) -> "Figure":
        figure = canvas.new_figure(5.2 + canvas.legend_in([name for name, _ in self.n_instances]))
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=[1, 1.6])
        look: dict[str, Any] = {"baseline": None, "linewidth": 2.0}
        above.stairs(self.demand_req_per_s, self.edges_h, color=canvas.hue(0), **look)
        above.set_ylabel("requests\nper second")
        for index, (name, sizes) in enumerate(self.n_instances):
            below.stairs(
                sizes, self.edges_h, label=name, color=canvas.hue(index), linestyle=canvas.dashes(index), **look
            )
        below.set_ylabel("instances")
        below.set_xlabel("hours")
        below.set_xlim(self.edges_h[0], self.edges_h[-1])
        for axes in (above, below):
            axes.set_ylim(0, 1.1 * axes.get_ylim()[1])
            axes.grid(axis="y")
        canvas.legend_over(below)
        return figure


def schedule_chart(case: Case) -> ScheduleChart | None:
    """The schedule of a plan; None where no pool is rented by the period."""
    plan = case.plan
    if plan.schedule is None or len(plan.periods) < 2:
        return None
    names = [pool.name for pool in plan.pools if pool.n_instances]
    sizes = {
        name: tuple(pool.n_instances for one in plan.periods for pool in one.pools if pool.name == name)
        for name in names
    }
    return ScheduleChart(
        edges_h=tuple(accumulate((period.hours for period in plan.periods), initial=0.0)),
        demand_req_per_s=tuple(period.demand_req_per_s for period in plan.periods),
        n_instances=tuple(sizes.items()),
    )
