"""The histogram of where numbers fall in their predictive distributions."""

# What matplotlib's lines and patches are is known only when they are drawn.
# pyright: reportAttributeAccessIssue=false, reportIndexIssue=false, reportOperatorIssue=false, reportCallIssue=false

import numpy as np
import pytest
from scipy.stats import binom, norm

from siggpde.plots import plot_pit

LEVELS = np.array([0.1, 0.25, 0.5, 0.9])


def test_bars_are_the_shares_between_quantiles(narrow, drawn):
    random = np.random.default_rng(0)
    mean = random.normal(size=500)
    y = mean + random.normal(size=500)
    quantiles = mean[:, None] + norm.ppf(LEVELS)
    ax = plot_pit(y, quantiles, LEVELS, narrow)
    bars = ax.patches[: len(LEVELS) + 1]
    edges = np.concatenate([[0], LEVELS, [1]])
    expected = np.histogram(norm.cdf(y - mean), edges, density=True)[0]
    assert [bar.get_height() for bar in bars] == pytest.approx(expected.tolist())
    high = ax.patches[-2].get_data().values
    assert high == pytest.approx(binom.ppf(0.975, 500, np.diff(edges)) / (500 * np.diff(edges)))
    drawn(ax)


@pytest.mark.parametrize(
    ("y", "quantiles", "levels", "message"),
    [
        ([1.0], [[1.0, 2.0]], [0.5, 0.4], "levels must be ascending"),
        ([1.0], [[1.0, 2.0]], [0.5, 1.0], "between 0 and 1"),
        ([1.0], [[2.0, 1.0]], [0.4, 0.5], "quantiles of series 0 are not ascending"),
        ([1.0], [[2.0]], [0.4, 0.5], r"quantiles must have shape \(1, 2\)"),
        ([np.nan], [[2.0]], [0.4], "y of series 0 is nan"),
    ],
)
def test_what_does_not_fit_is_refused(y, quantiles, levels, message):
    with pytest.raises(ValueError, match=message):
        plot_pit(y, quantiles, levels)
