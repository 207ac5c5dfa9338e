"""The state of a running fit, which phases work on and checkpoints keep.

What a phase alone needs is in its `PhaseState`.
"""

from __future__ import annotations

import time
from typing import Any, Literal

import torch
from torch import Tensor

from siggpde.distributed.ranks import Ranks
from siggpde.distributed.shard import Shard
from siggpde.gp.inducing import Projection
from siggpde.gp.likelihoods.base import Classification
from siggpde.gp.model import AnyGP
from siggpde.gp.word_choice import principal_directions
from siggpde.training.history import History, Record
from siggpde.training.minibatches import Minibatches
from siggpde.training.path_cache import PathStore, joined
from siggpde.training.signature_cache import SignatureCache
from siggpde.utils.progress import Progress

Part = Literal["train", "all"]
"""The training part, or training and validation together."""

_CHUNK = 4096
_ROWS_FOR_DIRECTIONS = 1500


class Trainer:
    """A model, its data with signatures computed once, which rows are for training, and what happened so far.

    Rows are numbered through all ranks, and every rank knows all targets `y`; its `cache` has the rows of its `shard`.
    `span_series` lets `choose_features` replace words, where they are more than the series, by directions.
    """

    def __init__(
        self,
        model: AnyGP,
        cache: SignatureCache | PathStore,
        y: Tensor,
        train: Tensor,
        valid: Tensor,
        history: History,
        generator: torch.Generator,
        shard: Shard | None = None,
        *,
        span_series: bool = True,
    ) -> None:
        self.model, self.cache, self.y = model, cache, y.to(model.device)
        self.shard = Shard(Ranks(), len(y)) if shard is None else shard
        self.ranks = self.shard.ranks
        self.train, self.valid, self.span_series = train, valid, span_series
        self.history, self.minibatches = history, Minibatches(generator)
        self.phase = 0
        self.iteration = 0
        self.earlier_seconds = 0.0
        self._started = time.perf_counter()
        self.bar = Progress(False)

    @property
    def seconds(self) -> float:
        return self.earlier_seconds + time.perf_counter() - self._started

    def rows(self, which: Part) -> Tensor:
        """Rows of the training part, or of training and validation together, in order."""
        return self.train if which == "train" else torch.cat([self.train, self.valid]).sort().values

    @torch.no_grad()
    def project(self, rows: Tensor) -> Projection:
        """The projection of those of the rows that this rank holds, without gradients; rounded tails are counted."""
        index = self.shard.local_index(self.shard.select(rows))
        parts = [self.cache.project(self.model, part) for part in index.split(_CHUNK)]
        projection = parts[0] if len(parts) == 1 else joined(parts)
        self.history.rounded_tails = max(self.history.rounded_tails, projection.rounded)
        return projection

    @torch.no_grad()
    def validate(self) -> tuple[float, float | None] | None:
        """NLPP and, for classes, accuracy on the validation rows; None where there are none."""
        if len(self.valid) == 0:
            return None
        mean, variance = self.model.latent_marginals(self.project(self.valid))
        y = self.y[self.shard.select(self.valid)]
        likelihood = self.model.likelihood
        totals = [likelihood.log_predictive(mean, variance, y).double().sum()]
        if isinstance(likelihood, Classification):
            totals.append((likelihood.predict(mean, variance).argmax(dim=1) == y).double().sum())
        log_density, *accuracy = (float(total) / len(self.valid) for total in self.ranks.all_reduce_sum(*totals))
        return -log_density, accuracy[0] if accuracy else None

    def record(self, phase: str, **values: Any) -> None:
        """Appends a `Record` with these values and the present hyperparameters to the History."""
        kernel = self.model.kernel
        self.history.records.append(
            Record(
                phase=phase,
                iteration=self.iteration,
                seconds=self.seconds,
                theta=kernel.theta.tolist(),
                amplitude=float(kernel.amplitude.detach()),
                **values,
            )
        )

    @torch.no_grad()
    def choose_features(self, count: int) -> None:
        """Chooses words and directions anew for the present scales; q(u) is carried over to those that are kept.

        `count` words by energy where the features ask for it; directions where they ask for a rank, or with
        `span_series` where there are more words than series: as many directions as series span all of the series.
        Inducing variables that are no words stay as they are.
        """
        features, q = self.model.features, self.model.variational
        if not isinstance(self.cache, SignatureCache):
            return
        old_words, old_basis = features.words, features.basis
        fresh = q.covariance_is_prior() and not bool(q.mean.any())
        if features.order == "energy" and set(features.words) != set(self.cache.pool):
            features.choose(self.cache.choose_words(self.model, count, self.ranks))
        features.rotate(None)
        directions = features.rank
        if directions is None and self.span_series and len(features.words) > len(self.y):
            directions = len(self.y)
        if directions is not None:
            every = max(1, len(self.y) // max(_ROWS_FOR_DIRECTIONS, 2 * directions))
            rows = torch.arange(0, len(self.y), every)
            values = self.shard.all_gather(rows, self.project(rows).features)
            features.rotate(self.ranks.broadcast(lambda: principal_directions(values, directions)))
        if fresh or features.size != q.size or features.words != old_words or features.basis is not old_basis:
            if fresh:
                self.model.reset_variational()
            else:
                overlap = _overlap(old_words, old_basis, features.words, features.basis, self.model.device)
                self.model.variational = q.carried_over(overlap)


def _overlap(
    old_words: list, old_basis: Tensor | None, words: list, basis: Tensor | None, device: torch.device | None = None
) -> Tensor:
    """Q'^T Q of the new and old directions, each over its own words."""
    old_index = {word: index for index, word in enumerate(old_words)}
    common = [(i, old_index[word]) for i, word in enumerate(words) if word in old_index]
    new, old = torch.tensor([i for i, _ in common]), torch.tensor([j for _, j in common])
    left = torch.eye(len(words), dtype=torch.float64, device=device) if basis is None else basis
    right = torch.eye(len(old_words), dtype=torch.float64, device=device) if old_basis is None else old_basis
    return left[new].T @ right[old]
