"""Members with other likelihoods: against exact regressions, brute force and themselves on more data."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import pytest
import scipy.stats
import torch
from torch import Tensor

from siggpde.committee.feature_gp import FeatureGP, Features, leading_whitening, whitened
from siggpde.committee.fitting import ViewSettings, fit_view_committee
from siggpde.committee.natural_ascent import Ascent
from siggpde.committee.starting import Start
from siggpde.committee.targets import Targets
from siggpde.committee.variational_fitting import AscentSettings, fit_variational, update_variational
from siggpde.committee.variational_views import VariationalMember, VariationalViewCommittee
from siggpde.committee.view_committee import ViewCommittee
from siggpde.distributed.ranks import ALONE
from siggpde.distributed.shard import Shard
from siggpde.gp.likelihoods import Gaussian, Softmax, StudentT
from siggpde.series import SeriesBatch
from siggpde.views.base import Rows

N = 50


def features(n: int = N, size: int = 4, seed: int = 0) -> Features:
    random = torch.Generator().manual_seed(seed)
    values = torch.randn(n, size, dtype=torch.float64, generator=random)
    return Features(values, 0.1 * torch.rand(n, dtype=torch.float64, generator=random))


def series(n: int, seed: int) -> SeriesBatch:
    random = torch.Generator().manual_seed(seed)
    return SeriesBatch(torch.randn(n, 12, 1, dtype=torch.float64, generator=random).cumsum(dim=1))


def targets(name: str, batch: SeriesBatch) -> Tensor:
    last = batch.values[:, -1, 0]
    noise = torch.randn(len(last), dtype=torch.float64, generator=torch.Generator().manual_seed(7))
    return {
        "softmax": (last > -1).long() + (last > 1).long(),
        "robustmax": (last > -1).long() + (last > 1).long(),
        "bernoulli": (last > 0).long(),
        "poisson": (0.4 * last).exp().round(),
        "student_t": last / 3 + 0.3 * noise,
    }[name]


def committee(name: str, members: int = 1, n: int = N, **settings: Any) -> VariationalViewCommittee:
    batch = series(n, 0)
    y = targets(name, batch)
    classes = {"softmax": 3, "robustmax": 3, "bernoulli": 2}.get(name)
    compared = (y + 0.5).log() if name == "poisson" else y
    shard = Shard(ALONE, n)
    chosen = fit_view_committee(
        batch, Targets(compared, classes), ViewSettings(kinds=("linear", "path"), words=50, members=members), shard
    )
    assert isinstance(chosen, ViewCommittee)
    return fit_variational(chosen, batch, y, Start(name, classes, chosen.link), AscentSettings(**settings), shard)


NAMES = ("softmax", "robustmax", "bernoulli", "poisson", "student_t")


def test_whitened_features_have_the_gram_matrix_of_their_leading_directions():
    plain = features(30, 6).values
    gram = plain @ plain.T + 1e-3 * torch.eye(30).double()
    rows = Rows(gram, gram.diagonal())
    everything = whitened(rows, leading_whitening(gram))
    torch.testing.assert_close(everything.values @ everything.values.T, gram)
    assert float(everything.tail.max()) < 1e-9
    few = whitened(rows, leading_whitening(gram, 6))
    share, vectors = torch.linalg.eigh(gram)
    torch.testing.assert_close(few.values @ few.values.T, (vectors[:, -6:] * share[-6:]) @ vectors[:, -6:].T)
    torch.testing.assert_close(few.tail, gram.diagonal() - few.values.square().sum(1))


def test_q_of_a_gaussian_likelihood_is_the_posterior():
    seen, amplitude, noise = features(), 2.5, 0.3
    y = seen.values @ torch.tensor([1.0, -2.0, 0.5, 0.0]).double() + 0.2
    gp = FeatureGP(Gaussian(noise), 4, amplitude)
    ascent = Ascent(gp, seen, y)
    for _ in range(30):
        ascent.step(learn=False)
    phi = seen.values * amplitude**0.5
    precision = phi.T @ phi / noise + torch.eye(4).double()
    new = features(7, seed=1)
    mean, variance = gp.latents(new)
    at = new.values * amplitude**0.5
    torch.testing.assert_close(mean[:, 0], at @ torch.linalg.solve(precision, phi.T @ y / noise), rtol=1e-6, atol=1e-8)
    expected = (at * torch.linalg.solve(precision, at.T).T).sum(1) + amplitude * new.tail
    torch.testing.assert_close(variance[:, 0], expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("likelihood", [StudentT(scale=2.0), Softmax(3)], ids=["student_t", "softmax"])
def test_steps_never_lower_the_bound(likelihood: Any):
    seen = features()
    y = (seen.values[:, 0] > 0).long() if isinstance(likelihood, Softmax) else seen.values[:, 0]
    gp = FeatureGP(copy.deepcopy(likelihood), 4, amplitude=30.0)
    ascent = Ascent(gp, seen, y)
    found = []
    for _ in range(25):
        projection = gp.project(seen)
        fit = gp.likelihood.expected_log_prob(*gp.latent_marginals(projection), y).sum()
        prior = 0.5 * ((gp.log_amplitude - ascent.centre) / 2.0) ** 2
        found.append(float((fit - gp.variational.kl() - prior).detach()))
        ascent.step(learn=True)
    assert all(after > before - 1e-9 for before, after in itertools.pairwise(found))
    assert found[-1] > found[3] + 0.5
    assert float(gp.log_amplitude.detach()) != pytest.approx(ascent.centre, abs=0.1)


def test_an_ascent_goes_on_from_its_state():
    seen = features()
    y = (seen.values[:, 0] > 0).long()
    whole, part = (Ascent(FeatureGP(Softmax(2), 4), seen, y) for _ in range(2))
    for index in range(6):
        whole.step(learn=index < 4)
        if index < 3:
            part.step(learn=True)
    other = Ascent(FeatureGP(Softmax(2), 4), seen, y)
    other.restore(part.state())
    for index in range(3, 6):
        other.step(learn=index < 4)
    for key, value in whole.gp.state_dict().items():
        assert torch.equal(other.gp.state_dict()[key], value)
    assert other.elbo == whole.elbo


@pytest.mark.parametrize("name", NAMES)
def test_members_learn_and_predict(name: str):
    fitted, new = committee(name, n=100), series(60, 1)
    y = targets(name, new)
    untrained = VariationalViewCommittee(
        fitted.standard, fitted.landmarks, fitted.blocks,
        [VariationalMember(m.recipe, m.whitening, m.norms, FeatureGP(m.gp.likelihood, m.gp.variational.size), m.score)
         for m in fitted.members], fitted.weights,
    )  # fmt: skip
    assert fitted.log_predictive(new, y).mean() > untrained.log_predictive(new, y).mean() + 0.2
    if name in ("poisson", "student_t"):
        mean, variance = fitted.mean_and_variance(new)
        assert torch.corrcoef(torch.stack([mean, y]))[0, 1] > 0.8 and bool((variance > 0).all())
        low, high = fitted.quantiles(new, [0.05, 0.95]).T
        assert 0.75 < float(((low <= y) & (y <= high)).double().mean()) <= 1
    else:
        chances = fitted.probabilities(new)
        torch.testing.assert_close(chances.sum(1), torch.ones(60).double())
        assert float((chances.argmax(1) == y).double().mean()) > 0.8
        torch.testing.assert_close(
            fitted.log_predictive(new, y), chances.gather(1, y[:, None])[:, 0].log(), rtol=1e-2, atol=1e-3
        )


@pytest.mark.parametrize("name", NAMES)
def test_a_member_comes_back_from_its_state(name: str):
    fitted, new = committee(name, max_iter=2), series(9, 1)
    back = copy.copy(fitted)
    back.members = [VariationalMember.from_state(member.state()) for member in fitted.members]
    y = targets(name, new)
    assert torch.equal(back.log_predictive(new, y), fitted.log_predictive(new, y))
    assert all(torch.equal(*both) for both in zip(back.member_latents(new), fitted.member_latents(new), strict=True))


def test_several_members_are_averaged():
    fitted, new = committee("softmax", members=3, max_iter=5), series(9, 1)
    assert 1 < len(fitted.members) == len(fitted.weights)
    assert float(fitted.weights.sum()) == pytest.approx(1, abs=1e-12)
    each = []
    for member in fitted.members:
        alone = copy.copy(fitted)
        alone.members, alone.weights = [member], torch.ones(1).double()
        each.append(alone.probabilities(new))
    torch.testing.assert_close(fitted.probabilities(new), (fitted.weights[:, None, None] * torch.stack(each)).sum(0))


@pytest.mark.parametrize("name", ["student_t", "poisson"])
def test_quantiles_of_several_members_are_those_of_samples(name: str):
    fitted, new = committee(name, members=3, max_iter=5), series(6, 1)
    assert len(fitted.members) == 3
    levels, draws = [0.05, 0.3, 0.5, 0.9], 400_000
    quantiles = fitted.quantiles(new, levels)
    means, variances = fitted.member_latents(new)
    random = torch.Generator().manual_seed(0)
    of = torch.multinomial(fitted.weights, draws, replacement=True, generator=random)
    spread = variances[of, :, 0].sqrt()
    latent = means[of, :, 0] + spread * torch.randn(spread.shape, dtype=torch.float64, generator=random)
    settings = [member.gp.likelihood.settings() for member in fitted.members]
    if name == "poisson":
        drawn = torch.poisson((latent + settings[0]["offset"]).exp(), generator=random)
    else:
        scales = torch.tensor([each["scale"] for each in settings], dtype=torch.float64)[of]
        noise = scipy.stats.t.rvs(settings[0]["df"], size=tuple(latent.shape), random_state=0)
        drawn = latent + scales[:, None] * torch.from_numpy(noise)
    for level, column in zip(levels, quantiles.T, strict=True):
        error = 5 * (level * (1 - level) / draws) ** 0.5
        assert bool(((drawn <= column + 1e-9).double().mean(0) > level - error).all())
        below = drawn < column - 1e-9 if name == "poisson" else drawn <= column
        assert bool((below.double().mean(0) < level + error).all())


@pytest.mark.parametrize("name", ["softmax", "student_t"])
def test_new_series_are_learned_from(name: str):
    fitted, new, unseen = committee(name), series(150, 2), series(200, 3)
    members, y = fitted.members, targets(name, new)
    before = fitted.log_predictive(unseen, targets(name, unseen)).mean()
    update_variational(fitted, new, y)
    assert fitted.log_predictive(unseen, targets(name, unseen)).mean() > before
    assert all(new.gp is not old.gp for new, old in zip(fitted.members, members, strict=True))
    learned = fitted.members
    with pytest.raises((ValueError, ArithmeticError, RuntimeError)):
        update_variational(fitted, new, torch.full_like(y.double(), torch.nan))
    assert fitted.members is learned


def test_little_time_leaves_members_out():
    fitted = committee("softmax", members=3, deadline=0.0)
    assert len(fitted.members) == 1 and fitted.weights.tolist() == [1.0]
