"""A small hybrid-attention model in real numbers: KDA, MLA and mixtures of experts in NumPy, with its caches.

Public modules:

    arrays     the seam between NumPy's arrays and torch's
    core_time  time of cores that the hypervisor gave to others
    live       the hybrid model served by processes of this machine
    machine    rates of one core, or of its device
    timing     passes timed inside the workers
"""

from planner.hybrid.block_pool import BlockLayout, BlockPool, block_layout
from planner.hybrid.cache import RequestCache
from planner.hybrid.model import DecodeBatch, HybridModel, hybrid_model
from planner.hybrid.prefix_cache import PrefixCache, StateSnapshot, restore, snapshot
from planner.hybrid.products import Products
from planner.hybrid.shapes import layer_shapes, shrunk
from planner.hybrid.wire import cache_bytes, layer_payload, take_payload

__all__ = [
    "BlockLayout",
    "BlockPool",
    "DecodeBatch",
    "HybridModel",
    "PrefixCache",
    "Products",
    "RequestCache",
    "StateSnapshot",
    "block_layout",
    "cache_bytes",
    "hybrid_model",
    "layer_payload",
    "layer_shapes",
    "restore",
    "shrunk",
    "snapshot",
    "take_payload",
]
