"""How unlike the training series new series are, beside the training series themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from siggpde.plots import style
from siggpde.plots.inputs import vector

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BINS = 24
_STYLES = (
    (style.BLUE, "-"),
    (style.ORANGE, "--"),
    (style.GREEN, "-."),
    (style.PURPLE, ":"),
    (style.AMBER, "-"),
    (style.INK, "--"),
)
_TICKS = 7
_FAR = 8.0  # beyond this score the axis is no longer linear
_LINEAR = 2.0
_RIGHT = 0.85  # of the axis: words of what is further right are at its left


def plot_novelty(
    scores: ArrayLike | Mapping[str, ArrayLike],
    training: ArrayLike,
    ax: Axes | None = None,
    *,
    limit: float | None = None,
) -> Axes:
    """Draws histograms of the novelty scores of new series and, grey, of left-out training series.

    0 is the median of left-out training series; 5 % of them are above 1. Where some score is above 8 the axis is
    logarithmic far out.

    Parameters
    ----------
    scores : array-like (n,), or mapping of such by name
        What `estimator.novelty(X, return_score=True)` returns second.
    training : array-like (m,)
        `left_out_scores` of `estimator.committee_.novelty`.
    ax : matplotlib.axes.Axes, optional
        The axes to draw on; those of a new figure without them.
    limit : float, optional
        `limit` of the same, beyond which predictions tend to what is known without looking at the series.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> plot_novelty([0.2, 1.4, 3.0], training=[-0.8, -0.1, 0.0, 0.3, 1.1])
    <Axes: xlabel='novelty score', ylabel='share of series'>
    """
    given = scores if isinstance(scores, Mapping) else {"new series": scores}
    if not given:
        raise ValueError("there are no scores to draw; give those of `estimator.novelty(X, return_score=True)`")
    if len(given) > len(_STYLES):
        raise ValueError(f"at most {len(_STYLES)} sets of series can be told apart in one plot, got {len(given)}")
    drawn = {
        name: vector(f"scores of {name!r}" if len(given) > 1 else "scores", values) for name, values in given.items()
    }
    known = vector("training", training)
    if limit is not None and not np.isfinite(limit):
        raise ValueError(f"limit must be a finite score, got {limit!r}")
    ax = style.axes_or_new(ax, width=4.8, height=3.4)
    everything = np.concatenate([known, *drawn.values(), [] if limit is None else [limit]])
    far = everything.max() > _FAR
    if far:
        ax.set_xscale("asinh", linear_width=_LINEAR)
    width = _LINEAR if far else 1e6 * max(1.0, float(np.abs(everything).max()))  # asinh of nearly nothing is linear
    ends = np.arcsinh(np.array([everything.min(), everything.max()]) / width)
    if ends[0] == ends[1]:
        ends = ends + np.array([-0.5, 0.5]) / width
    bins = width * np.sinh(np.linspace(ends[0], ends[1], _BINS + 1))
    bins[0], bins[-1] = min(bins[0], everything.min()), max(bins[-1], everything.max())
    ax.hist(known, bins=bins.tolist(), weights=np.full(len(known), 1 / len(known)), color=style.PALE, label="training")
    for (name, values), (colour, dashes) in zip(drawn.items(), _STYLES, strict=False):
        weights = np.full(len(values), 1 / len(values))
        look: dict[str, Any] = {"histtype": "step", "color": colour, "linestyle": dashes}
        ax.hist(values, bins=bins.tolist(), weights=weights, label=name, **look)
    top = ax.get_ylim()[1] * 1.08
    for place, text in [(1.0, "5%"), *([] if limit is None else [(limit, "limit")])]:
        ax.axvline(place, color=style.GREY, linestyle=":", linewidth=1)
        left = np.arcsinh(place / width) < ends[0] + _RIGHT * (ends[1] - ends[0])
        words, side = (f" {text}", "left") if left else (f"{text} ", "right")
        ax.text(place, top, words, color=style.GREY, ha=side, va="top", size=style.letters(ax) - 1)
    ax.set(xlabel="novelty score", ylabel="share of series", ylim=(0, top))
    ax.yaxis.set_major_formatter(style.percent())
    if far:
        for bases in ((1, 2, 5), (1, 3), (1,)):  # round numbers, about as far from each other as they can be read
            ticks = [-1.0, 0.0, *(base * 10.0**power for power in range(9) for base in bases)]
            shown = [tick for tick in ticks if everything.min() <= tick <= everything.max()]
            if len(shown) <= _TICKS:
                break
        ax.set_xticks(shown, [f"{tick:g}" for tick in shown])
        ax.minorticks_off()
    style.legend_above(ax)
    return style.finish(ax)
