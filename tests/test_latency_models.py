"""Latency under load against simulation, on a sample of `tests/campaigns/latency_models.py`."""

import numpy as np

from tests.campaigns.latency_models import table


def test_most_of_a_sample_of_the_campaign_is_late_as_predicted() -> None:
    found = table(7, 8, 60_000)["all"]
    for name in ("link", "tandem"):
        mean, p90, p99 = found[name].T
        assert np.median(mean) < 0.08
        assert np.median(p90) < 0.12
        assert np.median(p99) < 0.2
        assert mean.max() < 0.4
    assert np.median(found["decode"]) < 0.05
