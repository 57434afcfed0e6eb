"""The few numbers of a software stack that time depends on, as plain values that a fit can move."""

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

Value = float | NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Factors:
    """Shared by all models and accelerators; each is a number, or an array with one value per pass."""

    gemm_efficiency: Value = 1.0
    """Rate of dense products over what the accelerator's kernels were measured at."""
    moe_efficiency: Value = 1.0
    """Rate of experts' products over the measured grouped ones."""
    attention_efficiency: Value = 1.0
    """Rate of prefill attention over the measured kernel."""
    recurrence_efficiency: Value = 1.0
    """Rate of chunkwise recurrences over the measured kernel."""
    tile_rows: Value = 64.0
    """Rows that products are padded to [rows]."""
    weight_read_fraction: Value = 1.0
    """Rate of reading weights over the measured kernels, kernel latency aside."""
    kv_read_efficiency: Value = 1.0
    """Rate of reading the KV cache over the measured kernel."""
    activation_traffic: Value = 1.0
    """Activation bytes really moved over one read and one write of each."""
    kernel_latency_s: Value = 3e-6
    """Launch, ramp and tail of one kernel [s]."""
    collective_latency: Value = 1.0
    """Latency of a small collective over the accelerator's measured one."""
    replica_latency_s: Value = 10e-6
    """Per layer, to gather the tokens of attention replicas and scatter them again [s]."""
    step_overhead_s: Value = 0.5e-3
    """Per pass, whatever it holds, after the accelerator is done [s]."""
    sequence_overhead_s: Value = 3e-6
    """Per pass and sequence, after the accelerator is done [s]."""
    host_step_s: Value = 3e-3
    """Host work per pass that overlaps the accelerator's [s]."""
    host_sequence_s: Value = 20e-6
    """The same per sequence of the pass [s]."""
    eager_launch_s: Value = 8e-6
    """Host time to launch one kernel of a pass with prefill, which no graph replays; overlaps the accelerator [s]."""
    request_overhead_s: Value = 30e-3
    """Per request, before its prefill: HTTP, tokenizer, admission [s]."""
    prompt_token_s: Value = 0.0
    """Per token of a prompt, cached or not, before its prefill: tokenizer and hand-over of ids [s]."""
    burst: Value = 1.0
    """Weight of the burst with which a closed loop begins, over passes of one prompt each."""

    def before_prefill_s(self, prompt_tokens: Value) -> Value:
        """Time that a request waits before its prefill, on the host and beside other passes [s]."""
        return self.request_overhead_s + self.prompt_token_s * prompt_tokens


FACTOR_NAMES = tuple(field.name for field in fields(Factors))
DATASHEET = Factors(
    tile_rows=0.0,
    weight_read_fraction=1.0,
    kernel_latency_s=0.0,
    collective_latency=0.0,
    replica_latency_s=0.0,
    step_overhead_s=0.0,
    sequence_overhead_s=0.0,
    host_step_s=0.0,
    host_sequence_s=0.0,
    eager_launch_s=0.0,
    request_overhead_s=0.0,
)
"""The bare roofline: nothing fitted and nothing lost."""


@dataclass(frozen=True)
class Prior:
    """Where a factor is expected before any point speaks, and how far it may well be from there."""

    value: float
    spread: float
    """Standard deviation of the logarithm."""
    why: str


PRIORS: dict[str, Prior] = {
    "gemm_efficiency": Prior(1.0, 0.15, "the accelerator's own kernels were measured"),
    "moe_efficiency": Prior(0.9, 0.1, "the block of experts was measured; routing is uneven"),
    "attention_efficiency": Prior(1.0, 0.15, "the accelerator's own kernel was measured"),
    "recurrence_efficiency": Prior(
        0.3, 0.3, "SGLang's Triton chunk_kda takes 3.10 ms where the measured one takes 0.89"
    ),
    "tile_rows": Prior(64.0, 0.5, "tiles of 64 or 128 rows"),
    "weight_read_fraction": Prior(1.0, 0.1, "the kernels were measured"),
    "kv_read_efficiency": Prior(1.0, 0.15, "the accelerator's own kernel was measured"),
    "activation_traffic": Prior(2.0, 0.5, "norms, activations and expert sorting are rarely fused"),
    "kernel_latency_s": Prior(4e-6, 0.4, "2 to 8 us per kernel under CUDA graphs; AIConfigurator adds 3 us"),
    "collective_latency": Prior(0.7, 0.5, "custom all-reduces fused with what follows"),
    "replica_latency_s": Prior(30e-6, 0.7, "two more collectives per layer"),
    "step_overhead_s": Prior(0.4e-3, 0.7, "sampling and scheduling that nothing hides"),
    "sequence_overhead_s": Prior(8e-6, 0.7, "detokenizing and bookkeeping per sequence"),
    "host_step_s": Prior(2.5e-3, 0.4, "a scheduler's pass on the host"),
    "host_sequence_s": Prior(15e-6, 0.6, "the same per sequence"),
    "eager_launch_s": Prior(20e-6, 0.8, "two or three launches from PyTorch per operator counted"),
    "request_overhead_s": Prior(35e-3, 0.7, "HTTP, tokenizer and admission"),
    "prompt_token_s": Prior(2e-6, 0.7, "a tokenizer makes some half a million tokens a second"),
    "burst": Prior(1.0, 1e-3, "a closed loop begins with all of its requests at once, and runs of it have them all"),
}
"""What physics and public kernels lead to expect of any framework."""
PRIOR = Factors(**{name: prior.value for name, prior in PRIORS.items()})
"""The factors of a framework of which nothing is known."""
