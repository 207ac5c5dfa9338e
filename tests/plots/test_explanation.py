"""The explanation of one series, drawn: the right colours at the right places, with the counterfactual."""

# What matplotlib's lines and patches are is known only when they are drawn.
# pyright: reportAttributeAccessIssue=false, reportIndexIssue=false, reportOperatorIssue=false, reportCallIssue=false

from dataclasses import replace

import numpy as np
import pytest
import torch

from helpers.small_estimators import classifier, regressor, walks
from siggpde.plots import plot_explanation
from siggpde.series import SeriesBatch, Spectrogram

NAMES = ["x", "y"]
X = walks(24)
Y = np.where(X[:, 0, -1] > 0, "up", "down")


@pytest.fixture(scope="module")
def fitted():
    return classifier(channel_names=NAMES).fit(X, Y)


@pytest.fixture(scope="module")
def explained(fitted):
    return fitted.explain(X[:1], segments=4)[0]


def test_it_is_drawn_on_the_series_with_its_counterfactual(fitted, explained, pyplot, drawn):
    found = fitted.counterfactual(X[0])
    axes = plot_explanation(explained, counterfactual=found, units=["m", None], time_unit="s")
    assert [ax.get_title(loc="left") for ax in axes] == ["x (m)", "y"]
    for channel, ax in enumerate(axes):
        assert ax.lines[0].get_ydata() == pytest.approx(X[0, channel])
        assert len(ax.lines) == 1 + 4 + 1  # the series, its segments, the counterfactual
        shown = np.isfinite(ax.lines[-1].get_ydata())
        assert np.isin(np.flatnonzero(found.series[channel] != X[0, channel]), np.flatnonzero(shown)).all()
    borders = [line.get_xdata()[0] for line in axes[0].lines[1:5]]
    starts, ends = explained.segments.starts, explained.segments.ends
    assert borders == pytest.approx([starts[0], *((ends[:-1] + starts[1:]) / 2)])
    (headline,) = axes[0].texts
    assert headline.get_text().startswith(f"{explained.label}: probability ")
    (legend,) = (text.get_text() for text in axes[0].get_legend().get_texts())
    assert legend == f"changed: {found.target}, {found.probability_after:.3f}"
    assert any(f"for {explained.label} (+)" in ax.get_xlabel() for ax in axes[0].figure.axes)
    drawn(axes[0])


def test_nothing_is_on_top_of_anything_else_at_80_mm(fitted, explained, pyplot):
    figure, axes = pyplot.subplots(2, 1, figsize=(80 / 25.4, 3), layout="constrained", sharex=True)
    plot_explanation(explained, X[:1], axes, counterfactual=fitted.counterfactual(X[0]))
    figure.canvas.draw()
    words = [axes[0].texts[0], axes[0].get_legend(), axes[0]._left_title]
    boxes = [each.get_window_extent() for each in words]
    assert all(boxes[i].y0 >= boxes[i + 1].y1 - 1 for i in range(2))
    assert all(box.x0 >= 0 and box.x1 <= figure.bbox.x1 and box.y1 <= figure.bbox.y1 for box in boxes)


def test_numbers_are_in_their_units(pyplot, drawn):
    model = regressor().fit(X, X[:, 0, -1])
    (why,) = model.explain(X[:1], segments=3)
    axes = plot_explanation(why, X[0], unit="km")
    assert 0.01 <= why.std < 0.1
    assert axes[0].texts[0].get_text() == f"predicted {why.mean:.3f} ± {why.std:.3f} km"
    assert any(ax.get_xlabel() == "contribution (km)" for ax in axes[0].figure.axes)
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
    with pytest.raises(ValueError, match=r"explanation is of 4 channels .* but x has 3"):
        plot_explanation(why, padded)
    with pytest.raises(ValueError, match=r"from 0 to 1, but x goes from 0 to 0\.1"):
        plot_explanation(why, padded[:, :5], time_channel=1)


def test_the_std_of_the_posterior_comes_before_the_sampling_error(explained, pyplot):
    segments = explained.segments
    pale = replace(explained, segments=replace(segments, contrast_std=np.full_like(segments.contrast, 1e6)))
    colours = [
        min(min(line.get_color()) for line in plot_explanation(each, X[0])[0].lines[1:5]) for each in (explained, pale)
    ]
    assert colours[1] > 0.5 and colours[1] >= colours[0]


def test_explanations_of_spectrograms_are_drawn_on_them(pyplot, drawn):
    sound = np.random.default_rng(0).normal(size=(12, 1, 400))
    sound[6:] += np.sin(np.arange(400) * 0.6)
    settings = Spectrogram(rate=100, nfft=32, overlap=16, low=5, high=15)
    model = classifier(spectrogram=settings).fit(sound, np.arange(12) // 6)
    (why,) = model.explain(sound[:1], segments=3, permutations=4, uncertainty=False)
    with pytest.raises(
        ValueError, match=r"is of a spectrogram, \d+ channels \(.* Hz, ..\), but x has 1; give the spec"
    ):
        plot_explanation(why, sound[0])
    batch = settings(SeriesBatch(torch.as_tensor(sound[:1]).transpose(1, 2)))
    assert batch.times is not None
    seen = np.concatenate([batch.times.numpy(), batch.values[0].T.numpy()])
    axes = plot_explanation(why, seen, time_channel=0, time_unit="s")
    assert [ax.get_title(loc="left") for ax in axes] == [f"channel 0 {f:g} Hz" for f in settings.frequencies()]
    drawn(axes[0])


def test_explanations_without_uncertainty_are_drawn(fitted, pyplot):
    (fast,) = fitted.explain(X[:1], segments=4, permutations=4, uncertainty=False)
    assert len(plot_explanation(fast, X[0])) == len(X[0])


def test_dollar_signs_in_names_are_no_formulas(explained, pyplot, drawn):
    segments = replace(explained.segments, channels=("$x_{$", "cost $"))
    axes = plot_explanation(replace(explained, segments=segments, label="$a_{$"), X[0], units=["m s$^{-2}$", None])
    drawn(axes[0])


def test_what_cannot_be_drawn_is_refused(fitted, explained, pyplot):
    with pytest.raises(ValueError, match="no segments to draw"):
        plot_explanation(fitted.explain(X[:1], segments=0)[0], X[0])
    with pytest.raises(ValueError, match="give the series that is explained as x"):
        plot_explanation(explained)
    with pytest.raises(ValueError, match=r"such as explain\(X\)\[0\], got list"):
        plot_explanation([explained], X[0])  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="x is NaN everywhere"):
        plot_explanation(explained, np.full_like(X[0], np.nan))
    with pytest.raises(ValueError, match="is of a series from 0 to 9, but x goes from 0 to 4"):
        plot_explanation(explained, X[0, :, :5])
    with pytest.raises(ValueError, match="is of a series from 0 to 9, but x goes from 0 to 19"):
        plot_explanation(explained, np.tile(X[0], 2))
    with pytest.raises(ValueError, match="time_channel is 5, but x has 2 channels"):
        plot_explanation(explained, X[0], time_channel=5)
