"""Settings of the searches: sizes, gaps, counts and shares of the time, in one record for networks and one for routes.

None of them changes what a plan is or what a bound proves: they decide where and how long a search looks. Tolerances of
single formulas stand beside these.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class SearchSettings:
    """Settings of the search of a network; a `..._time_share` is a fraction of the time limit of its search."""

    # Branch and bound over cells of thresholds: `search`
    max_rounds: int = 30
    """Rounds of bound, plan and refinement. Most searches close the gap or run out of time before."""
    most_stalled: int = 2
    """Rounds in a row that moved neither bound nor plan, after which a search with colocated pools stops: facets of
    their passes leave a gap that finer cells do not close."""
    stalled_share: float = 1e-3
    """Relative rise of a bound below which it did not move."""
    bound_gap_share: float = 0.25
    """Part of the target gap that the solver may leave open in a bound: the rest is left for the plan."""
    plan_gap_share: float = 0.15
    """Part of the target gap that the solver may leave open in a plan: with the bound's part less than the whole."""
    chosen_share: float = 0.02
    """A cell counts as chosen in a relaxed solution from this part of the choice on: less is mostly rounding."""
    plan_limit_s: float = 120.0
    """Longest time of one program for a plan [s]: other limits are tried after it."""
    max_tightenings: int = 8
    """How often a plan is sought again with shorter SLOs: each time by `slo_tightening`."""
    batch_growth: float = 1.1
    """Factor on the instances of colocated pools that miss a promise, step by step."""
    kept_scale: float = 1e-3
    """Relative width to which the highest rate is found at which the flows of a plan keep a promise."""
    threshold_factors: tuple[float, ...] = (1.1, 1 / 1.1, 1.03, 1 / 1.03)
    """Factors on the threshold of a plan with a colocated pool that are tried at its own sizes,"""
    most_in_row: int = 6
    """each so often in a row."""
    batch_tightening: float = 0.93
    """Factor on how busy colocated pools may be whose requests are late."""
    slo_tightening: float = 0.97
    """Factor on the TTFT of an SLO that the best model of waits finds missed: the closed form is a little too short."""
    quiet_link_busy: float = 0.2
    """Mean use of links at which sharing hardly slows transfers down: tried beside the usual limit."""
    full_link_busy: float = 0.95
    """The same of links in plans that waits are counted in afterwards."""
    late_multiples: tuple[float, ...] = (2.0, 5.0)
    """Multiples of the late requests of an SLO that pools may have in plans that local search then repairs: one pool
    may be late where others make up for it."""
    large_columns: int = 8_000
    """Columns from which on a program is not solved with integers at once: the search then decomposes it. Those of all
    periods together, where sizes can be judged period by period."""
    many_sizes: int = 1_000
    """Pools times periods from which on a network whose roles change begins with its peak periods alone."""

    # Cells and segments: `refinement`
    first_cells: int = 5
    """Intervals of thresholds that a search begins with: they are cut where a bound uses them."""
    split_parts: int = 4
    """Parts that a chosen cell is cut into."""
    wide_fraction: float = 0.01
    """Fraction of the requests between the ends of a cell from which on it is worth cutting."""
    offered_shares: tuple[float, ...] = (0.1, 0.35, 0.6, 0.85)
    """Allowances that a plan may choose from, between the least and the most that leave both parts time to wait."""
    most_points: int = 64
    """Different lengths up to which each is a threshold of its own."""

    # Periods and losses that a program leaves out: `completion`
    resolve_limit_s: float = 120.0
    """Longest time of the program of one period or loss at the sizes of a plan [s]."""
    most_new_losses: int = 4
    """Losses, or periods, that join a program in one round: the worst ones often cover the others."""

    # Large networks: `large_search` and `relaxation`
    rough_step: int = 4
    """Every so many-th threshold is offered in relaxations that lead to a plan: only the bound needs all of them."""
    reaches: tuple[int, ...] = (3, 1)
    """Where lengths are continuous: thresholds around the mean of those that the last relaxation mixes, which the next
    one offers. A mix of thresholds far apart does what no single one can."""
    most_bound_periods: int = 6
    """Periods that the bound counts with."""
    bound_time_share: float = 0.4
    """Longest time of the bound, of what the first relaxations leave."""
    block_gap: float = 0.002
    """Gap at which the program of a block may stop."""
    block_integer_columns: int = 1_000
    """Columns up to which a block is solved with integers for the bound: such a block takes a moment."""
    block_limit_s: float = 10.0
    """Longest time of a block in the bound [s]."""
    binding_share: float = 1e-3
    """Part of the prices of all prefill capacity that a period must have to count as binding."""
    mixed_share: float = 0.1
    """Part of a choice between cells from which on a relaxed solution leans to a cell."""
    kept_near: int = 1
    """Cells on either side of one that matters that stay narrow when others are merged."""
    most_merged: int = 4
    """Cells that are merged into a wide one: relaxations of wide cells are smaller, and too good to be true."""
    last_time_share: float = 0.05
    """Time left to judge a plan when it is not improved any more."""
    fixed_roles_time_share: float = 0.6
    """Where roles may change: time in which a plan with fixed roles is sought, since its sizes are found sooner."""
    near_plan: int = 1
    """Thresholds on either side of those of a plan that the next one may choose once sizes alone make none better."""
    inside_thresholds: int = 3
    """Thresholds inside each interval of lengths, where lengths are continuous."""
    step_time_share: float = 0.03
    """Longest time for the program of one plan,"""
    longer_step: float = 4.0
    """and the factor on it where that finds none."""
    sizes_gap: float = 0.001
    """Gap that it may leave open."""

    # Local search: `local_search`
    rerouted_fractions: tuple[float, ...] = (1 / 32, 1 / 8, 1 / 2, 1.0)
    """Parts of a flow that one move takes to another pool."""
    least_gain: float = 0.01
    """Part of the violation that a move must take off: smaller gains take too many moves."""
    overload_weight: float = 20.0
    """Weight of an overfull pool, link or batch beside a class that misses its SLO."""
    most_moves: int = 120
    """Moves in a row, after which a plan counts as one that cannot be repaired."""
    cautions: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75, *(1.0,) * 6)
    """Waits to plan with, between the shortest ones that the closed form may stand for (0) and its own (1), in order:
    until a plan is within its SLOs in the best model of waits."""
    highest_multiple: float = 1.5
    """Multiple of the demand of a plan up to which a higher one is sought."""
    halvings: int = 8
    """How often the range of such multiples is halved."""
    swapped: tuple[int, ...] = (1, 2)
    """Instances that one instance of another pool may replace."""

    # Shadow prices: `prices`
    all_periods_sizes: int = 500
    """Pools times periods up to which a linear program holds all periods, with what use costs in each."""
    price_gap: float = 1e-4
    """Gap at which an integer program that confirms a price may stop."""
    most_price_sizes: int = 1_000
    """Pools times situations beyond which such a program would not even be built in time."""
    price_multiples: tuple[float, ...] = (0.8, 0.9, 0.95, 0.98, 1.02, 1.05, 1.1, 1.25)
    """Multiples of the thresholds of a plan that such a program may choose instead: one more instance may move them."""
    price_thresholds: int = 8
    """More thresholds over all lengths that it may choose."""
    few_price_multiples: tuple[float, ...] = (0.9, 1.1)
    """The multiples where each threshold comes with several allowances and sizes are chosen too."""
    few_price_thresholds: int = 4
    """The thresholds over all lengths in that case."""
    ttft_time_share: float = 0.2
    """Longest time for one TTFT in the bisection: a hard one must not take the time of the others."""
    ttft_step_time_share: float = 0.5
    """Part of the time left that one TTFT may take where limits are raised."""


@dataclass(frozen=True)
class RouteSearchSettings:
    """Settings of the search of problems that a few routes describe: one served model at one rate, from anywhere."""

    # The best threshold of given sizes: `single_route`
    zoom_points: int = 33
    """Thresholds that are offered inside the bracket of a zoom."""
    zoom_width: float = 1e-9
    """Width of the bracket, as a part of the threshold, at which a zoom stops: rounding begins there."""

    # Goodput: `goodput` and `slo_attainment`
    split_parts: int = 4
    """Parts that an interval of thresholds is cut into where its goodput is not proven."""
    first_cells: int = 16
    """Intervals of thresholds to begin with: those that matter are cut soon enough."""
    rate_tolerance: float = 3e-5
    """Part of a rate within which a goodput is found at one threshold."""
    least_part: float = 1e-4
    """Part of the capacity below which a goodput is none."""

    # Sizes under an SLO: `slo_search`
    most_sizings: int = 400
    """Sizes that are looked at, in the order of what capacity allows."""
    floor_limit_s: float = 10.0
    """Time for the bound on TTFT that holds where not all sizes were fathomed [s]."""


SETTINGS = SearchSettings()
"""The settings of networks in use."""
ROUTE_SETTINGS = RouteSearchSettings()
"""The settings of routes in use."""
