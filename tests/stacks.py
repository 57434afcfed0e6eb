"""A stack profile as a fit would leave it: every table is there, and nothing in it depends on the shipped ones."""

NAME = "some-engine"

CALIBRATED = """\
schema = "planner.stack/1"
name = "some-engine"
title = "Some Engine"
aliases = ["Engine"]
framework = "some-engine"

[sources]
points = "Points measured for this test"
priors = "Assumed before any fit"
docs = "The engine's pages, https://example.org/engine"

[settings]
chunk_tokens = 4096
memory_fraction = 0.88
reserves_output = false
quantized_kv = true
usual_harness = "some-bench"

[harnesses.some-bench]
source = "docs"
shortest_fraction = 0.8
tokens_per_pass = 16384
polling = [{ from_concurrency = 1, passes = 4 }, { from_concurrency = 16, passes = 8 }]

[factors]
gemm_efficiency = { value = 0.8712, source = "points", basis = "calibrated", spread_fraction = 0.021 }
moe_efficiency = { value = 0.75, source = "points", basis = "calibrated", spread_fraction = 0.033 }
attention_efficiency = { value = 1.1, source = "points", basis = "calibrated", spread_fraction = 0.05 }
recurrence_efficiency = { value = 1.0, source = "priors", basis = "assumed", note = "no point has recurrent layers" }
tile_rows = { value = 128.0, source = "docs", basis = "quoted" }
weight_read_fraction = { value = 0.81, source = "points", basis = "calibrated" }
kv_read_efficiency = { value = 0.9, source = "points", basis = "calibrated" }
activation_traffic = { value = 1.4, source = "points", basis = "calibrated" }
kernel_latency_us = { value = 3.2, source = "points", basis = "calibrated" }
collective_latency = { value = 1.25, source = "points", basis = "calibrated" }
replica_latency_us = { value = 11.0, source = "points", basis = "calibrated" }
step_overhead_ms = { value = 0.45, source = "points", basis = "calibrated" }
sequence_overhead_us = { value = 2.5, source = "points", basis = "calibrated" }
host_step_ms = { value = 3.5, source = "points", basis = "calibrated" }
host_sequence_us = { value = 21.0, source = "points", basis = "calibrated" }
eager_launch_us = { value = 9.0, source = "points", basis = "calibrated" }
request_overhead_ms = { value = 28.0, source = "points", basis = "calibrated" }
prompt_token_us = { value = 1.75, source = "points", basis = "calibrated" }
burst = { value = 0.0, source = "points", basis = "calibrated" }

[calibration]
date = "2026-01-31"
source = "points"
models = ["qwen3-235b", "llama-3.1-70b"]
hardware = ["h200-sxm", "h100-sxm"]
input_tokens = [128, 32768]
context_tokens = [256, 34000]
batch = [1, 256]
n_accelerators = [1, 8]
points = [
  { name = "serving_points.csv", sha256 = "DIGEST", n_points = 210, n_used = 200 },
  { name = "more_points.csv", sha256 = "DIGEST", n_points = 20, n_used = 20 },
]
groups = [
  { model = "qwen3-235b", hardware = "h200-sxm", n_points = 120, ttft_mean_abs = 0.11, tpot_mean_abs = 0.062 },
  { model = "llama-3.1-70b", hardware = "h100-sxm", n_points = 80, tpot_mean_abs = 0.071 },
]

[calibration.in_sample]
ttft = { n = 190, mean_abs = 0.121, median_abs = 0.084, bias = -0.012 }
tpot = { n = 200, mean_abs = 0.066, median_abs = 0.051, bias = 0.004 }

[calibration.held_out_models]
ttft = { n = 190, mean_abs = 0.182, median_abs = 0.143, bias = 0.031 }
tpot = { n = 200, mean_abs = 0.093, median_abs = 0.074, bias = -0.02 }

[calibration.model_bands]
prefill = { low = 0.78, high = 1.33, n = 190 }
decode = { low = 0.87, high = 1.16, n = 200 }

[calibration.hardware_bands]
prefill = { low = 0.71, high = 1.45, n = 190 }
""".replace("DIGEST", "0f" * 32)
