"""Draws `docs/committee.png`, how the default model predicts: `SIGGPDE_DATA=folder python docs/committee_picture.py`.

The series of the UEA archive's Epilepsy: one of them, the kernels of six views of all training series (sorted by class,
dark where two series are alike), the weights of the members that are made of them, and the probabilities of the series.
"""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from PIL import Image

from siggpde import SigGPClassifier
from siggpde.datasets import load_dataset
from siggpde.plots.style import AMBER, BLUE, GREEN, GREY, INK, ORANGE, PURPLE, SKY
from siggpde.views.base import rows_of
from siggpde.views.kinds import kinds_of_kernels

TARGET = Path(__file__).parent / "committee.png"
SERIES = 28  # of the test series
KINDS = {  # the colour and the name of each kind of view
    "linear": (SKY, "short words"),
    "path": (ORANGE, "words of paths"),
    "kernel": (GREEN, "signature kernel"),
    "lifted": (AMBER, "of lifted paths"),
    "windows": (BLUE, "windows"),
    "spectrum": (PURPLE, "spectrum"),
}
LETTERS = 8


def grams(model: Any, X: np.ndarray) -> dict[str, np.ndarray]:
    """The first kernel of each kind of view among the training series X, in their order, as correlations."""
    committee, kernels = model.committee_, {}
    rows, seen = rows_of(committee.blocks, committee.landmarks), committee.rows(model._batch(X))
    kinds = kinds_of_kernels(committee.blocks)
    windows = next(name for name, kind in kinds.items() if kind == "windows")
    order = seen[windows].gram.argmax(dim=1).numpy()  # landmarks are the training series in another order
    for name, kind in kinds.items():
        gram = rows[name].gram.numpy()[np.ix_(order, order)]
        scale = np.sqrt(np.diag(gram))
        kernels.setdefault(kind, gram / np.outer(scale, scale))
    return kernels


def weigh(model: Any, ax: Any) -> None:
    """Bars of the members' weights, in the colours of their views."""
    committee = model.committee_
    kinds = kinds_of_kernels(committee.blocks)
    for place, (member, weight) in enumerate(zip(committee.members, committee.weights.tolist(), strict=True)):
        left, total = 0.0, sum(share for _, share in member.recipe.weights)
        for kind, (colour, _) in KINDS.items():
            width = weight * sum(share for name, share in member.recipe.weights if kinds[name] == kind) / total
            ax.barh(place, width, left=left, color=colour, height=0.7)
            left += width
    ax.invert_yaxis()
    ax.set(yticks=[], xlabel="weight", ylabel="Gaussian processes")
    ax.xaxis.set_major_formatter(lambda share, _: f"{100 * share:.0f} %")
    for axis in (ax.xaxis, ax.yaxis):
        axis.label.set_size(LETTERS)


def main() -> None:
    data = load_dataset("Epilepsy")
    labels = np.char.lower(data.y_train)
    model = SigGPClassifier().fit(data.X_train, labels)
    x = data.X_test[SERIES]
    (p,) = model.predict_proba(x[None])

    figure = Figure(figsize=(9.6, 3.0), layout="constrained")
    parts = figure.subfigures(1, 4, width_ratios=[1, 2, 1.3, 1])
    for part, title in zip(parts, ("1  series", "2  views", "3  members", "4  probabilities"), strict=True):
        part.suptitle(title, size=LETTERS + 1, weight="bold", x=0.02, ha="left")

    for ax, values in zip(parts[0].subplots(3, sharex=True), x, strict=True):
        ax.plot(values, color=INK, linewidth=0.8)
        ax.axis("off")

    kernels = grams(model, data.X_train[np.argsort(labels, kind="stable")])
    for ax, (kind, (colour, name)) in zip(parts[1].subplots(2, 3).ravel(), KINDS.items(), strict=True):
        shades = LinearSegmentedColormap.from_list(kind, ["white", colour])
        ax.imshow(kernels[kind], cmap=shades, vmin=0, vmax=np.quantile(kernels[kind], 0.97), interpolation="nearest")
        ax.set_title(name, size=LETTERS - 1, pad=2)
        ax.set(xticks=[], yticks=[])

    left, right = parts[2].subplots(), parts[3].subplots()
    weigh(model, left)
    order = np.argsort(-p)
    right.bar(model.classes_[order], p[order], color=GREY, width=0.6)
    right.set_yticks([0, 0.5, 1], ["0", "50 %", "100 %"])
    right.tick_params(axis="x", rotation=60)
    for ax in (left, right):
        ax.tick_params(labelsize=LETTERS - 1, length=2, color=GREY)
        ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(TARGET, dpi=130)
    Image.open(TARGET).convert("RGB").quantize(64).save(TARGET, optimize=True)


if __name__ == "__main__":
    main()
