"""A scenario to a problem in numbers, to a mixed-integer program, to a plan.

Public modules:

    batch_loads               passes of colocated pools, from the roofline or measured seconds
    batching                  passes that a colocated instance makes of some requests
    capacity                  load of a request on each pool and link, by threshold
    colocated_layouts         layouts and tokens per pass of a colocated pool
    context                   prompts and cache formats beyond what a model is published for
    delays                    delays that load adds to TTFT, and to steps of decode
    free_routing              gain of routing every bin of lengths freely
    goodput                   highest rate of given sizes within a promise on TTFT
    layout_candidates         layouts that a pool may choose from
    layout_choice             a `Problem` with its layouts chosen
    network.cells             intervals of thresholds, and the prompts of each
    network.cost              rent, power and traffic of a plan
    network.judged_moves      how far plans are from their promises, and moves that bring them there
    network.loads             how busy pools and links may be
    network.period_operation  a plan in one period: loads, waits, thresholds
    network.ttft_bisection    the least TTFT at which a demand is served
    prices                    shadow prices
    problem                   `Problem`: the question in numbers
    problem_parts             pools, links and classes of a `Problem`
    rent                      instances that are rented by the period
    resolution                makes a `Problem` of a scenario
    room                      which pools have memory for which prompts
    routed_capacity           highest rate of given sizes and thresholds, and what limits it
    routes                    routes through prefill pools, links and a decode pool
    service_times             seconds and bytes of a pool's instances
    single_route              fleets whose requests all take one route
    sized                     fleets of given sizes
    slo_attainment            share of requests within a promise
    solution                  sizes, thresholds and rates that a search found
    strategies                which search a question gets
    time_limit                one time limit for a command, and how a search without an answer ends
"""
