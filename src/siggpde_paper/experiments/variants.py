"""SigGPDE computed in other ways: with the authors' gradient in the channel scales, and in plain torch, for float64
series of equal length, which tells algorithm and language apart."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from siggpde.gp.features import OrthogonalSignatureFeatures, Projection
from siggpde.gp.kernel import SignatureKernel
from siggpde.numerics import inputs
from siggpde.numerics.goursat import scheme_of, split_path
from siggpde.numerics.gradients import edges
from siggpde.numerics.signature_kernel import Lengths, signature_kernel_diag
from siggpde.numerics.words import Word
from siggpde.series import SeriesBatch
from siggpde_paper.gpsig.series_levels import by_hand


def scale_gradient(x: Tensor, theta: Tensor, refine: int) -> Tensor:
    """dk/dlog theta (n, d) of k(theta X, theta X) for x (n, length, d), by Algorithm 2 of the paper's authors.

    dk/drho_ij of a cell is U(s_i, t_j) V(s_{i+1}, t_{j+1}), of first order in its width, with V of the reversed path;
    rho_ij = sum_c theta_c² dx_i^c dx_j^c, so that dk/dlog theta_c = 2 sum_ij dk/drho_ij theta_c² dx_i^c dx_j^c.
    """
    scheme = scheme_of(refine)
    dx = split_path(x * theta, None, scheme)
    rho = dx @ dx.transpose(1, 2)
    forward, backward = edges(rho, scheme).corner, edges(rho.flip(1, 2), scheme).corner
    weight = forward * backward.flip(1, 2)
    return 2 * (dx * (weight @ dx)).sum(dim=1)


class FiniteDifferenceKernel(SignatureKernel):
    """The untruncated kernel with the authors' gradient of k(X, X), and with `values` their finite differences."""

    def __init__(self, channels: int, *, theta: Tensor, refine: int, values: bool = False, tol: float = 1e-6) -> None:
        super().__init__(channels, theta=theta, tol=tol)
        self.refine, self.values = refine, values

    def squared_norm(self, x: inputs.Series, *, lengths: Lengths = None) -> Tensor:
        """k(theta X, theta X), (n,), of series of equal length."""
        paths = self.as_paths(x, lengths)
        if paths.lengths is not None:
            raise ValueError(
                "finite differences of the authors' kind are for series of equal length; leave lengths out"
            )
        with torch.no_grad():
            scaled = paths.values * self.theta
            if self.values:
                value = signature_kernel_diag(scaled, solver="fd", refine=self.refine)
            else:
                value = signature_kernel_diag(scaled, tol=self.tol)
        if not (torch.is_grad_enabled() and self.log_theta.requires_grad):
            return value
        slope = scale_gradient(paths.values, self.theta.detach(), self.refine)
        return by_hand(lambda _: (value, slope), lambda grad, slope, _: (grad @ slope,), self.log_theta)


class TorchKernel(SignatureKernel):
    """The untruncated kernel with k(X, X) by `kernel_diagonal`; tails negative by at most `tol` are rounding."""

    def __init__(self, channels: int, *, refine: int = 0, tol: float = 1e-3, **settings: Any) -> None:
        super().__init__(channels, tol=tol, **settings)
        self.refine = refine

    def _squared_norm(self, paths: SeriesBatch) -> Tensor:
        if paths.lengths is not None:
            raise ValueError("the kernel in plain torch takes series of equal length; leave `lengths` out")
        return kernel_diagonal(paths.values * self.theta, self.refine)


class TorchFeatures(OrthogonalSignatureFeatures):
    """The paper's words, whose signatures are computed by `word_signatures` whenever features are asked for."""

    def forward(self, kernel: SignatureKernel, x: inputs.Series, *, lengths: Lengths = None) -> Projection:
        paths = kernel.as_paths(x, lengths)
        fixed = kernel.log_theta.detach()
        plain = word_signatures(paths.values * fixed.exp(), self.words)
        return self.project(kernel, plain * self.scaling(kernel.log_theta, fixed), kernel.squared_norm(paths.values))


def word_signatures(x: Tensor, words: Sequence[Word]) -> Tensor:
    """S(X) on prefix-closed words in order of length, (n, M), of x (n, length, channels).

    Along a segment v a word of j letters grows by v_j (S_{j-1} + v_{j-1}/2 (S_{j-2} + v_{j-2}/3 (..))), with S_i the
    coefficient of its first i letters at the start of the segment; cumulative sums over segments give the next level.
    """
    increments = x.diff(dim=1)
    columns = [x.new_ones(len(x), 1)]
    starts = [torch.ones_like(increments[:, :, :1])]  # by level: coefficients at the start of every segment
    before: dict[Word, int] = {(): 0}
    above: list[Tensor] = []  # of the words of the last level: where their prefixes are, the shortest last
    for level in range(1, max(map(len, words)) + 1):
        listed = [word for word in words if len(word) == level]
        parents = torch.tensor([before[word[:-1]] for word in listed])
        above = [parents, *(rows[parents] for rows in above)]
        letters = torch.tensor(listed)
        nested = starts[0].expand(-1, -1, len(listed))
        for i in range(1, level + 1):
            growth = increments[:, :, letters[:, i - 1]] * nested / (level - i + 1)
            nested = growth if i == level else starts[i][:, :, above[level - i - 1]] + growth
        total = nested.cumsum(dim=1)
        columns.append(total[:, -1])
        starts.append(total - nested)
        before = {word: index for index, word in enumerate(listed)}
    return torch.cat(columns, dim=1)


def kernel_diagonal(x: Tensor, refine: int = 0) -> Tensor:
    """k(X, X) (n,) of x (n, length, channels), by the paper's finite differences on anti-diagonals of the grid.

    With p = <dx_i, dx_j>/4^refine in every cell of a grid of 2^refine cells a segment,
    U_{i+1,j+1} = (U_{i+1,j} + U_{i,j+1}) (1 + p/2 + p²/12) - U_ij (1 - p²/12), U = 1 on the sides.
    """
    increments = x.diff(dim=1)
    segments = increments.shape[1]
    p = (increments @ increments.mT / 4**refine).flatten(1).T  # (cells, n)
    square = p * p / 12
    order, sizes = _anti_diagonals(segments, refine)
    sums, corners = ((factor[order]).split(sizes) for factor in (1 + p / 2 + square, 1 - square))
    last = len(sizes) // 2
    one = x.new_ones(1, len(x))
    before, now = one, one.expand(2, -1)
    for step, (a, b) in enumerate(zip(sums, corners, strict=True)):
        inner = (now[1:] + now[:-1]) * a - (before if step <= last else before[1:-1]) * b
        before, now = now, torch.cat([one, inner, one]) if step < last else inner
    return now[0]


@lru_cache(maxsize=8)
def _anti_diagonals(segments: int, refine: int) -> tuple[Tensor, list[int]]:
    """The cells of the refined grid by anti-diagonals, as indices into the grid of segments, and their numbers."""
    n = segments << refine
    rows, columns = torch.meshgrid(torch.arange(n), torch.arange(n), indexing="ij")
    cells = torch.argsort((rows + columns).flatten(), stable=True)
    coarse = (rows >> refine) * segments + (columns >> refine)
    sizes = [min(step + 1, 2 * n - 1 - step) for step in range(2 * n - 1)]
    return coarse.flatten()[cells], sizes
