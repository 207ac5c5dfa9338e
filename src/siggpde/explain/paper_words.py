r"""How the paper reads its model: words by the size of their weights.

The features of the paper's model are words, orthogonal under the prior: inducing variables :math:`u_a` of variance 1,
of which :math:`q(u) = N(m, \Sigma)` is the posterior. The paper (Lemercier et al., 2021) ranks words by
:math:`|m_a|`. Words with small terms need large weights to matter at all, so this ranking favours long words;
`global_importance` asks instead what words contribute.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from siggpde.committee.committee import Committee
from siggpde.explain.predictions import AnyCommittee, checked_labels
from siggpde.explain.results import PaperReading, WordWeight
from siggpde.explain.vocabulary import path_names
from siggpde.gp.variational import VariationalGaussian


@torch.no_grad()
def paper_reading(committee: AnyCommittee, names: Sequence[str], top: int = 10, classes: Any = None) -> PaperReading:
    """Of the paper's model, fitted to series whose channels have these `names`; `classes` are its labels."""
    if not isinstance(committee, Committee) or len(committee.members) != 1:
        raise ValueError(
            "the paper reads the weights of one sparse model, whose inducing variables are words; this one is a "
            "committee of views. Fit with method='paper', or take `importance`, which says what any model rests on"
        )
    if top < 1:
        raise ValueError(f"top must be at least 1, got {top}")
    labels = checked_labels(committee, classes)
    model = committee.members[0].model
    if model.features.basis is not None:
        raise ValueError("the inducing variables of this model are directions and not words; fit with method='paper'")
    (channels,) = path_names(committee, names)
    words = [tuple(channels[letter] for letter in word) for word in model.features.words]
    q = model.variational
    mean, variance = q.mean.detach().double(), word_variances(q)
    kept = [index for index, word in enumerate(words) if word]

    def ranked(own: Tensor, spread: Tensor) -> list[WordWeight]:
        sizes = own.norm(dim=0)
        order = sorted(kept, key=lambda index: -float(sizes[index]))[:top]
        stds = spread.mean(0).sqrt()
        return [
            WordWeight("–".join(words[i]), words[i], float(sizes[i]), float(stds[i]), tuple(own[:, i].tolist()))
            for i in order
        ]

    each: dict[Any, list[WordWeight]] = {}
    if labels is not None and len(mean) == len(labels):
        each = {label: ranked(mean[i : i + 1], variance[i : i + 1]) for i, label in enumerate(labels)}
    return PaperReading(ranked(mean, variance), each, len(kept))


def word_variances(q: VariationalGaussian) -> Tensor:
    """The diagonal of Sigma for every latent, (latents, M), float64."""
    root = q.root.detach().double()
    squares = root.square() if not q.full else root.tril().square().sum(2)
    return squares.expand(q.latents, -1)
