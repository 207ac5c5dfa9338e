r"""Directions in which series differ most, as points in a plane.

Of points (n, d) these are the principal directions. Of a fitted committee they are those of its kernel among the
landmarks (kernel PCA): with :math:`K = H K_{ZZ} H` the centred Gram matrix of m landmarks, :math:`H = I - 1 1^T / m`,
and its eigenvectors :math:`K v_j = \lambda_j v_j`, a series X has the coordinates

.. math:: c_j(X) = \lambda_j^{-1/2} \, v_j^T H (k(Z, X) - K_{ZZ} 1 / m),

the kernel being the mean of the members' kernels with the weights of the committee.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from siggpde.committee.recipes import Recipe
from siggpde.series import SeriesBatch
from siggpde.views.base import Rows, rows_of

_CHUNK = 256
_LEAST = 1e-12  # of the largest eigenvalue


def principal_directions(points: np.ndarray, count: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates (n, count) of points (n, d) along their principal directions, and the directions' shares (count,) of
    the variance; 0 where there are no more directions. The largest coordinate of each, in size, is positive."""
    centred = points - points.mean(axis=0)
    left, spread, _ = np.linalg.svd(centred, full_matrices=False)
    coordinates = (left * spread)[:, :count]
    missing = count - coordinates.shape[1]
    coordinates, shares = np.pad(coordinates, ((0, 0), (0, missing))), np.pad(spread[:count] ** 2, (0, missing))
    return _turned(coordinates), shares / max(float((spread**2).sum()), np.finfo(float).tiny)


@torch.no_grad()
def kernel_directions(estimator: Any, X: Any, count: int = 2) -> np.ndarray:
    """Coordinates (n_cases, count) of the series X along the first directions of the estimator's kernel.

    They are learned from its landmarks, training series, so that X may be other series; a fitted estimator whose model
    has none (`keep_series=False`, `method="paper"`) is refused.
    """
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise ValueError(f"count must be a whole number of at least 1, got {count!r}")
    batch = estimator._batch(X)
    committee = estimator.committee_
    if not hasattr(committee, "landmarks") or not hasattr(committee, "blocks"):
        raise ValueError(
            "the model has no landmark series to take directions from; give `plot_map` its latents instead"
        )
    gram = _gram(committee, rows_of(committee.blocks, committee.landmarks))
    if count > len(gram):
        raise ValueError(f"count must be at most the number of landmark series, {len(gram)}, got {count}")
    columns = gram.mean(0)
    centred = gram - columns - gram.mean(1, keepdim=True) + gram.mean()
    values, vectors = torch.linalg.eigh((centred + centred.T) / 2)
    values, vectors = values.flip(0)[:count], vectors.flip(1)[:, :count]
    real = values > _LEAST * values[0]
    scale = torch.where(real, values.clamp_min(torch.finfo(values.dtype).tiny).rsqrt(), 0.0)
    found = [_chunk(committee, part, columns) @ vectors * scale for part in batch.split(_CHUNK)]
    signs = torch.where(vectors.sum(0) >= 0, 1.0, -1.0)  # of no meaning, but the same for all series
    return (torch.cat(found) * signs).cpu().numpy()


def _chunk(committee: Any, batch: SeriesBatch, columns: Tensor) -> Tensor:
    """H (k(Z, X) - K_ZZ 1 / m) of the series of a batch, (n, m)."""
    rows = _gram(committee, committee.rows(batch)) - columns
    return rows - rows.mean(1, keepdim=True)


def _gram(committee: Any, rows: dict[str, Rows]) -> Tensor:
    """The mean of the members' kernels (n, m)."""
    total: Any = 0.0
    for weight, member in zip(committee.weights.tolist(), committee.members, strict=True):
        recipe: Recipe = member.recipe
        norms = Rows(torch.empty(0), torch.empty(0)) if member.norms is None else member.norms
        total = total + weight * recipe.mix(rows, norms).gram
    return total


def _turned(coordinates: np.ndarray) -> np.ndarray:
    largest = np.abs(coordinates).argmax(axis=0)
    return coordinates * np.where(coordinates[largest, np.arange(coordinates.shape[1])] < 0, -1.0, 1.0)
