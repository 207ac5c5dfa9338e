"""Draws `docs/readme.png`, the picture of the README: `SIGGPDE_DATA=folder python docs/readme_picture.py`.

A test series of the UEA archive's Epilepsy, acceleration of a wrist at 16 Hz, of which the default model is not sure:
its channels with what each stretch contributes, and the probabilities of the classes.
"""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from siggpde import SigGPClassifier, plots
from siggpde.datasets import load_dataset
from siggpde.plots.style import BLUE, GREY, ORANGE, PALE

TARGET = Path(__file__).parent / "readme.png"
SERIES = 28  # of the test series
RATE = 16  # points a second
SEGMENTS = 16
LETTERS = 9


def main() -> None:
    data = load_dataset("Epilepsy")
    model = SigGPClassifier().fit(data.X_train, np.char.lower(data.y_train))
    x = data.X_test[SERIES]
    (p,) = model.predict_proba(x[None])
    first, second = np.argsort(-p)[:2]
    parts = model.explain(x[None], segments=SEGMENTS)[0].segments

    figure = Figure(figsize=(8.2, 3.9), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=[2.6, 1])
    plots.plot_series(
        x,
        parts.contrast.T,
        np.append(parts.starts, parts.ends[-1]) / RATE,
        left.subplots(len(x), sharex=True),
        times=np.arange(x.shape[1]) / RATE,
        std=np.hypot(parts.contrast_std, parts.contrast_error).T,
        channels=["acceleration, x", "y", "z"],
        time_unit="s",
        label=f"for {model.classes_[second]}      ←      contribution      →      for {model.classes_[first]}",
    )
    ax, below = right.subplots(2, height_ratios=[1.6, 1])
    order = np.argsort(-p)
    colours = [BLUE, ORANGE, *[PALE] * (len(p) - 2)]
    ax.barh(model.classes_[order], p[order], color=colours, height=0.6)
    for place, share in enumerate(p[order]):
        ax.text(share + 0.02, place, f"{100 * share:.0f} %", va="center", size=LETTERS, color=GREY)
    ax.set(xlim=(0, 1.1), xticks=[])
    ax.set_title("probability", size=LETTERS)
    ax.tick_params(length=0, labelsize=LETTERS)
    ax.invert_yaxis()
    ax.spines[["top", "right", "bottom"]].set_visible(False)
    held = " or ".join(model.classes_[model.predict_set(x[None], level=0.99)[0]])
    rare = 1 / model.novelty(x[None])[0]
    caption = f"99 % set:\n{held}\n\nnovelty: about one in {rare:.0f}\nis as unusual as this one"
    below.text(-0.35, 0.9, caption, va="top", size=LETTERS, in_layout=False)
    below.axis("off")
    figure.savefig(TARGET, dpi=150)
    print(f"{TARGET}: {TARGET.stat().st_size / 1000:.0f} kB; {data.y_test[SERIES]}; {parts.sentence}")


if __name__ == "__main__":
    main()
