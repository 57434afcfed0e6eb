"""The router: by uncached length to the pools for long or short prompts, around what is down."""

from planner.executor.compiled import compiled
from planner.executor.kernel.records import NONE, World


@compiled
def route(w: World, r: int) -> int:
    """More uncached tokens than the threshold are long; ways of one kind share by their rates.

    Where the way it should take is down, a request takes the first that is not; where all are, it waits on its own.
    """
    request = w.requests[r]
    uncached = request.prompt_tokens - request.cached_tokens
    is_long = 1 if uncached > w.thresholds[request.request_class] else 0
    found = 0
    while w.routes[found].request_class != request.request_class or w.routes[found].is_long != is_long:
        found += 1
    while request.draw >= w.routes[found].up_to:
        found += 1
    return found if is_open(w, found) else open_instead(w, found)


@compiled
def is_open(w: World, way: int) -> bool:
    """Whether a way has an instance that is up, and its link any bandwidth."""
    k = w.routes[way].link
    return w.pools[w.routes[way].prefill_pool].n_up > 0 and (k == NONE or w.links[k].health > 0)


@compiled
def open_instead(w: World, way: int) -> int:
    """The first open way of the same class, or the way itself where there is none."""
    for other in range(w.routes.shape[0]):
        if w.routes[other].request_class == w.routes[way].request_class and is_open(w, other):
            return other
    return way
