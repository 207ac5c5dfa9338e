"""The words of all members of a committee, spelled with the names of their channels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from siggpde.committee.committee import Committee
from siggpde.explain.results import Letters


@dataclass(frozen=True)
class Vocabulary:
    """The distinct `words` of all members, each the names of its channels, and the sets of channels they are made of.

    `word_indices[k]` (M_k,) are the indices in `words` of the words of member k. `channel_sets` are the distinct sets
    of channels, and `set_indices` (words,) the index of the set of each word.
    """

    words: list[Letters]
    word_indices: list[Tensor]
    channel_sets: list[Letters]
    set_indices: Tensor


def build_vocabulary(committee: Committee, names: Sequence[str]) -> Vocabulary:
    """The vocabulary of a committee for series whose channels have these `names`.

    Words of different members are the same word where the names of their channels are the same.
    """
    words: dict[Letters, int] = {}
    word_indices = []
    channel_names = path_names(committee, names)
    for member, channels in zip(committee.members, channel_names, strict=True):
        spelled = [tuple(channels[letter] for letter in word) for word in member.model.features.words]
        indices = [words.setdefault(word, len(words)) for word in spelled]
        word_indices.append(torch.tensor(indices, dtype=torch.int64, device=committee.device))
    distinct = dict.fromkeys(name for channels in channel_names for name in channels)
    order = {name: index for index, name in enumerate(distinct)}
    sets: dict[Letters, int] = {}
    set_of_word = [tuple(sorted(set(word), key=order.__getitem__)) for word in words]
    set_indices = torch.tensor([sets.setdefault(channels, len(sets)) for channels in set_of_word], dtype=torch.int64)
    return Vocabulary(list(words), word_indices, list(sets), set_indices)


def path_names(committee: Committee, names: Sequence[str]) -> list[tuple[str, ...]]:
    """The names of the channels of every member's paths, from those of the series.

    A channel of the series whose name would stand for two channels of a path, such as "time", has its number added.
    """
    transforms = [member.transform for member in committee.members]
    ambiguous = {
        name
        for channels in (transform.names(names) for transform in transforms)
        for name in channels
        if channels.count(name) > 1
    }
    unique = [f"{name} (channel {index})" if name in ambiguous else name for index, name in enumerate(names)]
    return [transform.names(unique) for transform in transforms]
