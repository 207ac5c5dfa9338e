"""The members of a committee: their weights, what their kernels are made of, and their leave-one-out losses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from siggpde.committee.committee import Committee
from siggpde.committee.recipes import Recipe
from siggpde.committee.view_committee import OfViews
from siggpde.plots.style import (
    AMBER,
    BLUE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PURPLE,
    SKY,
    axes_or_new,
    finish,
    legend_above,
    letters,
    percent,
    room,
    text_width,
)
from siggpde.views.saved import kinds_of_kernels

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_KINDS = {
    "windows": (BLUE, "windows"),
    "path": (ORANGE, "words"),
    "kernel": (GREEN, "signature kernel"),
    "lifted": (AMBER, "lifted paths"),
    "spectrum": (PURPLE, "spectrum"),
    "linear": (SKY, "short words"),
}
_OWN = (INK, "your own")
_LABEL = 3.0  # letters of width for the label of the axis, its ticks and gaps
_NARROW = 4.0  # inches: less has no room for a long label in one line


def plot_weights(committee: Committee | OfViews, ax: Axes | None = None) -> Axes:
    """Bars of the weights of the members of `estimator.committee_`, the heaviest at the top.

    The colours of a bar are the shares of the views in the member's kernel. At its end is the member's leave-one-out
    loss in nats a series (validation NLPP for models that were trained by iterations), the smaller the better.
    """
    weights = committee.weights.tolist()
    order = sorted(range(len(weights)), key=lambda index: -weights[index])
    members: list[Any] = list(committee.members)
    ax = axes_or_new(ax, width=5.6, height=max(2.0, 0.28 * len(order) + 1.4))
    kinds = {} if isinstance(committee, Committee) else kinds_of_kernels(committee.blocks)
    shares = [_shares(getattr(members[index], "recipe", None), kinds) for index in order]
    listed = sorted({kind for own in shares for kind in own}, key=lambda kind: [*_KINDS, kind].index(kind))
    left = np.zeros(len(order))
    for kind in listed:
        colour, name = _KINDS.get(kind, _OWN)
        width = np.array([weights[index] * own.get(kind, 0.0) for index, own in zip(order, shares, strict=True)])
        ax.barh(range(len(order)), width, left=left, color=colour, height=0.7, label=name if kind in _KINDS else kind)
        left += width
    size = letters(ax) - 1.0
    for place, index in enumerate(order):
        score = members[index].score
        if score is not None:
            ax.text(weights[index], place, f" {score:#.3g}".replace("-", "−"), va="center", size=size, color=GREY)
    names = [_name(members[index], index) for index in order]
    ax.set_yticks(range(len(order)), names)
    ax.invert_yaxis()
    ax.set_xlim(0, 1.18 * max(weights))
    between = "\n" if room(ax) < _NARROW else "; "
    ax.set(xlabel=f"weight{between}at the end: loss of left-out series (nats)", ylabel="member")
    ax.xaxis.set_major_formatter(percent())
    legend_above(ax, margin=max(text_width(name, letters(ax) - 0.5) for name in names) + _LABEL * letters(ax))
    return finish(ax)


def _shares(recipe: Recipe | None, kinds: dict[str, str]) -> dict[str, float]:
    """The share of each kind of view in a member's kernel; a view of the user's own goes by its name."""
    if recipe is None:
        return {"path": 1.0}
    total = sum(weight for _, weight in recipe.weights)
    shares: dict[str, float] = {}
    for name, weight in recipe.weights:
        kind = kinds.get(name, "features")
        key = name if kind == "features" else kind
        shares[key] = shares.get(key, 0.0) + weight / total
    return shares


def _name(member: Any, index: int) -> str:
    recipe = getattr(member, "recipe", None)
    return f"model {index + 1}" if recipe is None else recipe.name
