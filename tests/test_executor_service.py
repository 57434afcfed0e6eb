"""What full instances decode: batches cut from requests one by one."""

import numpy as np
import pytest

from planner.executor.service import DecodeTimes


@pytest.mark.parametrize(("memory_tokens", "batch_limit"), [(900.0, 4), (3000.0, 4), (3000.0, 64), (1e9, 4), (1e9, 64)])
def test_a_full_instance_makes_tokens_at_the_mean_of_step_over_batch(memory_tokens: float, batch_limit: int) -> None:
    """Batches from each request on, of as many as the memory and the limit hold; but for those cut short at the end."""
    rng = np.random.default_rng(3)
    prompts, outputs = rng.integers(100, 800, 50), rng.integers(10, 100, 50)
    step_s = np.column_stack([0.01 + 0.001 * np.arange(batch_limit + 1), np.full(batch_limit + 1, 1e-6)])
    times = DecodeTimes(batch_limit, step_s, memory_tokens * 2.0, 100.0, 2.0)
    each = []
    for first in range(50):
        n, kept = 0, 0.0
        while first + n < 50 and n < batch_limit:
            kept += 100.0 + 2.0 * (prompts[first + n] + outputs[first + n])
            if kept > memory_tokens * 2.0 and n > 0:
                break
            n += 1
        if first + n < 50 or n == batch_limit or kept > memory_tokens * 2.0:
            context = sum(prompts[first : first + n] + outputs[first : first + n] / 2)
            each.append((step_s[n, 0] + 1e-6 * context) / n)
    if not each:
        context = sum(prompts + outputs / 2)
        each = [(step_s[50, 0] + 1e-6 * context) / 50]
    assert times.full_tokens_per_s(prompts, outputs) == pytest.approx(1 / np.mean(each))
