r"""Leaving out whole groups of series, exactly and in closed form.

With :math:`Q = (K + \lambda)^{-1}` and a group g of series, predictions of the group from all others have the errors
:math:`Q_{gg}^{-1} (Q y)_g` and the covariance :math:`Q_{gg}^{-1}` of targets, :math:`\lambda` less of latents. On
features with the hat matrix H they are :math:`(I - H_{gg})^{-1} (y - \hat y)_g` and
:math:`\lambda (I - H_{gg})^{-1}`. A group of one series is the well-known leave-one-out.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

_GROWTH = 1.25  # groups of nearly one size are solved together, padded to the largest of them
_LARGEST = 2**25  # numbers of a batch of blocks


@dataclass(frozen=True)
class Groups:
    """Batches of groups of about one size: rows (g, b) of the series, and (g, b) which of these are no padding."""

    batches: tuple[tuple[Tensor, Tensor], ...]

    @staticmethod
    def of(numbers: Tensor) -> Groups:
        """Of integers (n,), the same for series of one group."""
        _, inverse, counts = numbers.unique(return_inverse=True, return_counts=True)
        order, ends = inverse.argsort(stable=True), counts.cumsum(0)
        batches, by_size = [], counts.argsort().tolist()
        sizes = counts.tolist()
        while by_size:
            taken = [group for group in by_size if sizes[group] <= _GROWTH * sizes[by_size[0]]]
            by_size = by_size[len(taken) :]
            width = max(sizes[group] for group in taken)
            places = torch.arange(width, device=numbers.device)
            inside = places < counts[taken][:, None]
            starts = (ends - counts)[taken]
            batches.append((order[torch.where(inside, starts[:, None] + places, starts[:, None])], inside))
        return Groups(tuple(batches))

    def solve(self, factor: Tensor, values: Tensor, *, complement: bool = False) -> tuple[Tensor, Tensor]:
        """Of the blocks A_g A_g^T, or I - A_g A_g^T, of a factor A (n, r): their inverses times values (n, outputs),
        and the diagonals (n,) of their inverses."""
        solved, diagonal = torch.empty_like(values), torch.empty_like(values[:, 0])
        for rows, inside in self.batches:
            size = max(1, _LARGEST // (rows.shape[1] * factor.shape[1]))
            eye = torch.eye(rows.shape[1], dtype=factor.dtype, device=factor.device)
            for part, within in zip(rows.split(size), inside.split(size), strict=True):
                some = factor[part] * within[:, :, None]
                block = some @ some.mT
                block = eye - block if complement else block + torch.diag_embed((~within).to(factor))
                lower = torch.linalg.cholesky(block)
                own = torch.cholesky_solve(values[part] * within[:, :, None], lower)
                solved[part[within]] = own[within]
                diagonal[part[within]] = torch.cholesky_inverse(lower).diagonal(dim1=1, dim2=2)[within]
        return solved, diagonal
