"""A small hybrid-attention model in real numbers: KDA, MLA and mixtures of experts in NumPy, with its caches."""

from planner.hybrid.block_pool import BlockLayout, BlockPool, block_layout
from planner.hybrid.cache import RequestCache
from planner.hybrid.model import DecodeBatch, HybridModel, hybrid_model
from planner.hybrid.prefix_cache import PrefixCache, StateSnapshot, restore, snapshot
from planner.hybrid.products import Products
from planner.hybrid.shapes import layer_shapes, shrunk
from planner.hybrid.wire import cache_bytes, layer_payload, request_payload, take_payload, take_request

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
    "request_payload",
    "restore",
    "shrunk",
    "snapshot",
    "take_payload",
    "take_request",
]
