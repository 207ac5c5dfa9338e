"""A committee of Gaussian processes on views of the series: the default model of the estimators.

Every member is a regression on a sum of kernels (`committee.recipes`), its posterior in closed form
(`committee.regression`) against landmark series; `committee.averaging` has what comes of their latents.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from siggpde.committee.averaging import AveragedMembers
from siggpde.committee.left_out_record import LeftOutRecord
from siggpde.committee.link import ClassLink
from siggpde.committee.novelty import Novelty
from siggpde.committee.recalibration import Recalibration
from siggpde.committee.recipes import Recipe
from siggpde.committee.regression import Regression
from siggpde.series import SeriesBatch
from siggpde.views.base import Block, Rows, rows_of
from siggpde.views.standard import Standard


@dataclass
class ViewMember:
    """A recipe of kernels and its regression; `norms` are the rows of the landmarks before a power, if it has one.

    `score`: leave-one-out loss, in nats a series.
    """

    recipe: Recipe
    regression: Regression
    norms: Rows | None
    score: float

    @property
    def noise_variance(self) -> float:
        """Of numbers."""
        return self.regression.noise * self.regression.amplitude

    @property
    def alpha(self) -> Tensor:
        """Weights of the landmarks (m, outputs): the mean of the latents is k(X, landmarks) alpha."""
        return self.regression.alpha

    def predict(self, rows: dict[str, Rows]) -> tuple[Tensor, Tensor]:
        """Mean (n, outputs) and variance (n,) of the latents."""
        return self.regression.predict(self.mixed(rows))

    def mixed(self, rows: dict[str, Rows]) -> Rows:
        """The rows of the member's own kernel, from those of all kernels."""
        return self.recipe.mix(rows, Rows(torch.empty(0), torch.empty(0)) if self.norms is None else self.norms)

    def with_regression(self, regression: Regression) -> ViewMember:
        return replace(self, regression=regression)

    def to(self, device: torch.device | str) -> ViewMember:
        norms = None if self.norms is None else Rows(*(part.to(device) for part in self.norms))
        return replace(self, regression=self.regression.to(device), norms=norms)


@dataclass
class ViewCommittee(AveragedMembers):
    """Members and their weights (K,), which sum to 1; `link` for classes, `recalibration` for numbers.

    `landmarks` are the series, standardised, that all blocks and members refer to; `class_weights` (classes,) what a
    series of each class counts, 1 on average over the training series, None for all alike. `left_out` are training
    series as the others predict them; models saved by earlier versions have none. `spans` keeps what updates
    need of the landmarks (`committee.updating`) from one to the next, and is not part of the model.
    """

    standard: Standard
    landmarks: SeriesBatch
    blocks: Sequence[Block]
    members: list[ViewMember]
    weights: Tensor
    link: ClassLink | None = None
    recalibration: Recalibration | None = None
    class_weights: Tensor | None = None
    left_out: LeftOutRecord | None = None
    novelty: Novelty | None = None
    spans: list[Tensor] | None = field(default=None, repr=False, compare=False)

    @property
    def averaged(self) -> Sequence[ViewMember]:
        return self.members

    def to(self, device: torch.device | str) -> ViewCommittee:
        """Moves everything to a device, in place, and returns the committee; after an error nothing has moved."""
        moved = replace(
            self,
            standard=self.standard.to(device),
            landmarks=self.landmarks.to(torch.device(device)),
            blocks=[block.to(device) for block in self.blocks],
            members=[member.to(device) for member in self.members],
            weights=self.weights.to(device),
            link=None if self.link is None else self.link.to(device),
            class_weights=None if self.class_weights is None else self.class_weights.to(device),
            left_out=None if self.left_out is None else self.left_out.to(device),
            spans=None,
        )
        vars(self).update(vars(moved))
        return self

    def rows(self, batch: SeriesBatch) -> dict[str, Rows]:
        """The rows of all kernels at n series."""
        return rows_of(self.blocks, self.standard(batch))

    def chunk_latents(self, batch: SeriesBatch) -> tuple[Tensor, Tensor]:
        rows = self.rows(batch)
        predictions = [member.predict(rows) for member in self.members]
        return torch.stack([mean for mean, _ in predictions]), torch.stack([variance for _, variance in predictions])
