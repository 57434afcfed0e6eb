"""Between the router and a prefill pool: a cached prefix may have to come from another site first."""

from planner.executor.compiled import compiled, compiled_apart, compiled_extra
from planner.executor.kernel.cache import hit_tokens, keep, n_prefix_blocks
from planner.executor.kernel.curves import value
from planner.executor.kernel.link import settle, share_link, start_transfer
from planner.executor.kernel.prefill import arrive_at_prefill
from planner.executor.kernel.records import NONE, World
from planner.executor.kernel.router import better_site, route, site_of


@compiled
def admit_request(w: World, r: int) -> None:
    """Route a request, and hand it to its pool, or fetch its prefix first."""
    w.requests[r].route = route(w, r)
    if w.cache_rule[0].is_on == 1 and is_fetched(w, r):
        return
    arrive_at_prefill(w, w.routes[w.requests[r].route].prefill_pool, r)


@compiled_extra(False)
def is_fetched(w: World, r: int) -> bool:
    """Look a prompt up in the caches: whether a prefix of it has to come from another site first."""
    there = better_site(w, r)
    if there != NONE:
        fetch(w, r, there)
        return True
    w.requests[r].cached_tokens = hit_tokens(w, site_of(w, w.requests[r].route), r)
    return False


@compiled_apart
def fetch(w: World, r: int, there: int) -> None:
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
def fetched(w: World, r: int) -> None:
    """A prefix has come: the site keeps it, and the request goes on."""
    request = w.requests[r]
    request.is_fetching = 0
    keep(w, site_of(w, request.route), r, request.cached_tokens, True)
    arrive_at_prefill(w, w.routes[request.route].prefill_pool, r)
