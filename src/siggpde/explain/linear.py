"""The latent mean of a model is a sum over words, which is what makes it explainable.

With features s_a(X), one a word a, and the mean m_c of q(u) turned back to the words, w_c = Q m_c, the latent of
class c has the mean

    f_c(X) = sum over words a of s_a(X) w_ca,

so that s_a(X) w_ca is what the word a contributes, and nothing is left over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from siggpde.ensemble.committee import Committee
from siggpde.gp.likelihoods.base import Classification
from siggpde.gp.likelihoods.bernoulli import Bernoulli
from siggpde.gp.likelihoods.least_squares import LeastSquares
from siggpde.gp.model import SignatureGP
from siggpde.numerics.signature import signature
from siggpde.paths import SeriesBatch

Letters = tuple[str, ...]


def word_features(model: SignatureGP, paths: Tensor, lengths: Tensor | None) -> Tensor:
    """s_a(X) of every path and word of the features, (n, M), float64, before any rotation; differentiable in paths."""
    kernel, listed = model.kernel, model.features.words
    values = signature(paths * kernel.theta.detach(), words=listed, lengths=lengths)
    if kernel.normalized:
        whole = kernel.words == listed
        squared = values.square().sum(dim=1) if whole else kernel.squared_norm(paths, lengths=lengths)
        values = values / squared.sqrt()[:, None]
    return values * kernel.amplitude.detach().sqrt()


def word_weights(model: SignatureGP) -> Tensor:
    """w_ca, (classes, M) or for a regression (1, M), float64.

    A Bernoulli likelihood has one latent for two classes: it is that of class 1, and class 0 has zero. For least
    squares they are the weights of the logits, temperature mixing f, to which `link_offset` is added.
    """
    weights = model.variational.mean.detach().double()
    if model.features.basis is not None:
        weights = weights @ model.features.basis.T
    if isinstance(model.likelihood, LeastSquares):
        weights = model.likelihood.temperature * model.likelihood.mixing @ weights
    if isinstance(model.likelihood, Bernoulli):
        weights = torch.cat([torch.zeros_like(weights), weights])
    return weights


def link_offset(model: SignatureGP) -> Tensor:
    """What is added to every class whatever the series, (classes,)."""
    likelihood = model.likelihood
    if isinstance(likelihood, LeastSquares):
        return likelihood.offset
    return torch.zeros(getattr(likelihood, "classes", 1), dtype=torch.float64, device=model.device)


def classifies(committee: Committee) -> bool:
    """Whether the committee predicts classes, not numbers."""
    return isinstance(committee.members[0].model.likelihood, Classification)


@dataclass(frozen=True)
class Vocabulary:
    """The words of all members by the names of their channels; `places[k]` (M_k,) says which are member k's.

    `sets` are the sets of channels that words are made of, and `set_places` (words,) says which is a word's own.
    """

    words: list[Letters]
    places: list[Tensor]
    sets: list[Letters]
    set_places: Tensor


def vocabulary(committee: Committee, names: Sequence[str]) -> Vocabulary:
    """Words that members spell with the same names of channels are one."""
    found: dict[Letters, int] = {}
    places = []
    everyones = path_names(committee, names)
    for member, spelled in zip(committee.members, everyones, strict=True):
        own = [tuple(spelled[letter] for letter in word) for word in member.model.features.words]
        numbers = [found.setdefault(word, len(found)) for word in own]
        places.append(torch.tensor(numbers, dtype=torch.int64, device=committee.device))
    order = {name: place for place, name in enumerate(dict.fromkeys(name for own in everyones for name in own))}
    sets: dict[Letters, int] = {}
    held = [tuple(sorted(set(word), key=order.__getitem__)) for word in found]
    set_places = torch.tensor([sets.setdefault(channels, len(sets)) for channels in held], dtype=torch.int64)
    return Vocabulary(list(found), places, list(sets), set_places)


def path_names(committee: Committee, names: Sequence[str]) -> list[tuple[str, ...]]:
    """The names of the channels of every member's paths, from those of the series.

    Where a name would stand for two channels, such as that of a series' own channel "time", the series' channel has its
    number added.
    """
    transforms = [member.transform for member in committee.members]
    doubled = {
        name
        for spelled in (transform.names(names) for transform in transforms)
        for name in spelled
        if spelled.count(name) > 1
    }
    clear = [f"{name} (channel {place})" if name in doubled else name for place, name in enumerate(names)]
    return [transform.names(clear) for transform in transforms]


def check(committee: Committee, batch: SeriesBatch, names: Sequence[str], least: int = 1) -> None:
    """A ValueError where there are too few series, or names for other channels than these."""
    if len(batch) < least:
        what = "there are no series to explain" if least == 1 else f"{len(batch)} series do not show what varies"
        raise ValueError(f"{what}; give at least {least}")
    if isinstance(names, str) or len(names) != batch.channels:
        raise ValueError(f"names must be one for each of the {batch.channels} channels of the series, got {names!r}")
    wanted = committee.members[0].transform.mean
    if wanted is not None and len(wanted) != batch.channels:
        raise ValueError(f"the series have {batch.channels} channels, but those of training had {len(wanted)}")


def directions(committee: Committee, pairs: Tensor | None, member: int, rows: slice) -> Tensor:
    """Weights (n, M) of the latent to explain: of class pairs[:, 0] minus pairs[:, 1], or (1, M) of the number."""
    weights = word_weights(committee.members[member].model)
    return weights if pairs is None else weights[pairs[rows, 0]] - weights[pairs[rows, 1]]


def likeliest_two(chances: Tensor) -> Tensor:
    """The most probable class of every series and the runner-up, (n, 2), int64; of equals the first."""
    return chances.sort(dim=1, descending=True, stable=True).indices[:, :2]
