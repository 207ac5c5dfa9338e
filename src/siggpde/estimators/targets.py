"""Checks of what `fit` is given with the series: labels, class weights, numbers, groups and sample weights."""

from __future__ import annotations

import logging
import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from siggpde.committee.novelty import callers_level
from siggpde.distributed.shard import Shard, all_labels
from siggpde.series.related import Related

log = logging.getLogger(__name__)

_LARGEST = 1e150
_MOST_TIMES = 1e20  # between weights
_FEWEST = 2  # series of a class that are no copies


def check_labels(y: Any) -> np.ndarray:
    """The labels (n,) of classes; a ValueError where there are none, or some are missing or numbers of a regression."""
    from sklearn.utils.multiclass import check_classification_targets  # noqa: PLC0415 - predictions need none

    labels = label_column(y)
    check_classification_targets(labels)
    return labels


def label_column(y: Any) -> np.ndarray:
    """The labels (n,), which may not be missing."""
    labels = _targets(y)
    if labels.dtype.kind == "O" and any(map(_is_missing, labels)):
        raise ValueError("y has missing labels (None or NaN); leave these series out")
    if labels.dtype.kind == "f":
        _check_finite(labels)
    return labels


def class_indices(labels: np.ndarray, classes: np.ndarray, name: str = "y") -> Tensor:
    """The index (n,) of every label, of any type (`as_classes`), among the classes; a ValueError names other labels."""
    labels = as_classes(labels, classes)
    index = {label: number for number, label in enumerate(classes.tolist())}
    unknown = sorted({str(label) for label in labels.tolist() if label not in index})
    if unknown:
        raise ValueError(
            f"{name} has labels that the training set had not: {', '.join(unknown[:5])}; known are "
            f"{', '.join(str(label) for label in classes[:10])}. Fit again with all the classes"
        )
    return torch.tensor([index[label] for label in labels.tolist()], dtype=torch.int64)


def class_attributes(classes: np.ndarray) -> dict[str, Any]:
    """The attributes of a fitted classifier that follow from its classes."""
    dictionary = dict(zip(classes, range(len(classes)), strict=True))  # of aeon's classifiers
    return {"classes_": classes, "n_classes_": len(classes), "_class_dictionary": dictionary}


def class_weights(class_weight: Any, classes: np.ndarray, indices: np.ndarray) -> tuple[float, ...]:
    """The weights of the classes by the setting `class_weight`; `indices` (n,) are the classes of the series."""
    if isinstance(class_weight, str) and class_weight == "balanced":
        counts = np.bincount(indices, minlength=len(classes))
        return tuple((len(indices) / (len(classes) * counts)).tolist())
    if not isinstance(class_weight, Mapping):
        raise ValueError(f"class_weight must be None, 'balanced' or a dictionary, got {class_weight!r}")
    names = classes.tolist()
    for label, weight in class_weight.items():
        if label not in names:
            raise ValueError(f"class_weight names {label!r}, which is not among the labels {names[:10]}")
        if not isinstance(weight, int | float | np.number) or not 0 < weight < np.inf:
            raise ValueError(f"class_weight of {label!r} must be a positive number, got {weight!r}")
    return tuple(float(class_weight.get(label, 1.0)) for label in names)


def check_numbers(y: Any, *, counts: bool = False) -> Tensor:
    """Returns the targets (n,) of a regression as finite float64; with `counts` they must be whole numbers from 0."""
    values = _targets(y)
    if values.dtype.kind == "c":
        raise ValueError(f"y must be real numbers, got {values.dtype}; Complex data not supported")
    values = _as_floats(values, "y must be numbers for a regression")
    _check_finite(values)
    largest = np.abs(values).max(initial=0.0)
    if largest > _LARGEST or 0 < largest < 1 / _LARGEST:
        series = int(np.abs(values).argmax())
        raise ValueError(
            f"y is {values[series]} for series {series}, beyond what can be squared; give y in other units"
        )
    no_count = (values < 0) | (values != np.round(values))
    if counts and no_count.any():
        series = int(no_count.argmax())
        raise ValueError(
            f"likelihood='poisson' is for counts, whole numbers from 0, but y is {values[series]} for series "
            f"{series}; take 'gaussian' for other numbers"
        )
    return torch.from_numpy(values)


def _as_array(values: Any) -> np.ndarray:
    return np.asarray(values.detach().cpu() if isinstance(values, Tensor) else values)


def _as_floats(values: np.ndarray, message: str) -> np.ndarray:
    try:
        return values.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{message}, got {values.dtype}") from error


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _targets(y: Any) -> np.ndarray:
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")
    values = _as_array(y)
    if values.size == 0:
        raise ValueError("y is empty: found 0 sample(s) while a minimum of 2 is required")
    if values.ndim == 1:
        return values
    from sklearn.utils.validation import column_or_1d  # noqa: PLC0415 - takes long to import

    return column_or_1d(values, warn=True)


def _check_finite(values: np.ndarray) -> None:
    if not np.isfinite(values).all():
        raise ValueError(f"y is not finite (NaN or infinity) for series {int((~np.isfinite(values)).argmax())}")


def as_classes(labels: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Labels (n,) in the type of the classes where they are written like one of them, as "1" and 1 are, and others as
    they are; nothing is converted if two classes would be the same, such as "1" and "1.0"."""
    if labels.dtype.kind == classes.dtype.kind and set(labels.tolist()) <= set(classes.tolist()):
        return labels
    index = {plain_text(label): number for number, label in enumerate(classes.tolist())}
    wanted = [index.get(plain_text(label)) for label in labels.tolist()]
    if len(index) < len(classes) or all(number is None for number in wanted):
        return labels
    if None not in wanted:
        return classes[np.array(wanted, dtype=np.int64)]
    known, pairs = classes.tolist(), zip(labels.tolist(), wanted, strict=True)
    return np.array([label if number is None else known[number] for label, number in pairs], dtype=object)


def plain_text(label: Any) -> str:
    """How a label is written in all types: whole numbers without a point, truth in small letters."""
    text = str(label).strip()
    if text.lower() in ("true", "false"):
        return text.lower()
    whole, point, decimals = text.partition(".")
    if point and not decimals.strip("0") and whole.lstrip("+-").isdecimal():
        text = whole
    return text


_NAMED = 5


@dataclass(frozen=True)
class SampleInfo:
    """`groups` (n,), integers, and `weights` (n,), 1 on average, of the series of all ranks; None where not given."""

    groups: Tensor | None = None
    weights: Tensor | None = None

    def to(self, device: torch.device | str) -> SampleInfo:
        groups = None if self.groups is None else self.groups.to(device)
        return SampleInfo(groups, None if self.weights is None else self.weights.to(device))


def check_sample_info(groups: Any, sample_weight: Any, shard: Shard) -> SampleInfo:
    """Checks groups and weights of the series of this rank, and returns those of all ranks."""
    with shard.ranks.together():
        local_groups = None if groups is None else _groups(groups, shard.size)
        local_weights = None if sample_weight is None else _weights(sample_weight, shard.size)
    shard.ranks.check_same("groups", str(local_groups is not None))
    shard.ranks.check_same("sample_weight", str(local_weights is not None))
    numbers = weights = None
    if local_groups is not None:
        names, indices = all_labels(local_groups, shard.ranks)
        if len(names) < 2:
            raise ValueError(
                f"all series are of one group, {names.tolist()[0]!r}: there is nothing left to learn from without it; "
                "give no groups, or series of two or more"
            )
        numbers = torch.from_numpy(indices)
    if local_weights is not None:
        weights = shard.ranks.all_gather_rows(local_weights)
        weights = weights / weights.mean()
    return SampleInfo(numbers, weights)


def grouped_by_family(
    info: SampleInfo, related: Related, y: Tensor, classes: int | None, setting: str, shard: Shard, facts: bool
) -> tuple[Tensor, SampleInfo]:
    """Returns the rows of the series to learn from, and what is known of these: where most series have relatives, those
    that are no copy of another one, which `facts` tell apart, with the mean weights of their copies, and families as
    groups; with a warning, or an error."""
    everything = torch.arange(len(y))
    if setting == "error":
        family = related.family if info.groups is None else related.crossing(info.groups)
        if int(family.bincount().max()) > 1:
            one, other = (family == family.mode().values).nonzero()[:2, 0].tolist()
            across = "" if info.groups is None else ", some of them of different groups"
            such = f"{related}{across}, such as series {one} and series {other}"
            shard.ranks.refuse(f"{such}: give groups=, or leave copies out")
        return everything, info
    if 2 * related.count < len(y):  # fewer than half do not make the others look unlike all of them
        if related.count:
            log.info("%s: too few to matter, they stay as they are", related)
        return everything, info
    as_they_are = everything, everything, related
    rows, places, rest = as_they_are if facts else related.without_copies(y)
    fewest = int(y[rows].bincount().min()) if classes else len(rows)
    starts = torch.tensor(shard.sizes).cumsum(0)
    if fewest < _FEWEST or len(torch.bucketize(rows, starts, right=True).unique()) < len(starts):
        rows, places, rest = as_they_are
    groups, weights = rest.groups(y[rows], classes), info.weights
    possible = int(groups.bincount().max()) > 1
    if weights is not None and len(rows) < len(y):
        weights = torch.zeros(len(rows)).to(weights).scatter_reduce(0, places, weights, "mean", include_self=False)
        weights = weights / weights.mean()
    if shard.ranks.leads:
        what = [f"the {len(y) - len(rows)} copies are left out"] if len(rows) < len(y) else []
        if possible:
            what.append("each family is left out as a group")
        what = " and ".join(what) or "too much of the data to be left out as groups"
        better = "groups= is better where you know what belongs together"
        warnings.warn(f"{related}: {what}; {better}", UserWarning, stacklevel=callers_level())
    return rows, SampleInfo(groups if possible else None, weights)


def warn_of_confined_classes(classes: np.ndarray, labels: Tensor, groups: Tensor) -> None:
    """A warning that names the classes (C,) whose series, of `labels` (n,), are all of one group."""
    confined = [str(name) for index, name in enumerate(classes) if len(groups[labels == index].unique()) == 1]
    if confined:
        more = f" and {len(confined) - _NAMED} more" if len(confined) > _NAMED else ""
        warnings.warn(
            f"all series of class {', '.join(confined[:_NAMED])}{more} are of one group: without this group the class "
            "is unknown, so that nothing tells how well it is recognised in other groups",
            UserWarning,
            stacklevel=3,
        )


def _groups(groups: Any, n: int) -> np.ndarray:
    values = _as_array(groups)
    if values.shape != (n,):
        raise ValueError(f"groups must have shape ({n},), one a series; got {values.shape}")
    missing = [_is_missing(value) for value in values.tolist()]
    if any(missing):
        raise ValueError(f"groups is missing (None or NaN) for series {missing.index(True)}; every series needs one")
    return values.astype(str) if values.dtype.kind == "O" else values


def _weights(sample_weight: Any, n: int) -> Tensor:
    values = _as_array(sample_weight)
    if values.ndim == 0:
        values = np.full(n, values)
    if values.shape != (n,):
        raise ValueError(f"sample_weight must have shape ({n},), one a series; got {values.shape}")
    values = _as_floats(values, "sample_weight must be numbers")
    if not values.any():
        raise ValueError("sample_weight is zero for all series; give positive weights, or none")
    wrong = ~(np.isfinite(values) & (values > 0))
    if wrong.any():
        series = int(wrong.argmax())
        raise ValueError(
            f"sample_weight is {values[series]} for series {series}; weights are positive numbers: leave out series "
            "that are not to count"
        )
    least, most = int(values.argmin()), int(values.argmax())
    if values[most] > _MOST_TIMES * values[least]:
        raise ValueError(
            f"sample_weight is {values[least]:.3g} for series {least} and {values[most]:.3g} for series {most}, more "
            f"than {_MOST_TIMES:.0e} times as much, which no sum can hold; leave out series that are not to count"
        )
    return torch.from_numpy(values)
