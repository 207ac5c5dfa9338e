"""Training series whose features are computed at every step, for the inducing variables move."""

from __future__ import annotations

import torch
from torch import Tensor

from siggpde.gp.inducing import Projection
from siggpde.gp.model import AnyGP
from siggpde.word_sets import Word

_CHUNK = 512


class PathStore:
    """Paths x (n, length, channels) and, where the features can use them, signatures that are computed once."""

    pool: tuple[Word, ...] = ()

    def __init__(self, model: AnyGP, x: Tensor, lengths: Tensor | None) -> None:
        self.x, self.lengths = x, lengths
        self.reference = model.kernel.log_theta.detach().clone()
        with torch.no_grad():
            self.plain = model.features.signatures(model.kernel, x, lengths)

    def project(self, model: AnyGP, rows: Tensor | None = None) -> Projection:
        """What the model sees of the series at `rows` (all by default); differentiable in all that it depends on."""
        places = torch.arange(len(self.x)) if rows is None else rows
        if not torch.is_grad_enabled() and len(places) > _CHUNK:
            return joined([self.project(model, part) for part in places.split(_CHUNK)])
        if self.plain is not None:
            seen = model.features.project_signatures(model.kernel, self.plain[places], self.reference)
        else:
            counts = None if self.lengths is None else self.lengths[places]
            seen = model.features(model.kernel, self.x[places], lengths=counts)
        return seen.to_dtype(model.dtype)


def joined(parts: list[Projection]) -> Projection:
    """One projection of all the series of the parts."""
    return Projection(
        torch.cat([part.features for part in parts]),
        torch.cat([part.variance for part in parts]),
        torch.cat([part.tail for part in parts]),
        sum(part.rounded for part in parts),
    )
