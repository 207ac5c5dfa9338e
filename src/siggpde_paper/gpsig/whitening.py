"""Inducing variables whose covariance has to be factorised: the common base of inducing tensors and sequences."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.linalg import solve_triangular

from siggpde.gp.inducing import InducingFeatures, Projection, positive_tail
from siggpde.gp.kernel import PathKernel
from siggpde.numerics import inputs
from siggpde.numerics.autograd import once_differentiable
from siggpde.numerics.signature import signature
from siggpde.numerics.signature_kernel import Lengths
from siggpde.series import SeriesBatch
from siggpde_paper.gpsig.truncated_kernel import TruncatedKernel, inverse_roots

_MAX_BYTES = 2**31


class WhitenedFeatures(InducingFeatures):
    """Inducing variables of a `TruncatedKernel`: features L^-1 Kuf with L L^T = Kuu + jitter I.

    Subclasses say what Kuu and Kuf are, by recursion or by words.
    """

    def __init__(self, channels: int, count: int, jitter: float = 1e-6) -> None:
        super().__init__()
        if not isinstance(count, int) or count < 1:
            raise ValueError(f"count must be an integer, at least 1, got {count!r}")
        if not 0 < jitter < 1:
            raise ValueError(f"jitter must be between 0 and 1, got {jitter!r}")
        self.channels, self.count, self.jitter = channels, count, jitter

    @property
    def size(self) -> int:
        return self.count

    def word_rows(self, kernel: TruncatedKernel) -> Tensor:
        """Rows (M, words) whose inner products with those of series are Kuf, for explicit kernels."""
        raise NotImplementedError

    def gram(self, kernel: TruncatedKernel) -> Tensor:
        """Kuu (M, M) by recursion."""
        raise NotImplementedError

    def cross(self, kernel: TruncatedKernel, xs: Tensor, norms: Tensor) -> Tensor:
        """Kuf (M, n) by recursion, for xs of `TruncatedKernel.padded_series`; norms (level, n) are k_m(X, X)."""
        raise NotImplementedError

    def check(self, kernel: PathKernel) -> None:
        super().check(kernel)
        if not isinstance(kernel, TruncatedKernel):
            raise ValueError(f"{type(self).__name__} are for a TruncatedKernel, not for a {type(kernel).__name__}")

    def explicit(self, kernel: TruncatedKernel) -> bool:
        """Whether everything is a product of signatures, so that those of series are computed once."""
        return kernel.explicit

    def inducing_covariance(self, kernel: TruncatedKernel | None = None) -> Tensor:
        """E[u u^T] (M, M) without jitter; it depends on the kernel, which has to be given."""
        if kernel is None:
            raise ValueError(
                f"the covariance of {type(self).__name__} depends on the kernel; give inducing_covariance(kernel)"
            )
        self.check(kernel)
        if not self.explicit(kernel):
            return self.gram(kernel)
        rows = self.word_rows(kernel)
        return rows @ rows.T

    def cross_covariance(self, kernel: TruncatedKernel, x: inputs.Series, *, lengths: Lengths = None) -> Tensor:
        """E[u f(X)] (M, n) for x (n, length, channels)."""
        self.check(kernel)
        xs = kernel.padded_series(x, lengths)
        if self.explicit(kernel):
            scaled = kernel.scaled_signatures(xs)
            return self.word_rows(kernel) @ kernel.weighted_words(scaled, kernel.normalized).T
        return self.cross(kernel, xs, kernel.squared_norms(xs))

    def forward(self, kernel: TruncatedKernel, x: inputs.Series, *, lengths: Lengths = None) -> Projection:
        """The projection of x (n, length, channels), differentiable in kernel and inducing variables."""
        xs = kernel.padded_series(x, lengths)
        if self.explicit(kernel):
            return self._from_words(kernel, kernel.scaled_signatures(xs))
        norms = kernel.squared_norms(xs)
        shares = (norms > 0).to(norms) if kernel.normalized else norms
        return self._whitened(self.gram(kernel), self.cross(kernel, xs, norms), kernel.combine(shares))

    def signatures(self, kernel: TruncatedKernel, paths: SeriesBatch) -> Tensor | None:
        """S(theta X) (n, words), where the kernel is explicit and they take less than 2 GiB."""
        if not self.explicit(kernel) or 8 * len(paths) * len(kernel.letters) > _MAX_BYTES:
            return None
        with torch.no_grad():
            paths = kernel.as_paths(paths.values, paths.lengths)
            return signature(paths.values * kernel.theta, depth=kernel.level, lengths=paths.lengths)

    def project_signatures(self, kernel: TruncatedKernel, plain: Tensor, reference: Tensor) -> Projection:
        """The projection from S(X) (n, words) of series that were scaled by exp(reference)."""
        if not self.explicit(kernel):
            raise ValueError("this kernel is not a product of signatures; call the features with the series instead")
        return self._from_words(kernel, plain * kernel.word_scales(reference))

    def _from_words(self, kernel: TruncatedKernel, scaled: Tensor) -> Projection:
        rows = self.word_rows(kernel)
        series = kernel.weighted_words(scaled, kernel.normalized)
        return self._whitened(rows @ rows.T, rows @ series.T, series.square().sum(dim=1))

    def _whitened(self, gram: Tensor, cross: Tensor, variance: Tensor) -> Projection:
        features = whiten(gram, cross, self.jitter).T
        return Projection(features, variance, *positive_tail(variance, features, self.jitter, None))


def at_unit_levels(kernel: TruncatedKernel, levels: Tensor, norms: Tensor) -> Tensor:
    """Levels (level, M, n) over sqrt(k_m(X, X)) (level, n) where the kernel is normalised."""
    return levels * inverse_roots(norms)[:, None, :] if kernel.normalized else levels


def whiten(gram: Tensor, cross: Tensor, jitter: float) -> Tensor:
    """L^-1 cross (M, n), where L L^T = gram + jitter I."""
    return _Whiten.apply(gram, cross, jitter)  # pyright: ignore[reportReturnType]


class _Whiten(Function):
    """With A = L^-1 C and its gradient a, that in C is L^-T a, and that in L L^T is -sym(L^-T T L^-1).

    T is the lower triangle of a A^T with half its diagonal. This takes two triangular solves with M right-hand sides;
    differentiating the factorisation and the solve one after the other takes twice as many, and more products.
    """

    @staticmethod
    def forward(ctx: Any, gram: Tensor, cross: Tensor, jitter: float) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        shifted = gram.clone()
        shifted.diagonal().add_(jitter)
        factor, info = torch.linalg.cholesky_ex(shifted)
        if int(info) != 0 or not bool(torch.isfinite(factor.diagonal()).all()):
            raise ArithmeticError(
                f"the covariance of the inducing variables, with {jitter:.0e} on its diagonal, is not positive "
                "definite: its values are too large for rounding; scale the series down or give a larger jitter"
            )
        result = solve_triangular(factor, cross, upper=False)
        ctx.save_for_backward(factor, result)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        gradients = once_differentiable(_pull_back, *ctx.saved_tensors, grad, ctx.needs_input_grad[0])
        return *gradients, None


def _pull_back(factor: Tensor, result: Tensor, grad: Tensor, with_gram: bool) -> tuple[Tensor | None, Tensor]:
    cross = solve_triangular(factor.T, grad, upper=True)
    if not with_gram:
        return None, cross
    triangle = (grad @ result.T).tril_()
    triangle.diagonal().mul_(0.5)
    half = solve_triangular(factor.T, triangle, upper=True)
    whole = solve_triangular(factor, half, upper=False, left=False)
    return (whole + whole.T).mul_(-0.5), cross
