"""A small hybrid-attention model in real numbers: KDA, MLA and mixtures of experts in NumPy, with its caches."""

from planner.hybrid.cache import RequestCache
from planner.hybrid.model import DecodeBatch, HybridModel, hybrid_model
from planner.hybrid.products import Products
from planner.hybrid.shapes import layer_shapes, shrunk

__all__ = [
    "DecodeBatch",
    "HybridModel",
    "Products",
    "RequestCache",
    "hybrid_model",
    "layer_shapes",
    "shrunk",
]
