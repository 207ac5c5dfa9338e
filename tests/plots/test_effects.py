"""Plots of effects and of the paper's reading draw what they are given."""

from typing import Any

import pytest

from siggpde.explain import Effect, Importance, Importances, PaperReading, WordWeight
from siggpde.plots import plot_effects, plot_paper_reading
from siggpde.plots.style import AGAINST, FOR, PALE

EFFECTS = [
    Effect("points 0 to 9", (), 2.0, 0.5, 0.99),
    Effect("points 10 to 19", (), -1.0, 0.2, 0.99),
    Effect("points 20 to 29", (), 0.1, 1.0, 0.6),
]
WORDS = [WordWeight("moisture–humidity–moisture", ("moisture", "humidity", "moisture"), 1.5, 0.3, (-1.5,))]


def test_effects_have_their_signs_and_doubts(pyplot, drawn):
    ax = plot_effects(EFFECTS, label="effect on fat (%)")
    bars: Any = ax.patches
    assert [bar.get_width() for bar in bars] == [2.0, -1.0, 0.1]
    assert [bar.get_facecolor() for bar in bars] == [
        pyplot.matplotlib.colors.to_rgba(colour) for colour in (FOR, AGAINST, PALE)
    ]
    assert [text.get_text() for text in ax.get_yticklabels()] == [each.name for each in EFFECTS]
    drawn(ax)
    with pytest.raises(ValueError, match="no effects to draw"):
        plot_effects([])
    for other in (Importances([Importance("x", (), 1.0, 1.0)], 1, 1), None):
        with pytest.raises(ValueError, match="effects must be a list of `Effect`"):
            plot_effects(other)  # pyright: ignore[reportArgumentType]


def test_names_of_any_kind_are_drawn(pyplot, drawn):
    words = ["$x_{$–time", "–".join(["acceleration_of_the_left_hand"] * 5), "n" * 200]
    ax = plot_effects([Effect(name, (), 1.0, 0.5, 0.99) for name in words])
    drawn(ax)
    told = [text.get_text() for text in ax.get_yticklabels()]
    assert [each.replace("\n", "") for each in told] == words
    assert told[1].split("\n")[0].endswith("–") and ax.get_position().width > 0.3


def test_what_the_paper_reads(pyplot, drawn):
    ax = plot_paper_reading(PaperReading(WORDS, {}, 10))
    bars: Any = ax.patches
    assert [bar.get_width() for bar in bars] == [1.5] and ax.get_xlabel() == "|m|"
    drawn(ax)
    assert len(plot_paper_reading(WORDS).patches) == 1
    with pytest.raises(ValueError, match="no words to draw"):
        plot_paper_reading([])
