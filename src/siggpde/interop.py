"""Inside GPyTorch: the orthogonal signature features as a variational strategy of an `ApproximateGP`.

    class Model(gpytorch.models.ApproximateGP):
        def __init__(self, kernel, features):
            super().__init__(SignatureStrategy(kernel, features))

is then trained as any GPyTorch model, with its likelihoods and `gpytorch.mlls.VariationalELBO`. There is one latent
function; several classes are what `SignatureGP` with `Softmax` is for.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from siggpde.inducing import OrthogonalSignatureFeatures
from siggpde.kernel import SignatureKernel
from siggpde.variational import Covariance, VariationalGaussian

try:
    from gpytorch.distributions import MultivariateNormal
    from linear_operator.operators import DiagLinearOperator
except ImportError as error:  # pragma: no cover
    raise ImportError("siggpde.interop needs GPyTorch: pip install gpytorch") from error


class SignatureStrategy(nn.Module):
    """What `ApproximateGP` asks of a strategy: q(f) at series, and the KL divergence of q(u) from its prior.

    Takes series whole, x (n, length, channels), and computes marginals only: n kernel values instead of n².
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
        self.kernel, self.features, self.dtype = kernel, features, dtype
        self.variational = VariationalGaussian(1, features.size, covariance, dtype)

    def forward(self, x: Tensor, prior: bool = False, **_: Any) -> MultivariateNormal:
        """The marginals of q(f), or with `prior=True` of p(f), at x, as a normal with a diagonal covariance."""
        if x.ndim != 3:
            raise ValueError(f"x must have shape (n, length, channels), series whole, got {tuple(x.shape)}")
        seen = self.features(self.kernel, x)
        if prior:
            variance = seen.variance.to(self.dtype)
            return MultivariateNormal(torch.zeros_like(variance), DiagLinearOperator(variance))
        mean, spread = self.variational(seen.features.to(self.dtype))
        variance = spread[:, 0] + seen.tail.to(self.dtype)
        return MultivariateNormal(mean[:, 0], DiagLinearOperator(variance))

    def kl_divergence(self) -> Tensor:
        """KL[q(u) || N(0, I)]."""
        return self.variational.kl()
