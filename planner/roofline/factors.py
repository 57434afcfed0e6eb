"""The few numbers of a software stack that time depends on, as plain values that a fit can move."""

from dataclasses import dataclass, fields, replace

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
    weight_read_fraction: Value = 0.85
    """Fraction of the memory bandwidth at which weights stream, kernel latency aside."""
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
    source_overhead_s: Value = 0.0
    """Per request, by the harness or table that measured it, beyond what the framework costs; 0 in predictions [s]."""
    burst: Value = 1.0
    """Weight of the burst with which a closed loop begins, over passes of one prompt each."""

    def before_prefill_s(self, prompt_tokens: Value) -> Value:
        """What a request waits for before its prefill, on the host and beside other passes [s]."""
        return self.request_overhead_s + self.source_overhead_s + self.prompt_token_s * prompt_tokens

    def with_version(self, kernel: Value, collective: Value, host: Value, request: Value) -> "Factors":
        """The factors of a version: latencies of kernels and collectives, host times and requests by these ratios."""
        return replace(
            self,
            kernel_latency_s=self.kernel_latency_s * kernel,
            collective_latency=self.collective_latency * collective,
            host_step_s=self.host_step_s * host,
            host_sequence_s=self.host_sequence_s * host,
            step_overhead_s=self.step_overhead_s * host,
            sequence_overhead_s=self.sequence_overhead_s * host,
            eager_launch_s=self.eager_launch_s * host,
            request_overhead_s=self.request_overhead_s * request,
        )


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
