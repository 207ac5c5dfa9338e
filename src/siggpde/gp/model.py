"""Sparse variational Gaussian processes over series, with q(u) = N(m, Sigma), s(X) = C_fu: latents have mu(X) = s(X)^T
m and nu(X) = k(X, X) - |s(X)|² + s(X)^T Sigma s(X)."""

from typing import Any, ClassVar, Generic, TypeVar

import torch
from torch import Tensor, nn

from siggpde.gp.features import InducingFeatures, OrthogonalSignatureFeatures, Projection
from siggpde.gp.kernel import PathKernel, SignatureKernel
from siggpde.gp.likelihoods import Likelihood
from siggpde.gp.variational import Covariance, VariationalGaussian
from siggpde.numerics import inputs
from siggpde.numerics.signature_kernel import Lengths
from siggpde.series import SeriesBatch

_MAX_JOINT = 5000

AnyKernel = TypeVar("AnyKernel", bound=PathKernel)
AnyFeatures = TypeVar("AnyFeatures", bound=InducingFeatures)


class SparseGP(nn.Module, Generic[AnyKernel, AnyFeatures]):
    """A Gaussian process prior with covariance `kernel`, inducing `features`, a `likelihood` and q(u).

    Every latent function of the likelihood (one a class for `Softmax`) has a q(u); all share the kernel.

    Parameters
    ----------
    kernel : PathKernel
        The covariance function.
    features : InducingFeatures
        The inducing variables.
    likelihood : Likelihood
        p(y | f).
    covariance : {"full", "shared", "diagonal"}, default "full"
        The covariance of q(u): a matrix for every latent function, one for all, or independent components.
    dtype : torch.dtype, default torch.float64
        That of features and q(u); k(X, X) and its difference to |s|² are always computed in float64.

    Examples
    --------
    >>> from siggpde import LandmarkFeatures, SignatureKernel, likelihoods
    >>> x = torch.tensor([[[0.0], [1.0]], [[0.0], [2.0]], [[0.0], [-1.0]]])
    >>> model = SparseGP(SignatureKernel(1, static="rbf"), LandmarkFeatures(x[:2]), likelihoods.Softmax(3))
    >>> model.predict(x).shape
    torch.Size([3, 3])
    """

    features_type: ClassVar[type[InducingFeatures]] = InducingFeatures

    def __init__(
        self,
        kernel: AnyKernel,
        features: AnyFeatures,
        likelihood: Likelihood,
        *,
        covariance: Covariance = "full",
        dtype: torch.dtype = torch.float64,
    ) -> None:
        super().__init__()
        if dtype not in inputs.FLOATS:
            raise ValueError(f"dtype must be torch.float32 or torch.float64, got {dtype}")
        kinds = {"kernel": PathKernel, "features": self.features_type, "likelihood": Likelihood}
        for (name, kind), value in zip(kinds.items(), (kernel, features, likelihood), strict=True):
            if not isinstance(value, kind):
                given = f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__
                fix = "; for these features take SparseGP" if isinstance(value, InducingFeatures) else ""
                raise TypeError(f"{name} must be a {kind.__name__}, got {given}{fix}")
        features.check(kernel)
        self.kernel, self.features, self.likelihood, self.dtype = kernel, features, likelihood, dtype
        self.variational = VariationalGaussian(likelihood.latents, features.size, covariance, dtype)

    def reset_variational(self) -> None:
        """Put q(u) back to the prior, with as many inducing variables as the features have now."""
        old = self.variational
        size, device = self.features.size, old.mean.device
        self.variational = VariationalGaussian(old.latents, size, old.covariance, self.dtype, device)

    @property
    def device(self) -> torch.device:
        """Where the model is: `model.to("cuda")` moves it. Series on the CPU are copied there, part by part."""
        return self.kernel.device

    def targets(self, y: Any) -> Tensor:
        """Targets (n,) as the likelihood wants them, on the model's device."""
        return self.likelihood.check_targets(y).to(self.device)

    def project(self, x: inputs.Series, *, lengths: Lengths = None) -> Projection:
        """The projection of x on the inducing variables: C_fu in the model's dtype, diag C_ff and tail in float64."""
        return self.features(self.kernel, x, lengths=lengths).to_dtype(self.dtype)

    def latent_marginals(self, projection: Projection) -> tuple[Tensor, Tensor]:
        """Mean mu and variance nu of the latents at a projection, two (n, latents) of the model's dtype."""
        mean, spread = self.variational(projection.features)
        return mean, spread + projection.tail[:, None].to(spread)

    def elbo(self, x: inputs.Series, y: Any, *, total: int | None = None, lengths: Lengths = None) -> Tensor:
        """The ELBO of the paper, the sum of E_q[log p(y | f)] minus KL[q(u) || N(0, I)], with gradients to all
        parameters.

        For a minibatch of `total` series it is an unbiased estimate of the whole one.
        """
        return self.elbo_of(self.project(x, lengths=lengths), self.targets(y), total)

    def elbo_of(self, projection: Projection, y: Tensor, total: int | None = None) -> Tensor:
        """The ELBO from a projection (`elbo`)."""
        if len(y) != len(projection.features):
            raise ValueError(f"there are {len(projection.features)} series but {len(y)} targets")
        if len(y) == 0:
            raise ValueError("the batch is empty: give at least one series")
        fit = self.likelihood.expected_log_prob(*self.latent_marginals(projection), y).sum()
        return fit * ((total or len(y)) / len(y)) - self.variational.kl()

    @torch.no_grad()
    def predict_f(
        self, x: inputs.Series, *, full_cov: bool = False, lengths: Lengths = None, chunk: int = 1024
    ) -> tuple[Tensor, Tensor]:
        """Mean mu and variance nu of the paper's latent functions, two (n, latents), `chunk` series at a time.

        `full_cov=True` gives covariances (latents, n, n) instead of variances, for at most 5000 series.
        """
        if full_cov:
            return self._joint(x, lengths)
        if chunk < 1:
            raise ValueError(f"chunk must be at least 1, got {chunk}")
        batch = SeriesBatch(*inputs.as_batch(x, lengths))
        if len(batch) > chunk:
            inputs.check_finite(batch.values, batch.lengths)  # errors name series by their number in x, not in a chunk
        empty = torch.empty(0, self.likelihood.latents, dtype=self.dtype, device=self.device)
        means, variances = [empty], [empty]
        for piece in batch.split(chunk):
            mean, variance = self.latent_marginals(self.project(piece.values, lengths=piece.lengths))
            means.append(mean)
            variances.append(variance)
        return torch.cat(means), torch.cat(variances)

    @torch.no_grad()
    def predict(self, x: inputs.Series, *, lengths: Lengths = None, chunk: int = 1024) -> Any:
        """Class probabilities (n, classes), or mean and variance of y, two (n,): the latents through the likelihood."""
        return self.likelihood.predict(*self.predict_f(x, lengths=lengths, chunk=chunk))

    @torch.no_grad()
    def log_predictive(self, x: inputs.Series, y: Any, *, lengths: Lengths = None) -> Tensor:
        """log p(y | x) of every series, (n,); minus its mean is the NLPP of the paper."""
        return self.likelihood.log_predictive(*self.predict_f(x, lengths=lengths), self.targets(y))

    @torch.no_grad()
    def sample_f(
        self, x: inputs.Series, generator: torch.Generator | None = None, *, samples: int = 1, lengths: Lengths = None
    ) -> Tensor:
        """Joint samples (samples, n, latents) of the latent functions at x, for at most 5000 series."""
        mean, covariances = self._joint(x, lengths)
        share, vectors = torch.linalg.eigh(covariances.double())
        floor = -1e-6 * share.amax(dim=1, keepdim=True).clamp_min(1e-300)
        if bool((share < floor).any()):
            raise ArithmeticError("the joint covariance has negative eigenvalues: lower the kernel's tol")
        roots = vectors * share.clamp_min(0).sqrt()[:, None, :]  # what is negative above is rounding
        source = mean.device if generator is None else generator.device
        noise = torch.randn(samples, *mean.T.shape, 1, dtype=torch.float64, generator=generator, device=source)
        noise = noise.to(mean.device)
        return mean + (roots @ noise)[..., 0].mT.to(mean)

    def _joint(self, x: inputs.Series, lengths: Lengths) -> tuple[Tensor, Tensor]:
        batch = self.kernel.as_paths(x, lengths)
        if len(batch) > _MAX_JOINT:
            raise ValueError(
                f"a joint covariance of {len(batch)} series has {len(batch)}² entries; the most is {_MAX_JOINT}. "
                "For marginal variances leave full_cov out"
            )
        features = self.project(batch.values, lengths=batch.lengths).features
        mean, _ = self.variational(features)
        prior, values = self.kernel(batch.values, lengths=batch.lengths), features.double()
        spread = self.variational.covariances(features).double()
        return mean, ((prior - values @ values.T) + spread).to(self.dtype)


AnyGP = SparseGP[Any, Any]


class SignatureGP(SparseGP[SignatureKernel, OrthogonalSignatureFeatures]):
    """The model of the paper: the signature kernel, and orthogonal signature features, whose covariance is I.

    Parameters
    ----------
    kernel : SignatureKernel
        The covariance function.
    features : OrthogonalSignatureFeatures
        Words, or directions of words, as inducing variables.
    likelihood, covariance, dtype
        Those of `SparseGP`.

    Examples
    --------
    >>> from siggpde.likelihoods import Gaussian
    >>> model = SignatureGP(SignatureKernel(2), OrthogonalSignatureFeatures(2, count=7), Gaussian(noise=0.1))
    >>> model.predict_f(torch.zeros(1, 5, 2))  # of the prior: 0 and k(X, X)
    (tensor([[0.]], dtype=torch.float64), tensor([[1.]], dtype=torch.float64))
    """

    features_type = OrthogonalSignatureFeatures
