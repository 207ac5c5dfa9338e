"""What is explained, of either kind of committee: checks of inputs and labels, predictions, the classes compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from siggpde.committee.committee import Committee
from siggpde.committee.of_views import OfViews
from siggpde.gp.likelihoods.base import Classification
from siggpde.series import SeriesBatch

AnyCommittee: TypeAlias = "Committee | OfViews"


def classes_of(committee: AnyCommittee) -> int | None:
    """How many classes the committee predicts; None where it predicts numbers."""
    if isinstance(committee, Committee):
        likelihood = committee.members[0].model.likelihood
    else:
        return None if committee.link is None else len(committee.link.offset)
    return likelihood.classes if isinstance(likelihood, Classification) else None


def check_inputs(committee: AnyCommittee, batch: SeriesBatch, names: Sequence[str], min_series: int = 1) -> None:
    """A ValueError where there are too few series, or the names or channels do not fit the committee."""
    if len(batch) < min_series:
        what = "there are no series to explain" if min_series == 1 else f"{len(batch)} series do not show what varies"
        raise ValueError(f"{what}; give at least {min_series}")
    if isinstance(names, str) or len(names) != batch.channels:
        raise ValueError(f"names must be one for each of the {batch.channels} channels of the series, got {names!r}")
    words = isinstance(committee, Committee)
    mean = committee.members[0].transform.mean if words else committee.standard.mean
    if mean is not None and len(mean) != batch.channels:
        raise ValueError(f"the series have {batch.channels} channels, but those of training had {len(mean)}")


def checked_labels(committee: AnyCommittee, classes: Any) -> list[Any] | None:
    """The labels as plain values, after checking that there are as many as the model has; None for a regression."""
    count = classes_of(committee)
    if count is None:
        if classes is not None:
            raise ValueError("the committee predicts numbers, not classes; leave classes out")
        return None
    labels = None if classes is None else list(np.asarray(classes).tolist())
    if labels is None or len(labels) != count:
        got = "none" if labels is None else f"{len(labels)}"
        raise ValueError(f"the committee predicts {count} classes; give their labels as classes, got {got}")
    return labels


def predictions(
    committee: AnyCommittee, batch: SeriesBatch, labels: list[Any] | None
) -> tuple[list[dict[str, Any]], Tensor | None]:
    """The predictions, as fields of SeriesExplanation, and the two classes (n, 2) to compare."""
    if labels is None:
        mean, variance = committee.mean_and_variance(batch)
        numbers = zip(mean.tolist(), variance.sqrt().tolist(), strict=True)
        return [{"mean": centre, "std": spread} for centre, spread in numbers], None
    probabilities = committee.probabilities(batch)
    pairs = top_two_classes(probabilities)
    fields = [
        {
            "label": labels[first],
            "probability": float(row[first]),
            "runner_up": labels[second],
            "runner_up_probability": float(row[second]),
        }
        for (first, second), row in zip(pairs.tolist(), probabilities, strict=True)
    ]
    return fields, pairs


def top_two_classes(probabilities: Tensor) -> Tensor:
    """The most probable class of every series and the runner-up, (n, 2), int64; of equal ones the first."""
    return probabilities.sort(dim=1, descending=True, stable=True).indices[:, :2]


def evenly_spaced(batch: SeriesBatch, most: int) -> SeriesBatch:
    """The batch, or of more than `most` series that many."""
    return batch if len(batch) <= most else batch[torch.arange(most) * len(batch) // most]
