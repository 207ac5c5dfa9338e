"""Plots of what a fit did: members, training, trials and sizes."""

import numpy as np
import pytest

from helpers.refusals import assert_refused
from helpers.small_committees import batch_of, labels_of, trained_model
from siggpde.plots import plot_history, plot_sizes, plot_trials, plot_weights
from siggpde.training import History, Record


def test_weights(lines, narrow, drawn, pyplot):
    committee = lines[0].committee_
    ax = plot_weights(committee, narrow)
    ends = np.zeros(len(committee.members))
    for bar in ax.patches:
        ends[round(bar.get_y() + bar.get_height() / 2)] += bar.get_width()
    assert ends == pytest.approx(sorted(committee.weights.tolist(), reverse=True))
    assert ax.yaxis_inverted() and ax.get_legend() is not None
    renderer = ax.figure.canvas.get_renderer()
    for loss in ax.texts:  # beside its bar, without a space in front, which browsers leave out
        right_end = ax.transData.transform((ends[round(loss.xy[1])], 0.0))[0]
        assert loss.get_window_extent(renderer).x0 > right_end + 2 and not loss.get_text().startswith(" ")
    drawn(ax)
    batch = batch_of(24)
    ax = plot_weights(trained_model(batch, labels_of(batch, 2)))
    assert sorted(text.get_text() for text in ax.get_yticklabels()) == ["model 1"]
    drawn(ax)


def test_history(narrow, drawn):
    records = [Record("q", i, float(i), elbo=-1000.0 if i == 0 else -1.0 / i) for i in range(6)]
    records += [Record("all", i, 6.0 + i, elbo=-0.1, nlpp=0.3 + abs(i - 2) / 10) for i in range(5)]
    ax = plot_history(History(records), narrow)
    loss, nlpp = ax.lines
    assert loss.get_ydata() == pytest.approx([1000, *(1 / i for i in range(1, 6)), *[0.1] * 5])
    assert nlpp.get_xdata() == pytest.approx([6, 7, 8, 9, 10])
    assert ax.get_ylim()[1] < 10  # the first loss is far above
    assert {text.get_text() for text in ax.texts} == {"q", "all"}
    assert "best, 0.3" in [text.get_text() for text in ax.get_legend().get_texts()]
    drawn(ax)
    assert plot_history(History(records), against="records").lines[0].get_xdata()[-1] == 10


def test_trials(pyplot, drawn):
    ax = plot_trials([0.5, np.nan, 0.3, 0.4])
    assert ax.lines[0].get_ydata().tolist() == [0.5, 0.3, 0.3] and ax.lines[0].get_xdata().tolist() == [1, 3, 4]
    drawn(ax)
    assert plot_trials([0.5, 0.02]).get_yscale() == "log"
    assert plot_trials([0.5, 0.3]).get_yscale() == plot_trials([0.5, -0.02]).get_yscale() == "linear"


def test_sizes(narrow, drawn):
    ax = plot_sizes([10, 100, 1000], {"a": [[3, 2, 1], [5, 2, 1]], "b": [1, 1, 1]}, narrow, metric="error")
    assert ax.lines[0].get_ydata().tolist() == [4, 2, 1] and ax.get_xscale() == "log"
    assert [text.get_text() for text in ax.get_xticklabels()] == ["10", "100", "1000"]
    drawn(ax)


def test_what_cannot_be_drawn_is_refused():
    assert_refused("no ELBO and no NLPP", plot_history, History())
    assert_refused("a finite number among them", plot_trials, [np.nan])
    assert_refused("positive and ascending", plot_sizes, [10, 5], [1, 2])
    assert_refused(r"values of 'a' must have shape \(2,\) or \(runs, 2\)", plot_sizes, [5, 10], {"a": [1.0]})
    assert_refused("values must be finite", plot_sizes, [5, 10], [1.0, np.nan])
    assert_refused("one to 7 methods, got 0", plot_sizes, [5, 10], {})
