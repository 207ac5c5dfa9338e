"""Fitted estimators for people: what their committee is made of, and the card of a saved one."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from siggpde.committee.committee import Committee
from siggpde.committee.of_views import OfViews
from siggpde.committee.variational_views import VariationalViewCommittee
from siggpde.committee.weight_space import WeightCommittee
from siggpde.committee.wording import in_words
from siggpde.estimators.paper_method import PAPER_MODEL
from siggpde.report.card import model_card
from siggpde.views.saved import kinds_of_kernels


class MemberOfViews(NamedTuple):
    """A member of a committee of views: its weight, short name, kernel in words, and leave-one-out loss."""

    weight: float
    name: str
    kernel: str
    score: float


def members_of_views(committee: OfViews) -> list[MemberOfViews]:
    """The members, heaviest first."""
    kinds = kinds_of_kernels(committee.blocks)
    members = [
        MemberOfViews(weight, member.recipe.name, in_words(member.recipe, kinds), member.score)
        for weight, member in zip(committee.weights.tolist(), committee.members, strict=True)
    ]
    return sorted(members, key=lambda member: -member.weight)


def series_within(committee: Committee | OfViews) -> int:
    """How many training series the model contains."""
    return 0 if isinstance(committee, Committee | WeightCommittee) else len(committee.landmarks)


def likelihood_name(committee: Committee | OfViews, classifies: bool) -> str:
    """The class of the likelihood."""
    if isinstance(committee, Committee):
        return type(committee.members[0].model.likelihood).__name__
    if isinstance(committee, VariationalViewCommittee):
        return type(committee.likelihood).__name__
    return "LeastSquares" if classifies else "Gaussian"


def left_out_in_words(estimator: Any) -> str | None:
    """What the losses of left-out series mean, in a sentence: which series were left out together; None where no
    series were left out but some held back for validation."""
    committee = estimator.committee_
    if isinstance(committee, Committee):
        first = committee.members[0]
        if first.settings.get("method") == "paper" or not first.model.likelihood.is_gaussian:
            return None
    groups = getattr(estimator, "n_groups_", None)
    if groups is None:
        return (
            "The leave-one-out losses of the fit assume that the series are independent of each other: where several "
            "are of one person or recording, they flatter, unless these are given as groups."
        )
    return f"The losses of the fit are those of left-out groups: each of {groups} groups was left out as a whole."


def estimator_card(estimator: Any, path: str | os.PathLike[str]) -> str:
    """The card of a fitted estimator that is saved as the folder `path`."""
    shown = os.path.basename(os.fspath(path)) or "model"
    committee = estimator.committee_
    own = _card_of_words(estimator) if isinstance(committee, Committee) else _card_of_views(estimator)
    return model_card(
        {
            "title": f"{type(estimator).__name__}, {shown}",
            "kind": "classification" if hasattr(estimator, "classes_") else "regression",
            "data": {
                "series": estimator.n_series_,
                "groups": getattr(estimator, "n_groups_", None),
                "channels": estimator.n_channels_,
                "channel_names": list(estimator.channel_names_),
                "lengths": tuple(estimator.length_range_),
                **getattr(estimator, "summary_", {}),
            },
            "left_out": left_out_in_words(estimator),
            "path": shown,
            "command": f"siggpde predict {shown} new-series.csv",
            **own,
        }
    )


def _card_of_views(estimator: Any) -> dict[str, Any]:
    committee = estimator.committee_
    members = members_of_views(committee)
    count = series_within(committee)
    return {
        "model": f"A committee of {len(members)} Gaussian processes on views of the series"
        if len(members) > 1
        else "A Gaussian process on views of the series",
        "members": [(member.weight, member.kernel, member.score) for member in members],
        "contains": f"This model contains {count} training series (landmarks), {_share(count, estimator.n_series_)}: "
        "whoever has it can read them. Fit with keep_series=False for a model that contains none."
        if count
        else "This model contains no training series, only weights of features.",
        "settings": {
            "method": "views",
            "likelihood": likelihood_name(committee, hasattr(estimator, "classes_")),
            "Models averaged": len(members),
            "Landmark series": count or None,
        },
        "scores": {
            f"{_judged(estimator)} loss of the best member, nats a series": min(member.score for member in members),
            "seconds": getattr(estimator, "seconds_", None),
        },
    }


def _judged(estimator: Any) -> str:
    return "Leave-one-out" if getattr(estimator, "n_groups_", None) is None else "Leave-one-group-out"


def _share(count: int, total: int) -> str:
    return "all of them" if count >= total else f"of {total}"


def _card_of_words(estimator: Any) -> dict[str, Any]:
    members = estimator.committee_.members
    first = members[0]
    by_the_paper = first.settings.get("method") == "paper"
    settings = {
        "method": f"paper ({PAPER_MODEL})" if by_the_paper else "views",
        "likelihood": type(first.model.likelihood).__name__,
        "Models averaged": len(members),
        "Their weights": ", ".join(f"{weight:.2f}" for weight in estimator.committee_.weights.tolist()),
        "words": ", ".join(str(len(member.model.features.words)) for member in members),
        "directions": ", ".join(str(member.model.features.size) for member in members),
    }
    settings |= first.settings["options"]
    settings["path_length"] = first.settings.get("path_length")
    exact = first.model.likelihood.is_gaussian
    judged = f"{_judged(estimator) if exact else 'Validation'} NLPP of the best member"
    scores = {"nlpp" if by_the_paper else judged: first.score, "seconds": getattr(estimator, "seconds_", None)}
    return {"settings": settings, "scores": scores}
