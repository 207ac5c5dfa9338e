"""Weights of members by a Bayesian bootstrap of their left-out series, and choices in which a series had no part."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from helpers.random_paths import modest
from helpers.view_data import generator, random_rows
from siggpde import SigGPClassifier
from siggpde.committee.regression import LeftOut, Targets, fit_exact
from siggpde.committee.weights import bootstrap_weights, fold_numbers, nested_folds


def densities(members: int, n: int, seed: int, spread: float = 1.0) -> torch.Tensor:
    random = generator(seed)
    common = -torch.rand(n, generator=random).double()
    return common + spread * 0.1 * torch.randn(members, n, generator=random).double()


@given(st.integers(1, 12), st.integers(1, 60), st.integers(1, 6), st.integers(0, 999))
@modest
def test_weights_are_shares_of_a_few(members: int, n: int, most: int, seed: int):
    logs = densities(members, n, seed)
    actual = bootstrap_weights(logs, most=most)
    assert actual.shape == (members,) and bool((actual >= 0).all())
    assert float(actual.sum()) == pytest.approx(1, abs=1e-12) and 1 <= int((actual > 0).sum()) <= most
    assert torch.equal(actual, bootstrap_weights(logs, most=most))
    kept = actual[actual > 0]
    assert float(kept.min()) > 0.02 * float(kept.max())


@given(st.integers(2, 8), st.integers(2, 40), st.integers(0, 999))
@modest
def test_members_in_another_order(members: int, n: int, seed: int):
    logs = densities(members, n, seed)
    order = torch.randperm(members, generator=generator(seed))
    torch.testing.assert_close(bootstrap_weights(logs[order]), bootstrap_weights(logs)[order], rtol=0, atol=1e-12)


@pytest.mark.parametrize("spread", [0.1, 1.0, 5.0])
def test_series_in_another_order_change_little(spread: float):
    logs = densities(5, 200, 1, spread)
    order = torch.randperm(200, generator=generator(2))
    assert float((bootstrap_weights(logs[:, order]) - bootstrap_weights(logs)).abs().max()) < 0.12


def test_weights_by_hand():
    logs = densities(1, 30, 3)
    actual = bootstrap_weights(torch.cat([logs, logs, logs - 3.0]))
    torch.testing.assert_close(actual, torch.tensor([0.5, 0.5, 0.0]).double(), rtol=0, atol=1e-9)
    shifted = bootstrap_weights(torch.cat([logs, logs, logs - 3.0]) - 100.0)
    torch.testing.assert_close(shifted, actual)
    # However clear the best member is; of a family only its best.
    logs = torch.full((4, 500), -0.5).double() - torch.tensor([0.0, 0.2, 0.1, 0.15]).double()[:, None]
    assert float(bootstrap_weights(logs)[0]) > 0.99
    actual = bootstrap_weights(logs, ["a", "a", "b", "b"])
    assert 0.7 < float(actual[0]) < 0.95 and float(actual[2]) > 0.05 and actual[1] == actual[3] == 0
    torch.testing.assert_close(bootstrap_weights(logs, "aaaa"), bootstrap_weights(logs), rtol=0, atol=1e-6)
    # A member that is best because of one series does not get all; one that is better on all of them does.
    level = torch.full((2, 40), -0.5).double()
    lucky, better = level.clone(), level.clone()
    lucky[0, 0] += 8.0
    better[0] += 0.2
    assert 0.5 < float(bootstrap_weights(lucky)[0]) < 0.9
    assert float(bootstrap_weights(better.repeat(1, 5))[0]) > 0.99
    several = torch.full((3, 500), -0.5).double() - torch.tensor([0.0, 0.001, 1.0]).double()[:, None]
    assert bootstrap_weights(several)[2] == 0


def test_it_is_the_mean_over_draws_of_tempered_softmaxes():
    """By another generator, to the accuracy of 400 draws."""
    logs = densities(3, 50, 4)
    shares = torch.distributions.Dirichlet(torch.ones(50).double()).sample(torch.Size([20_000]))
    wanted = torch.softmax(50 * shares @ logs.T / 4.0, dim=1).mean(0)
    assert float((bootstrap_weights(logs, seed=1) - wanted).abs().max()) < 0.06


def weigh(densities: torch.Tensor, targets: Targets) -> torch.Tensor:
    return bootstrap_weights(densities, groups=targets.groups)


def candidates(targets: Targets, count: int = 4) -> list[LeftOut]:
    return [fit_exact(random_rows(len(targets), 30, seed)[0], targets)[1] for seed in range(count)]


@pytest.mark.parametrize("classes", [None, 3])
def test_every_series_is_in_one_fold_and_predicted_by_the_choice_of_the_others(classes: int | None):
    n = 30
    y = torch.randn(n, generator=generator(9)).double() if classes is None else torch.arange(n) % classes
    targets = Targets(y, classes)
    results = candidates(targets)
    folds = nested_folds(results, targets, weigh)
    rows = torch.cat([fold.rows for fold in folds])
    assert rows.sort().values.tolist() == list(range(n)) and len(folds) == 5
    for fold in folds:
        others = torch.tensor([row for row in range(n) if row not in fold.rows.tolist()])
        best = [max(result.levels, key=lambda level: float(level.log_density[others].mean())) for result in results]
        weights = weigh(torch.stack([level.log_density[others] for level in best]), targets[others])
        expected = sum(w * level.mean[fold.rows] for w, level in zip(weights, best, strict=True))
        actual = (fold.weights[:, None, None] * fold.means).sum(0)
        torch.testing.assert_close(actual, expected, atol=2e-3, rtol=0)  # levels within 1e-4 nats are a tie
        assert float(fold.weights.sum()) == pytest.approx(1)


def test_folds_are_of_whole_groups_and_of_all_classes():
    groups = torch.arange(60) // 4
    numbers = fold_numbers(Targets(torch.arange(60) % 2, 2, groups=groups))
    assert all(len(numbers[groups == group].unique()) == 1 for group in groups.unique())
    numbers = fold_numbers(Targets(torch.arange(60) % 3, 3))
    of_label = [numbers[torch.arange(60) % 3 == label] for label in range(3)]
    assert all(int((part == fold).sum()) == 4 for part in of_label for fold in range(5))


def test_labels_that_mean_nothing_are_not_believed():
    """Thirty members at fifteen noise levels find a rule in anything; with it, predictions were as sure as 0.6 here."""
    sure = []
    for seed in range(4):
        random = np.random.default_rng(seed)
        X, new = (random.normal(size=(n, 1, 40)).cumsum(2) for n in (40, 60))
        model = SigGPClassifier().fit(X, random.permutation(40) % 2)
        sure.append(model.predict_proba(new).max(1).mean())
        assert model.committee_.link.nothing > 0.005
    assert np.mean(sure) < 0.56
