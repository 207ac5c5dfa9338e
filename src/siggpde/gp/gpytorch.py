"""GPyTorch, imported when used: orthogonal signature features in its models, and its likelihoods in ours."""

import importlib
import math
from typing import Any

import torch
from torch import Tensor, nn

from siggpde.gp.features import OrthogonalSignatureFeatures
from siggpde.gp.kernel import SignatureKernel
from siggpde.gp.likelihoods.base import (
    Likelihood,
    as_numbers,
    deviation,
    gauss_hermite,
    invert_increasing,
    normal_trapezoid,
    refuse_target,
)
from siggpde.gp.likelihoods.classification import Bernoulli
from siggpde.gp.variational import Covariance, VariationalGaussian

_POINTS = 20
_PREDICT_POINTS = 64
_CDF_POINTS = 257
_INSTEAD = {
    "SoftmaxLikelihood": "use siggpde.likelihoods.Softmax(classes=C)",
    "DirichletClassificationLikelihood": "use siggpde.likelihoods.Softmax(classes=C)",
    "FixedNoiseGaussianLikelihood": "its noise belongs to given inputs; use siggpde.likelihoods.Gaussian",
    "GaussianLikelihoodWithMissingObs": "drop the missing targets and use siggpde.likelihoods.Gaussian",
    "LikelihoodList": "adapt its likelihoods one by one",
}


class SignatureStrategy(nn.Module):
    """What `ApproximateGP` asks of a strategy: q(f) at series, and the KL divergence of q(u) from its prior.

    `gpytorch.models.ApproximateGP.__init__(self, SignatureStrategy(kernel, features))` makes a model of one latent
    function, trained as any other. It takes x (n, length, channels) whole and computes marginals only.

    Parameters
    ----------
    kernel : SignatureKernel
        The prior covariance.
    features : OrthogonalSignatureFeatures
        The inducing variables.
    covariance : {"full", "diagonal"}, default "full"
        The covariance of q(u).
    dtype : torch.dtype, default torch.float64
        That of q(u).

    Examples
    --------
    >>> from siggpde import OrthogonalSignatureFeatures, SignatureKernel
    >>> strategy = SignatureStrategy(SignatureKernel(channels=2), OrthogonalSignatureFeatures(channels=2, count=7))
    >>> strategy(torch.rand(3, 5, 2).double()).mean.shape
    torch.Size([3])
    """

    def __init__(
        self,
        kernel: SignatureKernel,
        features: OrthogonalSignatureFeatures,
        *,
        covariance: Covariance = "full",
        dtype: torch.dtype = torch.float64,
    ) -> None:
        super().__init__()
        _gpytorch("distributions")  # what cannot be used fails here
        self.kernel, self.features, self.dtype = kernel, features, dtype
        self.variational = VariationalGaussian(1, features.size, covariance, dtype)

    def forward(self, x: Tensor, prior: bool = False, **_: Any) -> Any:
        """The marginals of q(f), or with `prior=True` of p(f), at x, as a normal with a diagonal covariance."""
        if x.ndim != 3:
            raise ValueError(f"x must have shape (n, length, channels), series whole, got {tuple(x.shape)}")
        projection = self.features(self.kernel, x)
        if prior:
            variance = projection.variance.to(self.dtype)
            mean = torch.zeros_like(variance)
        else:
            means, spread = self.variational(projection.features.to(self.dtype))
            mean, variance = means[:, 0], spread[:, 0] + projection.tail.to(self.dtype)
        diagonal = importlib.import_module("linear_operator.operators").DiagLinearOperator(variance)
        return _gpytorch("distributions").MultivariateNormal(mean, diagonal)

    def kl_divergence(self) -> Tensor:
        """KL[q(u) || N(0, I)]."""
        return self.variational.kl()


def _gpytorch(module: str) -> Any:
    try:
        return importlib.import_module(f"gpytorch.{module}")
    except ImportError as error:
        raise ImportError("this needs GPyTorch; install it with `pip install gpytorch`") from error


def from_gpytorch(likelihood: Any) -> Likelihood:
    """Returns a likelihood of GPyTorch as one of this library.

    Its parameters, with their constraints, are trained. BernoulliLikelihood becomes `Bernoulli(link="probit")`.

    Parameters
    ----------
    likelihood : gpytorch.likelihoods.Likelihood
        A likelihood of one latent function, such as BetaLikelihood(). One of several latent functions, or with noise
        that depends on the input, raises a TypeError.

    Returns
    -------
    Likelihood

    Examples
    --------
    >>> from gpytorch.likelihoods import BernoulliLikelihood
    >>> type(from_gpytorch(BernoulliLikelihood())).__name__
    'Bernoulli'
    """
    theirs = _gpytorch("likelihoods")
    kind = type(likelihood).__name__
    if not isinstance(likelihood, theirs.Likelihood):
        raise TypeError(f"from_gpytorch takes a likelihood of GPyTorch, got {kind}")
    if isinstance(likelihood, theirs.BernoulliLikelihood):
        return Bernoulli()
    one_latent = isinstance(likelihood, theirs.likelihood._OneDimensionalLikelihood)
    if not one_latent and type(likelihood) is not theirs.GaussianLikelihood:
        instead = _INSTEAD.get(kind, "only likelihoods of one latent function are")
        raise TypeError(f"GPyTorch's {kind} is not supported: {instead}")
    return _Adapted(likelihood)


class _Adapted(Likelihood):
    """Expectations and derivatives by Gauss-Hermite quadrature of the distribution that `forward` gives, in float64."""

    def __init__(self, likelihood: Any) -> None:
        super().__init__()
        self.likelihood, self._kind = likelihood, type(likelihood).__name__
        try:
            device = self._device(torch.device("cpu"))
            tried = {shape: self.likelihood.forward(torch.zeros(shape, device=device)) for shape in ((2, 3), (5, 7))}
            fits = all(given.batch_shape == shape for shape, given in tried.items())
        except RuntimeError:
            fits = False
        if not fits:
            reason = "is for a batch of problems: its parameters have a batch shape; make one each"
            raise TypeError(f"this {self._kind} {reason}")

    def _expected_log_prob(self, mean: Tensor, variance: Tensor, y: Tensor) -> Tensor:
        f, weights = _quadrature_points(mean, variance, _POINTS)
        return (weights @ self.likelihood.forward(f).log_prob(y.double())).to(mean.dtype)

    def _statistics(self, mean: Tensor, variance: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """As for every likelihood; a is that of the quadrature, exact for kinks too, and may be negative."""
        value, g, a = super()._statistics(mean.double(), variance.double(), y)
        return value.to(mean.dtype), g.to(mean.dtype), a.to(mean.dtype)

    def _predict(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        f, weights = _quadrature_points(mean, variance, _PREDICT_POINTS)
        given = self.likelihood.forward(f)
        means, variances = given.mean.expand_as(f), given.variance.expand_as(f)
        centre = weights @ means
        spread = weights @ (variances + (means - centre).square())
        return centre.to(mean.dtype), spread.to(mean.dtype)

    def _log_predictive(self, mean: Tensor, variance: Tensor, y: Tensor) -> Tensor:
        f, weights = _quadrature_points(mean, variance, _PREDICT_POINTS)
        return (self.likelihood.forward(f).log_prob(y.double()) + weights.log()[:, None]).logsumexp(0).to(mean.dtype)

    def _quantile(self, mean: Tensor, variance: Tensor, p: Tensor) -> Tensor:
        """By bisection, where torch has the distribution function of p(y | f)."""
        locations, weights = (part.to(mean.device) for part in normal_trapezoid(_CDF_POINTS))
        given = self.likelihood.forward(mean[:, 0].double() + variance[:, 0].double().sqrt() * locations[:, None])
        centre, spread = (part.double() for part in self._predict(mean, variance))
        try:
            low, high = centre - spread.sqrt(), centre + spread.sqrt()
            return invert_increasing(lambda x: weights @ given.cdf(x), p, low, high).to(mean.dtype)
        except NotImplementedError:
            fix = "for quantiles use a likelihood of siggpde"
            raise NotImplementedError(
                f"torch has no distribution function for GPyTorch's {self._kind}; {fix}"
            ) from None

    @torch.no_grad()
    def check_targets(self, y: Any) -> Tensor:
        values = as_numbers(y)
        values = values.to(self._device(values.device))
        given = self.likelihood.forward(torch.zeros(1, 1, dtype=torch.float64, device=values.device))
        inside: Any = given.support
        likely = torch.where(inside.check(values), values.double(), math.nan)
        known = likely.isfinite()
        likely[known] = given.log_prob(likely[known])[0]
        refuse_target(values, ~likely.isfinite(), f"{self._kind} gives it no probability; its targets are {inside}")
        return values

    def settings(self) -> dict[str, Any]:
        fix = "use a likelihood of siggpde, or keep its code"
        raise ValueError(f"GPyTorch's {self._kind} cannot be saved as settings; {fix}")

    def extra_repr(self) -> str:
        return ""

    def _device(self, otherwise: torch.device) -> torch.device:
        return next((parameter.device for parameter in self.likelihood.parameters()), otherwise)


def _quadrature_points(mean: Tensor, variance: Tensor, points: int) -> tuple[Tensor, Tensor]:
    locations, weights = (part.to(mean.device) for part in gauss_hermite(points))
    return mean[:, 0].double() + deviation(variance[:, 0].double()) * locations[:, None], weights
