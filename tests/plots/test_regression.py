"""Plots of predicted numbers: their intervals, and where numbers fall in their distributions."""

import itertools
import math

import numpy as np
import pytest
import torch
from scipy.stats import binom, norm

from helpers.refusals import assert_refused
from siggpde.plots import plot_intervals, plot_pit

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


def test_bad_quantiles_and_intervals_are_refused():
    assert_refused("levels must be ascending", plot_pit, [1.0], [[1.0, 2.0]], [0.5, 0.4])
    assert_refused("between 0 and 1", plot_pit, [1.0], [[1.0, 2.0]], [0.5, 1.0])
    assert_refused("quantiles of series 0 are not ascending", plot_pit, [1.0], [[2.0, 1.0]], [0.4, 0.5])
    assert_refused(r"quantiles must have shape \(1, 2\)", plot_pit, [1.0], [[2.0]], [0.4, 0.5])
    assert_refused("y of series 0 is nan", plot_pit, [np.nan], [[2.0]], [0.4])
    assert_refused("they have 1, 2, 1, 1", plot_intervals, [1.0], [1.0, 2.0], [0.0], [2.0])
    assert_refused(r"y must have shape \(n,\)", plot_intervals, [], [], [], [])
    assert_refused("mean of series 0 is nan", plot_intervals, [1.0], [math.nan], [0.0], [2.0])
    assert_refused("upper of series 0 is inf", plot_intervals, [1.0], [1.0], [0.0], [math.inf])
    assert_refused("series 0 ends below its start", plot_intervals, [1.0], [1.0], [2.0], [0.0])
    assert_refused("y must be numbers", plot_intervals, ["a"], [1.0], [0.0], [2.0])


def test_intervals(pyplot, drawn, narrow):
    y = np.linspace(0, 5, 20)
    mean = y + np.where(np.arange(20) % 5 == 0, 2.0, 0.1)
    ax = plot_intervals(y, torch.as_tensor(mean), mean - 1, mean + 1)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["inside (80%)", "outside (20%)"]
    drawn(ax)
    assert len(plot_intervals(y, y, y - 1, y + 1).get_legend().get_texts()) == 1
    y = np.linspace(0, 0.18, 30)
    ax = plot_intervals(y, y, y - 1e-3, y + 1e-3, narrow)
    ax.figure.canvas.draw()
    boxes = [text.get_window_extent() for text in ax.get_xticklabels() if text.get_text()]
    assert all(one.x1 < other.x0 for one, other in itertools.pairwise(boxes))
