"""Kernels of finite features: sums of products of rows, in float64."""

from collections.abc import Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from siggpde.numerics import native
from siggpde.numerics.backend import backend_for


@dataclass(frozen=True, eq=False)
class FeatureProducts:
    """The features of m landmarks, part by part: numbers (m, p), floats or int16 of at most 14 digits and a sign, in
    `units`, and the number of the kernel that each part belongs to.

    Sums of products of whole numbers are exact, and so depend neither on other rows nor on threads nor on the machine.

    Examples
    --------
    >>> products = FeatureProducts([torch.tensor([[3, 4], [5, 6]], dtype=torch.int16)], [0.5], [0])
    >>> sums = products.sums(1)
    >>> products.add(sums, 0, torch.tensor([[1, 2]], dtype=torch.int16), [2.0])
    >>> sums
    (tensor([[[11., 17.]]], dtype=torch.float64), tensor([[20.]], dtype=torch.float64))
    """

    landmarks: Sequence[Tensor]
    units: list[float]
    kernels: Sequence[int]

    def sums(self, n: int) -> tuple[Tensor, Tensor]:
        """Returns sums of products with landmarks (kernels, n, m) and of squares (kernels, n), all 0."""
        count, some = max(self.kernels) + 1, self.landmarks[0]
        gram = torch.zeros(count, n, len(some), dtype=torch.float64, device=some.device)
        return gram, torch.zeros(count, n, dtype=torch.float64, device=some.device)

    def add(self, sums: tuple[Tensor, Tensor], first: int, x: Tensor, units: list[float]) -> None:
        """Adds features x (n, p), side by side, of the parts from the number `first` on, each in one of the units."""
        gram, norms = sums
        if x.dtype == torch.int16 and backend_for(gram) is native:
            if self not in _tables:
                _tables[self] = native.feature_table(self.landmarks, self.kernels)
            others = self.units[first : first + len(units)]
            native.add_features(_tables[self], first, x, (units, others), gram, norms)
            return
        widths = [self.landmarks[first + k].shape[1] for k in range(len(units))]
        for number, (part, unit) in enumerate(zip(x.split(widths, 1), units, strict=True), first):
            values, scale = part.double(), unit * self.units[number]
            gram[self.kernels[number]] += scale * (values @ self.landmarks[number].double().T)
            norms[self.kernels[number]] += unit * unit * values.square().sum(1)


_tables: WeakKeyDictionary[FeatureProducts, Tensor] = WeakKeyDictionary()  # of addresses, which no copy may have


def product(x: Tensor, y: Tensor) -> Tensor:
    """Returns x y^T (n, m) in float64, for x (n, p) in float64 and y (m, p) in float32: x is split into two numbers of
    float32, which together have 48 of its 53 binary digits."""
    if backend_for(x) is not native:
        return x @ y.double().T
    high = x.float()
    return native.product(torch.cat([high, (x - high).float()]), y.contiguous()).view(2, len(x), len(y)).sum(0)
