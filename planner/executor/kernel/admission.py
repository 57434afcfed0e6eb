"""The router, and what lies before a prefill pool: a cached prefix may have to come from another site first."""

from planner.executor.compiled import compiled, compiled_apart, compiled_extra
from planner.executor.kernel.cache import hit_tokens, keep, n_prefix_blocks
from planner.executor.kernel.curves import value
from planner.executor.kernel.link import settle, share_link, start_transfer
from planner.executor.kernel.prefill import arrive_at_prefill
from planner.executor.kernel.records import NONE
from planner.executor.kernel.state import SimulationState


@compiled
def admit_request(w: SimulationState, r: int) -> None:
    """Route a request, and hand it to its pool, or fetch its prefix first."""
    w.requests[r].route = route(w, r)
    if w.cache_rule[0].is_on == 1 and is_fetched(w, r):
        return
    arrive_at_prefill(w, w.routes[w.requests[r].route].prefill_pool, r)


@compiled_extra(False)
def is_fetched(w: SimulationState, r: int) -> bool:
    """Look a prompt up in the caches: whether a prefix of it has to come from another site first."""
    there = better_site(w, r)
    if there != NONE:
        fetch(w, r, there)
        return True
    w.requests[r].cached_tokens = hit_tokens(w, site_of(w, w.requests[r].route), r)
    return False


@compiled_apart
def fetch(w: SimulationState, r: int, there: int) -> None:
    """Send a prefix to the site that prefills: the blocks that lack there, and the state whole."""
    request, rule = w.requests[r], w.cache_rule[0]
    here = site_of(w, request.route)
    k, curve = w.site_links[there, here], w.pools[w.routes[request.route].prefill_pool].wire_curve
    request.cached_tokens, request.is_fetching, request.instance = hit_tokens(w, there, r), 1, NONE
    held = min(n_prefix_blocks(w, here, r) * rule.block_tokens, request.cached_tokens)
    size = value(w.curves, curve, request.cached_tokens) - value(w.curves, curve, held) + value(w.curves, curve, 0.0)
    settle(w, k)
    flow = w.flows[k, start_transfer(w, k, r)]
    flow.is_open, flow.backlog_bytes = 0, size
    request.wire_bytes += size
    share_link(w, k)


@compiled_extra(None)
def fetched(w: SimulationState, r: int) -> None:
    """A prefix has come: the site keeps it, and the request goes on."""
    request = w.requests[r]
    request.is_fetching = 0
    keep(w, site_of(w, request.route), r, request.cached_tokens, True)
    arrive_at_prefill(w, w.routes[request.route].prefill_pool, r)


@compiled
def route(w: SimulationState, r: int) -> int:
    """More uncached tokens than the threshold are long; ways of one kind share by their rates.

    Where the way it should take is down, or its instances cannot hold the prompt, a request takes the first that can
    have it; where all that hold it are down, it waits on such a one.
    With caches, what counts as cached follows the paper (Prefill-as-a-Service, arXiv 2604.15039v2): under scarce
    bandwidth what the site of the short way holds, under ample bandwidth the longest prefix that either site holds or
    can get from the other.
    """
    request = w.requests[r]
    cached = known_tokens(w, r) if w.cache_rule[0].is_on == 1 else request.cached_tokens
    is_long = 1 if request.prompt_tokens - cached > w.thresholds[request.request_class] else 0
    found = route_of_part(w, r, is_long)
    return found if is_open(w, found) and holds(w, found, r) else open_instead(w, found, r)


@compiled
def route_of_part(w: SimulationState, r: int, is_long: int) -> int:
    """The way of a request if it is long, or short."""
    request, found = w.requests[r], 0
    while w.routes[found].request_class != request.request_class or w.routes[found].is_long != is_long:
        found += 1
    while request.draw >= w.routes[found].up_to:
        found += 1
    return found


@compiled_extra(0)
def known_tokens(w: SimulationState, r: int) -> int:
    """Cached tokens that decide about the way of a request."""
    short, long = site_of(w, route_of_part(w, r, 0)), site_of(w, route_of_part(w, r, 1))
    at_short = hit_tokens(w, short, r)
    if w.cache_rule[0].is_ample == 0:
        return at_short
    return max(at_short, hit_tokens(w, long, r))


@compiled
def site_of(w: SimulationState, found: int) -> int:
    """Site that prefills on a way."""
    return w.pools[w.routes[found].prefill_pool].site


@compiled_apart
def better_site(w: SimulationState, r: int) -> int:
    """Another site whose longer prefix is fetched: bandwidth is ample and a link leads here; NONE without one."""
    here = site_of(w, w.requests[r].route)
    best, most = NONE, hit_tokens(w, here, r)
    if w.cache_rule[0].is_ample == 1:
        for there in range(w.caches.shape[0]):
            k = w.site_links[there, here]
            if there != here and k != NONE and w.links[k].health > 0 and hit_tokens(w, there, r) > most:
                best, most = there, hit_tokens(w, there, r)
    return best


@compiled
def is_open(w: SimulationState, found: int) -> bool:
    """True if a way has an instance that is up, and its link any bandwidth."""
    k = w.routes[found].link
    return w.pools[w.routes[found].prefill_pool].n_up > 0 and (k == NONE or w.links[k].health > 0)


@compiled
def holds(w: SimulationState, found: int, r: int) -> bool:
    """True if instances on a way have memory for a prompt; a colocated one that decodes it, for its answer as well."""
    pool, decode_pool = w.pools[w.routes[found].prefill_pool], w.decode_pools[w.routes[found].decode_pool]
    return bool(w.requests[r].prompt_tokens <= min(pool.longest_tokens, decode_pool.longest_tokens))


@compiled_apart
def open_instead(w: SimulationState, found: int, r: int) -> int:
    """The first open way of the same class that holds a prompt; else the way itself, or the first that holds it."""
    instead = found
    for other in range(w.routes.shape[0]):
        if w.routes[other].request_class == w.routes[found].request_class and holds(w, other, r):
            if is_open(w, other):
                return other
            if not holds(w, instead, r):
                instead = other
    return instead
