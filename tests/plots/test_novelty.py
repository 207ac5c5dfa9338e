"""Novelty of new series beside training series."""

import numpy as np
import pytest

from helpers.refusals import assert_refused
from siggpde.plots import plot_novelty

KNOWN = np.random.default_rng(0).exponential(0.33, 200)


def heights(patch):
    """The vertices of a step histogram: their largest share."""
    return patch.get_xy()[:, 1].max()


def test_histograms_are_shares_of_the_series(narrow, drawn):
    ax = plot_novelty([0.1, 0.1, 2.0, 3.0], KNOWN, narrow, limit=2.5)
    grey = [patch for patch in ax.patches if hasattr(patch, "get_height")]
    assert sum(patch.get_height() for patch in grey) == pytest.approx(1)
    assert heights(ax.patches[-1]) == pytest.approx(0.5)
    assert [line.get_xdata()[0] for line in ax.lines] == [1.0, 2.5]
    assert ax.get_xscale() == "linear"
    drawn(ax)


def test_far_and_equal_scores(pyplot, drawn):
    ax = plot_novelty({"test": KNOWN[:50], "times 10": KNOWN[:50] + 300}, KNOWN)
    assert ax.get_xscale() == "asinh"
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["training", "test", "times 10"]
    places = ax.transAxes.inverted().transform(ax.transData.transform([[0, 0], [1, 0], [300, 0]]))[:, 0]
    assert places[1] - places[0] > 0.05 and 0.9 < places[2] <= 1
    drawn(ax)
    drawn(plot_novelty([1.0], [1.0, 1.0]))


def test_what_cannot_be_drawn_is_refused():
    assert_refused("scores of series 0 is nan", plot_novelty, [np.nan], KNOWN, limit=None)
    assert_refused("scores of 'b' of series 0 is inf", plot_novelty, {"a": [1.0], "b": [np.inf]}, KNOWN, limit=None)
    assert_refused("no scores to draw", plot_novelty, {}, KNOWN, limit=None)
    assert_refused("at most 6 sets", plot_novelty, dict.fromkeys("abcdefg", KNOWN), KNOWN, limit=None)
    assert_refused(r"training must have shape \(n,\)", plot_novelty, [1.0], [], limit=None)
    assert_refused("limit must be a finite score", plot_novelty, [1.0], KNOWN, limit=np.inf)
