"""What `fit` is told about every series beside its target: the group it belongs to, and what it counts."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from siggpde.distributed.shard import Shard, all_labels

_NAMED = 5


@dataclass(frozen=True)
class Beside:
    """Of the series of all ranks: `groups` (n,), integers, and `weights` (n,), on average 1; None for none."""

    groups: Tensor | None = None
    weights: Tensor | None = None

    def to(self, device: torch.device | str) -> Beside:
        return Beside(*(None if part is None else part.to(device) for part in (self.groups, self.weights)))


def check_beside(groups: Any, sample_weight: Any, shard: Shard) -> Beside:
    """Groups and weights of this rank's series, checked, as those of all ranks."""
    with shard.ranks.together():
        own_groups = None if groups is None else _groups(groups, shard.size)
        own_weights = None if sample_weight is None else _weights(sample_weight, shard.size)
    shard.ranks.check_same("groups", str(own_groups is not None))
    shard.ranks.check_same("sample_weight", str(own_weights is not None))
    numbers = weights = None
    if own_groups is not None:
        names, indices = all_labels(own_groups, shard.ranks)
        if len(names) < 2:
            raise ValueError(
                f"all series are of one group, {names.tolist()[0]!r}: there is nothing left to learn from without it; "
                "give no groups, or series of two or more"
            )
        numbers = torch.from_numpy(indices)
    if own_weights is not None:
        weights = shard.ranks.all_gather_rows(own_weights)
        weights = weights / weights.mean()
    return Beside(numbers, weights)


def warn_of_confined_classes(classes: np.ndarray, labels: Tensor, groups: Tensor) -> None:
    """A warning that names the classes (C,) whose series, of `labels` (n,), are all of one group."""
    confined = [
        str(name) for number, name in enumerate(classes) if len(groups[labels == number].unique()) == 1
    ]  # fmt: skip
    if confined:
        more = f" and {len(confined) - _NAMED} more" if len(confined) > _NAMED else ""
        warnings.warn(
            f"all series of class {', '.join(confined[:_NAMED])}{more} are of one group: without this group the class "
            "is unknown, so that nothing tells how well it is recognised in other groups",
            UserWarning,
            stacklevel=3,
        )


def _groups(groups: Any, n: int) -> np.ndarray:
    values = np.asarray(groups.detach().cpu() if isinstance(groups, Tensor) else groups)
    _check_shape("groups", values, n)
    missing = [value is None or (isinstance(value, float) and math.isnan(value)) for value in values.tolist()]
    if any(missing):
        raise ValueError(f"groups is missing (None or NaN) for series {missing.index(True)}; every series needs one")
    return values.astype(str) if values.dtype.kind == "O" else values


def _weights(sample_weight: Any, n: int) -> Tensor:
    values = np.asarray(sample_weight.detach().cpu() if isinstance(sample_weight, Tensor) else sample_weight)
    if values.ndim == 0:
        values = np.full(n, values)
    _check_shape("sample_weight", values, n)
    try:
        values = values.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"sample_weight must be numbers, got {values.dtype}") from error
    if not values.any():
        raise ValueError("sample_weight is zero for all series; give positive weights, or none")
    wrong = ~(np.isfinite(values) & (values > 0))
    if wrong.any():
        series = int(wrong.argmax())
        raise ValueError(
            f"sample_weight is {values[series]} for series {series}; weights are positive numbers: leave out series "
            "that are not to count"
        )
    return torch.from_numpy(values)


def _check_shape(name: str, values: np.ndarray, n: int) -> None:
    if values.shape != (n,):
        raise ValueError(f"{name} must have shape ({n},), one a series; got {values.shape}")
