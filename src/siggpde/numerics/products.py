"""Kernels of finite features: sums of products of rows, in float64."""

from collections.abc import Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from siggpde.numerics import native
from siggpde.numerics.backend import backend_for

Sums = tuple[Tensor, Tensor]


@dataclass(frozen=True, eq=False)
class FeatureProducts:
    """The features of m landmarks, part by part: numbers (m, p), floats or int16 of at most 14 digits and a sign, in
    `units`, and the number of the kernel that each part belongs to.

    Sums of products of whole numbers are exact, and so depend neither on other rows nor on threads nor on the machine.

    Examples
    --------
    >>> products = FeatureProducts([torch.tensor([[3, 4], [5, 6]], dtype=torch.int16)], [0.5], [0])
    >>> products.add(None, 0, torch.tensor([[1, 2]], dtype=torch.int16), [2.0])
    (tensor([[[11., 17.]]], dtype=torch.float64), tensor([[20.]], dtype=torch.float64))
    """

    landmarks: Sequence[Tensor]
    units: list[float]
    kernels: Sequence[int]

    def add(self, sums: Sums | None, first: int, x: Tensor, units: list[float]) -> Sums:
        """Adds features x (n, p), side by side, of the parts from the number `first` on, each in one of the units, to
        sums of products with landmarks (kernels, n, m) and of squares (kernels, n), by default 0; returns these."""
        if sums is None:
            shape = max(self.kernels) + 1, len(x), len(self.landmarks[0])
            gram = torch.zeros(shape, dtype=torch.float64, device=x.device)
            sums = gram, gram.new_zeros(shape[:2])
        gram, norms = sums
        if x.dtype == torch.int16 and backend_for(gram) is native:
            if self not in _tables:
                _tables[self] = native.feature_table(self.landmarks, self.kernels)
            others = self.units[first : first + len(units)]
            native.add_features(_tables[self], first, x, (units, others), gram, norms)
            return sums
        start = 0
        for number, unit in enumerate(units, first):
            landmarks, kernel = self.landmarks[number].double(), self.kernels[number]
            values = x[:, start : start + landmarks.shape[1]].double()
            gram[kernel] += unit * self.units[number] * (values @ landmarks.T)
            norms[kernel] += unit * unit * values.square().sum(1)
            start += landmarks.shape[1]
        return sums


_tables: WeakKeyDictionary[FeatureProducts, Tensor] = WeakKeyDictionary()  # of addresses, which no copy may have


def product(x: Tensor, y: Tensor) -> Tensor:
    """Returns x y^T (n, m) in float64, for x (n, p) in float64 and y (m, p) in float32: x is split into two numbers of
    float32, which together have 48 of its 53 binary digits."""
    if backend_for(x) is not native:
        return x @ y.double().T
    high = x.float()
    return native.product(torch.cat([high, (x - high).float()]), y.contiguous()).view(2, len(x), len(y)).sum(0)
