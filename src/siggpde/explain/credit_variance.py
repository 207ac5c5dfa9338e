r"""How uncertain the posterior is of sums of credits, :math:`\sum_X c_X f(X)` over nodes, with :math:`\sum_X c_X = 0`.

The prior variance of such a sum is :math:`c^T k c`. Of kernels that are linear in features it is :math:`|\Psi|^2` of
sums that are there already (`explain.credit_sums`); kernels by the PDE, and powers, are computed among the nodes of the
sum alone: those next to its pieces in at most 16 walks, not the joint covariance of all nodes. The posterior takes off
what the training series tell,

.. math:: v = \sigma^2 \big( c^T k c - |c^T k_Z B|^2 \big),

with :math:`c^T k_Z` the same sum of rows and the root B of `committee.regression`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from siggpde.committee.committee import Member
from siggpde.committee.recipes import Recipe
from siggpde.explain.credit_sums import AnySums, LandmarkSums, WeightSums, WithLandmarks, WordSums
from siggpde.explain.nodes import Nodes, Weighted
from siggpde.series import SeriesBatch
from siggpde.views.base import Block, FeatureBlock
from siggpde.views.kernel import KernelBlock

WALKS = 16
"""The walks over which variances are taken, of more the first ones: further ones would change them little."""

_SMALLEST = 1e-9
_TOGETHER = 128  # nodes among which powers of kernels are computed at a time


Sum = Sequence[int]  # pieces whose credits are added


def member_variances(sums: AnySums, nodes: Nodes, pieces: Sequence[int], wanted: Sequence[Sum]) -> Tensor:
    """Variances (K, sums, latents) of sums of credits under the posterior of every member.

    `pieces` are those that `sums` has, in its order. Where all latents have the same, there is one column.
    """
    place = {piece: index for index, piece in enumerate(pieces)}
    chosen = [[place[piece] for piece in each] for each in wanted]
    over = [nodes.sum_of(each, WALKS) for each in wanted]
    if isinstance(sums, WordSums):
        found = _of_words(sums, nodes, chosen, over)
    elif isinstance(sums, WeightSums):
        found = _of_weights(sums, chosen)
    else:
        found = _of_landmarks(sums, nodes, chosen, over)
    return found.clamp_min(0.0)  # what is negative is rounding, or the accuracy to which kernels are solved


def _total(told: Tensor, chosen: Sequence[Sequence[int]]) -> Tensor:
    """Rows (sums, p) from those of the pieces, float64."""
    return torch.stack([told[list(each)].sum(0) for each in chosen]).double()


def _square(told: Tensor, chosen: Sequence[Sequence[int]]) -> Tensor:
    """Their squared norms (sums,): one at a time, for there may be many features."""
    return torch.stack([told[list(each)].sum(0).double().square().sum() for each in chosen])


def _of_words(sums: WordSums, nodes: Nodes, chosen: Sequence[Sequence[int]], over: Sequence[Weighted]) -> Tensor:
    found = []
    for number, member in enumerate(sums.committee.members):
        features = _total(sums.features[number], chosen)
        left = _forms(_word_kernel(member), nodes, over) - features.square().sum(1)
        _, spread = member.model.variational(features.to(member.model.dtype))
        found.append(left[:, None] + spread.double())
    return torch.stack(found)


def _word_kernel(member: Member) -> Callable[[SeriesBatch], Tensor]:
    def gram(batch: SeriesBatch) -> Tensor:
        paths = member.paths(batch)
        return member.model.kernel(paths.values, lengths=paths.lengths)

    return gram


def _of_weights(sums: WeightSums, chosen: Sequence[Sequence[int]]) -> Tensor:
    found = []
    for member in sums.committee.members:
        prior, told = torch.zeros(1, dtype=torch.float64), torch.zeros(1, dtype=torch.float64)
        for number, part in member.parts.items():
            features = _total(sums.features[number], chosen)
            prior = prior.to(features) + part.coefficient * features.square().sum(1)
            told = told.to(features) + features @ part.factor.double()
        found.append(member.amplitude * (prior - told.square().sum(1))[:, None])
    return torch.stack(found)


def _of_landmarks(
    sums: LandmarkSums, nodes: Nodes, chosen: Sequence[Sequence[int]], over: Sequence[Weighted]
) -> Tensor:
    committee, found = sums.committee, []
    linear = _linear_forms(sums, nodes, chosen, over)
    for index, member in enumerate(committee.members):
        shares = _shares(member.recipe)
        if member.recipe.power == 1:
            prior = torch.stack([share * linear[name] for name, share in shares.items()]).sum(0)
        else:
            prior = _power_forms(sums, member.recipe, nodes, chosen, over)
        rows = _total(sums.rows[index], chosen)
        told = (rows @ member.regression.root.double()).square().sum(1)
        found.append(member.regression.amplitude * (prior - told)[:, None])
    return torch.stack(found)


def _shares(recipe: Recipe) -> dict[str, float]:
    total = sum(weight for _, weight in recipe.weights)
    return {name: weight / total for name, weight in recipe.weights}


def _linear_forms(
    sums: LandmarkSums, nodes: Nodes, chosen: Sequence[Sequence[int]], over: Sequence[Weighted]
) -> dict[str, Tensor]:
    """c^T k c (sums,) of the kernels in members of power 1; that they are centred makes no difference."""
    forms: dict[str, Tensor] = {}
    number = 0
    for block in sums.committee.blocks:
        if isinstance(block, FeatureBlock):
            counts = Counter(block.kernels)
            for name in block.kernels:
                if name in sums.linear:
                    own = _square(sums.features[number], chosen) * (block.centring[name].scale / counts[name])
                    forms[name] = forms[name] + own if name in forms else own
                number += 1
            continue
        assert isinstance(block, KernelBlock)
        name = block.view.name
        if name in sums.linear:
            forms[name] = block.centring[name].scale * _forms(_kernel(sums.committee, block), nodes, over)
    return forms


def _kernel(committee: WithLandmarks, block: KernelBlock) -> Callable[[SeriesBatch], Tensor]:
    return lambda batch: block.gram(committee.standard(batch))


def _forms(gram: Callable[[SeriesBatch], Tensor], nodes: Nodes, over: Sequence[Weighted], together: int = 0) -> Tensor:
    """c^T k c (sums,) of the kernel that `gram` gives among series, (n, n).

    It is called for one sum at a time, or for as many as have `together` nodes where one call is dearer than pairs.
    """
    found, start = [], 0
    while start < len(over):
        stop, count = start + 1, len(over[start].nodes)
        while stop < len(over) and count + len(over[stop].nodes) <= together:
            count += len(over[stop].nodes)
            stop += 1
        some = over[start:stop]
        covariance = gram(nodes.series(torch.cat([each.nodes for each in some]))).detach().double()
        first = 0
        for each in some:
            own = slice(first, first + len(each.nodes))
            found.append(each.coefficients @ covariance[own, own] @ each.coefficients)
            first = own.stop
        start = stop
    return torch.stack(found)


def _power_forms(
    sums: LandmarkSums, recipe: Recipe, nodes: Nodes, chosen: Sequence[Sequence[int]], over: Sequence[Weighted]
) -> Tensor:
    """c^T k c (sums,) of a kernel raised to a power; single pieces are there already where it has features only."""
    shares = _shares(recipe)
    gram = _power_kernel(sums.committee, recipe)
    if not all(name in sums.among for name in shares):
        return _forms(gram, nodes, over, _TOGETHER)
    kernel = _raised(torch.stack([share * sums.among[name] for name, share in shares.items()]).sum(0), recipe.power)
    walks = kernel.shape[1] // 2
    signs = torch.ones(2 * walks, dtype=kernel.dtype, device=kernel.device) / walks
    signs[walks:] *= -1
    single = torch.einsum("pij,i,j->p", kernel, signs, signs)
    several = [number for number, each in enumerate(chosen) if len(each) > 1]
    found = single[[each[0] for each in chosen]]
    if several:
        found[several] = _forms(gram, nodes, [over[number] for number in several], _TOGETHER)
    return found


def _power_kernel(committee: WithLandmarks, recipe: Recipe) -> Callable[[SeriesBatch], Tensor]:
    """((1 + cosine) / 2)^power of n series among themselves."""
    shares = _shares(recipe)
    kept = [block.keep(set(shares)) for block in committee.blocks]
    blocks = [block for block in kept if block is not None]

    def gram(batch: SeriesBatch) -> Tensor:
        seen = committee.standard(batch)
        return _raised(torch.stack([_among(block, seen, shares) for block in blocks]).sum(0), recipe.power)

    return gram


def _raised(plain: Tensor, power: int) -> Tensor:
    """((1 + cosine) / 2)^power of kernels (.., n, n)."""
    norms = plain.diagonal(dim1=-2, dim2=-1).clamp_min(_SMALLEST).sqrt()
    cosine = plain / (norms[..., :, None] * norms[..., None, :]).clamp_min(_SMALLEST)
    return ((1 + cosine) / 2) ** power


def _among(block: Block, seen: SeriesBatch, shares: dict[str, float]) -> Tensor:
    """The kernels of a block among n series, centred and scaled, times their shares, (n, n)."""
    total = seen.values.new_zeros(len(seen), len(seen), dtype=torch.float64)
    if isinstance(block, KernelBlock):
        name = block.view.name
        centring, mean = block.centring[name], block.raw(seen)[name].gram.mean(1)
        return shares[name] * centring.scale * (block.gram(seen) - mean[:, None] - mean + centring.mean)
    assert isinstance(block, FeatureBlock)
    counts = Counter(block.kernels)
    for part, landmarks in zip(block.parts(seen), block.landmarks, strict=True):
        if part.name in shares:
            values = part.values.double() - landmarks.values.double().mean(0)
            total += shares[part.name] * block.centring[part.name].scale / counts[part.name] * (values @ values.T)
    return total
