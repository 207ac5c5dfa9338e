"""Committees of views as nested plain values and tensors, and back, so that predictions are bitwise the same.

Landmark series are float32-rounded (`views.standard`) and stored so. Their features are not stored: they are computed
from the series when the committee first predicts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import torch

from siggpde.ensemble.link import ClassLink
from siggpde.ensemble.recalibration import Recalibration
from siggpde.ensemble.recipes import Recipe
from siggpde.ensemble.regression import Regression
from siggpde.ensemble.view_committee import ViewCommittee, ViewMember
from siggpde.ensemble.weight_space import PartWeights, WeightCommittee, WeightMember
from siggpde.paths import SeriesBatch
from siggpde.persistence.manifest import ModelFileError
from siggpde.views.base import Rows
from siggpde.views.saved import SavedBlocks, check_transformers, states_of
from siggpde.views.standard import Standard


def view_committee_state(committee: ViewCommittee | WeightCommittee) -> dict[str, Any]:
    """Everything that predictions depend on, but transformers of the user's own."""
    recalibration = committee.recalibration
    state: dict[str, Any] = {
        "standard": {"mean": committee.standard.mean, "spread": committee.standard.spread},
        "blocks": states_of(committee.blocks),
        "weights": committee.weights,
        "link": None if committee.link is None else committee.link.state(),
        "recalibration": None if recalibration is None else asdict(recalibration),
    }
    if isinstance(committee, WeightCommittee):
        members = [_weight_member_state(member) for member in committee.members]
        return {"kind": "weights", **state, "centres": committee.centres, "members": members}
    landmarks = committee.landmarks
    series = {"values": landmarks.values.float(), "lengths": landmarks.lengths, "times": landmarks.times}
    return {"kind": "views", **state, "landmarks": series, "members": [_member_state(m) for m in committee.members]}


def view_committee_from_state(
    state: Mapping[str, Any], transformers: Mapping[str, Any]
) -> ViewCommittee | WeightCommittee:
    """The committee of `view_committee_state`; `transformers` by the names of the user's own views."""
    weights, members = state["weights"], state["members"]
    if len(members) == 0 or weights.shape != (len(members),):
        raise ModelFileError(f"there are {len(members)} members but weights of shape {tuple(weights.shape)}")
    try:
        check_transformers(state["blocks"], transformers)
    except ValueError as error:
        raise ModelFileError(str(error)) from error
    link = None if state["link"] is None else ClassLink(**state["link"])
    recalibration = None if state["recalibration"] is None else Recalibration(**state["recalibration"])
    standard = Standard(**state["standard"])
    if state["kind"] == "weights":
        blocks = SavedBlocks(state["blocks"], None, transformers)
        parts = [_weight_member(member) for member in members]
        return WeightCommittee(standard, blocks, state["centres"], parts, weights, link, recalibration)
    if state["kind"] != "views":
        raise ModelFileError(f"the model is a committee of {state['kind']!r}, which is not known here; upgrade siggpde")
    series = state["landmarks"]
    landmarks = SeriesBatch(series["values"].double(), series["lengths"], series["times"])
    blocks = SavedBlocks(state["blocks"], landmarks, transformers)
    return ViewCommittee(standard, landmarks, blocks, [_member(m) for m in members], weights, link, recalibration)


def outputs_of(committee: ViewCommittee | WeightCommittee) -> int:
    """The number of latents."""
    first = committee.members[0]
    return len(first.constant) if isinstance(first, WeightMember) else first.regression.alpha.shape[1]


def _member_state(member: ViewMember) -> dict[str, Any]:
    regression, norms = member.regression, None if member.norms is None else member.norms.variance
    return {
        "recipe": member.recipe.state(),
        "alpha": regression.alpha,
        "root": regression.root,
        "noise": regression.noise,
        "amplitude": regression.amplitude,
        "norms": norms,
        "score": member.score,
    }


def _member(state: Mapping[str, Any]) -> ViewMember:
    regression = Regression(state["alpha"], state["root"], state["noise"], state["amplitude"])
    norms = None if state["norms"] is None else Rows(torch.empty(0), state["norms"])
    return ViewMember(Recipe.from_state(state["recipe"]), regression, norms, state["score"])


def _weight_member_state(member: WeightMember) -> dict[str, Any]:
    parts = {str(number): vars(part).copy() for number, part in member.parts.items()}
    return {**vars(member), "recipe": member.recipe.state(), "parts": parts}


def _weight_member(state: Mapping[str, Any]) -> WeightMember:
    parts = {int(number): PartWeights(**part) for number, part in state["parts"].items()}
    return WeightMember(**{**state, "recipe": Recipe.from_state(state["recipe"]), "parts": parts})
