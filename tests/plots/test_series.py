"""A series with its contributions: colours of segments, paleness, and what is overlaid."""

# What matplotlib's lines and patches are is known only when they are drawn.
# pyright: reportAttributeAccessIssue=false, reportIndexIssue=false, reportOperatorIssue=false, reportCallIssue=false

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from siggpde.plots import plot_series
from siggpde.plots.style import AGAINST, FOR

POINTS = np.linspace(0, 6, 61)
VALUES = np.stack([np.sin(POINTS), np.cos(POINTS), 0.1 * POINTS])
PARTS = np.array([[1.0, 0.0, -1.0], [0.2, 0.2, 0.2], [0.0, 0.0, 0.1]])
EDGES = [0.0, 2.0, 4.0, 6.0]


def segments(ax):
    """The coloured lines, without the pale one below."""
    return ax.lines[1:4]


def test_segments_have_the_colours_of_their_contributions(pyplot, drawn):
    axes = plot_series(
        VALUES, PARTS, EDGES, times=POINTS, time_unit="s", channels=["x", "y", "z"], units=["m", "m", None]
    )
    first, middle, last = (to_rgb(line.get_color()) for line in segments(axes[0]))
    assert first == pytest.approx(to_rgb(FOR), abs=0.01) and last == pytest.approx(to_rgb(AGAINST), abs=0.01)
    assert np.ptp(middle) < 0.02  # grey
    for line, start, end in zip(segments(axes[0]), EDGES[:-1], EDGES[1:], strict=True):
        assert line.get_xdata()[[0, -1]].tolist() == [start, end]
        assert np.abs(line.get_ydata() - np.sin(line.get_xdata())).max() < 1e-9
    assert [ax.get_title(loc="left") for ax in axes] == ["x (m)", "y (m)", "z"]
    assert axes[-1].get_xlabel() == "time (s)"
    drawn(axes[0])


def test_edges_between_points_are_interpolated(pyplot):
    (ax,) = plot_series([[0.0, 1.0, 2.0]], [[1.0, -1.0]], [0.0, 0.5, 2.0])
    assert ax.lines[1].get_xydata().tolist() == [[0.0, 0.0], [0.5, 0.5]]
    assert ax.lines[2].get_xydata().tolist() == [[0.5, 0.5], [1.0, 1.0], [2.0, 2.0]]


def test_uncertain_contributions_are_pale(pyplot):
    sure = plot_series(VALUES, PARTS, EDGES, times=POINTS, std=np.full((3, 3), 1e-6))
    doubtful = plot_series(VALUES, PARTS, EDGES, times=POINTS, std=np.full((3, 3), 5.0))
    plain = plot_series(VALUES, PARTS, EDGES, times=POINTS)
    colour = [to_rgb(segments(axes[0])[0].get_color()) for axes in (sure, plain, doubtful)]
    assert colour[0] == pytest.approx(colour[1])
    assert min(colour[2]) > 0.5 > min(colour[1])


def test_the_counterfactual_is_drawn_where_it_differs(pyplot, drawn):
    other = VALUES.copy()
    other[1, 20:30] += 1
    axes = plot_series(VALUES, PARTS, EDGES, times=POINTS, counterfactual=other)
    shown = [np.isfinite(ax.lines[-1].get_ydata()) for ax in axes]
    assert not shown[0].any() and not shown[2].any()
    assert np.flatnonzero(shown[1]).tolist() == list(range(19, 31))
    assert axes[0].get_legend().get_texts()[0].get_text() == "counterfactual"
    drawn(axes[0])


def test_another_series_that_goes_far_does_not_flatten_the_first(pyplot, drawn):
    other = VALUES.copy()
    other[1, 20:30] += 1000
    axes = plot_series(VALUES, PARTS, EDGES, times=POINTS, counterfactual=other)
    reach = np.ptp(VALUES[1])
    assert np.ptp(axes[1].get_ylim()) < 5 * reach and axes[1].get_ylim()[0] < VALUES[1].min()
    assert axes[1].texts[0].get_text() == f"up to {other[1].max():.4g}" and not axes[0].texts
    drawn(axes[0])


def test_of_many_channels_the_largest_are_drawn_in_order(pyplot):
    parts = np.zeros((20, 2))
    parts[[3, 17, 5], 0] = [1.0, -2.0, 0.5]
    axes = plot_series(np.random.default_rng(0).normal(size=(20, 9)), parts, [0, 4, 8], most=3)
    assert [ax.get_title(loc="left") for ax in axes] == ["channel 3", "channel 5", "channel 17"]
    assert any("3 of 20 channels" in ax.get_xlabel() for ax in axes[0].figure.axes)


def test_given_axes_come_back_and_gaps_stay_gaps(pyplot, drawn):
    values = VALUES.copy()
    values[0, 10:15] = np.nan
    figure, axes = pyplot.subplots(3, 1, figsize=(80 / 25.4, 4), layout="constrained")
    assert all(
        one is other for one, other in zip(plot_series(values, PARTS, EDGES, axes, times=POINTS), axes, strict=True)
    )
    assert np.isnan(segments(axes[0])[0].get_ydata()).sum() == 5
    assert pyplot.get_fignums() == [figure.number]
    drawn(axes[0])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"values": VALUES[0]}, r"values must have shape \(n, n\)"),
        ({"values": [[1.0, np.inf]]}, r"values\[0, 1\] is inf"),
        ({"values": np.full((3, 61), np.nan)}, "all values of channel 0 are missing"),
        ({"contributions": PARTS[:2]}, r"contributions must have shape \(3, 3\).*got \(2, 3\)"),
        ({"std": -PARTS}, "std has negative numbers"),
        ({"edges": [0.0, 2.0, 1.0, 6.0]}, "edges must be ascending, but entry 2 is 1 after 2"),
        ({"edges": [0.0]}, "at least two entries"),
        ({"times": POINTS[:5]}, "times must have 61 numbers, one a point, got 5"),
        ({"channels": ["x"]}, "channels must have 3 entries"),
        ({"counterfactual": VALUES[:, :5]}, r"counterfactual must have shape \(3, 61\)"),
        ({"axes": []}, "3 channels to draw but 0 axes"),
        ({"most": 0}, "most must be a whole number of at least 1"),
    ],
)
def test_what_does_not_fit_is_refused(changes, message):
    arguments = {"values": VALUES, "contributions": PARTS, "edges": EDGES, "times": POINTS} | changes
    with pytest.raises(ValueError, match=message):
        plot_series(**arguments)
