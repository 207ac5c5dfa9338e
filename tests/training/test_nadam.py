"""The paper's optimiser: torch.optim.NAdam, autograd of the ELBO, and the native step against the plain one."""

import copy
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from helpers.small_models import disturb, labels, series, small_gp, targets
from siggpde.gp import nadam
from siggpde.gp.features import OrthogonalSignatureFeatures
from siggpde.gp.kernel import SignatureKernel
from siggpde.gp.likelihoods import Bernoulli, Gaussian, RobustMax, Softmax, StudentT
from siggpde.gp.model import SignatureGP
from siggpde.gp.nadam import Nadam, q_gradient, q_step

both = pytest.mark.parametrize("covariance", ["full", "diagonal"])
SIZES = [1, 5, 40, 211]  # below a vector, below a block, one block, several blocks with a remainder
MAKERS = {
    "gaussian": lambda: Gaussian(0.2),
    "student": lambda: StudentT(0.3, learn_df=True),
    "softmax": lambda: Softmax(3, points=16),
    "bernoulli": Bernoulli,
    "robustmax": lambda: RobustMax(3),
}


def targets_for(likelihood, x: Tensor) -> Tensor:
    return labels(x, likelihood.classes) if hasattr(likelihood, "classes") else targets(x)


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


@both
@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("count", [1, 7, 200])
def test_the_gradient_by_hand_is_that_of_autograd(covariance: str, kind: str, count: int):
    likelihood = MAKERS[kind]()
    x = series(6)
    y = likelihood.check_targets(targets_for(likelihood, x))
    model = disturb(small_gp(likelihood, count, theta=0.6, covariance=covariance))
    with torch.no_grad():
        seen = model.project(x)
    features, tail = seen.features.clone().requires_grad_(), seen.tail.clone().requires_grad_()
    loss = -model.elbo_of(replace(seen, features=features, tail=tail), y, 50)
    q, others = model.variational, [p for p in likelihood.parameters() if p.requires_grad]
    wanted = torch.autograd.grad(loss, [q.mean, q.root, features, tail, *others])
    for of_features in (False, True):
        likelihood.zero_grad()
        found = q_gradient(model, features, tail, y, 50, of_features=of_features)
        assert found.elbo == pytest.approx(-loss.item(), rel=1e-10)
        got = [found.mean, found.root, *(p.grad for p in others)]
        expected = [wanted[0], wanted[1], *wanted[4:]]
        if of_features:
            got, expected = [*got, found.features, found.tail], [*expected, *wanted[2:4]]
        else:
            assert found.features is None and found.tail is None
        for a, b in zip(got, expected, strict=True):
            assert torch.allclose(a, b, rtol=1e-8, atol=1e-9 * float(b.abs().max()) + 1e-12)
    assert not (q.full and found.root.triu(1).any())


def test_float32_gradients_are_close():
    x = series(6)
    y = labels(x, 3)
    found = []
    for dtype in (torch.float64, torch.float32):
        model = disturb(small_gp(Softmax(3), 7, theta=0.6, dtype=dtype))
        seen = model.project(x)
        found.append(q_gradient(model, seen.features, seen.tail, y, 6, of_features=True))
    assert found[1].root.dtype == torch.float32
    for name in ("mean", "root", "features", "tail"):
        one, other = getattr(found[0], name), getattr(found[1], name).double()
        assert torch.allclose(one, other, rtol=1e-3, atol=1e-3 * float(one.abs().max()))


def test_nadam_makes_the_steps_of_torch():
    start = [torch.tensor([1.0, -2.0, 3.0]).double(), torch.tensor(0.5).double(), torch.ones(2, 2)]
    mine, theirs = copy.deepcopy(start), [p.clone().requires_grad_() for p in start]
    optimizer, reference = Nadam(mine, 0.03), torch.optim.NAdam(theirs, lr=0.03)
    for step in range(40):
        if step == 20:  # through a state, as a checkpoint does
            state = copy.deepcopy(optimizer.state())
            optimizer = Nadam(mine, 0.03)
            optimizer.load(state)
        gradients = [torch.sin(3 * p.detach() + step) + p.detach() for p in theirs]
        for parameter, gradient in zip(theirs, gradients, strict=True):
            parameter.grad = gradient.clone()
        reference.step()
        optimizer.step(gradients)
        for a, b in zip(mine, theirs, strict=True):
            assert torch.allclose(a, b, rtol=1e-12 if a.dtype == torch.float64 else 1e-5)


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
def test_the_gradient_reaches_the_scales_as_that_of_autograd(covariance, normalized, likelihood):
    model, x, y = small_model(covariance, normalized, likelihood)
    seen, theta = model.project(x), model.kernel.log_theta
    found = q_gradient(model, seen.features, seen.tail, y, 60, of_features=True)
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
