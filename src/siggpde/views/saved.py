"""Blocks as plain values and tensors, and back from these and the landmarks when they are first needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, overload

import torch

from siggpde.series import SeriesBatch
from siggpde.views.base import Block, Centring, Part
from siggpde.views.kernels import KernelBlock
from siggpde.views.paths import PathBlock
from siggpde.views.transformers import Example, TransformerBlock
from siggpde.views.windows import WindowsBlock

_OF_FEATURES = {"linear": PathBlock, "path": PathBlock, "windows": WindowsBlock, "spectrum": WindowsBlock}
_OF_KERNELS = {"kernel": KernelBlock, "lifted": KernelBlock}


def block_state(block: Block) -> dict[str, Any]:
    """The kind of the block, what it learned, and the centring of its kernels by their names."""
    centring = {name: vars(learned).copy() for name, learned in block.centring.items()}
    return {"kind": block.kind, "state": block.state(), "centring": centring}


@torch.no_grad()
def block_from_state(
    stored: Mapping[str, Any], landmarks: SeriesBatch | None, transformers: Mapping[str, Any]
) -> Block:
    """The block of `block_state`. Without landmarks it has neither their features nor a centring: only its `parts`."""
    kind, state = stored["kind"], stored["state"]
    features: SeriesBatch | list[Part] = [] if landmarks is None else landmarks
    if kind == "features":
        block: Block = TransformerBlock.from_state(state, features, transformers[state["name"]])
    elif kind in _OF_FEATURES:
        block = _OF_FEATURES[kind].from_state(state, features)
    elif kind in _OF_KERNELS and landmarks is not None:
        block = _OF_KERNELS[kind].from_state(state, landmarks)
    else:
        raise ValueError(f"there is no view of the kind {kind!r}; upgrade siggpde")
    centring = {} if landmarks is None else stored["centring"]
    block.centring = {name: Centring(**learned) for name, learned in centring.items()}
    return block


class SavedBlocks(Sequence[Block]):
    """Blocks from their states, each computed from the landmarks when it is first looked at: it may take seconds.

    `states` are those of `block_state`; `transformers` those of views of the user's own, by name.
    """

    def __init__(
        self, states: Sequence[dict[str, Any]], landmarks: SeriesBatch | None, transformers: Mapping[str, Any]
    ) -> None:
        self.states = list(states)
        self._landmarks, self._transformers = landmarks, dict(transformers)
        self._blocks: list[Block | None] = [None] * len(self.states)

    def __len__(self) -> int:
        return len(self.states)

    @overload
    def __getitem__(self, index: int) -> Block: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Block]: ...

    def __getitem__(self, index: int | slice) -> Block | Sequence[Block]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        block = self._blocks[index]
        if block is None:
            block = block_from_state(self.states[index], self._landmarks, self._transformers)
            self._blocks[index] = block
        return block


def states_of(blocks: Sequence[Block]) -> list[dict[str, Any]]:
    """The states of blocks, with nothing computed for those that are not yet restored."""
    return blocks.states if isinstance(blocks, SavedBlocks) else [block_state(block) for block in blocks]


def kinds_of_kernels(blocks: Sequence[Block]) -> dict[str, str]:
    """The kind of view of every kernel, by the name of the kernel; nothing is computed."""
    if isinstance(blocks, SavedBlocks):
        return {name: state["kind"] for state in blocks.states for name in state["centring"]}
    return {name: block.kind for block in blocks for name in block.centring}


def check_transformers(states: Sequence[Mapping[str, Any]], transformers: Mapping[str, Any]) -> None:
    """Raises a ValueError where a transformer that the blocks need is missing or is not the one of the fit."""
    for state in (stored["state"] for stored in states if stored["kind"] == "features"):
        name = state["name"]
        if name not in transformers:
            raise ValueError(
                f"the view {name!r} of the model is a transformer of your own, which is not saved with it: "
                f"give the fitted one, siggpde.load(path, transformers={{{name!r}: transformer}})"
            )
        Example(**state["example"]).check(transformers[name], name)
