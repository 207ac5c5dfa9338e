"""Which of the words with the largest terms in a prediction of a committee of views move together (`explain.grouping`).

A word stands for all features that are made of it (`explain.word_table`). Terms are compared over reference series:
what each would contribute there with the weights that it has for the series that is explained.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from siggpde.committee.of_views import OfViews
from siggpde.committee.weight_space import WeightCommittee
from siggpde.explain.grouping import FEWEST, grouped
from siggpde.explain.predictions import evenly_spaced
from siggpde.explain.view_terms import ViewTerms
from siggpde.explain.word_table import Words
from siggpde.series import SeriesBatch
from siggpde.views.base import parts_of

REFERENCES = 100
_NUMBERS = 2**24  # of all features of the reference series


@dataclass(frozen=True)
class References:
    """Of r reference series: the features (r, p) of every part, and the rows (r, m) of the kernels without features."""

    features: list[Tensor]
    rows: dict[str, Tensor]

    def terms(
        self,
        view_terms: ViewTerms,
        words: Words,
        direction: Tensor,
        bent: dict[str, Tensor],
        parts: list[str],
        candidates: Tensor,
    ) -> Tensor:
        """What the `candidates` (n, k), numbers of words, contribute at the reference series with the weights of n
        series: (n, k, r). Arguments as in `explain.view_series`; `parts` are the kernels of the parts."""
        count = len(self.features[0]) if self.features else len(next(iter(self.rows.values())))
        found = torch.zeros(*candidates.shape, count, dtype=torch.float64, device=candidates.device)
        places = {word: (candidates == word).nonzero(as_tuple=True) for word in candidates.unique().tolist()}
        for number, columns in enumerate(words.columns):
            wanted = [(word, chosen) for word, chosen in columns if word in places]
            if not wanted:
                continue
            weights = direction @ view_terms.part(number).weights.T
            if parts[number] in bent:
                weights = weights + view_terms.bent_weights(number, bent[parts[number]])
            features = self.features[number].double()
            for word, chosen in wanted:
                row, k = places[word]
                found[row, k] += weights[row][:, chosen] @ features[:, chosen].T
        for name, word in words.kernels.items():
            if word in places:
                row, k = places[word]
                own = direction @ view_terms.kernels[name].T + bent.get(name, 0.0)
                found[row, k] += own[row] @ self.rows[name].T
        return found


def references_of(
    committee: OfViews, view_terms: ViewTerms, batch: SeriesBatch, background: SeriesBatch | None
) -> References | None:
    """Up to 100 series of the background or, without one, of the landmarks; without any, of a batch of ten or more."""
    most = max(FEWEST, min(REFERENCES, _NUMBERS // max(1, sum(view_terms.widths))))
    if background is not None:
        seen = committee.standard(evenly_spaced(background, most))
    elif isinstance(committee, WeightCommittee):
        seen = committee.standard(evenly_spaced(batch, most))
    else:
        seen = evenly_spaced(committee.landmarks, most)
    if len(seen) < FEWEST:
        return None
    rows = view_terms.rows(seen)
    features = [part.values for part in parts_of(committee.blocks, seen)]
    return References(features, {name: rows[name].gram for name in view_terms.kernels})


def groups_of(terms: Tensor) -> list[list[list[int]]]:
    """For every series the groups of its candidates, from terms (n, k, r)."""
    return [grouped(own.T) for own in terms]
