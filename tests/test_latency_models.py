"""Latency under load against simulation, on a sample of `tests/campaigns/latency_models.py`."""

import numpy as np

from tests.campaigns.latency_models import table


def test_half_of_a_sample_of_the_campaign_is_as_late_as_predicted() -> None:
    """Medians of the campaign are about 5, 8 and 10 % (mean, P90, P99); a sample of six may have half as much again."""
    found = table(7, 6, 40_000)["all"]
    for name in ("link", "tandem"):
        mean, p90, p99 = found[name].T
        assert np.median(mean) < 0.1
        assert np.median(p90) < 0.15
        assert np.median(p99) < 0.2
    assert np.median(found["decode alone"]) < 0.03
