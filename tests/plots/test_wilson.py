"""Wilson's interval holds the share that it belongs to, also where rounding could put it outside."""

import numpy as np

from siggpde.plots.classification import wilson_interval


def test_the_share_is_inside_for_all_counts():
    count = np.arange(1, 400)
    for right in (np.zeros(len(count)), np.ones(len(count)), np.round(0.3 * count) / count):
        low, high = wilson_interval(right, count, 0.95)
        assert (low <= right).all() and (right <= high).all() and (low < high).all()
