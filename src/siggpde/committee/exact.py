"""Members for which all training series count, not only the landmarks (docs/design.md, Exact members)."""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from siggpde.committee.large import parallel_map
from siggpde.committee.recipes import CONSTANT, Recipe, kernels_of
from siggpde.committee.regression import Groups, LeftOut, Normal, Regression, Targets, best_noise
from siggpde.views.base import Block, FeatureBlock, Rows

log = logging.getLogger(__name__)

_MOST = 3
_SUMS = 2  # of members without a power so many are looked at
_SHARE = 5  # of so many landmarks one stands for the landmarks, when the gain is estimated
_WORTH = 0.02  # nats a series
_LITTLE = 0.05  # nats a series: classes of which left-out landmarks lose no more are as good as known
_START, _LOWEST, _HIGHEST = -2, -8, 4  # of the noise, in half decades
_SUBSET = 3  # of so many series one decides about the noise
_ROWS = 512


class Candidate(NamedTuple):
    """A member that may become exact: its number, and its loss in nats with so many `compared` series."""

    number: int
    recipe: Recipe
    loss: float


def worth_it(
    candidates: Sequence[Candidate], compared: int, total: int, rows: dict[str, Rows], targets: Targets
) -> list[int]:
    """Returns the numbers of at most three members, the best first, for which all `total` series are to count, by the
    rows of the m landmarks: those of the least loss with all series, on a line through the losses with the `compared`
    landmarks and with all of these over the logarithm of their number, that predict left-out landmarks better if all
    landmarks count than if a fifth of them stand for all."""
    squares = [one for one in candidates if one.recipe.power > 1]
    sums = sorted((one for one in candidates if one.recipe.power == 1), key=lambda one: one.loss)
    expected: list[tuple[float, float, Candidate]] = []
    for one in [*squares, *sums[:_SUMS]]:
        gram = one.recipe.mix(rows).gram
        loss = _searched(gram, targets)[0]
        steps = math.log(total / len(gram)) / math.log(len(gram) / compared) if len(gram) > compared else 0.0
        expected.append((loss - steps * (one.loss - loss), loss, one))
    numbers = []
    for _, loss, one in sorted(expected)[:_MOST]:
        mixed = one.recipe.mix(rows)
        few = len(mixed.gram) // _SHARE
        normal = Normal.of(mixed.gram[:few, :few], targets.signs().shape[1])
        part = Rows(mixed.gram[:, :few], mixed.variance)
        normal.add(part, targets)
        gain = normal.solve(part, targets)[1].score - loss
        log.debug("member %s: %.4f nats with all landmarks, %.4f better than with a fifth", one.recipe.name, loss, gain)
        if gain > _WORTH and (targets.classes is None or loss > _LITTLE):
            numbers.append(one.number)
    return numbers


def finite(blocks: Iterable[Block]) -> set[str]:
    """Returns the kernels of finite features."""
    return {name for block in blocks if isinstance(block, FeatureBlock) for name in block.centring}


@dataclass(frozen=True)
class ExactFit:
    """Blocks whose features are known of all n training series, the landmarks first, and the targets in that order."""

    blocks: Sequence[Block]
    targets: Targets
    threads: int | None = None

    def fit(self, members: Sequence[tuple[Recipe, Regression]]) -> list[tuple[Regression, Tensor | None, LeftOut]]:
        """Returns for every member the regression whose mean all series decide, the norms (n,) of these if it is a
        power, and left-out predictions; the variance is that of the landmarks, in the amplitude of the new mean."""
        plain = self._grams([recipe for recipe, _ in members])
        solved = parallel_map(lambda one: self._solved(*one), plain, self.threads)
        out = []
        for (recipe, _, norms), (_, before), fitted in zip(plain, members, solved, strict=True):
            noise, amplitude, alpha, left_out = fitted
            regression = replace(before, alpha=alpha, noise=noise, amplitude=amplitude)
            out.append((regression, None if recipe.power == 1 else norms, left_out))
        return out

    def _grams(self, recipes: Sequence[Recipe]) -> list[tuple[Recipe, Tensor, Tensor]]:
        """Returns the kernels of members before a power, of all n series: (n, n) in float32, and k(X, X) (n,)."""
        names, n = kernels_of(recipes), len(self.targets)
        blocks = [block for block in self.blocks if isinstance(block, FeatureBlock) and names & block.centring.keys()]
        device = self.targets.y.device
        out = [
            (recipe, torch.empty(n, n, device=device), torch.empty(n, dtype=torch.float64, device=device))
            for recipe in recipes
        ]

        def fill(start: int) -> None:
            some, rows = slice(start, start + _ROWS), {}
            for block in blocks:
                for name, raw in block.raw(part.rows(some) for part in block.landmarks).items():
                    rows[name] = block.centring[name](raw)
            for recipe, gram, norms in out:
                gram[some], norms[some] = recipe.average(rows)

        deque(parallel_map(fill, range(0, n, _ROWS), self.threads), maxlen=0)
        return out

    def _solved(self, recipe: Recipe, gram: Tensor, norms: Tensor) -> tuple[float, float, Tensor, LeftOut]:
        """Returns noise, amplitude, weights (n, outputs) and left-out predictions."""
        if recipe.power > 1:
            inverse = norms.rsqrt().float()
            gram.mul_(inverse[:, None]).mul_(inverse).add_(1).div_(2).pow_(recipe.power)
        whole = gram.double()
        whole.diagonal().copy_(torch.ones_like(norms) if recipe.power > 1 else norms)
        whole = whole.tril_().add_(CONSTANT)
        some = slice(0, max(len(whole) // _SUBSET, 1))
        few = whole[some, some].tril()
        _, noise = _searched(few + few.tril(-1).T, self.targets[some])
        left_out, amplitude, alpha = _left_out(whole, self.targets, noise)
        return noise, amplitude, alpha, left_out


def _searched(gram: Tensor, targets: Targets) -> tuple[float, float]:
    """Returns the least loss of left-out series, in nats, and the noise, by a search in half decades from 0.1 on and
    then by a parabola; of a Gram matrix (n, n) its lower triangle counts."""
    losses: dict[int, float] = {}

    def loss(level: int) -> float:
        if level not in losses:
            outside = not _LOWEST <= level <= _HIGHEST
            losses[level] = math.inf if outside else _left_out(gram.clone(), targets, 10 ** (level / 2))[0].score
        return losses[level]

    best = _START
    while True:
        lower, upper = loss(best - 1), loss(best + 1)
        if min(lower, upper) >= loss(best):
            break
        best += -1 if lower < upper else 1
    bend = lower + upper - 2 * loss(best)
    turn = (lower - upper) / (2 * bend) if math.isfinite(bend) and bend > 0 else 0.0
    return loss(best), 10 ** ((best + turn) / 2)


def _left_out(gram: Tensor, targets: Targets, noise: float) -> tuple[LeftOut, float, Tensor]:
    """Returns predictions of left-out series, or groups, the amplitude and the weights (n, outputs) at a noise; the
    lower triangle of a Gram matrix (n, n) is read, and overwritten."""
    outputs, counts = targets.signs(), targets.counts
    gram.diagonal().add_(noise / counts)
    factor, failed = torch.linalg.cholesky_ex(gram)
    if int(failed):
        raise ArithmeticError(f"the Gram matrix is not positive definite at row {int(failed) - 1} with noise {noise:g}")
    inverse = torch.cholesky_inverse(factor, out=gram)
    alpha = inverse @ outputs
    if targets.groups is None:
        precision = inverse.diagonal().clone()
        errors = alpha / precision[:, None]
    else:
        errors, variance = Groups.of(targets.groups).without(inverse, alpha)
        precision = 1 / variance
    _, left_out, amplitude = best_noise(lambda _: (errors, precision / counts), targets, outputs, (noise,))
    return left_out, amplitude, alpha
