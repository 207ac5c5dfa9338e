"""Draws the pictures of `docs/plots.md` into `docs/plots/`: `SIGGPDE_DATA=folder python docs/plots_gallery.py`.

Data sets are those of the UCR, UEA and TSER archives, with their usual splits. Every picture is 80 mm wide, as a
column of a paper is, and one is of full width as well.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from siggpde import SigGPClassifier, SigGPRegressor, plots
from siggpde.datasets import load_dataset
from siggpde.metrics import classification_metrics

TARGET = Path(__file__).parent / "plots"
WIDTH = 80 / 25.4
LEVELS = np.arange(1, 10) / 10


def picture(name: str, draw: Callable[[Any], Any], height: float = 0.75) -> None:
    figure = Figure(figsize=(WIDTH, height * WIDTH), layout="constrained")
    draw(figure.subplots())
    save(figure, name)


def save(figure: Figure, name: str) -> None:
    figure.savefig(TARGET / f"{name}.png", dpi=150)


def classes() -> None:
    data = load_dataset("UWaveGestureLibrary")
    y_train, y = (np.array([label.removesuffix(".0") for label in labels]) for labels in (data.y_train, data.y_test))
    model = SigGPClassifier(channel_names=["x", "y", "z"]).fit(data.X_train, y_train)
    p = model.predict_proba(data.X_test)
    known, score = model.committee_.novelty, model.novelty(data.X_test, return_score=True)[1]
    random_walks = np.random.default_rng(0).normal(size=data.X_test.shape).cumsum(axis=2) / 8
    strange = model.novelty(random_walks, return_score=True)[1]
    metrics = classification_metrics(y, p, model.classes_)
    picture("calibration", lambda ax: plots.plot_calibration(y, p, model.classes_, ax), 1.1)
    picture("confusion", lambda ax: plots.plot_confusion(metrics, ax), 1.0)
    picture("risk_coverage", lambda ax: plots.plot_risk_coverage(y, p, model.classes_, ax))
    both = {"test": score, "random walks": strange}
    picture("novelty", lambda ax: plots.plot_novelty(both, known.left_out_scores, ax, limit=known.limit))
    latents = model.latent(data.X_test)[0]
    picture("map", lambda ax: plots.plot_map(latents, y, ax, uncertain=p.max(axis=1) < 0.8, name="gesture"), 0.9)
    picture("weights", lambda ax: plots.plot_weights(model.committee_, ax), 0.9)
    series(model, data)


def series(model: SigGPClassifier, data: Any) -> None:
    """A gesture, what speaks for its class, and the smallest change that makes it another."""
    x = np.asarray(data.X_test[35], dtype=np.float64)  # one that a short stretch decides
    (why,) = model.explain(x[None])
    changed = model.counterfactual(x)
    for name, width, height in (("series", WIDTH, 1.1 * WIDTH), ("series_wide", 2 * WIDTH, 1.45 * WIDTH)):
        figure = Figure(figsize=(width, height), layout="constrained")
        plots.plot_explanation(why, x, figure.subplots(len(x), sharex=True), counterfactual=changed)
        save(figure, name)


def numbers() -> None:
    data = load_dataset("Tecator")
    model = SigGPRegressor(channel_names=["absorbance"]).fit(data.X_train, data.y_train)
    mean, (low, high) = model.predict(data.X_test), model.predict_interval(data.X_test).T
    quantiles = model.predict_quantiles(data.X_test, LEVELS.tolist())
    usual = int(np.argsort(high - low)[len(low) // 2])  # a series about which it is as sure as about most
    x = np.asarray(data.X_test[usual], dtype=np.float64)
    (why,) = model.explain(x[None])
    wanted = float(np.quantile(np.asarray(data.y_train, dtype=float), 0.9))
    changed = model.counterfactual(x, wanted)
    picture("number", lambda ax: plots.plot_explanation(why, x, [ax], counterfactual=changed, unit="% fat"))
    picture("intervals", lambda ax: plots.plot_intervals(data.y_test, mean, low, high, ax, unit="% fat"), 0.9)
    picture("pit", lambda ax: plots.plot_pit(data.y_test, quantiles, LEVELS, ax))


def training() -> None:
    data = load_dataset("GunPoint")
    X, y, sizes = data.X_train, data.y_train, (4, 8, 16, 32, 64, 128)
    settings: dict[str, Any] = {"method": "paper", "max_iter": 60}
    history = SigGPClassifier(n_features=64, **settings).fit(X, y).committee_.members[0].history
    picture("history", lambda ax: plots.plot_history(history, ax))

    def loss(size: int, seed: int) -> float:
        model = SigGPClassifier(n_features=size, random_state=seed, **settings).fit(X, y)
        return -model.log_likelihood(data.X_test, data.y_test).mean()

    losses = [[loss(size, seed) for size in sizes] for seed in range(2)]
    picture("sizes", lambda ax: plots.plot_sizes(sizes, losses, ax))
    scores = [loss for _, loss, _ in SigGPClassifier().fit(X, y).tried_ or ()]
    picture("trials", lambda ax: plots.plot_trials(scores, ax))


if __name__ == "__main__":
    TARGET.mkdir(exist_ok=True)
    for part in (classes, numbers, training):
        part()
