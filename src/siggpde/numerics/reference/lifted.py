"""Paths lifted by a static kernel, in plain torch: their pieces and the coefficients of the Goursat problem.

A path that is piecewise linear between points x_i becomes one between kappa(x_i, .) in the Hilbert space of kappa. A
segment is split there as any other: q pieces are equal parts of its increment kappa(x_(i+1), .) - kappa(x_i, .).
"""

from __future__ import annotations

import torch
from torch import Tensor

from siggpde.numerics.inputs import row_mask
from siggpde.numerics.reference.kernel import Scheme, piece_counts
from siggpde.numerics.static_kernel import StaticKernel, less_one, squared_segments


def split_lifted(x: Tensor, lengths: Tensor | None, scheme: Scheme, static: StaticKernel) -> Tensor:
    """The pieces of paths x (n, length, channels) that a static kernel lifts, (n, pieces, 2 channels + 1).

    Of each piece: start and end point of its segment, and one over the pieces of that segment; zeros after the last.
    """
    inside = row_mask(x, lengths)[:, 1:, None]
    start, end = torch.where(inside, x[:, :-1], 0.0), torch.where(inside, x[:, 1:], 0.0)
    points = torch.where(row_mask(x, lengths)[:, :, None], x, 0.0)
    if scheme.pieces:
        counts = torch.full(start.shape[:2], scheme.pieces, device=x.device)
    else:
        counts = piece_counts(squared_segments(static, points.detach()).sqrt() * inside[:, :, 0])
    segments = torch.cat([start, end, inside / counts[:, :, None].to(x)], 2)
    if bool((counts == 1).all()):
        return segments
    split = [series.repeat_interleave(count, 0) for series, count in zip(segments, counts, strict=True)]
    return torch.nn.utils.rnn.pad_sequence(split, batch_first=True)


def lifted_coefficients(pieces_x: Tensor, pieces_y: Tensor, static: StaticKernel) -> Tensor:
    """p_ij (n, I, J) of all pairs of pieces of paired paths, as `split_lifted` gives them."""
    channels = pieces_x.shape[2] // 2
    x, to_x, factor_x = pieces_x.split([channels, channels, 1], 2)
    y, to_y, factor_y = pieces_y.split([channels, channels, 1], 2)
    corners = (
        less_one(static, to_x, to_y) - less_one(static, x, to_y) - less_one(static, to_x, y) + less_one(static, x, y)
    )
    return corners * (factor_x * factor_y.transpose(1, 2)) * static.parameters(corners)[1] ** 2
