"""The channel-selection curve: leave-one-out losses as channels are left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from siggpde.plots.axes import axes_or_new, finish, height, legend_above, letters, require_matplotlib, room, text_width
from siggpde.plots.palette import BLUE, GREY, ORANGE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LONGEST = 22  # characters of a name
_NAMES = 1.2  # inches of what is above and below the vertical axis
_AXIS = 0.6  # inches of the vertical axis and its label


class Step(Protocol):
    """What is drawn of a step of a `ChannelSelection`."""

    @property
    def channels(self) -> tuple[str, ...]: ...
    @property
    def left_out(self) -> str | None: ...
    @property
    def loss(self) -> float: ...
    @property
    def error(self) -> float: ...


class Selection(Protocol):
    """What `channel_selection` of an estimator returns."""

    @property
    def steps(self) -> Sequence[Step]: ...
    @property
    def measure(self) -> str: ...
    @property
    def chosen(self) -> tuple[str, ...]: ...


def plot_channel_selection(selection: Selection, ax: Axes | None = None) -> Axes:
    """The loss of left-out series against the number of channels, with bars of one standard error.

    Every point is named by the channel that was left out to come to it, the last by the channels that are left where
    there is one; the set that `selection.chosen` names is marked.
    """
    steps = list(selection.steps)
    if not steps:
        raise ValueError("the selection has no steps to draw; take that of `channel_selection`")
    ax = axes_or_new(ax, width=4.8, height=3.4)
    counts = [len(step.channels) for step in steps]
    losses = np.array([step.loss for step in steps])
    errors = [step.error for step in steps]
    ax.errorbar(counts, losses, errors, color=BLUE, marker="o", markersize=4, linewidth=1.3, capsize=2)
    chosen = next(step for step in steps if step.channels == tuple(selection.chosen))
    label = ", ".join(chosen.channels)
    label = label if len(label) <= 2 * _LONGEST else f"{len(chosen.channels)} channels"
    ax.plot(
        [len(chosen.channels)], [chosen.loss], linestyle="none", marker="o", markersize=10, markeredgewidth=1.4,
        markerfacecolor="none", markeredgecolor=ORANGE, label=f"enough: {label}",
    )  # fmt: skip
    ax.set_xlim(max(counts) + 0.5, min(counts) - 0.5)
    names = ["all" if step.left_out is None else f"– {_short(step.left_out)}" for step in steps]
    ax.set_xticks(counts, [f"{count}\n{name}" for count, name in zip(counts, names, strict=True)])
    ax.xaxis.set_minor_locator(require_matplotlib("ticker").NullLocator())
    fits = text_width(f"leave-one-out {selection.measure}", letters(ax)) < 72 * (height(ax) - _NAMES)
    between = " " if fits else "\n"
    ax.set(
        xlabel="channels kept, and the last one left out",
        ylabel=f"leave-one-out{between}{selection.measure}\n(nats a series)",
    )
    ax.axhline(float(losses.min()), color=GREY, linewidth=0.8, linestyle=":")
    legend_above(ax, handle=1.2)
    finish(ax)
    widest = max(text_width(name, letters(ax) - 0.5) for name in names)
    if widest + 0.4 * letters(ax) > 72 * (room(ax) - _AXIS) / len(steps):
        ax.set_xticks(counts, [f"{name}  {count}" for count, name in zip(counts, names, strict=True)], rotation=90)
    return ax


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"
