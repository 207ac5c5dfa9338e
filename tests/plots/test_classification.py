"""Plots of class probabilities: reliability, confusion, and risk against coverage."""

import itertools

import numpy as np
import pytest
from scipy.stats import norm

from helpers.refusals import assert_refused
from siggpde.metrics import classification_metrics, risk_coverage
from siggpde.plots import plot_calibration, plot_confusion, plot_risk_coverage
from siggpde.plots.classification import equal_count_bins, wilson_interval


def honest(n=400):
    """Labels (n,) and probabilities (n, 2) that are right as often as they say."""
    random = np.random.default_rng(0)
    p = random.uniform(0.5, 1.0, n)
    return (random.random(n) < p).astype(int), np.stack([1 - p, p], axis=1)


def test_bins_and_their_intervals():
    random = np.random.default_rng(1)
    p, right = random.random(103), random.random(103) < 0.5
    groups = equal_count_bins(p, right, 10)
    assert len(groups.count) == 10 and groups.count.sum() == 103 and np.ptp(groups.count) <= 1
    assert (groups.count * groups.probability).sum() == pytest.approx(p.sum())
    assert (groups.count * groups.right).sum() == pytest.approx(right.sum())
    first = np.argsort(p)[: groups.count[0]]
    assert groups.right[0] == pytest.approx(right[first].mean())
    p, right = np.array([0.9, 1.0, 1.0, 1.0, 1.0, 0.8]), np.array([1, 1, 0, 1, 1, 0], dtype=bool)
    groups = equal_count_bins(p, right, 6)
    assert groups.count.tolist() == [1, 1, 4] and groups.right.tolist() == [0.0, 1.0, 0.75]
    assert equal_count_bins(p[:1], right[:1], 5).count.tolist() == [1]
    # The ends p are where |share - p| is z standard deviations of a share whose expectation is p.
    share, count = np.array([0.0, 0.3, 1.0]), np.array([5, 40, 17])
    for end in wilson_interval(share, count, 0.9):
        assert np.abs(share - end) == pytest.approx(norm.ppf(0.95) * np.sqrt(end * (1 - end) / count))
    count = np.arange(1, 400)
    for right in (np.zeros(len(count)), np.ones(len(count)), np.round(0.3 * count) / count):
        low, high = wilson_interval(right, count, 0.95)
        assert (low <= right).all() and (right <= high).all() and (low < high).all()


def test_calibration(pyplot, drawn):
    ax = plot_calibration(*honest(), [0, 1], bins=8)
    line, _, (bars,) = ax.containers[0]
    x, y = line.get_data()
    assert len(x) == 8 and np.abs(x - y).max() < 0.15
    ends = np.array([segment[:, 1] for segment in bars.get_segments()])
    low, high = wilson_interval(y, np.full(8, 50), 0.95)
    assert ends == pytest.approx(np.stack([low, high], axis=1))
    (strip,) = ax.child_axes
    assert not strip.patch.get_visible()
    assert sum(patch.get_height() for patch in strip.patches) == 400
    drawn(ax)


def test_calibration_of_few_and_of_sure_series(narrow, drawn):
    ax = plot_calibration([0, 1], [[1, 0], [0, 1]], [0, 1], narrow)
    assert len(ax.containers[0][0].get_xdata()) == 1
    drawn(ax)


def test_sure_series_are_told_apart(narrow, drawn):
    """Axes are stretched, the diagonal is straight, and bins that would touch are one."""
    top = np.repeat([0.7, 0.97, 0.99, 0.9990, 0.9991], 20)
    y = np.zeros(100, dtype=int)
    ax = plot_calibration(y, np.stack([top, 1 - top], axis=1), [0, 1], narrow)
    x = ax.containers[0][0].get_xdata()
    assert x == pytest.approx([0.7, 0.97, 0.99, 0.99905])
    ends = np.array([segment[:, 1] for segment in ax.containers[0][2][0].get_segments()])
    assert ends[-1] == pytest.approx(np.ravel(wilson_interval(np.ones(1), np.array([40]), 0.95)))
    place = ax.transAxes.inverted().transform(ax.transData.transform(np.stack([x, x], axis=1)))
    assert place[:, 0] == pytest.approx(place[:, 1]) and np.diff(place[:, 0]).min() > 0.1
    (strip,) = ax.child_axes
    assert sum(patch.get_height() for patch in strip.patches) == 100
    asked = plot_calibration(y, np.stack([top, 1 - top], axis=1), [0, 1], bins=5)
    assert len(asked.containers[0][0].get_xdata()) == 5
    drawn(ax)


def test_risk_coverage(narrow, drawn):
    y, p = honest()
    ax = plot_risk_coverage(y, p, [0, 1], narrow)
    curve = risk_coverage(y, p, [0, 1])
    random, best, model = ax.lines
    assert model.get_ydata() == pytest.approx(curve.risk) and model.get_xdata() == pytest.approx(curve.coverage)
    assert random.get_ydata()[0] == pytest.approx(curve.risk[-1])
    assert best.get_ydata()[0] == pytest.approx(0) and best.get_ydata()[-1] == pytest.approx(curve.risk[-1])
    drawn(ax)
    drawn(plot_risk_coverage([0, 1], [[1, 0], [0, 1]], [0, 1]))  # nothing is wrong


@pytest.mark.parametrize("plot", [plot_calibration, plot_risk_coverage])
def test_what_cannot_be_drawn_is_refused(plot):
    assert_refused("never seen: 2", plot, [0, 2], [[1, 0], [0, 1]], [0, 1])
    with pytest.raises(ValueError, match=r"level must be between 0 and 1, such as 0\.95, got 95"):
        plot([0, 1], [[1, 0], [0, 1]], [0, 1], level=95)
    assert_refused("whole number of at least 1, got 0", plot_calibration, [0, 1], [[1, 0], [0, 1]], [0, 1], bins=0)


@pytest.mark.parametrize("count", [2, 5, 30, 90])
def test_confusion(pyplot, drawn, count):
    y = np.arange(90) % count
    chances = np.full((90, count), 0.4 / count)
    chances[np.arange(90), (y + (np.arange(90) % 7 == 0)) % count] += 0.6
    metrics = classification_metrics(y, chances, np.arange(count))
    ax = plot_confusion(metrics)
    (image,) = ax.images
    assert image.get_array().sum() == pytest.approx(count)
    written = [text.get_text() for text in ax.texts]
    counts = [str(n) for row in metrics.confusion for n in row]
    assert written == (counts if count <= 10 else [n for n in counts if n != "0"])
    assert [text.get_text() for text in ax.get_xticklabels()] == [str(label) for label in range(count)]
    assert ax.get_xlabel() == "predicted" and ax.get_ylabel() == "true"
    drawn(ax)


def test_long_names_of_classes_leave_room_for_the_matrix(narrow, drawn):
    names = [f"{letter} written with the left hand" for letter in "abcd"]
    ax = plot_confusion(classification_metrics(names, np.eye(4), names), narrow)
    ax.figure.canvas.draw()
    assert ax.get_window_extent().width > 0.4 * ax.figure.bbox.width
    assert ax.title.get_window_extent().x1 <= ax.figure.bbox.x1
    assert len({text.get_text() for text in ax.get_xticklabels()}) == 4
    drawn(ax)


def test_names_of_many_classes_do_not_overlap(narrow):
    names = [f"{letter}{other} on the left" for letter in "abcdefg" for other in "xyz"]
    ax = plot_confusion(classification_metrics(names, np.eye(21), names), narrow)
    ax.figure.canvas.draw()
    boxes = [text.get_window_extent() for text in ax.get_yticklabels()]
    assert not ax.texts and len(boxes) == 21
    assert all(above.y0 >= below.y1 - 1.5 for above, below in itertools.pairwise(boxes))
