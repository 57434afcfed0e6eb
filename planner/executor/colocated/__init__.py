"""Colocated pools: what the event loop hands to them is run pass by pass once it has ended.

Requests go one way, from prefill over the link into the batch, and nothing comes back: so all prefill and all links are
run first, and then every pool with what has reached it by then. The event loop knows such a pool as a way in, a prefill
pool that takes no time, and a way out, a decode pool that is never entered.
"""
