"""The paper's optimiser: torch.optim.NAdam, autograd of the ELBO, and the native step against the plain one."""

from dataclasses import replace

import pytest
import torch

from siggpde.gp.inducing import OrthogonalSignatureFeatures
from siggpde.gp.kernel import SignatureKernel
from siggpde.gp.likelihoods import RobustMax, Softmax
from siggpde.gp.model import SignatureGP
from siggpde.training import nadam
from siggpde.training.fitting import fit
from siggpde.training.nadam import Nadam, q_gradient, q_step
from siggpde.training.phases.paper import NadamPhase
from siggpde.training.schedules import PaperSchedule

SIZES = [1, 5, 40, 211]  # below a vector, below a block, one block, several blocks with a remainder


def random_root(latents, size, dtype, generator):
    root = torch.randn(latents, size, size, generator=generator, dtype=dtype).tril() / size
    root.diagonal(dim1=1, dim2=2).add_(1)
    return root


def small_model(covariance="full", normalized=False, likelihood=Softmax, words=40, dtype=torch.float64):
    """A model away from the prior, with a batch of what it sees, in float64."""
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(12, 5, 2, generator=generator, dtype=torch.float64) / 2
    y = torch.randint(3, (12,), generator=generator)
    features = OrthogonalSignatureFeatures(2, words, "lexicographic")
    kernel = SignatureKernel(2, normalized=normalized)
    model = SignatureGP(kernel, features, likelihood(3), covariance=covariance, dtype=dtype)
    with torch.no_grad():
        model.variational.mean.normal_(generator=generator)
        if covariance == "full":
            model.variational.root.copy_(random_root(3, words, dtype, generator))
        else:
            model.variational.root.uniform_(0.5, 1.5, generator=generator)
    return model, x, y


def test_updates_are_those_of_torch():
    generator = torch.Generator().manual_seed(0)
    start = torch.randn(7, generator=generator, dtype=torch.float64)
    ours, theirs = start.clone(), start.clone().requires_grad_()
    optimizer, oracle = Nadam([ours], 0.01), torch.optim.NAdam([theirs], lr=0.01)
    for _ in range(20):
        gradient = torch.randn(7, generator=generator, dtype=torch.float64)
        theirs.grad = gradient.clone()
        oracle.step()
        optimizer.step([gradient])
    torch.testing.assert_close(ours, theirs.detach(), rtol=1e-6, atol=0)  # torch keeps a factor in float32


@pytest.mark.skipif(nadam.core is None, reason="needs the native core")
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("size", SIZES)
def test_native_step_is_the_plain_one(size, dtype):
    generator = torch.Generator().manual_seed(size)
    start = random_root(3, size, dtype, generator)
    plain, native = Nadam([start.clone()], 0.01), Nadam([start.clone()], 0.01)
    junk = torch.full((size, size), torch.nan, dtype=dtype).triu(1)  # above the diagonal nothing may be read
    for _ in range(5):
        gradient = torch.randn(3, size, size, generator=generator, dtype=dtype)
        old = plain.parameters[0].clone()
        whole = (gradient + old).tril()
        whole.diagonal(dim1=1, dim2=2).sub_(old.diagonal(dim1=1, dim2=2).reciprocal())
        plain.step([whole])
        rates = native.advance()
        for latent in range(3):
            squares, logs = native.update_root(0, latent, 0, gradient[latent] + junk, rates)
            assert squares == pytest.approx(old[latent].double().square().sum().item(), rel=1e-5)
            assert logs == pytest.approx(old[latent].diagonal().double().abs().log().sum().item(), rel=1e-4, abs=1e-4)
    rtol = 1e-12 if dtype == torch.float64 else 1e-4
    for mine, oracle in zip(native.state()["second"] + native.first, plain.second + plain.first, strict=True):
        torch.testing.assert_close(mine, oracle, rtol=rtol, atol=rtol)
    torch.testing.assert_close(native.parameters[0], plain.parameters[0], rtol=rtol, atol=rtol)
    assert not native.parameters[0].triu(1).any()


@pytest.mark.parametrize("likelihood", [Softmax, RobustMax])
@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize("covariance", ["full", "diagonal"])
def test_gradient_is_that_of_autograd(covariance, normalized, likelihood):
    model, x, y = small_model(covariance, normalized, likelihood)
    seen = model.project(x)
    cut = replace(seen, features=seen.features.detach().requires_grad_(), tail=seen.tail.detach().requires_grad_())
    q, theta = model.variational, model.kernel.log_theta
    loss = -model.elbo_of(cut, y, 60)
    expected = torch.autograd.grad(loss, [q.mean, q.root, cut.features, cut.tail])
    found = q_gradient(model, seen.features, seen.tail, y, 60, of_features=True)
    assert found.elbo == pytest.approx(-loss.item(), rel=1e-12)
    for mine, oracle in zip([found.mean, found.root, found.features, found.tail], expected, strict=True):
        torch.testing.assert_close(mine, oracle, rtol=1e-10, atol=1e-10)
    of_theta = torch.autograd.grad(-model.elbo(x, y, total=60), theta)
    pulled = torch.autograd.grad([seen.features, seen.tail], theta, [found.features, found.tail])
    torch.testing.assert_close(pulled, of_theta, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("words", [40, 210])
@pytest.mark.parametrize("of_features", [False, True])
def test_step_of_q_is_the_gradient_and_a_step(of_features, words):
    results = []
    for fused in (False, True):
        model, x, y = small_model(words=words)
        q = model.variational
        with torch.no_grad():
            seen = model.project(x)
        optimizer, found = Nadam([q.mean, q.root], 0.01), None
        for _ in range(3):
            if fused:
                found = q_step(
                    model, optimizer, optimizer.advance(), seen.features, seen.tail, y, 60, of_features=of_features
                )
            else:
                found = q_gradient(model, seen.features, seen.tail, y, 60, of_features=of_features)
                optimizer.step([found.mean, found.root])
        assert found is not None
        results.append([torch.tensor(found.elbo), q.mean.detach(), q.root.detach(), found.features, found.tail])
    for mine, oracle in zip(*results, strict=True):
        if oracle is None or mine is None:
            assert mine is oracle and not of_features
        else:
            torch.testing.assert_close(mine, oracle, rtol=1e-10, atol=1e-10)


@pytest.mark.skipif(nadam.core is None, reason="needs the native core")
def test_threads_change_no_bit():
    generator = torch.Generator().manual_seed(1)
    start, gradient = (random_root(1, 700, torch.float64, generator) for _ in range(2))
    results, before = [], torch.get_num_threads()
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            optimizer = Nadam([start.clone()], 0.01)
            sums = optimizer.update_root(0, 0, 0, gradient[0], optimizer.advance())
            results.append((*sums, optimizer.parameters[0]))
    finally:
        torch.set_num_threads(before)
    assert results[0][:2] == results[1][:2] and torch.equal(results[0][2], results[1][2])


def test_resumed_fit_is_the_uninterrupted_one(tmp_path, monkeypatch):
    def trained(**options):
        model, x, y = small_model(words=20)
        fit(model, (x, y), PaperSchedule(iterations=6, batch=5), validation=0.0, progress=False, **options)
        return model.state_dict()

    whole, again, path = trained(), trained(), tmp_path / "fit.ckpt"
    iterate, calls = NadamPhase.iterate, iter(range(100))

    def interrupted(self, trainer):
        if next(calls) == 9:  # in the second phase, which moves the scales
            raise KeyboardInterrupt
        return iterate(self, trainer)

    monkeypatch.setattr(NadamPhase, "iterate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        trained(checkpoint=path, checkpoint_every=0.0)
    monkeypatch.undo()
    resumed = trained(checkpoint=path, resume=True)
    for name, value in whole.items():
        assert torch.equal(value, again[name]) and torch.equal(value, resumed[name]), name
