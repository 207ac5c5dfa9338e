"""Inducing sequences, of GPSig-IS: the inducing variables are values of the process at short series."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from siggpde_paper.gpsig.truncated_kernel import TruncatedKernel, inverse_roots
from siggpde_paper.gpsig.whitening import WhitenedFeatures


class InducingSequences(WhitenedFeatures):
    """GPSig-IS: `count` learned series Z (count, length, channels), whose values f(Z) are the inducing variables.

    `values` are the initial Z; theta scales them as it scales the series.

    Examples:
        >>> InducingSequences(channels=2, count=3).values.shape
        torch.Size([3, 5, 2])
    """

    def __init__(
        self, channels: int, count: int, length: int = 5, *, values: Tensor | None = None, jitter: float = 1e-6
    ) -> None:
        super().__init__(channels, count, jitter)
        if not isinstance(length, int) or length < 2:
            raise ValueError(f"length must be an integer, at least 2, got {length!r}")
        self.length = length
        shape = (count, length, channels)
        if values is None:
            values = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        if tuple(values.shape) != shape:
            raise ValueError(f"values must have shape {shape}, got {tuple(values.shape)}")
        if not bool(torch.isfinite(values.detach()).all()):
            raise ValueError("values must be finite, got NaN or infinity")
        self.values = nn.Parameter(values.detach().to(torch.float64, copy=True))

    def word_rows(self, kernel: TruncatedKernel) -> Tensor:
        return kernel.weighted_words(kernel.scaled_signatures(self.values), kernel.normalized)

    def gram(self, kernel: TruncatedKernel) -> Tensor:
        return kernel(self.values)

    def cross(self, kernel: TruncatedKernel, xs: Tensor, norms: Tensor) -> Tensor:
        levels = kernel.pair_levels(self.values, xs)
        if kernel.normalized:
            unit = inverse_roots(kernel.squared_norms(self.values))
            levels = levels * unit[:, :, None] * inverse_roots(norms)[:, None, :]
        return kernel.combine(levels)

    def extra_repr(self) -> str:
        return f"{self.count} sequences of {self.length} points and {self.channels} channels, jitter={self.jitter}"
