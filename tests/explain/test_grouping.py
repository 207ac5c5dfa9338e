"""Terms that cancel are one term: exactness stays, and nothing that is shown cancels."""

import itertools

import numpy as np
import pytest
import torch

from helpers.small_committees import batch_of, one_member
from siggpde import SigGPRegressor
from siggpde.explain import explain_series
from siggpde.explain.contributions import grouped
from siggpde.gp.likelihoods import Bernoulli


def test_every_term_is_in_one_group_and_no_two_groups_cancel():
    random = torch.Generator().manual_seed(0)
    base = torch.randn(60, 6, generator=random).double()
    mixing = torch.randn(6, 40, generator=random).double() * torch.logspace(0, 2, 40)
    terms = base @ mixing  # forty terms of rank six
    groups = grouped(terms)
    assert sorted(number for group in groups for number in group) == list(range(40))
    assert len(groups) < 40
    sums = torch.stack([terms[:, group].sum(1) for group in groups])
    spread = sums.std(1)
    assert spread.tolist() == sorted(spread.tolist(), reverse=True)
    for one, other in itertools.combinations(range(len(groups)), 2):
        assert float((sums[one] + sums[other]).std()) >= 0.799 * float(spread[[one, other]].max())


def test_constant_terms_stay_apart():
    assert grouped(torch.ones(5, 3)) == [[0], [1], [2]]
    assert grouped(torch.zeros(5, 0)) == []


@pytest.fixture(scope="module")
def spectra():
    """Smooth curves and a number that one bump of them is in proportion to, as absorption spectra have it."""
    rng = np.random.default_rng(0)
    grid = np.linspace(0, 1, 50)
    amount, level, slope = rng.uniform(0, 1, (3, 60, 1))
    X = 3 + level + slope * grid + amount * np.exp(-((grid - 0.4) ** 2) / 0.01) + 0.001 * rng.normal(size=(60, 50))
    return X[:, None], 50 * amount[:, 0]


def test_shown_terms_of_spectra_do_not_cancel(spectra):
    X, y = spectra
    model = SigGPRegressor(views=["path", "linear"], n_features=200).fit(X[:45], y[:45])
    single = explain_series(model.committee_, model._batch(X[45:]), ["x"], top=8)
    rests = []
    for explanation in model.explain(X[45:], 8, segments=0):
        shown = [term.value for term in explanation.contributions]
        assert explanation.constant + sum(shown) + explanation.rest == pytest.approx(explanation.latent, abs=1e-8 * 50)
        rests.append(abs(explanation.rest))
        pairs = itertools.combinations(shown, 2)
        large = [(a, b) for a, b in pairs if min(abs(a), abs(b)) > 5]  # of numbers from 0 to 50
        assert all(abs(a + b) >= 0.5 * max(abs(a), abs(b)) for a, b in large), shown
        assert any(term.others for term in explanation.contributions)
    alone = [abs(explanation.rest) * model.target_scale_ for explanation in single]
    assert np.median(rests) < 0.5 * np.median(alone)  # few terms say most of it


def test_words_of_one_path_are_grouped_too():
    batch = batch_of(20)
    committee = one_member(batch, Bernoulli())
    plain = explain_series(committee, batch, ["x", "y"], ["no", "yes"], top=3)
    explanations = explain_series(committee, batch, ["x", "y"], ["no", "yes"], top=3, group=True)
    for one, other in zip(plain, explanations, strict=True):
        assert other.latent == pytest.approx(one.latent)
        assert other.constant + other.rest + sum(c.value for c in other.contributions) == pytest.approx(other.latent)
