"""Plots draw what they are given, on the axes they are given, and say what is missing."""

# What matplotlib's lines and patches are is known only when they are drawn.
# pyright: reportAttributeAccessIssue=false, reportIndexIssue=false, reportOperatorIssue=false, reportCallIssue=false

import itertools
import math

import numpy as np
import pytest
import torch

from helpers.small_committees import KINDS, batch_of, committee_of, labels_of
from siggpde.explain import Importance, global_importance
from siggpde.metrics import classification_metrics
from siggpde.plots import plot_calibration, plot_confusion, plot_importance, plot_intervals
from siggpde.plots.importance import fitted
from siggpde.plots.style import letters


@pytest.fixture(scope="module")
def importances():
    batch = batch_of(24)
    return global_importance(committee_of(batch, labels_of(batch, 2), KINDS[:1]), batch, ["humidity", "moisture"])


def test_importance(pyplot, importances, drawn):
    ax = plot_importance(importances)
    names = [text.get_text().replace("–\n", "–").replace("\n", " ") for text in ax.get_yticklabels()]
    assert names == [each.name for each in importances.words]
    assert [bar.get_width() for bar in ax.patches] == pytest.approx([each.share for each in importances.words])
    assert ax.yaxis_inverted()
    drawn(ax)
    assert len(plot_importance(importances.channels).patches) == len(importances.channels)
    assert len(plot_importance(importances.features).patches) == len(importances.features)


def test_long_names_are_broken_and_what_speaks_against_is_orange(pyplot, drawn):
    name = "dx dilation 4 base point: share of time–humidity above q1/2, middle third"
    ax = plot_importance([Importance(name, (), 0.5, 0.5), Importance("moisture", (), 0.2, -0.2)])
    first, second = (text.get_text() for text in ax.get_yticklabels())
    assert first.replace("\n", " ") == name and second == "moisture"
    assert first.count("\n") == 1 and max(map(len, first.split("\n"))) < 48
    assert ax.patches[0].get_facecolor() != ax.patches[1].get_facecolor()
    drawn(ax)


def test_names_of_many_thin_bars_do_not_overlap(narrow):
    name = "windows of the series at mean 0 and spread 1, by thirds, of the increments"
    ax = plot_importance([Importance(f"{k} {name}", (), 0.5, 0.5) for k in range(18)], narrow)
    ax.figure.canvas.draw()
    boxes = [text.get_window_extent() for text in ax.get_yticklabels()]
    assert all(above.y0 >= below.y1 - 1 for above, below in itertools.pairwise(boxes))
    told = [text.get_text() for text in ax.get_yticklabels()]
    assert all("…" in text for text in told) and len(set(told)) == 18


def test_names_are_broken_between_words_and_are_as_large_as_they_can_be(narrow):
    names = ["time–hand height–hand height–time and 24 like it", "hand height"]
    ax = plot_importance([Importance(name, (), 0.5, 0.5) for name in names], narrow)
    told = [text.get_text() for text in ax.get_yticklabels()]
    assert told[0].replace("–\n", "–").replace("\n", " ") == names[0] and "\n" in told[0] and told[1] == names[1]
    assert ax.get_yticklabels()[0].get_fontsize() == pytest.approx(letters(ax) - 0.5)
    assert ax.patches[0].get_height() < 0.5  # few bars are no blocks
    wide, _ = fitted(["windows of the series at mean 0 and spread 1, by thirds"] * 19, 9.5, 510, 10)
    assert "…" not in wide[0]


def test_numbers_of_ticks_do_not_overlap(narrow):
    y = np.linspace(0, 0.18, 30)
    ax = plot_intervals(y, y, y - 1e-3, y + 1e-3, narrow)
    ax.figure.canvas.draw()
    boxes = [text.get_window_extent() for text in ax.get_xticklabels() if text.get_text()]
    assert all(one.x1 < other.x0 for one, other in itertools.pairwise(boxes))


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


def test_intervals(pyplot, drawn):
    y = np.linspace(0, 5, 20)
    mean = y + np.where(np.arange(20) % 5 == 0, 2.0, 0.1)
    ax = plot_intervals(y, torch.as_tensor(mean), mean - 1, mean + 1)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["inside (80%)", "outside (20%)"]
    drawn(ax)
    assert len(plot_intervals(y, y, y - 1, y + 1).get_legend().get_texts()) == 1


def test_given_axes_come_back(pyplot, importances):
    metrics = classification_metrics([0, 1], [[1, 0], [0, 1]], [0, 1])
    figure, axes = pyplot.subplots(2, 2)
    found = [
        plot_importance(importances, axes[0, 0]),
        plot_confusion(metrics, axes[0, 1]),
        plot_calibration([0, 1], [[1, 0], [0, 1]], [0, 1], axes[1, 0]),
        plot_intervals([1.0], [1.0], [0.0], [2.0], axes[1, 1]),
    ]
    assert all(one is other for one, other in zip(found, axes.flat, strict=True))
    assert pyplot.get_fignums() == [figure.number]


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch, importances):
    def missing(name, *args):
        raise ModuleNotFoundError(f"No module named {name!r}", name="matplotlib")

    monkeypatch.setattr("siggpde.plots.style.import_module", missing)
    with pytest.raises(ImportError, match="pip install matplotlib"):
        plot_importance(importances)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1.0], [1.0, 2.0], [0.0], [2.0]), "they have 1, 2, 1, 1"),
        (([], [], [], []), r"y must have shape \(n,\)"),
        (([1.0], [math.nan], [0.0], [2.0]), "mean of series 0 is nan"),
        (([1.0], [1.0], [0.0], [math.inf]), "upper of series 0 is inf"),
        (([1.0], [1.0], [2.0], [0.0]), "series 0 ends below its start"),
        ((["a"], [1.0], [0.0], [2.0]), "y must be numbers"),
    ],
)
def test_bad_intervals_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        plot_intervals(*arguments)


def test_nothing_to_draw_is_refused():
    with pytest.raises(ValueError, match="no importances to draw"):
        plot_importance([])
