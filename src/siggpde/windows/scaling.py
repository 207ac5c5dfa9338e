"""WindowScaler: features at mean 0 and spread 1 over the training series, so that a block is a kernel.

A block b of views v has the kernel K_b(X, Y) = mean over v of <phi_v(X), phi_v(Y)>, with phi_v = z / sqrt(p): z are
the p features of the view at mean 0 and spread 1, cut off at 8. Over the training series K_b(X, X) is 1 in the mean,
but for what is cut off.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from siggpde.windows.features import Block

_CUT_OFF = 8.0


@dataclass(frozen=True)
class _Columns:
    """Of the features of a block: those that vary, (p,), and their mean and spread (p,)."""

    kept: Tensor
    mean: Tensor
    spread: Tensor


@dataclass(frozen=True)
class WindowScaler:
    """Standardisation of every block of every view. Features that do not vary over the training series are left out.

    Examples:
        >>> values = torch.tensor([[0.0, 1.0], [2.0, 1.0], [4.0, 1.0]])
        >>> scaler, (block,) = WindowScaler.fit_transform([Block("x1", 0, values)])
        >>> block.values
        tensor([[-1.],
                [ 0.],
                [ 1.]])
    """

    columns: tuple[_Columns, ...]

    @staticmethod
    def fit_transform(blocks: Iterable[Block]) -> tuple[WindowScaler, list[Block]]:
        """Learns from the blocks of the training series, which are standardised on the way."""
        columns, out = [], []
        for block in blocks:
            columns.append(_learned(block.values))
            out.append(_scaled(block, columns[-1]))
        return WindowScaler(tuple(columns)), out

    def __call__(self, blocks: Iterable[Block]) -> Iterator[Block]:
        """The features phi (n, p) of all blocks of `WindowFeatures.blocks`, in the same order, one at a time."""
        for block, columns in zip(blocks, self.columns, strict=True):
            yield _scaled(block, columns)

    def to(self, device: torch.device | str) -> WindowScaler:
        """The same on a device, which has to be that of the features."""
        return WindowScaler(
            tuple(_Columns(c.kept.to(device), c.mean.to(device), c.spread.to(device)) for c in self.columns)
        )

    def state(self) -> list[dict[str, Tensor]]:
        """Everything learned as tensors; `from_state` is the way back."""
        return [{"kept": c.kept, "mean": c.mean, "spread": c.spread} for c in self.columns]

    @staticmethod
    def from_state(state: list[dict[str, Any]]) -> WindowScaler:
        return WindowScaler(tuple(_Columns(**columns) for columns in state))


def _learned(values: Tensor) -> _Columns:
    mean = values.mean(0)
    spread = values.std(0) if len(values) > 1 else torch.zeros_like(mean)
    varies = (spread > 1e-5 * values.abs().mean(0)) & (spread > 1e-7)  # more than rounding
    kept = varies.nonzero()[:, 0]
    return _Columns(kept, mean[kept], spread[kept])


def _scaled(block: Block, columns: _Columns) -> Block:
    values = block.values
    mean, spread = columns.mean.to(values.dtype), columns.spread.to(values.dtype)
    z = ((values[:, columns.kept] - mean) / spread).clamp_(-_CUT_OFF, _CUT_OFF)
    return block._replace(values=z / max(1, len(columns.kept)) ** 0.5)
