"""From shapes and measurements to seconds and bytes of one instance."""

from planner.roofline.instance import DecodePoint, InstanceRates, exposed_transfer_s, instance_rates
from planner.roofline.kv_cache import kv_bytes_curve, kv_bytes_per_token, recurrent_state_bytes

__all__ = [
    "DecodePoint",
    "InstanceRates",
    "exposed_transfer_s",
    "instance_rates",
    "kv_bytes_curve",
    "kv_bytes_per_token",
    "recurrent_state_bytes",
]
