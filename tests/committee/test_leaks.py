"""Leave-one-out does not leak: blocks that are made anew without a series predict it as the closed form says."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from helpers.view_data import generator, random_walks, standardised
from siggpde.committee import recipes as recipes_module
from siggpde.committee import regression as module
from siggpde.committee.recipes import Recipe
from siggpde.committee.regression import LeftOut, Targets, fit_exact
from siggpde.series import SeriesBatch
from siggpde.views import KernelView, PathView, View, WindowsView
from siggpde.views.window_features import WindowSettings

SMALLEST_NOISE = 1e-5
VIEWS = {
    "words": PathView("k"),
    "kernel": KernelView("k"),
    "lifted": KernelView("k", bandwidth=1.0, time_weight=3.0),
    "windows": WindowsView(WindowSettings(lifts=("x",), max_dilations=1)),
}


def recipe_of(names: list[str], power: int) -> Recipe:
    return Recipe("one", tuple((name, 1.0) for name in names), power)


def closed_form(view: View, batch: SeriesBatch, targets: Targets, power: int = 1) -> LeftOut:
    _, rows = view.fit(batch)
    return fit_exact(recipe_of(list(rows), power).mix(rows), targets)[1]


def made_anew(view: View, batch: SeriesBatch, targets: Targets, power: int = 1) -> Tensor:
    """Mean latents (n, outputs): view, centring and scale are learned from the other series each time."""
    means = []
    for i in range(len(batch)):
        rest = torch.tensor([j for j in range(len(batch)) if j != i])
        block, rows = view.fit(batch[rest])
        recipe = recipe_of(list(rows), power)
        fitted, _ = fit_exact(recipe.mix(rows), targets[rest])
        means.append(fitted.predict(recipe.mix(block.rows(batch[i : i + 1]), recipe.norms(rows)))[0])
    return torch.cat(means)


def accuracy(mean: Tensor, targets: Targets) -> float:
    return float((mean.argmax(1) == targets.y).double().mean())


def coin(n: int, seed: int) -> Targets:
    """As many heads as tails, of which series say nothing."""
    return Targets(torch.randperm(n, generator=generator(seed)) % 2, 2)


@pytest.fixture
def little_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "NOISES", (SMALLEST_NOISE,))


@pytest.mark.usefixtures("little_noise")
@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("name", VIEWS)
def test_left_out_is_what_blocks_made_anew_predict(name: str, power: int):
    batch = standardised(SeriesBatch(random_walks(24, 12, 2, 1)))
    targets = coin(24, 2)
    left_out = closed_form(VIEWS[name], batch, targets, power)
    slow = made_anew(VIEWS[name], batch, targets, power)
    difference = (left_out.mean - slow).square().mean().sqrt()
    assert float(difference) < 0.25 * float((targets.signs() - slow).square().mean().sqrt())
    assert abs(accuracy(left_out.mean, targets) - accuracy(slow, targets)) <= 3 / 24


@pytest.mark.usefixtures("little_noise")
@pytest.mark.parametrize("name", VIEWS)
def test_labels_that_are_noise_are_not_foreseen(name: str):
    batch = standardised(SeriesBatch(random_walks(40, 12, 2, 3)))
    right = [accuracy(closed_form(VIEWS[name], batch, coin(40, seed)).mean, coin(40, seed)) for seed in range(12)]
    assert 0.35 < sum(right) / len(right) < 0.62


@pytest.mark.usefixtures("little_noise")
def test_without_the_constant_they_would_be(monkeypatch: pytest.MonkeyPatch):
    """The trap: ones are a null vector of a centred kernel, and a left-out label is what the others lack to zero."""
    batch = standardised(SeriesBatch(random_walks(40, 12, 2, 3)))
    monkeypatch.setattr(recipes_module, "CONSTANT", 0.0)
    assert accuracy(closed_form(VIEWS["words"], batch, coin(40, 0)).mean, coin(40, 0)) > 0.95


@pytest.mark.parametrize("name", VIEWS)
def test_the_score_of_noise_is_that_of_chance(name: str):
    """With the noise that is best: choosing it must not make noise look like signal."""
    batch = standardised(SeriesBatch(random_walks(40, 12, 2, 4)))
    scores = [closed_form(VIEWS[name], batch, coin(40, seed)).score for seed in range(6)]
    assert sum(scores) / len(scores) > 0.65  # log 2 is 0.693


def test_words_of_degree_one_see_what_is_linear():
    """A check of the checks: labels that are there are found by both."""
    batch = standardised(SeriesBatch(random_walks(24, 12, 1, 5)))
    targets = Targets((batch.values[:, -1, 0] > batch.values[:, -1, 0].median()).long(), 2)
    view = replace(VIEWS["words"], degree=1)
    assert accuracy(closed_form(view, batch, targets).mean, targets) > 0.85
    assert accuracy(made_anew(view, batch, targets), targets) > 0.85
