"""What a report tells of a fitted estimator: its members, its link, and what it takes to fit it once more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from siggpde.committee.committee import Committee
from siggpde.estimators.describing import left_out_in_words, likelihood_name, members_of_views
from siggpde.hashing import digest
from siggpde.installation import installation
from siggpde.report import Fitted, Member
from siggpde.series import SeriesBatch

DEFAULTS: dict[str, Any] = {
    "method": "views",
    "likelihood": "auto",
    "views": "auto",
    "members": "auto",
    "n_features": "auto",
    "transforms": "auto",
    "time_channel": None,
    "mask": False,
    "max_points": 1000,
    "spectrogram": None,
    "class_weight": None,
    "max_iter": "auto",
    "time_limit": None,
    "device": "auto",
    "dtype": "auto",
    "keep_series": True,
}
"""The settings of an estimator that decide about the model."""


def fitted_of(estimator: Any) -> Fitted:
    """What was fitted."""
    committee = estimator.committee_
    classifies = hasattr(estimator, "classes_")
    if isinstance(committee, Committee):
        weights = committee.weights.tolist()
        method = committee.members[0].settings.get("method", "views")
        members = [
            Member(weight, f"model {index + 1}", f"{len(each.model.features.words)} words of one path", each.score)
            for index, (weight, each) in enumerate(zip(weights, committee.members, strict=True))
        ]
        kinds = ["path"]
    else:
        method = "views"
        members = [Member(*each) for each in members_of_views(committee)]
        kinds = list(dict.fromkeys(_kind(block) for block in committee.blocks))
    return Fitted(
        committee=committee,
        task="classification" if classifies else "regression",
        method=method,
        likelihood=likelihood_name(committee, classifies),
        members=members,
        kinds=kinds,
        series=estimator.n_series_,
        groups=getattr(estimator, "n_groups_", None),
        labels=estimator.summary_["labels"] if classifies else None,
        left_out=left_out_in_words(estimator),
        link=_link(estimator, likelihood_name(committee, classifies)),
        seconds=getattr(estimator, "seconds_", None),
        tried=[tuple(each) for each in getattr(estimator, "tried_", None) or []],
    )


def _kind(block: Any) -> str:
    return next(iter(block.centring)) if block.kind == "features" else block.kind


def _link(estimator: Any, likelihood: str) -> str:
    committee = estimator.committee_
    if getattr(committee, "link", None) is not None:
        return (
            "The averaged latents of the classes become probabilities by one link, a multinomial logistic regression "
            "that was fitted to left-out series: a series given 80 % is meant to be right in 80 of 100 cases. It knows "
            f"that labels can be wrong (a share of {committee.link.lapse:.2g}). Far from all training series "
            "probabilities tend to the frequencies of the classes."
        )
    if likelihood == "Gaussian":
        return (
            "The predicted number is a mixture of the members' normal distributions. How heavy its tails are was "
            "fitted to left-out series, so that intervals hold what they promise. Far from all training series "
            "predictions tend to the mean of the training series, with their spread."
        )
    return f"The likelihood is {likelihood}: what is predicted are means over the latent function."


def origin_of(
    estimator: Any, batch: SeriesBatch, codes: Tensor | None, seed: int, source: Sequence[tuple[str, str]]
) -> list[tuple[str, str]]:
    """Rows about data, seeds, versions and settings; `source` are the first."""
    known = installation()
    versions = ", ".join(f"{name} {version}" for name, version in known["versions"].items())
    rows = [*source, ("SHA-256 of the series of this page", digest(batch.values, batch.lengths, batch.times))]
    if codes is not None:
        rows.append(("SHA-256 of their answers", digest(codes)))
    rows.append(("SHA-256 of the training data", str(getattr(estimator, "fingerprint_", "not kept"))))
    rows.append(("seed of the fit", str(getattr(estimator, "random_state", None) or 0)))
    rows += [("seed of this page", str(seed)), ("versions", versions)]
    rows.append(("machine", f"{known['machine']['architecture']}, {known['simd'] or 'no native core'}"))
    changed = _settings(estimator)
    return [*rows, ("settings of the fit", changed or "all at their defaults")]


def _settings(estimator: Any) -> str:
    """Settings that are not the defaults."""
    kept = ((name, getattr(estimator, name)) for name in DEFAULTS if hasattr(estimator, name))
    changed = ((name, value) for name, value in kept if not _same(value, DEFAULTS[name]))
    return ", ".join(f"{name}={value!r}" for name, value in changed)


def _same(value: Any, default: Any) -> bool:
    return isinstance(value, type(default)) and value == default
