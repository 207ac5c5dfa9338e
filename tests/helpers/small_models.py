"""Small models and data for the tests of Gaussian processes."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from helpers.random_paths import generator, make
from siggpde.gp.features import OrthogonalSignatureFeatures
from siggpde.gp.kernel import SignatureKernel
from siggpde.gp.likelihoods import Gaussian, Likelihood
from siggpde.gp.model import SignatureGP
from siggpde.gp.variational import VariationalGaussian
from siggpde.numerics.words import count_up_to

QUIET: dict[str, Any] = {"progress": False}


def series(n: int, length: int = 6, channels: int = 2, size: float = 1.5, seed: int = 0) -> Tensor:
    return make("brownian", seed, n, length, channels, size)


def targets(x: Tensor, noise: float = 0.1, seed: int = 0) -> Tensor:
    """A smooth function of where the paths end, with noise."""
    end = x[:, -1] - x[:, 0]
    clean = torch.sin(2 * end[:, 0]) + end.prod(dim=1)
    return clean + noise * torch.randn(len(x), generator=generator(seed + 100), dtype=torch.float64)


def labels(x: Tensor, classes: int) -> Tensor:
    """Classes of about equal size, by where the paths end."""
    end = targets(x, noise=0.3)
    return (end.argsort().argsort() * classes) // len(x)


def small_gp(
    likelihood: Likelihood | None = None,
    count: int = 7,
    *,
    channels: int = 2,
    depth: int | None = None,
    order: Any = "lexicographic",
    rank: int | None = None,
    covariance: Any = "full",
    dtype: torch.dtype = torch.float64,
    **kernel: Any,
) -> SignatureGP:
    return SignatureGP(
        SignatureKernel(channels, depth=depth, **kernel),
        OrthogonalSignatureFeatures(channels, count, order, rank),
        likelihood or Gaussian(0.05),
        covariance=covariance,
        dtype=dtype,
    )


def whole_gp(depth: int, likelihood: Likelihood | None = None, **kernel: Any) -> SignatureGP:
    """A truncated kernel with all its words: nothing is approximated but the posterior."""
    return small_gp(likelihood, count_up_to(2, depth), depth=depth, **kernel)


def disturb(model: SignatureGP, seed: int = 0) -> SignatureGP:
    """Moves q(u) away from the prior to somewhere."""
    random, q = generator(seed), model.variational
    with torch.no_grad():
        q.mean.copy_(torch.randn(q.mean.shape, generator=random, dtype=torch.float64))
        change = 0.2 * torch.randn(q.root.shape, generator=random, dtype=torch.float64).to(q.root)
        q.root.copy_(((q.root + change) * 0.7).tril() if q.full else 0.7 + 0.5 * change.abs())
    return model


def dense_covariance(q: VariationalGaussian) -> Tensor:
    """Sigma of every latent, (latents, M, M), whatever the covariance of q(u)."""
    root = q.root.detach().double()
    return (root.tril() @ root.tril().mT if q.full else torch.diag_embed(root.square())).expand(q.latents, -1, -1)


def exact_gp(model: SignatureGP, x: Tensor, y: Tensor, new: Tensor) -> tuple[Tensor, Tensor, float]:
    """Mean (n,) and covariance (n, n) at `new` of the exact posterior, and log p(y), by dense linear algebra."""
    kernel, likelihood = model.kernel, model.likelihood
    assert isinstance(likelihood, Gaussian)
    with torch.no_grad():
        noisy = kernel(x) + likelihood.noise * torch.eye(len(x), dtype=torch.float64)
        across = kernel(new, x)
        weights = torch.linalg.solve(noisy, y.double())
        mean = across @ weights
        covariance = kernel(new) - across @ torch.linalg.solve(noisy, across.T)
        zero = torch.zeros(len(x), dtype=torch.float64)
        evidence = torch.distributions.MultivariateNormal(zero, noisy).log_prob(y.double())
    return mean, covariance, float(evidence)


def gradients_are_right(module: torch.nn.Module, function: Callable[[], Tensor], **options: float) -> bool:
    """Whether the gradients of `function()` in the module's parameters are those of finite differences."""
    container = torch.nn.ModuleDict({"module": module})
    container.forward = function
    names, values = zip(*container.named_parameters(), strict=True)

    def called(*parameters: Tensor) -> Tensor:
        return torch.func.functional_call(container, dict(zip(names, parameters, strict=True)), ())

    return torch.autograd.gradcheck(called, [value.detach().clone().requires_grad_() for value in values], **options)


def same_state(one: torch.nn.Module, other: torch.nn.Module) -> bool:
    """Whether two modules have bitwise the same state."""
    left, right = one.state_dict(), other.state_dict()
    return left.keys() == right.keys() and all(torch.equal(left[key], right[key]) for key in left)
