"""The standard deviation of columns whose rows come in chunks."""

from __future__ import annotations

import torch
from torch import Tensor


class Spread:
    """Mean and standard deviation (p,) of rows (n, p) that are added chunk by chunk: the update of Chan et al.

    Examples:
        >>> spread = Spread()
        >>> spread.add(torch.tensor([[0.0], [2.0]]))
        >>> spread.add(torch.tensor([[4.0]]))
        >>> spread.std().square()
        tensor([2.6667], dtype=torch.float64)
    """

    def __init__(self) -> None:
        self.count = 0
        self.mean = torch.zeros(1, dtype=torch.float64)
        self.squares = self.mean

    def add(self, rows: Tensor) -> None:
        """Adds rows (n, p), n at least 1."""
        values = rows.double()
        mean, known = values.mean(dim=0), self.mean.to(values.device)
        share = len(values) / (self.count + len(values))
        between = (mean - known).square() * (self.count * share)
        self.squares = self.squares.to(values.device) + (values - mean).square().sum(dim=0) + between
        self.mean = known + (mean - known) * share
        self.count += len(values)

    def std(self) -> Tensor:
        """Without Bessel's correction, (p,)."""
        return (self.squares / self.count).sqrt()
