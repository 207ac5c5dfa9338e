"""Series that are no series of the data set: what a model must not be sure of."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Series = list[np.ndarray]
DIGITS = ("scribbles", "walks", "times 10", "times 0.1", "constant", "shifted", "reversed")
OTHERS = ("times 10", "times 0.1", "shifted", "constant", "first tenth", "white noise", "reversed")


def corrupted(kind: str, train: Series, test: Series, seed: int = 0) -> Series:
    """The test series changed in one way; scales come from the training series, all channels by channel.

    "shifted" adds ten standard deviations of a channel, "constant" repeats the first point, "first tenth" keeps a tenth
    of the points and at least two; "white noise", "walks" and "scribbles" are series of the same shapes made of
    independent normal points, of random walks, and of points drawn evenly from the range of a channel.
    """
    points = np.concatenate(train, axis=1)
    random = np.random.default_rng(seed)
    mean, spread = np.nanmean(points, 1, keepdims=True), np.nanstd(points, 1, keepdims=True)
    low, high = np.nanmin(points, 1, keepdims=True), np.nanmax(points, 1, keepdims=True)

    def walk(x: np.ndarray) -> np.ndarray:
        steps = random.standard_normal(x.shape).cumsum(1)
        return mean + spread * (steps - steps.mean(1, keepdims=True)) / steps.std(1, keepdims=True)

    change: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "times 10": lambda x: 10 * x,
        "times 0.1": lambda x: 0.1 * x,
        "shifted": lambda x: x + 10 * spread,
        "constant": lambda x: np.repeat(x[:, :1], x.shape[1], axis=1),
        "first tenth": lambda x: x[:, : max(2, x.shape[1] // 10)],
        "white noise": lambda x: mean + spread * random.standard_normal(x.shape),
        "walks": walk,
        "scribbles": lambda x: low + (high - low) * random.random(x.shape),
        "reversed": lambda x: x[:, ::-1].copy(),
    }
    return [change[kind](x) for x in test]
