"""Draws the picture of "What a model rests on": `python docs/effects_picture.py`, with the folder of the data set
Tecator in SIGGPDE_DATA."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot

from siggpde import SigGPRegressor, plots
from siggpde.datasets import load_dataset

FOLDER = Path(__file__).parent / "plots"
WIDTH = 80 / 25.4  # inches


def main() -> None:
    meat = load_dataset("Tecator")
    spectra = SigGPRegressor(channel_names=["absorbance"]).fit(meat.X_train, meat.y_train)
    (number,) = spectra.importance(meat.X_test).classes
    figure, ax = pyplot.subplots(figsize=(WIDTH, 0.8 * WIDTH), layout="constrained")
    plots.plot_effects(number.regions, ax, label="effect on the content of fat (%)")
    figure.savefig(FOLDER / "effects.png", dpi=200)


if __name__ == "__main__":
    main()
