"""The terms of a committee by name: words, other features, kernels without features, and the views."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

import torch
from torch import Tensor

from siggpde.explain.results import Letters
from siggpde.explain.text import CLOCKS
from siggpde.views import KernelView, PathView
from siggpde.views.base import Block, FeatureBlock
from siggpde.views.kernels import KernelBlock
from siggpde.views.paths import PathBlock
from siggpde.views.windows import WindowsBlock

WHOLE = "the whole series"
"""The scale of what sees all of a series at once."""

_MOST_NAMED = 3  # all of more channels than these are called "all channels"
_LIFTS = {
    "x": "the series",
    "dx": "its increments",
    "cum": "its running sum",
    "zn": "the series at mean 0 and spread 1",
}
_SIZE = "1 / norm of the signature"


@dataclass(frozen=True)
class Vocabulary:
    """All terms, each with its `names` and `letters`, the channels of its word in order, () where it has no word.

    - `parts`: for every part of features the indices (p,) of their terms; None for a part whose kernel no member has.
      Words called alike are one term.
    - `scales`: how much of a series each part sees at a time.
    - `words`: how many terms are words of whole paths; they are the first.
    - `kernels`: the index of the term of each kernel without features.
    - `views`: what each kernel that a member has looks at, in words.
    - `channels`: time and the channels of the series, which a term without a word is made of.
    - `sets`: the distinct sets of channels, and `set_indices` (terms,) the index of the set of each term.
    """

    names: list[str]
    letters: list[Letters]
    parts: list[Tensor | None]
    scales: list[str]
    words: int
    kernels: dict[str, int]
    views: dict[str, str]
    channels: Letters
    sets: list[Letters]
    set_indices: Tensor

    def channels_of(self, index: int) -> Letters:
        """Returns the channels that a term is made of."""
        return self.letters[index] or self.channels

    def set_name(self, index: int) -> str:
        """Returns a set of channels in words."""
        inside = self.sets[index]
        every = len(self.channels) > 1 + _MOST_NAMED and set(self.channels) <= set(inside)
        return "all channels" if every else " & ".join(inside)


@dataclass(frozen=True)
class Words:
    """The `names` and `letters` of w words: a word stands for all features that are made of it, whatever the windows
    and statistics; a feature or a kernel without a word is one by itself.

    `places` (terms,) are the words of all terms of the vocabulary; `columns`, for each part of features, the numbers of
    its words with the columns of each, and `kernels` the numbers of the kernels without features.
    """

    names: list[str]
    letters: list[Letters]
    places: Tensor
    columns: list[list[tuple[int, Tensor]]]
    kernels: dict[str, int]

    @staticmethod
    def of(vocabulary: Vocabulary) -> Words:
        """Returns the words of all terms."""
        names: list[str] = []
        letters: list[Letters] = []
        known: dict[Letters | int, int] = {}
        word_of = []
        for index, word in enumerate(vocabulary.letters):
            key: Letters | int = word or index
            if key not in known:
                known[key] = len(names)
                names.append("–".join(word) if word else vocabulary.names[index])
                letters.append(word or vocabulary.channels_of(index))
            word_of.append(known[key])
        places = torch.tensor(word_of, dtype=torch.int64, device=vocabulary.set_indices.device)
        columns = [[] if part is None else _columns_of(places[part]) for part in vocabulary.parts]
        kernels = {name: word_of[index] for name, index in vocabulary.kernels.items()}
        return Words(names, letters, places, columns, kernels)


def _columns_of(words: Tensor) -> list[tuple[int, Tensor]]:
    order = words.argsort(stable=True)
    numbers, counts = words[order].unique_consecutive(return_counts=True)
    return list(zip(numbers.tolist(), order.split(counts.tolist()), strict=True))


def unique_names(names: Sequence[str], alphabets: Iterable[Sequence[str]]) -> Letters:
    """Returns the names of the channels; one that stands for two letters of an alphabet, such as "time", has its number
    added."""
    spellings = [[*CLOCKS, *names], *alphabets]
    ambiguous = {name for spelling in spellings for name, count in Counter(spelling).items() if count > 1}
    return tuple(f"{name} (channel {index})" if name in ambiguous else name for index, name in enumerate(names))


def word_vocabulary(words: Sequence[Letters], channels: Letters, device: torch.device) -> Vocabulary:
    """Returns the vocabulary of a model of words of paths; `channels` are those of the series."""
    names = ["–".join(word) or _SIZE for word in words]
    part = torch.arange(len(words), device=device)
    return _vocabulary(names, list(words), [part], [WHOLE], len(words), {}, {}, channels, device)


def view_vocabulary(blocks: Sequence[Block], kernels: set[str], channels: Letters, device: torch.device) -> Vocabulary:
    """Returns the vocabulary of a committee of views, whose members have these `kernels`."""
    names: list[str] = []
    letters: list[Letters] = []
    known: dict[str, int] = {}  # words of paths, which several views may have

    def add(name: str, word: Letters) -> int:
        names.append(name)
        letters.append(word)
        return len(names) - 1

    def add_word(name: str, word: Letters) -> int:
        if name not in known:
            known[name] = add(name if word else _SIZE, word)
        return known[name]

    def terms(block: FeatureBlock) -> list[Tensor | None]:
        spelled = zip(block.kernels, block.names(channels), block.letters(channels), strict=True)
        adding = add_word if isinstance(block, PathBlock) else add
        return [
            torch.tensor(list(map(adding, *both)), dtype=torch.int64, device=device) if kernel in kernels else None
            for kernel, *both in spelled
        ]

    parts = {number: terms(block) for number, block in enumerate(blocks) if isinstance(block, PathBlock)}
    words = len(names)
    for number, block in enumerate(blocks):
        if isinstance(block, FeatureBlock) and number not in parts:
            parts[number] = terms(block)
    views = {name: describe(block, name) for block in blocks for name in _kernels(block) if name in kernels}
    plain = [name for block in blocks if not isinstance(block, FeatureBlock) for name in _kernels(block)]
    others = {name: add(views[name], ()) for name in plain if name in kernels}
    flat = [part for number in sorted(parts) for part in parts[number]]
    return _vocabulary(names, letters, flat, _scales(blocks), words, others, views, channels, device)


def _vocabulary(
    names: list[str],
    letters: list[Letters],
    parts: list[Tensor | None],
    scales: list[str],
    words: int,
    kernels: dict[str, int],
    views: dict[str, str],
    channels: Letters,
    device: torch.device,
) -> Vocabulary:
    every = (CLOCKS[0], *channels)
    order = {name: index for index, name in enumerate(dict.fromkeys(chain(CLOCKS, channels, *dict.fromkeys(letters))))}
    sets: dict[Letters, int] = {}
    set_of: dict[Letters, int] = {}
    for word in dict.fromkeys(letters):
        inside = tuple(sorted(set(word or every), key=order.__getitem__))
        set_of[word] = sets.setdefault(inside, len(sets))
    set_indices = torch.tensor([set_of[word] for word in letters], dtype=torch.int64, device=device)
    return Vocabulary(names, letters, parts, scales, words, kernels, views, every, list(sets), set_indices)


def _kernels(block: Block) -> list[str]:
    """Returns the names of the kernels of a block, which has no centring where there are no landmarks."""
    return list(dict.fromkeys(block.kernels)) if isinstance(block, FeatureBlock) else list(block.centring)


def _scales(blocks: Sequence[Block]) -> list[str]:
    scales: list[str] = []
    for block in blocks:
        if isinstance(block, WindowsBlock):
            what = "points" if block.kind == "windows" else "frequencies"
            spans = [fitted.view.span for fitted in block.features.views]
            scales += [f"windows of {span} {what}" for span in spans for _ in range(2)]  # the whole series and thirds
        elif isinstance(block, FeatureBlock):
            scales += [WHOLE] * len(block.kernels)
    return scales


def scale_order(name: str) -> tuple[int, int]:
    """Returns a key that sorts scales: windows from the shortest to the longest, the whole series, windows of the
    spectrum."""
    if name == WHOLE:
        return 1, 0
    return (0 if name.endswith("points") else 2), int(name.split()[2])


def describe(block: Block, name: str) -> str:
    """Returns what a kernel of a block looks at, in words."""
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
