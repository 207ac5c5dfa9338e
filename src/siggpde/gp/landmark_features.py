r"""Landmark series as inducing variables: for kernels of which words are none, such as those of lifted paths.

The inducing variables are u = f(Z) at series Z. With :math:`K_{ZZ} + \epsilon I = L L^T` the features of X are
:math:`L^{-1} k(Z, X)`: whitened, so that q(u) starts from N(0, I) as it does for words, at the price of one m x m
factorisation a step while the kernel is learned.
"""

from __future__ import annotations

import torch
from torch import Tensor

from siggpde.gp.inducing import InducingFeatures, Projection, positive_tail
from siggpde.gp.kernel import PathKernel
from siggpde.gp.newton_basis import NewtonBasis
from siggpde.numerics import inputs
from siggpde.numerics.signature_kernel import Lengths
from siggpde.series import SeriesBatch


class LandmarkFeatures(InducingFeatures):
    """The values of the process at given series, (m, length, channels), as inducing variables of any `PathKernel`.

    The series stay as they are; kernel parameters may be learned. `jitter` is added to the diagonal of k(Z, Z), in
    units of its mean, so that series much like each other can be factorised.

    Examples:
        >>> from siggpde import SignatureKernel
        >>> kernel = SignatureKernel(1, static="rbf", normalized=True)
        >>> x = torch.tensor([[[0.0], [1.0]], [[0.0], [2.0]], [[0.0], [-1.0]]]).double()
        >>> LandmarkFeatures.choose(kernel, x, 2)(kernel, x).tail.detach() < 1
        tensor([True, True, True])
    """

    values: Tensor
    lengths: Tensor | None

    def __init__(self, series: inputs.Series, *, lengths: Lengths = None, jitter: float = 1e-10) -> None:
        super().__init__()
        if not 0 <= jitter < 1:
            raise ValueError(f"jitter must be at least 0 and below 1, got {jitter!r}")
        values, counts = inputs.as_batch(series, lengths, "series")
        if len(values) == 0:
            raise ValueError("series has no landmark; give at least one series")
        self.channels, self.jitter = values.shape[2], jitter
        self.register_buffer("values", values.detach().to(torch.float64, copy=True))
        self.register_buffer("lengths", None if counts is None else counts.clone())

    @classmethod
    def choose(
        cls, kernel: PathKernel, x: inputs.Series, count: int, *, lengths: Lengths = None, jitter: float = 1e-10
    ) -> LandmarkFeatures:
        """At most `count` of the series x, by `NewtonBasis`: the next is the one with the largest tail."""
        basis = NewtonBasis(kernel, count).fit(x, lengths=lengths)
        return cls(basis.series_.values, lengths=basis.series_.lengths, jitter=jitter)

    @property
    def size(self) -> int:
        return len(self.values)

    def inducing_covariance(self, kernel: PathKernel | None = None) -> Tensor:
        """E[u u^T] = k(Z, Z) (m, m) without jitter; it depends on the kernel, which has to be given."""
        if kernel is None:
            raise ValueError("the covariance of landmarks depends on the kernel; give inducing_covariance(kernel)")
        return kernel(self.values, lengths=self.lengths)

    def forward(self, kernel: PathKernel, x: inputs.Series, *, lengths: Lengths = None) -> Projection:
        """The projection of x (n, length, channels), differentiable in the kernel."""
        self.check(kernel)
        paths: SeriesBatch = kernel.as_paths(x, lengths)
        gram = self.inducing_covariance(kernel)
        gram = gram + self.jitter * gram.diagonal().mean() * torch.eye(self.size, dtype=gram.dtype, device=gram.device)
        factor, info = torch.linalg.cholesky_ex(gram)
        if int(info):
            raise ArithmeticError(
                f"landmark {int(info) - 1} is a combination of those before it, so that k(Z, Z) cannot be factorised; "
                "choose them by LandmarkFeatures.choose, or give a larger jitter"
            )
        cross = kernel(self.values, paths.values, lengths=self.lengths, y_lengths=paths.lengths)
        features = torch.linalg.solve_triangular(factor, cross, upper=False).T
        variance = kernel(paths.values, diag=True, lengths=paths.lengths)
        tail, rounded = positive_tail(variance, features, getattr(kernel, "tol", 0.0), None)
        return Projection(features, variance, tail, rounded)

    def extra_repr(self) -> str:
        return f"{self.size} landmarks of {self.channels} channels, jitter={self.jitter}"
