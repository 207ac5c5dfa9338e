"""Training series whose features are computed at every step, because the inducing variables are learned."""

from __future__ import annotations

import torch
from torch import Tensor

from siggpde.gp.inducing import Projection
from siggpde.gp.model import AnyGP
from siggpde.numerics.words import Word
from siggpde.series import SeriesBatch

_CHUNK = 512


class PathStore:
    """Paths and, where the features can use them, signatures that are computed once."""

    pool: tuple[Word, ...] = ()

    def __init__(self, model: AnyGP, paths: SeriesBatch) -> None:
        self.paths = paths
        self.reference = model.kernel.log_theta.detach().clone()
        with torch.no_grad():
            self.signatures = model.features.signatures(model.kernel, paths)

    def project(self, model: AnyGP, rows: Tensor | None = None) -> Projection:
        """The projection of the series at `rows` (all by default); differentiable in all that it depends on."""
        rows = torch.arange(len(self.paths)) if rows is None else rows
        if not torch.is_grad_enabled() and len(rows) > _CHUNK:
            return joined([self.project(model, part) for part in rows.split(_CHUNK)])
        if self.signatures is not None:
            projection = model.features.project_signatures(model.kernel, self.signatures[rows], self.reference)
        else:
            paths = self.paths[rows]
            projection = model.features(model.kernel, paths.values, lengths=paths.lengths)
        return projection.to_dtype(model.dtype)


def joined(parts: list[Projection]) -> Projection:
    """One projection of all the series of the parts."""
    return Projection(
        torch.cat([part.features for part in parts]),
        torch.cat([part.variance for part in parts]),
        torch.cat([part.tail for part in parts]),
        sum(part.rounded for part in parts),
    )
