"""What a fit did: the course of training, the settings that were tried, the members and the size of the model."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from siggpde.committee.recipes import Recipe
from siggpde.explain.terms import shares_of
from siggpde.gp.trainer import History
from siggpde.plots import style
from siggpde.plots.inputs import numbers, vector
from siggpde.views.kinds import kinds_of_kernels

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_BAND = "#f1f1f1"
_AXIS = 0.6  # inches of the vertical axis and its label
_DECADES = 10.0  # losses further apart are drawn on a logarithmic axis
_WILD = 4.0  # the start of training is cut off where it is so many times as far up as the rest is wide
_KINDS = {
    "windows": (style.BLUE, "windows"),
    "path": (style.ORANGE, "words"),
    "kernel": (style.GREEN, "signature kernel"),
    "lifted": (style.AMBER, "lifted paths"),
    "spectrum": (style.PURPLE, "spectrum"),
    "linear": (style.SKY, "short words"),
}
_OTHER = (style.INK, "your own")
_LABEL_LETTERS = 3.0  # letters of width for the label of the axis, its ticks and gaps
_NARROW = 4.0  # inches: less has no room for a long label in one line


def plot_history(
    history: History, ax: Axes | None = None, *, against: Literal["seconds", "records"] = "seconds"
) -> Axes:
    """Draws the course of training: -ELBO and validation NLPP, both in nats a series, phases as bands.

    Parameters
    ----------
    history : siggpde.History
        What `siggpde.fit` returns, or that of a member that was trained by iterations. A model in closed form has none:
        its choices are drawn by `plot_trials` and `plot_weights`.
    ax : matplotlib.axes.Axes, optional
        The axes to draw on; those of a new figure without them.
    against : {"seconds", "records"}
        What the horizontal axis counts.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> from siggpde.training import Record
    >>> plot_history(History([Record("q", 1, 0.1, elbo=-1.2), Record("q", 2, 0.2, elbo=-0.8)]))
    <Axes: xlabel='time of training (s)', ylabel='loss (nats a series)'>
    """
    if against not in ("seconds", "records"):
        raise ValueError(f"against must be 'seconds' or 'records', got {against!r}")
    records = history.records
    counts = [record.seconds for record in records] if against == "seconds" else range(len(records))
    place = np.array(counts, dtype=float)
    loss = np.array([np.nan if record.elbo is None else -record.elbo for record in records])
    nlpp = np.array([np.nan if record.nlpp is None else record.nlpp for record in records])
    if not (np.isfinite(loss).any() or np.isfinite(nlpp).any()):
        raise ValueError("the history has no ELBO and no NLPP to draw; was the model fitted in closed form?")
    ax = style.axes_or_new(ax, width=5.6, height=3.4)
    for values, colour, dashes, name in (
        (loss, style.BLUE, "-", "−ELBO, training"),
        (nlpp, style.ORANGE, "--", "NLPP, validation"),
    ):
        there = np.isfinite(values)
        if there.any():
            marker = "o" if there.sum() < 25 else ""
            ax.plot(place[there], values[there], dashes, color=colour, marker=marker, markersize=3, label=name)
    best = None if not np.isfinite(nlpp).any() else int(np.nanargmin(nlpp))
    if best is not None:
        look = {"s": 40, "facecolors": "none", "edgecolors": style.INK, "linewidths": 1.0, "zorder": 4}
        ax.scatter(place[best], nlpp[best], label=f"best, {nlpp[best]:.3g}", **look)
    drawn = np.concatenate([loss[np.isfinite(loss)], nlpp[np.isfinite(nlpp)]])
    low, usual = float(drawn.min()), float(np.quantile(drawn, 0.8))
    if drawn.max() - low > _WILD * max(usual - low, 1e-12) and usual > low:  # else nothing but the start is seen
        ax.set_ylim(low - 0.08 * (usual - low), usual + 0.6 * (usual - low))
    _phases(ax, [record.phase for record in records], place)
    ax.set(xlabel="time of training (s)" if against == "seconds" else "evaluation", ylabel="loss (nats a series)")
    style.legend_above(ax)
    return style.finish(ax)


def plot_trials(losses: ArrayLike, ax: Axes | None = None, *, label: str = "leave-one-out loss (nats)") -> Axes:
    """Draws the losses of settings that were tried, in order, and the best so far.

    The axis is logarithmic where losses are positive and some more than ten times the smallest.

    Parameters
    ----------
    losses : array-like (n,)
        The losses; NaN for what could not be scored.
    ax : matplotlib.axes.Axes, optional
        The axes to draw on; those of a new figure without them.
    label : str
        The label of the vertical axis.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> plot_trials([0.9, 0.5, 0.7])
    <Axes: xlabel='setting tried', ylabel='leave-one-out loss (nats)'>
    """
    values = np.asarray(losses, dtype=float)
    if values.ndim != 1 or not np.isfinite(values).any():
        raise ValueError(f"losses must have shape (n,) and a finite number among them, got shape {values.shape}")
    there = np.isfinite(values)
    values = vector("losses", values[there], unit="trial")
    number = np.flatnonzero(there) + 1
    best = np.minimum.accumulate(values)
    ax = style.axes_or_new(ax, width=5.6, height=3.4)
    ax.scatter(number, values, color=style.GREY, s=10, zorder=2, label="tried")
    best_so_far = f"best so far, {best[-1]:.3g}".replace("-", "−")
    ax.step(number, best, where="post", color=style.BLUE, linewidth=1.5, zorder=3, label=best_so_far)
    ax.set(xlabel="setting tried", ylabel=label)
    ticker = style.require_matplotlib("ticker")
    ax.xaxis.set_major_locator(ticker.MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
    if values.min() > 0 and values.max() > _DECADES * values.min():
        ax.set_yscale("log")
        ax.yaxis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0)))
        ax.yaxis.set_minor_locator(ticker.NullLocator())
        ax.yaxis.set_major_formatter(ticker.FuncFormatter(lambda loss, _: f"{loss:g}"))
    style.legend_above(ax)
    return style.finish(ax)


def _phases(ax: Axes, phases: list[str], place: np.ndarray) -> None:
    """A band for every phase, with its name at the bottom where it fits."""
    starts = [index for index, phase in enumerate(phases) if index == 0 or phase != phases[index - 1]]
    if len(starts) == 1:
        return
    borders = [place.min(), *((place[start - 1] + place[start]) / 2 for start in starts[1:]), place.max()]
    low, high = ax.get_ylim()
    ax.set_ylim(low - 0.1 * (high - low), high)
    size = style.letters(ax) - 1.5
    for number, (start, left, right) in enumerate(zip(starts, borders[:-1], borders[1:], strict=True)):
        if number % 2 == 0:
            ax.axvspan(left, right, color=_BAND, zorder=0, linewidth=0)
        points = (right - left) / max(float(np.ptp(place)), 1e-12) * 72 * (style.room(ax) - _AXIS)
        if 0.55 * size * len(phases[start]) < points:
            look: dict[str, Any] = {"size": size, "color": style.GREY, "ha": "center", "va": "bottom"}
            ax.text((left + right) / 2, 0.01, phases[start], transform=ax.get_xaxis_transform(), **look)


def plot_sizes(
    sizes: ArrayLike,
    values: ArrayLike | Mapping[str, ArrayLike],
    ax: Axes | None = None,
    *,
    metric: str = "NLPP (nats a series)",
    size: str = "inducing features M",
) -> Axes:
    """Draws a metric against the size of a model, on a logarithmic axis.

    Parameters
    ----------
    sizes : array-like (k,)
        The sizes, ascending.
    values : array-like (k,) or (runs, k), or mapping of such by method
        The metric. Of several runs the mean is drawn, with a band of one standard deviation.
    ax : matplotlib.axes.Axes, optional
        The axes to draw on; those of a new figure without them.
    metric, size : str
        The labels of the axes.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> plot_sizes([100, 200, 400], {"SigGPDE": [0.3, 0.2, 0.15], "GPSig": [0.35, 0.3, 0.28]})
    <Axes: xlabel='inducing features M', ylabel='NLPP (nats a series)'>
    """
    places = vector("sizes", sizes, unit="size")
    if (places <= 0).any() or (np.diff(places) <= 0).any():
        raise ValueError(f"sizes must be positive and ascending, got {places.tolist()}")
    given = values if isinstance(values, Mapping) else {"": values}
    if not given or len(given) > len(style.CLASSES):
        raise ValueError(f"values must have one to {len(style.CLASSES)} methods, got {len(given)}")
    drawn = {name: _runs(name, metric, len(places)) for name, metric in given.items()}
    ax = style.axes_or_new(ax, width=4.8, height=3.4)
    for index, (name, runs) in enumerate(drawn.items()):
        look = style.class_style(index)
        mean = runs.mean(axis=0)
        ax.plot(places, mean, markersize=4, linewidth=1.3, label=name or None, **look)
        if len(runs) > 1:
            spread = runs.std(axis=0, ddof=1)
            ax.fill_between(places, mean - spread, mean + spread, color=look["color"], alpha=0.18, linewidth=0)
    ax.set_xscale("log")
    ax.set_xticks(places, [f"{place:g}" for place in places])
    ax.xaxis.set_minor_locator(style.require_matplotlib("ticker").NullLocator())
    ax.set(xlabel=size, ylabel=metric)
    if any(drawn):
        style.legend_above(ax)
    return style.finish(ax)


def _runs(name: str, values: ArrayLike, count: int) -> np.ndarray:
    """(runs, k)."""
    what = f"values of {name!r}" if name else "values"
    array = np.atleast_2d(numbers(what, values))
    if array.ndim != 2 or array.shape[1] != count or len(array) == 0:
        raise ValueError(f"{what} must have shape ({count},) or (runs, {count}), one number a size, got {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{what} must be finite to be drawn; leave out sizes that have none")
    return array


def plot_weights(committee: Any, ax: Axes | None = None, *, units: float = 1.0) -> Axes:
    """Draws bars of the weights of a committee's members, the heaviest at the top.

    The colours of a bar are the shares of the views in the member's kernel. At its end is the member's leave-one-out
    loss in nats a series (validation NLPP for models that were trained by iterations), the smaller the better.

    Parameters
    ----------
    committee
        `estimator.committee_`.
    ax : matplotlib.axes.Axes, optional
        The axes to draw on; those of a new figure without them.
    units : float
        `estimator.target_scale_` of numbers, for losses in the units of the target.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> from siggpde import SigGPClassifier
    >>> X = np.random.default_rng(0).normal(size=(10, 1, 5)).cumsum(axis=2)
    >>> plot_weights(SigGPClassifier().fit(X, [0, 1] * 5).committee_)
    <Axes: xlabel='weight; at the end: loss of left-out series (nats)'>
    """
    weights = committee.weights.tolist()
    order = sorted(range(len(weights)), key=lambda index: -weights[index])
    members: list[Any] = list(committee.members)
    ax = style.axes_or_new(ax, width=5.6, height=max(2.0, 0.28 * len(order) + 1.4))
    kinds = kinds_of_kernels(committee.blocks)
    shares = [_shares(getattr(members[index], "recipe", None), kinds) for index in order]
    listed = sorted({kind for part in shares for kind in part}, key=lambda kind: [*_KINDS, kind].index(kind))
    left = np.zeros(len(order))
    for kind in listed:
        colour, name = _KINDS.get(kind, _OTHER)
        width = np.array([weights[index] * part.get(kind, 0.0) for index, part in zip(order, shares, strict=True)])
        ax.barh(range(len(order)), width, left=left, color=colour, height=0.7, label=name if kind in _KINDS else kind)
        left += width
    size = style.letters(ax) - 1.0
    for place, index in enumerate(order):
        score = members[index].score
        if score is not None:
            words, offset = (
                f"{score + math.log(units):#.3g}".replace("-", "−"),
                {"xytext": (3, 0), "textcoords": "offset points"},
            )
            ax.annotate(words, (weights[index], place), va="center", size=size, color=style.GREY, **offset)
    names = [f"{'model' if len(order) == 1 else 'member'} {place}" for place in range(1, len(order) + 1)]
    ax.set_yticks(range(len(order)), names)
    ax.invert_yaxis()
    ax.set_xlim(0, 1.18 * max(weights))
    separator = "\n" if style.room(ax) < _NARROW else "; "
    ax.set(xlabel=f"weight{separator}at the end: loss of left-out series (nats)", ylabel="")
    ax.xaxis.set_major_formatter(style.percent())
    widest = max(style.text_width(name, style.letters(ax) - 0.5) for name in names)
    style.legend_above(ax, margin=widest + _LABEL_LETTERS * style.letters(ax))
    return style.finish(ax)


def _shares(recipe: Recipe | None, kinds: dict[str, str]) -> dict[str, float]:
    """The share of each kind of view in a member's kernel; a view of the user's own goes by its name."""
    if recipe is None:
        return {"path": 1.0}
    shares: dict[str, float] = {}
    for name, share in shares_of(recipe).items():
        kind = kinds.get(name, "features")
        key = name if kind == "features" else kind
        shares[key] = shares.get(key, 0.0) + share
    return shares
