"""Bars of importances, of effects and of the paper's reading draw what they are given, with names that fit."""

import itertools
from typing import Any

import pytest

from helpers.refusals import assert_refused
from helpers.small_committees import batch_of, labels_of, trained_model
from siggpde import plots
from siggpde.explain import Effect, Importance, Importances, PaperReading, WordWeight, global_importance
from siggpde.metrics import classification_metrics
from siggpde.plots.importance import fitted
from siggpde.plots.style import AGAINST, FOR, PALE, letters

EFFECTS = [
    Effect("points 0 to 9", (), 2.0, 0.5, 0.99),
    Effect("points 10 to 19", (), -1.0, 0.2, 0.99),
    Effect("points 20 to 29", (), 0.1, 1.0, 0.6),
]
WORDS = [WordWeight("moisture–humidity–moisture", ("moisture", "humidity", "moisture"), 1.5, 0.3, (-1.5,))]


def test_effects_and_what_the_paper_reads(pyplot, drawn):
    ax = plots.plot_effects(EFFECTS, label="effect on fat (%)")
    bars: Any = ax.patches
    assert [bar.get_width() for bar in bars] == [2.0, -1.0, 0.1]
    wanted = [pyplot.matplotlib.colors.to_rgba(colour) for colour in (FOR, AGAINST, PALE)]
    assert [bar.get_facecolor() for bar in bars] == wanted
    assert [text.get_text() for text in ax.get_yticklabels()] == [part.name for part in EFFECTS]
    drawn(ax)
    assert_refused("no effects to draw", plots.plot_effects, [])
    for other in (Importances([Importance("x", (), 1.0, 1.0)], 1, 1), None):
        with pytest.raises(ValueError, match="effects must be a list of `Effect`"):
            plots.plot_effects(other)  # pyright: ignore[reportArgumentType]
    ax = plots.plot_paper_reading(PaperReading(WORDS, {}, 10))
    bars: Any = ax.patches
    assert [bar.get_width() for bar in bars] == [1.5] and ax.get_xlabel() == "|m|"
    drawn(ax)
    assert len(plots.plot_paper_reading(WORDS).patches) == 1
    sure = (None, [WORDS[0].name], [])
    plain, surely, pale = (plots.plot_paper_reading(WORDS, sure=names).patches[0].get_facecolor() for names in sure)
    assert plain == surely != pale
    assert_refused("no words to draw", plots.plot_paper_reading, [])


def test_names_of_any_kind_are_drawn_and_long_ones_broken(pyplot, drawn):
    words = ["$x_{$–time", "–".join(["acceleration_of_the_left_hand"] * 5), "n" * 200]
    ax = plots.plot_effects([Effect(name, (), 1.0, 0.5, 0.99) for name in words])
    drawn(ax)
    names_drawn = [text.get_text() for text in ax.get_yticklabels()]
    assert [part.replace("\n", "") for part in names_drawn] == words
    assert names_drawn[1].split("\n")[0].endswith("–") and ax.get_position().width > 0.3
    name = "dx dilation 4 base point: share of time–humidity above q1/2, middle third"
    ax = plots.plot_importance([Importance(name, (), 0.5, 0.5), Importance("moisture", (), 0.2, -0.2)])
    first, second = (text.get_text() for text in ax.get_yticklabels())
    assert first.replace("\n", " ") == name and second == "moisture"
    assert first.count("\n") == 1 and max(map(len, first.split("\n"))) < 48
    assert ax.patches[0].get_facecolor() != ax.patches[1].get_facecolor()
    drawn(ax)


@pytest.fixture(scope="module")
def importances():
    batch = batch_of(24)
    return global_importance(trained_model(batch, labels_of(batch, 2)), batch, ["humidity", "moisture"])


def test_importance(pyplot, importances, drawn):
    ax = plots.plot_importance(importances)
    names = [text.get_text().replace("–\n", "–").replace("\n", " ") for text in ax.get_yticklabels()]
    assert names == [part.name for part in importances.words]
    assert [bar.get_width() for bar in ax.patches] == pytest.approx([part.share for part in importances.words])
    assert ax.yaxis_inverted()
    drawn(ax)
    assert len(plots.plot_importance(importances.channels).patches) == len(importances.channels)
    assert len(plots.plot_importance(importances.features).patches) == len(importances.features)


def test_names_of_many_thin_bars_do_not_overlap(narrow):
    name = "windows of the series at mean 0 and spread 1, by thirds, of the increments"
    ax = plots.plot_importance([Importance(f"{k} {name}", (), 0.5, 0.5) for k in range(18)], narrow)
    ax.figure.canvas.draw()
    boxes = [text.get_window_extent() for text in ax.get_yticklabels()]
    assert all(above.y0 >= below.y1 - 1 for above, below in itertools.pairwise(boxes))
    names_drawn = [text.get_text() for text in ax.get_yticklabels()]
    assert all("…" in text for text in names_drawn) and len(set(names_drawn)) == 18


def test_names_are_broken_between_words_and_are_as_large_as_they_can_be(narrow):
    names = ["time–hand height–hand height–time and 24 like it", "hand height"]
    ax = plots.plot_importance([Importance(name, (), 0.5, 0.5) for name in names], narrow)
    names_drawn = [text.get_text() for text in ax.get_yticklabels()]
    first, second = names_drawn[:2]
    assert first.replace("–\n", "–").replace("\n", " ") == names[0] and "\n" in first and second == names[1]
    assert ax.get_yticklabels()[0].get_fontsize() == pytest.approx(letters(ax) - 0.5)
    assert ax.patches[0].get_height() < 0.5  # few bars are no blocks
    wide, _ = fitted(["windows of the series at mean 0 and spread 1, by thirds"] * 19, 9.5, 510, 10)
    assert "…" not in wide[0]


def test_given_axes_come_back(pyplot, importances):
    metrics = classification_metrics([0, 1], [[1, 0], [0, 1]], [0, 1])
    figure, axes = pyplot.subplots(2, 2)
    axes_drawn = [
        plots.plot_importance(importances, axes[0, 0]),
        plots.plot_confusion(metrics, axes[0, 1]),
        plots.plot_calibration([0, 1], [[1, 0], [0, 1]], [0, 1], axes[1, 0]),
        plots.plot_intervals([1.0], [1.0], [0.0], [2.0], axes[1, 1]),
    ]
    assert all(one is other for one, other in zip(axes_drawn, axes.flat, strict=True))
    assert pyplot.get_fignums() == [figure.number]


def test_without_matplotlib_or_importances_the_error_says_what_to_do(monkeypatch, importances):
    def missing(name, *args):
        raise ModuleNotFoundError(f"No module named {name!r}", name="matplotlib")

    monkeypatch.setattr("siggpde.plots.style.import_module", missing)
    assert_refused("pip install matplotlib", plots.plot_importance, importances, error=ImportError)
    assert_refused("no importances to draw", plots.plot_importance, [])
