"""q(u): every formula against dense linear algebra."""

import pytest
import torch
from torch import Tensor
from torch.distributions import MultivariateNormal, kl_divergence

from helpers.random_paths import generator
from helpers.refusals import assert_refused
from helpers.small_models import dense_covariance as dense
from helpers.small_models import labels, same_state, series, small_gp
from siggpde.gp.likelihoods import Softmax
from siggpde.gp.natural_gradients import NaturalGradient
from siggpde.gp.trainer import _overlap
from siggpde.gp.variational import NaturalParameters, VariationalGaussian, blocks, gram_upper, times_lower

every = pytest.mark.parametrize("covariance", ["full", "shared", "diagonal"])
dtypes = pytest.mark.parametrize("dtype", [torch.float64, torch.float32])


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=generator(seed), dtype=torch.float64)


def somewhere(latents: int, size: int, covariance: str = "full", dtype: torch.dtype = torch.float64, seed: int = 0):
    q = VariationalGaussian(latents, size, covariance, dtype)
    with torch.no_grad():
        q.mean.copy_(normal(latents, size, seed=seed))
        q.root.copy_((0.6 * q.root + 0.2 * normal(*q.root.shape, seed=seed + 1)).tril() if q.full else q.root * 0.8)
        if not q.full:
            q.root.mul_(1 + 0.3 * normal(latents, size, seed=seed + 2).tanh())
    return q


def tolerance(dtype: torch.dtype) -> dict[str, float]:
    return {"rtol": 1e-12, "atol": 1e-12} if dtype == torch.float64 else {"rtol": 3e-5, "atol": 3e-5}


@every
@dtypes
@pytest.mark.parametrize("size", [1, 5, 200])
def test_forward_is_the_dense_formula_with_and_without_a_graph(covariance: str, dtype: torch.dtype, size: int):
    q = somewhere(3, size, covariance, dtype)
    s = normal(4, size, seed=9) / size**0.5
    sigma = dense(q)
    wanted_mean = s @ q.mean.detach().double().T
    wanted = torch.einsum("ni,cij,nj->nc", s, sigma, s)
    joint = torch.einsum("ni,cij,mj->cnm", s, sigma, s)
    with torch.no_grad():
        plain = q(s.to(dtype))
    for mean, variance in (plain, q(s.to(dtype))):
        assert mean.dtype == variance.dtype == dtype and mean.shape == variance.shape == (4, 3)
        assert torch.allclose(mean.double(), wanted_mean, **tolerance(dtype))
        assert torch.allclose(variance.double(), wanted, **tolerance(dtype))
    assert torch.allclose(q.covariances(s.to(dtype)).double(), joint, **tolerance(dtype))
    with torch.no_grad():
        assert [part.shape for part in q(s[:0].to(dtype))] == [(0, 3), (0, 3)]


@every
@dtypes
def test_kl_is_that_of_torch(covariance: str, dtype: torch.dtype):
    q = somewhere(2, 6, covariance, dtype)
    prior = MultivariateNormal(torch.zeros(6).double(), torch.eye(6).double())
    wanted = kl_divergence(MultivariateNormal(q.mean.detach().double(), dense(q)), prior).sum()
    assert q.kl().item() == pytest.approx(wanted.item(), rel=1e-12 if dtype == torch.float64 else 1e-5)
    assert VariationalGaussian(2, 6, covariance, dtype).kl().item() == 0
    with torch.no_grad():
        q.root.mul_(-1)  # a root of either sign is the same covariance
    assert q.kl().item() == pytest.approx(wanted.item(), rel=1e-12 if dtype == torch.float64 else 1e-5)


@every
@dtypes
def test_natural_parameters_there_and_back(covariance: str, dtype: torch.dtype):
    q = somewhere(3, 7, covariance, dtype)
    precision, shift = q.natural_parameters()
    inverse = torch.linalg.inv(dense(q))
    loose = {"rtol": 1e-9, "atol": 1e-9} if dtype == torch.float64 else {"rtol": 1e-2, "atol": 1e-2}
    assert precision.dtype == shift.dtype == torch.float64 and precision.shape == q.root.shape
    got = (precision if q.full else torch.diag_embed(precision)).expand(3, -1, -1)
    assert torch.allclose(got.double(), inverse, **loose)
    assert torch.allclose(shift.double(), (inverse @ q.mean.detach().double()[..., None])[..., 0], **loose)
    other = VariationalGaussian(3, 7, covariance, dtype)
    assert other.set_natural_parameters(NaturalParameters(precision.double(), shift.double()))
    assert other.root.dtype == dtype
    assert torch.allclose(dense(other), dense(q), **loose)
    assert torch.allclose(other.mean, q.mean, **loose)
    for wrong in (-0.1, 0.0, float("nan")):
        mean, root, bad = other.mean.detach().clone(), other.root.detach().clone(), precision.clone()
        (bad[-1, 2:3] if covariance == "diagonal" else bad[-1, 2, 2:3]).fill_(wrong)
        assert not other.set_natural_parameters(NaturalParameters(bad, shift + 1)), "not positive definite"
        assert torch.equal(other.mean, mean) and torch.equal(other.root, root)
    if q.full:
        assert torch.equal(other.root, other.root.tril())
        again = VariationalGaussian(3, 7, covariance, dtype)
        upper = NaturalParameters(precision.double().triu(), shift.double())
        assert again.set_natural_parameters(upper), "the upper triangle is enough"
        assert torch.equal(again.root, other.root)


@every
@dtypes
def test_carried_over_to_other_words_is_the_dense_marginal(covariance: str, dtype: torch.dtype):
    """Words that stay keep their joint marginal, words that go are integrated out, new ones are at the prior."""
    old, new = [(), (0,), (1,), (0, 0)], [(), (1,), (0, 0), (1, 1), (1, 0)]
    q = somewhere(2, 4, covariance, dtype)
    carried = q.carried_over(_overlap(old, None, new, None))
    assert (carried.size, carried.covariance, carried.mean.dtype) == (5, covariance, dtype)
    kept, stay = [0, 2, 3], [0, 1, 2]
    wanted_mean, wanted = torch.zeros(2, 5).double(), torch.eye(5).double().repeat(2, 1, 1)
    wanted_mean[:, stay] = q.mean.detach().double()[:, kept]
    wanted[:, :3, :3] = dense(q)[:, kept][:, :, kept]
    assert torch.allclose(carried.mean.double(), wanted_mean, **tolerance(dtype))
    assert torch.allclose(dense(carried), wanted, **tolerance(dtype))
    narrow = VariationalGaussian(1, 40, "full", dtype)  # after many series; rounding must not make it negative
    with torch.no_grad():
        narrow.root.mul_(1e-4)
    carried = narrow.carried_over(torch.linalg.qr(normal(40, 40))[0])
    assert torch.allclose(dense(carried), 1e-8 * torch.eye(40).double(), atol=1e-9)


@every
def test_carried_over_to_other_directions_is_the_dense_marginal(covariance: str):
    """All of u (8 words) under q: N(Q m, I + Q (Sigma - I) Q^T); the new variables are Q'^T u."""
    words = [(), (0,), (1,), (0, 0), (0, 1), (1, 0), (1, 1), (0, 0, 0)]
    old, new = (torch.linalg.qr(normal(8, size, seed=size))[0] for size in (5, 3))
    q = somewhere(2, 5, covariance)
    mean = q.mean.detach() @ old.T
    sigma = torch.eye(8).double() + old @ (dense(q) - torch.eye(5).double()) @ old.T
    for basis in (new, None):
        carried = q.carried_over(_overlap(words, old, words, basis))
        turn = torch.eye(8).double() if basis is None else basis
        wanted = turn.T @ sigma @ turn
        assert torch.allclose(carried.mean.detach(), mean @ turn, atol=1e-12)
        if q.full:
            assert torch.allclose(dense(carried), wanted, atol=1e-12)
        else:
            assert torch.allclose(carried.root.square(), wanted.diagonal(dim1=1, dim2=2), atol=1e-12)
    assert torch.allclose(q.carried_over(torch.eye(5).double()).root, q.root, atol=1e-12)


@dtypes
def test_one_covariance_for_all_is_the_same_one_for_each(dtype: torch.dtype):
    def separate(q: VariationalGaussian) -> VariationalGaussian:
        other = VariationalGaussian(q.latents, q.size, "full", dtype)
        with torch.no_grad():
            other.mean.copy_(q.mean)
            other.root.copy_(q.root.expand_as(other.root))
        return other

    shared = somewhere(3, 130, "shared", dtype)
    full = separate(shared)
    assert shared.root.shape == (1, 130, 130) and shared.shared and shared.full and not full.shared
    s = (normal(6, 130, seed=4) / 11).to(dtype)
    with torch.no_grad():
        assert all(torch.equal(one, other) for one, other in zip(shared(s), full(s), strict=True))
        again = separate(shared.carried_over(torch.eye(130).double()[:50]))
        assert same_state(again, full.carried_over(torch.eye(130).double()[:50]))
    assert torch.allclose(shared.covariances(s), full.covariances(s), **tolerance(dtype))
    assert shared.kl().item() == pytest.approx(full.kl().item(), rel=1e-6 if dtype == torch.float32 else 1e-13)
    assert not shared.covariance_is_prior() and VariationalGaussian(3, 5, "shared").covariance_is_prior()
    for one, other in zip(shared.natural_parameters(), full.natural_parameters(), strict=True):
        assert torch.allclose(one.expand_as(other), other, rtol=1e-9, atol=1e-9)
    weights = normal(6, 3, seed=5)
    gradients = []
    for q in (shared, full):
        mean, variance = q(s)
        loss = ((mean + variance) * weights).sum() - q.kl()
        gradients.append(torch.autograd.grad(loss, [q.mean, q.root]))
    (of_mean, of_root), (separate_means, separate_roots) = gradients
    assert torch.allclose(of_mean, separate_means, **tolerance(dtype))
    assert torch.allclose(of_root[0], separate_roots.sum(dim=0), **tolerance(dtype))


def test_natural_gradients_lead_to_the_best_shared_covariance():
    """At the end no direction of the mean or of the common root raises the ELBO."""
    x = series(30)
    model = small_gp(Softmax(3), 7, theta=0.6, covariance="shared")
    natural = NaturalGradient(model)
    y = labels(x, 3)
    with torch.no_grad():
        seen = model.project(x)
    for _ in range(80):
        at = natural.statistics([(seen, y)])
        assert natural.move(natural.target(at, 30), 0.5)
    q = model.variational
    elbo = model.elbo_of(seen, y)
    by_mean, by_root = torch.autograd.grad(elbo, [q.mean, q.root])
    # The curvature of a softmax is an average over points, of its value over the same points only nearly.
    assert by_mean.abs().max() < 1e-8
    assert by_root.tril().abs().max() < 0.05
    far = small_gp(Softmax(3), 7, theta=0.6, covariance="shared")
    start = torch.autograd.grad(far.elbo_of(seen, y), far.variational.root)[0]
    assert start.abs().max() > 1


def test_errors():
    assert_refused("covariance must be", VariationalGaussian, 1, 2, "low rank")
    for sizes in ((0, 2), (2, 0)):
        assert_refused("at least one latent and one inducing variable", VariationalGaussian, *sizes)
    assert "2 latents, 3 inducing variables" in repr(VariationalGaussian(2, 3))


@pytest.mark.parametrize("size", [*range(1, 8), 95, 96, 97, 191, 192, 193, 250, 300])
def test_products_by_blocks_are_the_dense_ones(size: int):
    cuts = blocks(size)
    assert [i for start, stop in cuts for i in range(start, stop)] == list(range(size))
    rows, lower = normal(5, size, seed=size), normal(size, size).tril()
    assert torch.allclose(times_lower(rows, lower), rows @ lower, atol=1e-12)
    room = torch.full_like(rows, float("nan"))
    assert times_lower(rows, lower, room) is room and torch.allclose(room, rows @ lower, atol=1e-12)
    weights = normal(5, seed=3)
    got = gram_upper(rows, weights)
    assert torch.allclose(got.triu(), (rows.T @ (weights[:, None] * rows)).triu(), atol=1e-12)
    assert times_lower(rows[:0], lower).shape == (0, size)
