"""Committees of views as nested plain values and tensors, and back, so that predictions are bitwise the same.

Landmark series are float32-rounded (`views.base`) and stored so. Their features are not stored: they are computed
from the series when the committee first predicts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import torch

from siggpde.committee.link import ClassLink
from siggpde.committee.mixture import Recalibration
from siggpde.committee.novelty import Novelty
from siggpde.committee.recipes import Recipe
from siggpde.committee.regression import Regression
from siggpde.committee.view_committee import (
    LeftOutRecord,
    OfViews,
    PartWeights,
    ViewCommittee,
    ViewMember,
    WeightCommittee,
    WeightMember,
)
from siggpde.persistence.manifest import ModelFileError
from siggpde.series import SeriesBatch
from siggpde.views.base import Rows, Standard
from siggpde.views.paths import PathBlock
from siggpde.views.saved import SavedBlocks, check_transformers, states_of
from siggpde.views.transformers import TransformerBlock
from siggpde.views.windows import WindowsBlock


def view_committee_state(committee: OfViews) -> dict[str, Any]:
    """Everything that predictions and updates depend on, but transformers of the user's own."""
    state: dict[str, Any] = {
        "standard": {"mean": committee.standard.mean, "spread": committee.standard.spread},
        "blocks": states_of(committee.blocks),
        "weights": committee.weights,
    }
    recalibration = committee.recalibration
    state["link"] = None if committee.link is None else committee.link.state()
    state["recalibration"] = None if recalibration is None else asdict(recalibration)
    state["left_out"] = None if committee.left_out is None else committee.left_out.state()
    state["novelty"] = None if committee.novelty is None else committee.novelty.state()
    if isinstance(committee, WeightCommittee):
        members = [_weight_member_state(member) for member in committee.members]
        return {"kind": "weights", **state, "centres": committee.centres, "members": members}
    landmarks = committee.landmarks
    state["landmarks"] = {
        "values": landmarks.values.float(), "lengths": landmarks.lengths, "times": landmarks.times
    }  # fmt: skip
    state["class_weights"] = committee.class_weights
    return {"kind": "views", **state, "members": [_member_state(member) for member in committee.members]}


def view_committee_from_state(state: Mapping[str, Any], transformers: Mapping[str, Any]) -> OfViews:
    """The committee of `view_committee_state`; `transformers` by the names of the user's own views."""
    weights, members = state["weights"], state["members"]
    try:
        check_transformers(state["blocks"], transformers)
    except ValueError as error:
        raise ModelFileError(str(error)) from error
    standard, kind = Standard(**state["standard"]), state["kind"]
    if kind == "weights":
        blocks = SavedBlocks(state["blocks"], None, transformers)
        _check_widths(blocks, [len(centre) for centre in state["centres"]])
        return WeightCommittee(
            standard,
            blocks,
            state["centres"],
            [_weight_member(member) for member in members],
            weights,
            *_ends(state),
            _left_out(state),
            _novelty(state),
        )
    if kind != "views":
        raise ModelFileError(f"the model is a committee of {kind!r}, which is not known here; upgrade siggpde")
    series = state["landmarks"]
    landmarks = SeriesBatch(series["values"].double(), series["lengths"], series["times"])
    blocks = SavedBlocks(state["blocks"], landmarks, transformers)
    exact = [_member(member) for member in members]
    committee = ViewCommittee(standard, landmarks, blocks, exact, weights, *_ends(state), state["class_weights"])
    committee.left_out, committee.novelty = _left_out(state), _novelty(state)
    return committee


def _check_widths(blocks: SavedBlocks, centres: list[int]) -> None:
    """Raises a ModelFileError where blocks do not give as many features as there are means of them."""
    widths: list[int] = []
    for block in blocks:
        if isinstance(block, PathBlock):
            widths.append(len(block.words))
        elif isinstance(block, WindowsBlock | TransformerBlock):
            widths += [len(columns.kept) for columns in block.scaler.columns]
    if widths != centres:
        wrong = next((pair for pair in zip(widths, centres, strict=False) if pair[0] != pair[1]), None)
        what = f"{len(widths)} parts" if wrong is None else f"a part of {wrong[0]} features"
        raise ModelFileError(f"the blocks give {what}, for which the model has other weights; save the model again")


def classes_of(committee: OfViews) -> set[int | None]:
    """The numbers of classes that the parts of a committee know; None for one of numbers."""
    if committee.link is None:
        return {None}
    if isinstance(committee, WeightCommittee):
        return {len(committee.link.offset), *(len(member.constant) for member in committee.members)}
    return {len(committee.link.offset), *(member.regression.alpha.shape[1] for member in committee.members)}


def _ends(state: Mapping[str, Any]) -> tuple[ClassLink | None, Recalibration | None]:
    link, recalibration = state["link"], state["recalibration"]
    return None if link is None else ClassLink(**link), None if recalibration is None else Recalibration(
        **recalibration
    )


def _novelty(state: Mapping[str, Any]) -> Novelty | None:
    novelty = state.get("novelty")
    return None if novelty is None else Novelty.from_state(novelty)


def _left_out(state: Mapping[str, Any]) -> LeftOutRecord | None:
    """None for models of versions before there was one."""
    record = state.get("left_out")
    return None if record is None else LeftOutRecord.from_state(record)


def _member_state(member: ViewMember) -> dict[str, Any]:
    regression, norms = member.regression, None if member.norms is None else member.norms.variance
    return {
        "recipe": member.recipe.state(),
        "alpha": regression.alpha,
        "root": regression.root,
        "noise": regression.noise,
        "amplitude": regression.amplitude,
        "counts": regression.counts,
        "norms": norms,
        "score": member.score,
    }


def _member(state: Mapping[str, Any]) -> ViewMember:
    regression = Regression(
        state["alpha"], state["root"], state["noise"], state["amplitude"], state.get("counts")
    )  # fmt: skip
    norms = None if state["norms"] is None else Rows(torch.empty(0), state["norms"])
    return ViewMember(Recipe.from_state(state["recipe"]), regression, norms, state["score"])


def _weight_member_state(member: WeightMember) -> dict[str, Any]:
    parts = {str(number): vars(part).copy() for number, part in member.parts.items()}
    return {**vars(member), "recipe": member.recipe.state(), "parts": parts}


def _weight_member(state: Mapping[str, Any]) -> WeightMember:
    parts = {int(number): PartWeights(**part) for number, part in state["parts"].items()}
    return WeightMember(**{**state, "recipe": Recipe.from_state(state["recipe"]), "parts": parts})
