"""The terms of a committee of views by name: words, other features, kernels without features, and the views."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from siggpde.committee.of_views import OfViews
from siggpde.committee.recipes import kernels_of
from siggpde.explain.results import Letters
from siggpde.explain.text import CLOCKS
from siggpde.views import KernelView, PathView
from siggpde.views.base import Block, FeatureBlock
from siggpde.views.kernel import KernelBlock
from siggpde.views.path import PathBlock
from siggpde.views.windows import WindowsBlock

_MOST_NAMED = 3  # all of more channels than these are called "all channels"
_LIFTS = {
    "x": "the series",
    "dx": "its increments",
    "cum": "its running sum",
    "zn": "the series at mean 0 and spread 1",
}
_SIZE = "1 / norm of the signature"


@dataclass(frozen=True)
class ViewVocabulary:
    """All terms, each with its `names` and `letters`, the channels of its word in order, () where it has no word.

    - `parts`: for every part of all blocks the indices (p,) of the terms of its features; None for a part whose kernel
      no member has. Words called alike are one term.
    - `words`: how many terms are words of whole paths; they are the first.
    - `kernels`: the index of the term of each kernel without features.
    - `views`: what each kernel that a member has looks at, in words.
    - `sets`: the distinct sets of channels, and `set_indices` (terms,) the index of the set of each term.
    - `channels`: time and the channels of the series, which a term without a word is made of.
    """

    names: list[str]
    letters: list[Letters]
    parts: list[Tensor | None]
    words: int
    kernels: dict[str, int]
    views: dict[str, str]
    sets: list[Letters]
    set_indices: Tensor
    channels: Letters

    def channels_of(self, index: int) -> Letters:
        """The channels that a term is made of."""
        return self.letters[index] or self.channels

    def set_name(self, index: int) -> str:
        """A set of channels in words."""
        own = self.sets[index]
        every = len(self.channels) > 1 + _MOST_NAMED and set(self.channels) <= set(own)
        return "all channels" if every else " & ".join(own)


def build_view_vocabulary(committee: OfViews, names: Sequence[str]) -> ViewVocabulary:
    """The vocabulary of a committee for series whose channels have these `names`."""
    channels, blocks = unique_names(committee, names), committee.blocks
    used = kernels_of(member.recipe for member in committee.members)
    views = {name: describe(block, name) for block in blocks for name in _kernels(block) if name in used}
    found = _Terms([], [], {}, committee.device)
    parts: dict[int, list[Tensor | None]] = {}
    for number, block in enumerate(blocks):
        if isinstance(block, PathBlock):
            parts[number] = found.parts(block, channels, used)
    words = len(found.names)
    for number, block in enumerate(blocks):
        if isinstance(block, FeatureBlock) and number not in parts:
            parts[number] = found.parts(block, channels, used)
    flat = [each for number in sorted(parts) for each in parts[number]]
    plain = [name for block in blocks if not isinstance(block, FeatureBlock) for name in block.centring if name in used]
    kernels = {name: found.add(views[name], ()) for name in plain}
    order = {name: index for index, name in enumerate((*CLOCKS, *channels))}
    every = (CLOCKS[0], *channels)
    sets: dict[Letters, int] = {}
    set_of: dict[Letters, int] = {}
    for own in dict.fromkeys(found.letters):
        key = tuple(sorted(set(own or every), key=lambda name: order.get(name, len(order))))
        set_of[own] = sets.setdefault(key, len(sets))
    set_indices = torch.tensor([set_of[own] for own in found.letters], dtype=torch.int64, device=committee.device)
    return ViewVocabulary(found.names, found.letters, flat, words, kernels, views, list(sets), set_indices, every)


@dataclass(frozen=True)
class _Terms:
    """Terms as they are found; `known` are the indices of words of paths by name."""

    names: list[str]
    letters: list[Letters]
    known: dict[str, int]
    device: torch.device

    def add(self, name: str, letters: Letters) -> int:
        self.names.append(name)
        self.letters.append(letters)
        return len(self.names) - 1

    def parts(self, block: FeatureBlock, channels: Letters, used: set[str]) -> list[Tensor | None]:
        """The indices of the features of every part of a block, which are added unless they are known words."""
        add = self._add_word if isinstance(block, PathBlock) else self.add
        spelled = zip(block.kernels, block.names(channels), block.letters(channels), strict=True)
        return [
            torch.tensor(list(map(add, names, letters)), dtype=torch.int64, device=self.device)
            if kernel in used
            else None
            for kernel, names, letters in spelled
        ]

    def _add_word(self, name: str, letters: Letters) -> int:
        if name not in self.known:
            self.known[name] = self.add(name if letters else _SIZE, letters)
        return self.known[name]


def unique_names(committee: OfViews, names: Sequence[str]) -> Letters:
    """The names of the channels; one that stands for two letters, such as "time", has its number added."""
    spellings = [[*CLOCKS, *names]]
    spellings += [list(block.transform.names(names)) for block in committee.blocks if isinstance(block, PathBlock)]
    ambiguous = {name for spelling in spellings for name, count in Counter(spelling).items() if count > 1}
    return tuple(f"{name} (channel {index})" if name in ambiguous else name for index, name in enumerate(names))


def _kernels(block: Block) -> list[str]:
    """The names of the kernels of a block, which has no centring where there are no landmarks."""
    return list(dict.fromkeys(block.kernels)) if isinstance(block, FeatureBlock) else list(block.centring)


def describe(block: Block, name: str) -> str:
    """What a kernel of a block looks at, in words."""
    if isinstance(block, PathBlock):
        return _describe_path(block.view)
    if isinstance(block, KernelBlock):
        return _describe_kernel(block.view)
    if isinstance(block, WindowsBlock):
        thirds = ", by thirds" if name.endswith("3") else ""
        return f"windows of {_LIFTS[name[:-1]] if block.kind == 'windows' else 'the spectrum'}{thirds}"
    return name


def _describe_path(view: PathView) -> str:
    options = view.options
    degrees = {None: "words of the path", 1: "words linear in the series", 2: "words quadratic in the series"}
    which = degrees.get(view.degree, f"words of degree {view.degree} in the series")
    extras = {"variation": ["running variations"], "arc": ["its length"]}.get(options.append, [])
    extras += ["earlier values"] * options.lead_lag + ["a base point"] * options.base_point
    return which + " of changes" * bool(options.difference) + (f", with {' and '.join(extras)}" if extras else "")


def _describe_kernel(view: KernelView) -> str:
    point = ", with a base point" if view.base_point else ""
    if view.bandwidth is None:
        return f"signature kernel of all words{point}"
    return f"signature kernel of the lifted path, bandwidth {view.bandwidth:g}{point}"
