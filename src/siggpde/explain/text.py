"""Plain English: names of terms, what words and views look at, when something happens, and what channels do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby
from typing import Any

import torch
from torch import Tensor

from siggpde.utils.times import TimeFormat
from siggpde.views import PathView
from siggpde.views.base import Block, FeatureBlock
from siggpde.views.facts import BESIDE, FactsBlock
from siggpde.views.kernels import KernelBlock
from siggpde.views.paths import PathBlock
from siggpde.views.windows import WindowsBlock

Letters = tuple[str, ...]
"""The names of the channels in a word, in order."""

CLOCKS = ("time", "frequency")
"""The channels that paths and spectra have beside those of the series."""

_MOVES = 0.5  # spreads of a channel by which it has to move to rise or fall, or to differ from what is ordinary

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

    - `parts`: for every part of features the indices (p,) of their terms, None for a part whose kernel no member has;
      `scales`: how much of a series each part sees at a time. Words of paths called alike are one term.
    - `kernels`: the index of the term of each kernel without features; `views`: what each kernel looks at, in words.
    - `channels`: time and the channels of the series, which a term without a word is made of; `sets`: the distinct sets
      of channels, and `set_indices` (terms,) the index of the set of each term.
    """

    names: list[str]
    letters: list[Letters]
    parts: list[Tensor | None]
    scales: list[str]
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

    def columns(self, number: int) -> list[tuple[int, Tensor]]:
        """Returns the terms in a part of features, each with its columns."""
        terms = self.parts[number]
        if terms is None or not len(terms):
            return []
        order = terms.argsort(stable=True)
        indices, counts = terms[order].unique_consecutive(return_counts=True)
        return list(zip(indices.tolist(), order.split(counts.tolist()), strict=True))

    def by_word(self) -> Vocabulary:
        """Returns the same with one term for every word; a feature or kernel without a word stays by itself."""
        numbers: dict[Letters | int, int] = {}
        words = [numbers.setdefault(word or index, len(numbers)) for index, word in enumerate(self.letters)]
        word_of = torch.tensor(words, dtype=torch.int64, device=self.set_indices.device)
        return replace(
            self,
            names=[self.names[key] if isinstance(key, int) else "–".join(key) for key in numbers],
            letters=[() if isinstance(key, int) else key for key in numbers],
            parts=[None if part is None else word_of[part] for part in self.parts],
            kernels={name: words[index] for name, index in self.kernels.items()},
            set_indices=self.set_indices.new_empty(len(numbers)).scatter_(0, word_of, self.set_indices),
        )


def unique_names(names: Sequence[str], alphabets: Iterable[Sequence[str]]) -> Letters:
    """Returns the names of the channels, with its number added to one that stands for two letters, such as "time"."""
    spellings = [[*CLOCKS, *names], *alphabets]
    ambiguous = {name for spelling in spellings for name, count in Counter(spelling).items() if count > 1}
    return tuple(f"{name} (channel {index})" if name in ambiguous else name for index, name in enumerate(names))


def word_vocabulary(words: Sequence[Letters], channels: Letters, device: torch.device) -> Vocabulary:
    """Returns the vocabulary of a model of words of paths; `channels` are those of the series."""
    names = ["–".join(word) or _SIZE for word in words]
    parts = [torch.arange(len(words), device=device)]
    return _vocabulary(names, list(words), channels, device, parts=parts, scales=[WHOLE], kernels={}, views={})


def view_vocabulary(blocks: Sequence[Block], kernels: set[str], channels: Letters, device: torch.device) -> Vocabulary:
    """Returns the vocabulary of a committee of views, whose members have these `kernels`."""
    names: list[str] = []
    letters: list[Letters] = []
    known: dict[str, int] = {}  # words of paths, which several views may have
    parts: list[Tensor | None] = []
    views: dict[str, str] = {}
    plain: dict[str, int] = {}

    def add(name: str, word: Letters) -> int:
        names.append(name)
        letters.append(word)
        return len(names) - 1

    def add_word(name: str, word: Letters) -> int:
        if name not in known:
            known[name] = add(name if word else _SIZE, word)
        return known[name]

    for block in blocks:
        if isinstance(block, FeatureBlock):
            views |= {name: describe(block, name) for name in block.kernels if name in kernels}
            adding = add_word if isinstance(block, PathBlock | FactsBlock) else add
            for kernel, *both in zip(block.kernels, block.names(channels), block.letters(channels), strict=True):
                indices = list(map(adding, *both)) if kernel in kernels else None
                parts.append(None if indices is None else torch.tensor(indices, dtype=torch.int64, device=device))
        else:
            used = {name: describe(block, name) for name in block.centring if name in kernels}
            views |= used
            plain |= {name: add(view, ()) for name, view in used.items()}
    contents = {"parts": parts, "scales": _scales(blocks), "kernels": plain, "views": views}
    return _vocabulary(names, letters, channels, device, **contents)


def _vocabulary(
    names: list[str], letters: list[Letters], channels: Letters, device: torch.device, **contents: Any
) -> Vocabulary:
    """Returns a vocabulary with the sets of channels of its terms; `contents` are its parts, scales, kernels, views."""
    every = (CLOCKS[0], *channels)
    order = {name: index for index, name in enumerate(dict.fromkeys(chain(CLOCKS, channels, *dict.fromkeys(letters))))}
    sets: dict[Letters, int] = {}
    set_of: dict[Letters, int] = {}
    for word in dict.fromkeys(letters):
        inside = tuple(sorted(set(word or every), key=order.__getitem__))
        set_of[word] = sets.setdefault(inside, len(sets))
    set_indices = torch.tensor([set_of[word] for word in letters], dtype=torch.int64, device=device)
    return Vocabulary(names, letters, **contents, channels=every, sets=list(sets), set_indices=set_indices)


def _scales(blocks: Sequence[Block]) -> list[str]:
    """Returns how much of a series each part of the features of some blocks sees at a time."""
    scales: list[str] = []
    for block in blocks:
        if isinstance(block, WindowsBlock):
            what = "points" if block.kind == "windows" else "frequencies"
            spans = [fitted.view.span for fitted in block.features.views]
            scales += [f"windows of {span} {what}" for span in spans for _ in range(2)]  # the whole series and thirds
        elif isinstance(block, FeatureBlock):
            scales += [BESIDE if isinstance(block, FactsBlock) else WHOLE] * len(block.kernels)
    return scales


def scale_order(name: str) -> tuple[int, int]:
    """Returns a key that sorts scales: windows by their length, the whole series, windows of the spectrum, facts."""
    if name in (WHOLE, BESIDE):
        return (1, 0) if name == WHOLE else (3, 0)
    return (0 if name.endswith("points") else 2), int(name.split()[2])


def describe(block: Block, name: str) -> str:
    """Returns what a kernel of a block looks at, in words."""
    if isinstance(block, PathBlock):
        return _describe_path(block.view)
    if isinstance(block, KernelBlock):
        point, bandwidth = ", with a base point" if block.view.base_point else "", block.view.bandwidth
        lifted = "of all words" if bandwidth is None else f"of the lifted path, bandwidth {bandwidth:g}"
        return f"signature kernel {lifted}{point}"
    if isinstance(block, WindowsBlock):
        thirds = ", by thirds" if name.endswith("3") else ""
        return f"windows of {_LIFTS[name[:-1]] if block.kind == 'windows' else 'the spectrum'}{thirds}"
    return BESIDE if isinstance(block, FactsBlock) else name


def _describe_path(view: PathView) -> str:
    options = view.options
    degrees = {None: "words of the path", 1: "words linear in the series", 2: "words quadratic in the series"}
    which = degrees.get(view.degree, f"words of degree {view.degree} in the series")
    extras = {"variation": ["running variations"], "arc": ["its length"]}.get(options.append, [])
    extras += ["earlier values"] * options.lead_lag + ["a base point"] * options.base_point
    return which + " of changes" * bool(options.difference) + (f", with {' and '.join(extras)}" if extras else "")


def read_word(letters: Sequence[str]) -> str:
    """Returns which channels move, one after the other, in the integral of increments that a word is, and when.

    With time in front, late increments of a channel weigh more (the integral of t dx); with it behind, early ones.

    >>> read_word(("x", "y")), read_word(("time", "x", "x")), read_word(("x", "time"))
    ('x moves, then y', 'x moves late', 'x moves early')
    >>> read_word(("time", "time"))
    'time passes'
    """
    first, last = letters[0] in CLOCKS, letters[-1] in CLOCKS
    moving = [name for name, _ in groupby(letter for letter in letters if letter not in CLOCKS)]
    if not moving:
        return f"{letters[0]} passes"
    moment = "" if first == last else " late" if first else " early"
    return f"{', then '.join([f'{moving[0]} moves', *moving[1:]])}{moment}"


def when(start: float, end: float, time_format: TimeFormat | None = None) -> str:
    """Returns a time, or a stretch of time, in words."""
    if time_format is not None:
        return time_format.when(start, end)
    return f"{_time(start)} to {_time(end)}" if end > start else f"at {_time(start)}"


def _time(value: float) -> str:
    """Returns six digits, but more of late points and of time stamps such as seconds since 1970."""
    return f"{value:g}" if abs(value) < 1e5 else f"{value:.12g}"


def moving_together(channels: Sequence[str], does: str) -> str:
    """Returns what one or several channels do.

    >>> moving_together(["x"], "is high"), moving_together(["x", "y"], "rises")
    ('x is high', 'x and y rise')
    """
    if len(channels) == 1:
        return f"{channels[0]} {does}"
    verb, *rest = does.split()
    plural = {"is": "are", "goes": "go", "has": "have"}.get(verb, verb.removesuffix("s"))
    return " ".join([", ".join(channels[:-1]), "and", channels[-1], plural, *rest])


def movement(values: Tensor, ordinary: Tensor, spread: float) -> str:
    """Returns what values (points,) do beside ordinary ones, by half a spread of their channel or more.

    They rise or fall if a fitted line does, and by more than they depart from it; else their mean is high or low.

    >>> line = torch.linspace(0.0, 2.0, 9)
    >>> movement(line, 0 * line, 1.0), movement(1 + 0 * line, 0 * line, 1.0), movement(-line, 0 * line, 10.0)
    ('rises', 'is high', 'is steady')
    """
    places = torch.linspace(-0.5, 0.5, len(values), dtype=values.dtype, device=values.device)
    scale = spread if spread > 0 else 1.0
    centred = (values - values.mean()) / scale
    total = float(places.square().sum())
    rise = float(places @ centred) / total if total > 0 else 0.0
    apart = 2 * float((centred - rise * places).square().mean().sqrt())
    level = float((values - ordinary).mean()) / scale
    if abs(rise) >= max(_MOVES, apart):
        return "rises" if rise > 0 else "falls"
    if abs(level) >= _MOVES:
        return "is high" if level > 0 else "is low"
    return "goes up and down" if apart >= _MOVES else "is steady"


def group_name(name: str, others: int) -> str:
    """Returns the name of a group: its largest term, and how many others there are.

    >>> group_name("x–y", 0), group_name("x–y", 12)
    ('x–y', 'x–y and 12 like it')
    """
    return f"{name} and {others} like it" if others else name


def interval(low: float, high: float) -> str:
    """Returns an interval in words; one of its ends may be infinite.

    >>> interval(1.0, 2.0), interval(float("-inf"), 2.0)
    ('1 to 2', 'at most 2')
    """
    if low == float("-inf"):
        return f"at most {high:.4g}"
    return f"at least {low:.4g}" if high == float("inf") else f"{low:.4g} to {high:.4g}"
