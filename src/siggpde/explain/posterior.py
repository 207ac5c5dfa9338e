"""The posterior of linear functionals of the latents: sums over series, of whole latents (`LatentSums`) or of parts of
them (`PartSums`); docs/design.md, Explanations, has the formulas."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from siggpde.explain.terms import Features, Groups, Moments, Terms
from siggpde.series import SeriesBatch
from siggpde.views.base import Part

Prepared: TypeAlias = Callable[[Tensor], SeriesBatch]  # from the numbers of series

_AT_ONCE = 16  # sums of which inner products are taken at a time


class Gaussian(NamedTuple):
    """Mean and standard deviation of q numbers, two (q,)."""

    mean: Tensor
    std: Tensor

    def __getitem__(self, rows: slice) -> Gaussian:  # pyright: ignore[reportIncompatibleMethodOverride]
        return Gaussian(self.mean[rows], self.std[rows])

    def probability_of_sign(self) -> Tensor:
        """Returns the probabilities (q,) that the numbers have the signs of their means, 0.5 where nothing is known."""
        mean = self.mean.abs()
        certain = torch.where(mean > 0, 1.0, 0.5).to(mean)
        ratio = mean / self.std.clamp_min(torch.finfo(mean.dtype).tiny)
        return torch.where(self.std > 0, torch.special.ndtr(ratio), certain)


def averaged(terms: Terms, members: Sequence[Moments], directions: Tensor) -> Gaussian:
    """Returns q sums in directions (q, outputs): averages over members, for deviations the most that these can be."""
    mean, std = torch.zeros_like(directions[:, 0]), torch.zeros_like(directions[:, 0])
    for weight, moments in zip(terms.weights.tolist(), members, strict=True):
        mean += weight * (moments.mean * directions).sum(1)
        std += weight * terms.along(moments.variance, directions).sqrt()
    return Gaussian(mean, std)


def mixture_std(terms: Terms, means: Tensor, variances: Tensor) -> Tensor:
    """Returns the root (..) of v = sum of w_k (v_k + (mu_k - mu)²) of a mixture of the members, from two (K, ..)."""
    disagreement = (means - over_members(terms, means)).square()
    return over_members(terms, variances + disagreement).sqrt()


def over_members(terms: Terms, values: Tensor) -> Tensor:
    """Returns the mean over the members, (..) from (K, ..)."""
    return torch.tensordot(terms.weights.to(values), values, dims=1)


class Functionals(NamedTuple):
    """The coefficients (r, k) of r sums over the same k series, and the numbers of these, (k,)."""

    series: Tensor
    coefficients: Tensor


class LatentSums:
    """Sums of whole latents, with weights that sum to 0, over series in chunks; in one chunk powers need one pass."""

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self.features: dict[int, Tensor] = {}  # (q, p) by the number of the part
        self.cross: list[Tensor] = []  # (q, m) of every member
        self.among: dict[str, Tensor] = {}  # (q, k, k) by the name of the kernel, centred and scaled

    def add(
        self, seen: SeriesBatch, weights: Tensor, around: Tensor | None = None, groups: Groups | None = None
    ) -> Tensor:
        """Adds n prepared series with weights (q, n), each of the series `around` (q, k); returns the mean latents."""

        def watch(part: Features) -> None:
            if len(weights) and self.terms.coefficients(part.number):
                self._sum(part, weights)
            if around is not None and self.terms.kernel_of_part[part.number] in self.terms.raised:
                self._compare(part, around)

        means, grams = self.terms.means(seen, watch, groups)
        sums = [weights.to(gram) @ gram for gram in grams]
        self.cross = [a + b for a, b in zip(self.cross, sums, strict=True)] if self.cross else sums
        return means

    def _sum(self, part: Features, weights: Tensor) -> None:
        values, known = part.values, self.features.get(part.number)
        if known is None:
            width = self.terms.widths[part.number]
            known = self.features[part.number] = values.new_zeros(len(weights), width)
        if part.state is not None:
            weights = weights.new_zeros(len(weights), len(values)).index_add_(1, part.state, weights)
        columns = slice(None) if part.columns is None else part.columns
        known[:, columns] += weights.to(values) @ values

    def _compare(self, part: Features, around: Tensor) -> None:
        name, mean = self.terms.kernel_of_part[part.number], self.terms.centre(part.number)
        centred = part.values - (mean if part.columns is None else mean[part.columns]).to(part.values)
        series = around if part.state is None else part.state[around]
        products = [chosen @ chosen.mT for chosen in (centred[some] for some in series.split(_AT_ONCE))]
        gram = torch.cat(products).double() * self.terms.scales[part.number]
        self.among[name] = self.among[name] + gram if name in self.among else gram

    def moments(
        self, chosen: Sequence[Sequence[int]], over: Sequence[Functionals], prepared: Prepared
    ) -> list[Moments]:
        """Returns the moments, for every member, of sums of the sums in `chosen`, which are `over` these series."""
        terms, like = self.terms, over[0].coefficients
        prior = like.new_zeros(len(terms.weights), len(chosen))
        statistics = [like.new_zeros(len(chosen), width) for width in terms.statistic_widths]
        single, several = [rows[0] for rows in chosen], [place for place, rows in enumerate(chosen) if len(rows) > 1]

        def totals(sums: Tensor) -> Tensor:
            total = sums[single].double()
            for place in several:
                total[place] = sums[list(chosen[place])].double().sum(0)
            return total

        for number, sums in self.features.items():
            total = totals(sums)
            squares = total.square().sum(1)
            for k, coefficient in terms.coefficients(number).items():
                prior[k] += coefficient * squares
            if not self.cross:
                for k, more in terms.statistics(number, total):
                    statistics[k] += more
        if self.cross:
            statistics = [totals(cross) for cross in self.cross]
        near = [k for k in terms.bent if all(name in self.among for name in terms.shares[k])]
        for k in near:
            prior[k] = self._single_forms(k)[single]
        others = [k for k in range(len(prior)) if k not in near]
        _add_forms(terms, others, over, prepared, prior)
        if near and several:
            forms = torch.zeros_like(prior[:, : len(several)])
            _add_forms(terms, near, [over[place] for place in several], prepared, forms)
            for k in near:
                prior[k, several] = forms[k]
        return [terms.moments(k, *both) for k, both in enumerate(zip(prior, statistics, strict=True))]

    def _single_forms(self, member: int) -> Tensor:
        """Returns v^T k v of the sums that were added, for a power of kernels that are known among their series."""
        kernel = self.terms.mixture(member, self.among)
        count = kernel.shape[1] // 2  # of permutations
        signs = torch.ones(2 * count, dtype=kernel.dtype, device=kernel.device) / count
        signs[count:] *= -1
        return torch.einsum("pij,i,j->p", kernel, signs, signs)


def _add_forms(
    terms: Terms, members: Sequence[int], over: Sequence[Functionals], prepared: Prepared, prior: Tensor
) -> None:
    """Adds v^T k v to `prior` (K, q), for covariances that features do not give, `terms.together` series at a time."""
    start, row = 0, 0
    while start < len(over) and members:
        slices = [slice(0, len(over[start].series))]
        while start + len(slices) < len(over):
            stop = slices[-1].stop + len(over[start + len(slices)].series)
            if stop > terms.together:
                break
            slices.append(slice(slices[-1].stop, stop))
        some = over[start : start + len(slices)]
        seen = prepared(torch.cat([one.series for one in some]))
        for (_, coefficients), covariances in zip(some, terms.covariances(seen, slices, members), strict=True):
            for k, gram in covariances:
                prior[k, row : row + len(coefficients)] += ((coefficients @ gram) * coefficients).sum(1)
            row += len(coefficients)
        start += len(slices)


class PartSums:
    """Sums of parts of the latents over n prepared series with weights (q, n), from the pieces that are added."""

    def __init__(self, terms: Terms, weights: Tensor, seen: SeriesBatch) -> None:
        self.terms, self.weights, self.inner = terms, weights, terms.inner(seen)
        self.prior = weights.new_zeros(len(terms.weights), len(weights))
        self.statistics = [weights.new_zeros(len(weights), width) for width in terms.statistic_widths]

    def features(self, number: int, part: Part, rows: Tensor, columns: Tensor | None = None) -> None:
        """Adds features of the part `number` to the sums `rows`: all of its values (n, p), or these `columns`."""
        values, mean = part.values, self.terms.centre(number)
        if columns is not None:
            values, mean = values[:, columns], mean[columns]
        centred = values.double() - mean.double()
        sums = self.weights[rows] @ centred
        for k, coefficient in self.terms.coefficients(number).items():
            self.prior[k].index_add_(0, rows, coefficient * sums.square().sum(1))
        for k, more in self.terms.statistics(number, sums, columns):
            self.statistics[k].index_add_(0, rows, more)
        if part.name in self.terms.raised:
            self._add(part.name, *self.terms.part_grams(number, centred, columns), rows, self.terms.bent)

    def kernel(self, name: str, rows: Tensor) -> None:
        """Adds a kernel without features to the sums `rows`."""
        self._add(name, *self.inner.kernels[name], rows, range(len(self.terms.weights)))

    def _add(self, name: str, inside: Tensor, cross: Tensor, rows: Tensor, members: Sequence[int]) -> None:
        weights = self.weights[rows]
        for k in members:
            share = self.terms.shares[k].get(name)
            if share is not None:
                inner, outer = self.inner.slopes.get(k, (1.0, 1.0))
                self.prior[k].index_add_(0, rows, share * ((weights @ (inside * inner)) * weights).sum(1))
                across = cross[:, : self.terms.statistic_widths[k]] * outer
                self.statistics[k].index_add_(0, rows, share * (weights @ across))

    def moments(self) -> list[Moments]:
        """Returns those of every member."""
        return [self.terms.moments(k, *both) for k, both in enumerate(zip(self.prior, self.statistics, strict=True))]
