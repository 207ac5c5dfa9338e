"""The temperature against a search over a fine grid, and what becomes of certain scores."""

import math

import numpy as np
import pytest

from siggpde_paper.compare.estimators import RIDGE_CENTRE, Link, fit_link, lapse_of, temperature_loss


def noisy_scores(n: int, classes: int, noise: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    y = generator.integers(classes, size=n)
    return 2.0 * np.eye(classes)[y] - 1 + noise * generator.normal(size=(n, classes)), y


@pytest.mark.parametrize(("n", "classes", "noise"), [(30, 2, 0.2), (200, 3, 1.0), (500, 10, 2.0), (40, 4, 6.0)])
@pytest.mark.parametrize("centre", [0.0, RIDGE_CENTRE])
def test_the_temperature_is_the_best_of_a_fine_grid(n: int, classes: int, noise: float, centre: float):
    scores, y = noisy_scores(n, classes, noise)
    link = fit_link(scores, y, lapse_of(n), centre)
    grid = np.exp(np.linspace(math.log(1 / 32), math.log(128), 4001))
    best = []
    for temperature in grid:  # the formula once more, from the start
        powers = np.exp(temperature * (scores - scores.max(axis=1, keepdims=True)))
        chances = (1 - 1 / (n + 2)) * powers / powers.sum(axis=1, keepdims=True) + 1 / (n + 2) / classes
        prior = 0.5 * (math.log(temperature) - centre) ** 2
        best.append(prior - np.log(chances[np.arange(n), y]).sum())
    assert temperature_loss(math.log(link.temperature), scores, y, lapse_of(n), centre) <= min(best) + 1e-9
    assert link.temperature == pytest.approx(grid[int(np.argmin(best))], rel=5e-3)


def test_worse_scores_have_a_lower_temperature():
    found = [fit_link(*noisy_scores(300, 3, noise), lapse_of(300), RIDGE_CENTRE).temperature for noise in (0.3, 1, 3)]
    assert found[0] > found[1] > found[2]


def test_probabilities_are_never_zero_and_sum_to_one():
    chances = Link(50.0, lapse_of(8)).probabilities(np.array([[1e6, 0.0, -1e6], [0.0, 0.0, 0.0]]))
    assert chances.sum(axis=1) == pytest.approx(1) and chances.min() == pytest.approx(0.1 / 3)
    assert chances[1] == pytest.approx(1 / 3)


def test_the_prior_decides_where_all_scores_are_the_same():
    link = fit_link(np.zeros((5, 2)), np.array([0, 1, 0, 1, 0]), lapse_of(5), RIDGE_CENTRE)
    assert link.temperature == pytest.approx(4.0, rel=1e-3)
