"""Inducing tensors, of GPSig-IT: the inducing variables are inner products of the process with rank-one tensors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from siggpde.gp.kernel import PathKernel
from siggpde.numerics.words import check_words
from siggpde_paper.gpsig.compiled_tensors import compiled_levels, core_serves
from siggpde_paper.gpsig.slot_products import slot_gram_levels
from siggpde_paper.gpsig.static_kernels import Static, point_kernel
from siggpde_paper.gpsig.tensor_recursion import product_levels, slot_count, slot_index, tensor_levels
from siggpde_paper.gpsig.tiles import over_pairs, tile_shape
from siggpde_paper.gpsig.truncated_kernel import TruncatedKernel
from siggpde_paper.gpsig.whitening import WhitenedFeatures, at_unit_levels

_CELLS = 2**15  # pairs and times of a tile, for every slot


class InducingTensors(WhitenedFeatures):
    """GPSig-IT: `count` tensors, each with a rank-one tensor z_1 x .. x z_m in every level m = 1 .. `level`.

    A slot is one of the vectors z_k. `values` (count, slots, 2, channels) has two points for every slot, which is their
    difference; without `increments` it has the slots themselves, (count, slots, channels). Slots are ordered by their
    position k and then by level (`tensor_recursion.slot_index`). `constants` (count,) are the tensors' levels 0, 1 by
    default; they are not learned. Slots are vectors of the space of the series, and theta scales them likewise.

    Examples:
        >>> InducingTensors(channels=2, count=5, level=3).values.shape
        torch.Size([5, 6, 2, 2])
    """

    constants: Tensor

    def __init__(
        self,
        channels: int,
        count: int,
        level: int = 4,
        *,
        increments: bool = True,
        values: Tensor | None = None,
        constants: Tensor | None = None,
        jitter: float = 1e-6,
    ) -> None:
        super().__init__(channels, count, jitter)
        self.level, self.increments = level, bool(increments)
        shape = (count, slot_count(level), 2, channels) if increments else (count, slot_count(level), channels)
        if values is None:
            values = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        _check("values", values, shape)
        constants = torch.ones(count, dtype=torch.float64) if constants is None else constants
        _check("constants", constants, (count,))
        self.values = nn.Parameter(values.detach().to(torch.float64, copy=True))
        self.register_buffer("constants", constants.detach().to(torch.float64, copy=True))

    @classmethod
    def from_words(cls, words: Iterable[Sequence[int]], channels: int, level: int) -> InducingTensors:
        """One tensor for every word, whose slots are the unit vectors of its letters: then Kuf are signatures.

        All slots of other levels are zero, and so is level 0 but for the empty word.

        Examples:
            >>> tensors = InducingTensors.from_words([(), (0,), (1, 0)], channels=2, level=2)
            >>> tensors.inducing_covariance(TruncatedKernel(2, 2)).detach()
            tensor([[1., 0., 0.],
                    [0., 1., 0.],
                    [0., 0., 1.]], dtype=torch.float64)
        """
        listed = check_words(words, channels)
        values = torch.zeros(len(listed), slot_count(level), channels, dtype=torch.float64)
        for row, word in enumerate(listed):
            if len(word) > level:
                raise ValueError(f"word {word} has {len(word)} letters, but the tensors have {level} levels")
            for position, letter in enumerate(word, 1):
                values[row, slot_index(position, len(word), level), letter] = 1.0
        constants = torch.tensor([float(not word) for word in listed], dtype=torch.float64)
        return cls(channels, len(listed), level, increments=False, values=values, constants=constants)

    @property
    def slots(self) -> Tensor:
        """The slots (M, slots, channels) of linear static kernels."""
        return self.values[:, :, 1] - self.values[:, :, 0] if self.increments else self.values

    def check(self, kernel: PathKernel) -> None:
        super().check(kernel)
        if isinstance(kernel, TruncatedKernel) and kernel.level != self.level:
            raise ValueError(f"the kernel has {kernel.level} levels and the inducing tensors {self.level}")

    def word_rows(self, kernel: TruncatedKernel) -> Tensor:
        slots = self.slots
        levels = [self.constants[:, None]]
        for of_level in range(1, self.level + 1):
            product = slots[:, slot_index(1, of_level, self.level)]
            for position in range(2, of_level + 1):
                following = slots[:, slot_index(position, of_level, self.level)]
                product = (product[:, :, None] * following[:, None, :]).flatten(1)
            levels.append(product)
        zero = torch.zeros_like(kernel.log_theta)
        return kernel.weighted_words(torch.cat(levels, dim=1) * kernel.word_scales(zero))

    def gram(self, kernel: TruncatedKernel) -> Tensor:
        scaled = self._points(kernel.static) * kernel.theta
        constants = self.constants[:, None] * self.constants
        if kernel.static == "linear" and kernel.compiled:
            return kernel.combine(slot_gram_levels(scaled[:, :, 0], self.level), constants)

        def levels(left: Tensor, right: Tensor) -> Tensor:
            return product_levels(_slot_grams(kernel.static, left, right), self.level)

        tile = tile_shape(1, self.count, self.count, _CELLS)
        values = over_pairs(levels, scaled, None, tile)
        return kernel.combine(values, constants)

    def cross(self, kernel: TruncatedKernel, xs: Tensor, norms: Tensor) -> Tensor:
        theta, points = kernel.theta, self._points(kernel.static)
        if kernel.static == "linear":
            left, right = points * theta.square(), xs.diff(dim=1)
        else:
            left, right = points * theta, xs * theta

        def levels(tensors: Tensor, series: Tensor) -> Tensor:
            return tensor_levels(_slot_products(kernel.static, tensors, series), self.level, kernel.order)

        if kernel.static == "linear" and kernel.compiled and core_serves(left, right, self.level):
            values = compiled_levels(left[:, :, 0], right, self.level, kernel.order)
        else:
            values = over_pairs(levels, left, right, tile_shape(xs.shape[1] - 1, self.count, len(xs), _CELLS))
        return kernel.combine(at_unit_levels(kernel, values, norms), self.constants[:, None])

    def _points(self, static: Static) -> Tensor:
        """The points of every slot, (M, slots, points, channels): the slot for "linear", else two points or one."""
        if static == "linear":
            return self.slots[:, :, None]
        return self.values if self.increments else self.values[:, :, None]

    def extra_repr(self) -> str:
        return (
            f"{self.count} tensors of {self.channels} channels, level={self.level}, increments={self.increments}, "
            f"jitter={self.jitter}"
        )


def _slot_grams(static: Static, left: Tensor, right: Tensor) -> Tensor:
    """Inner products of slots (slots, M, M') of points (M, slots, points, channels)."""
    (rows, slots, points, channels), columns = left.shape, len(right)
    left, right = (tensors.transpose(0, 1).reshape(slots, -1, channels) for tensors in (left, right))
    values = point_kernel(static, left, right).view(slots, rows, points, columns, points)
    if points == 1:
        return values[:, :, 0, :, 0]
    return values.diff(dim=2).diff(dim=4)[:, :, 0, :, 0]


def _slot_products(static: Static, tensors: Tensor, series: Tensor) -> Tensor:
    """G(t) (slots, M, n, t) of slots with increments; series are increments already for the linear static kernel."""
    (rows, slots, points, channels), (n, length, _) = tensors.shape, series.shape
    left = tensors.transpose(0, 1).reshape(-1, channels)
    values = point_kernel(static, left, series.reshape(-1, channels)).view(slots, rows, points, n, length)
    if static == "linear":
        return values[:, :, 0]
    values = values.diff(dim=4)
    return (values.diff(dim=2) if points == 2 else values)[:, :, 0]


def _check(name: str, values: Tensor, shape: tuple[int, ...]) -> None:
    if tuple(values.shape) != shape:
        raise ValueError(f"{name} must have shape {shape}, got {tuple(values.shape)}")
    if not bool(torch.isfinite(values.detach()).all()):
        raise ValueError(f"{name} must be finite, got NaN or infinity")
