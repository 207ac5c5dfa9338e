"""Draws `docs/signature.png`, what signatures and their kernel are: `python docs/signature_picture.py`.

A path of two channels with its displacement and area; the words of its signature that have up to three letters; and the
solution of the PDE of the signature kernel, from 1 at the start of both paths to k(X, Y) at their ends.
"""

from pathlib import Path

import torch
from matplotlib.figure import Figure
from torch import Tensor

import siggpde
from siggpde.plots.style import BLUE, GREY, INK, NUMBERS, ORANGE, PALE

TARGET = Path(__file__).parent / "signature.png"
POINTS = 60
LETTERS = 8


def path(turns: float, rise: float) -> Tensor:
    """A bow in the plane, (points, 2)."""
    t = torch.linspace(0, 1, POINTS, dtype=torch.float64)
    return torch.stack([t + 0.25 * torch.sin(turns * t), rise * t + 0.5 * torch.sin(3.1416 * t)], dim=-1)


def main() -> None:
    x, y = path(2.5, 0.4), path(4.0, 0.1)
    figure = Figure(figsize=(8.2, 2.7), layout="constrained")
    left, middle, right = figure.subplots(1, 3)

    left.fill(*x.T, color=BLUE, alpha=0.12)
    left.plot(*x.T, color=BLUE)
    left.plot(*x[[0, -1]].T, color=GREY, linestyle="--", linewidth=1)
    left.plot(*x[0], "o", color=BLUE, markersize=4)
    words = siggpde.words(2, 15)
    values = siggpde.signature(x[None], words=words)[0]
    area = (values[words.index((0, 1))] - values[words.index((1, 0))]) / 2
    caption = f"displacement {values[1]:.2f}, {values[2]:.2f}\nsigned area {area:.2f}"
    left.text(0.97, 0.04, caption, transform=left.transAxes, ha="right", size=LETTERS, color=INK)
    left.set(xlabel="x", ylabel="y", title="a path")

    names = ["–".join("xy"[letter] for letter in word) for word in words[1:]]
    colours = [BLUE if value > 0 else ORANGE for value in values[1:]]
    middle.barh(names, values[1:], color=colours, height=0.7)
    middle.axvline(0, color=GREY, linewidth=0.6)
    middle.invert_yaxis()
    middle.set(title="its signature, up to three letters")

    starts, ends = [x[: i + 1] for i in range(1, POINTS)], [y[: j + 1] for j in range(1, POINTS)]
    solution = torch.ones(POINTS, POINTS, dtype=torch.float64)
    solution[1:, 1:] = siggpde.signature_kernel(starts, ends)
    shown = right.contourf(*[torch.linspace(0, 1, POINTS)] * 2, solution.T, levels=12, cmap=NUMBERS)
    right.plot(1, 1, "o", color=ORANGE, markersize=5, clip_on=False)
    right.annotate(f"k(X, Y) = {solution[-1, -1]:.2f}", (1, 1), (0.52, 0.92), size=LETTERS, color=INK)
    right.set(xlabel="along X", ylabel="along Y", title="the kernel of two paths")
    figure.colorbar(shown, ax=right).ax.tick_params(labelsize=LETTERS - 1)

    for ax in (left, middle, right):
        ax.title.set_size(LETTERS + 1)
        ax.xaxis.label.set_size(LETTERS)
        ax.yaxis.label.set_size(LETTERS)
        ax.tick_params(labelsize=LETTERS - 1, length=2, color=PALE)
        ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(TARGET, dpi=140)


if __name__ == "__main__":
    main()
