"""A series and its explanation, drawn: the right colours at the right places, with the counterfactual."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from matplotlib.colors import to_rgb

from helpers.refusals import assert_refused
from helpers.small_estimators import classifier, random_walks, regressor
from siggpde.io import TimeFormat
from siggpde.plots import plot_explanation, plot_series
from siggpde.plots.style import AGAINST, FOR, PALE
from siggpde.series import SeriesBatch, Spectrogram

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


def test_edges_are_interpolated_and_uncertain_contributions_pale(pyplot):
    (ax,) = plot_series([[0.0, 1.0, 2.0]], [[1.0, -1.0]], [0.0, 0.5, 2.0])
    assert ax.lines[1].get_xydata().tolist() == [[0.0, 0.0], [0.5, 0.5]]
    assert ax.lines[2].get_xydata().tolist() == [[0.5, 0.5], [1.0, 1.0], [2.0, 2.0]]
    sure = plot_series(VALUES, PARTS, EDGES, times=POINTS, std=np.full((3, 3), 1e-6))
    doubtful = plot_series(VALUES, PARTS, EDGES, times=POINTS, std=np.full((3, 3), 5.0))
    plain = plot_series(VALUES, PARTS, EDGES, times=POINTS)
    colour = [to_rgb(segments(axes[0])[0].get_color()) for axes in (sure, plain, doubtful)]
    assert colour[0] == pytest.approx(colour[1])
    assert min(colour[2]) > 0.5 > min(colour[1])


def test_counterfactuals_are_drawn_where_they_differ_and_do_not_flatten_the_series(pyplot, drawn):
    other = VALUES.copy()
    other[1, 20:30] += 1
    axes = plot_series(VALUES, PARTS, EDGES, times=POINTS, counterfactual=other)
    shown = [np.isfinite(ax.lines[-1].get_ydata()) for ax in axes]
    assert not shown[0].any() and not shown[2].any()
    assert np.flatnonzero(shown[1]).tolist() == list(range(19, 31))
    assert axes[0].get_legend().get_texts()[0].get_text() == "counterfactual"
    drawn(axes[0])
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
    again = plot_series(values, PARTS, EDGES, axes, times=POINTS)
    assert all(one is other for one, other in zip(again, axes, strict=True))
    assert np.isnan(segments(axes[0])[0].get_ydata()).sum() == 5
    assert pyplot.get_fignums() == [figure.number]
    drawn(axes[0])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"values": VALUES[0]}, r"values must have shape \(n, n\)"),
        ({"values": [[1.0, np.inf]]}, r"values\[0, 1\] is inf"),
        ({"values": np.full((3, 61), np.nan)}, "all values of all channels are missing"),
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
    assert_refused(message, plot_series, **arguments)


NAMES = ["x", "y"]
X = random_walks(24)
Y = np.where(X[:, 0, -1] > 0, "up", "down")


@pytest.fixture(scope="module")
def fitted():
    return classifier(channel_names=NAMES).fit(X, Y)


@pytest.fixture(scope="module")
def explained(fitted):
    return fitted.explain(X[:1], segments=4)[0]


def test_it_is_drawn_on_the_series_with_its_counterfactual(fitted, explained, pyplot, drawn):
    changed = fitted.counterfactual(X[0])
    axes = plot_explanation(explained, counterfactual=changed, units=["m", None], time_unit="s")
    assert [ax.get_title(loc="left") for ax in axes] == ["x (m)", "y"]
    for channel, ax in enumerate(axes):
        assert ax.lines[0].get_ydata() == pytest.approx(X[0, channel])
        assert len(ax.lines) == 1 + 4 + 1  # the series, its segments, the counterfactual
        shown = np.isfinite(ax.lines[-1].get_ydata())
        assert np.isin(np.flatnonzero(changed.series[channel] != X[0, channel]), np.flatnonzero(shown)).all()
    borders = [line.get_xdata()[0] for line in axes[0].lines[1:5]]
    starts, ends = explained.segments.starts, explained.segments.ends
    assert borders == pytest.approx([starts[0], *((ends[:-1] + starts[1:]) / 2)])
    (headline,) = axes[0].texts
    assert headline.get_text().startswith(f"{explained.label}: probability ")
    (legend,) = (text.get_text() for text in axes[0].get_legend().get_texts())
    assert legend == f"changed: {changed.target}, {changed.probability_after:.3f}"
    assert any(f"for {explained.label} (+)" in ax.get_xlabel() for ax in axes[0].figure.axes)
    drawn(axes[0])


def test_nothing_is_on_top_of_anything_else_at_80_mm(fitted, explained, pyplot):
    figure, axes = pyplot.subplots(2, 1, figsize=(80 / 25.4, 3), layout="constrained", sharex=True)
    plot_explanation(explained, X[:1], axes, counterfactual=fitted.counterfactual(X[0]))
    figure.canvas.draw()
    words = [axes[0].texts[0], axes[0].get_legend(), axes[0]._left_title]
    boxes = [artist.get_window_extent() for artist in words]
    assert all(boxes[i].y0 >= boxes[i + 1].y1 - 1 for i in range(2))
    assert all(box.x0 >= 0 and box.x1 <= figure.bbox.x1 and box.y1 <= figure.bbox.y1 for box in boxes)


def test_units_and_names_with_dollar_signs(pyplot, drawn, explained):
    model = regressor().fit(X, X[:, 0, -1])
    (why,) = model.explain(X[:1], segments=3)
    axes = plot_explanation(why, X[0], unit="km")
    assert 0.01 <= why.std < 0.1
    assert axes[0].texts[0].get_text() == f"predicted {why.mean:.3f} ± {why.std:.3f} km"
    assert any(ax.get_xlabel() == "contribution (km)" for ax in axes[0].figure.axes)
    drawn(axes[0])
    segments = replace(explained.segments, channels=("$x_{$", "cost $"))
    axes = plot_explanation(replace(explained, segments=segments, label="$a_{$"), X[0], units=["m s$^{-2}$", None])
    drawn(axes[0])


def test_time_stamps_masks_and_padding(pyplot):
    times = np.linspace(0, 1, 10) ** 2
    series = [np.stack([one[0], times, one[1]]) for one in X]
    series[3][0, 4] = np.nan
    model = classifier(time_channel=1, mask=True, channel_names=["x", "t", "y"]).fit(series, Y)
    (why,) = model.explain(series[3:4], segments=4)
    padded = np.concatenate([series[3], np.full((3, 2), np.nan)], axis=1)
    axes = plot_explanation(why, padded, time_channel=1)
    assert [ax.get_title(loc="left") for ax in axes] == ["x", "y"]
    assert axes[0].lines[0].get_xdata() == pytest.approx(times) and axes[-1].get_xlabel() == "time"
    assert_refused(r"explanation is of 4 channels .* but x has 3", plot_explanation, why, padded)
    assert_refused(r"from 0 to 1, but x goes from 0 to 0\.1", plot_explanation, why, padded[:, :5], time_channel=1)


def test_readings_are_points_and_lines_are_thin_where_values_are_missing(pyplot, drawn):
    """Isolated readings are seen, in the colour of their segment; a channel without any is said to have none."""
    values = np.full((3, 12), np.nan)
    values[0, [0, 1, 6, 11]] = [1.0, 2.0, 0.5, 1.5]
    values[1] = np.arange(12)
    parts = np.array([[1.0, -1.0], [0.5, 0.5], [0.0, 0.0]])
    axes = plot_series(values, parts, [0.0, 5.5, 11.0])
    points = axes[0].collections[-1]
    assert points.get_offsets().tolist() == [[0, 1.0], [1, 2.0], [6, 0.5], [11, 1.5]]
    assert points.get_facecolor()[[1, 2], :3] == pytest.approx(np.array([to_rgb(FOR), to_rgb(AGAINST)]), abs=0.01)
    thin = axes[0].collections[0]
    assert thin.get_linewidths()[0] < 1 < axes[0].lines[1].get_linewidth()
    assert [np.isfinite(line).all() for line in thin.get_segments()] == [True, True]
    assert np.isfinite(axes[0].lines[1].get_ydata()).sum() == 2  # only from reading to reading
    assert len(axes[1].collections[-1].get_offsets()) == 12
    assert axes[2].texts[0].get_text() == "no readings" and not axes[2].lines
    dense = plot_series(np.where(np.arange(500) == 250, np.nan, 1.0)[None], [[1.0]], [0.0, 499.0])
    assert dense[0].collections[-1].get_offsets()[:, 0].tolist() == [0, 249, 251, 499]
    drawn(axes[0])


@pytest.mark.parametrize(
    ("clock", "label", "ticks"),
    [
        (TimeFormat("s", dates=True, start=1743942600), "time", r"\d\d:00|Apr-0\d"),
        (TimeFormat("s", dates=True, zone="+02:00", start=1743942600), "time (UTC+02:00)", r"\d\d:00|Apr-0\d"),
        (TimeFormat("s", dates=True, elapsed=True, start=1743942600), "time after the start (h)", r"−?\d+"),
        (TimeFormat("s"), "time (h)", r"484\d{3}"),
        (None, "time (s)", r"17\d{8}"),
    ],
)
def test_axes_of_time_stamps(pyplot, drawn, clock, label, ticks):
    times = 1743942600 + 3600 * np.linspace(0, 30, 61)
    axes = plot_series(VALUES, PARTS, times[[0, 20, 40, 60]], times=times, time_unit="s", time_format=clock)
    drawn(axes[0])
    last = axes[-1].xaxis
    shown = [text.get_text() for text in last.get_ticklabels() if text.get_text()]
    assert axes[-1].get_xlabel() == label and len(shown) >= 2
    assert all(re.fullmatch(ticks, text) for text in shown) and "e" not in last.get_offset_text().get_text()
    if clock is not None and clock.elapsed:
        assert axes[0].lines[0].get_xdata()[[0, -1]].tolist() == [0.0, 30.0]


@pytest.mark.parametrize("background", [1.0, 0.12])
def test_what_is_uncertain_is_visible_on_pages_of_both_colours(background):
    """Dark pages invert pictures, v to 0.9 - 0.8 v; the contrast of WCAG is 3 for what has to be read, 1 for none."""
    level = to_rgb(PALE)[0] if background == 1.0 else 0.9 - 0.8 * to_rgb(PALE)[0]
    luminance = [((one + 0.055) / 1.055) ** 2.4 + 0.05 for one in (level, background)]
    assert max(luminance) / min(luminance) > 2.3


def test_the_std_of_the_posterior_comes_first_and_none_is_drawn_too(explained, pyplot, fitted):
    segments = explained.segments
    pale = replace(explained, segments=replace(segments, contrast_std=np.full_like(segments.contrast, 1e6)))
    drawn = (plot_explanation(explanation, X[0])[0].lines[1:5] for explanation in (explained, pale))
    colours = [min(min(line.get_color()) for line in lines) for lines in drawn]
    assert colours[1] > 0.5 and colours[1] >= colours[0]
    (fast,) = fitted.explain(X[:1], segments=4, permutations=4, uncertainty=False)
    assert len(plot_explanation(fast, X[0])) == len(X[0])


def test_explanations_of_spectrograms_are_drawn_on_them(pyplot, drawn):
    sound = np.random.default_rng(0).normal(size=(12, 1, 400))
    sound[6:] += np.sin(np.arange(400) * 0.6)
    settings = Spectrogram(rate=100, nfft=32, overlap=16, low=5, high=15)
    model = classifier(spectrogram=settings).fit(sound, np.arange(12) // 6)
    (why,) = model.explain(sound[:1], segments=3, permutations=4, uncertainty=False)
    assert_refused(r"of a spectrogram, \d+ channels \(.* Hz, .*but x has 1; give the", plot_explanation, why, sound[0])
    batch = settings(SeriesBatch(torch.as_tensor(sound[:1]).transpose(1, 2)))
    assert batch.times is not None
    seen = np.concatenate([batch.times.numpy(), batch.values[0].T.numpy()])
    axes = plot_explanation(why, seen, time_channel=0, time_unit="s")
    assert [ax.get_title(loc="left") for ax in axes] == [f"channel 0 {f:g} Hz" for f in settings.frequencies()]
    drawn(axes[0])


def test_what_cannot_be_drawn_is_refused(fitted, explained, pyplot):
    assert_refused("no segments to draw", plot_explanation, fitted.explain(X[:1], segments=0)[0], X[0])
    assert_refused("give the series that is explained as x", plot_explanation, explained)
    with pytest.raises(ValueError, match=r"such as explain\(X\)\[0\], got list"):
        plot_explanation([explained], X[0])  # pyright: ignore[reportArgumentType]
    assert_refused("x is NaN everywhere", plot_explanation, explained, np.full_like(X[0], np.nan))
    assert_refused("is of a series from 0 to 9, but x goes from 0 to 4", plot_explanation, explained, X[0, :, :5])
    assert_refused("is of a series from 0 to 9, but x goes from 0 to 19", plot_explanation, explained, np.tile(X[0], 2))
    assert_refused("time_channel is 5, but x has 2 channels", plot_explanation, explained, X[0], time_channel=5)
