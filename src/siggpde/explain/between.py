"""Kernels of series among themselves and with the landmarks, centred: what the posterior of sums over series needs."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import torch
from torch import Tensor

from siggpde.committee.recipes import sizes
from siggpde.committee.view_committee import ViewCommittee, ViewMember
from siggpde.series import SeriesBatch
from siggpde.views.base import Block, FeatureBlock, Rows
from siggpde.views.kernel import KernelBlock


class Between(NamedTuple):
    """A kernel, centred, of n series among themselves (n, n) and with the landmarks (n, m)."""

    own: Tensor
    cross: Tensor


def kernel_between(block: KernelBlock, seen: SeriesBatch) -> Between:
    """The kernel of a block, centred."""
    (name,) = block.centring
    centring, raw = block.centring[name], block.raw(seen)[name]
    own = raw.gram.mean(1)
    among = (block.gram(seen) - own[:, None] - own + centring.mean) * centring.scale
    return Between(among, centring(raw).gram)


def slopes_of(committee: ViewCommittee, seen: SeriesBatch) -> dict[int, Between]:
    """h(c) / (|X| |Y|) of every member of a power above 1, by number, among n series and with the landmarks."""
    found = {}
    for k, plain in powers_of(committee, seen).items():
        member = committee.members[k]
        assert member.norms is not None
        own = Rows(plain.own, plain.own.diagonal())
        sizes_of = sizes(own, own), sizes(Rows(plain.cross, own.variance), member.norms)
        both = [_slope(gram, size, member.recipe.power) for gram, size in zip(plain, sizes_of, strict=True)]
        found[k] = Between(*both)
    return found


def powers_of(committee: ViewCommittee, seen: SeriesBatch) -> dict[int, Between]:
    """The kernels of the members of a power above 1, by number, before the power."""
    bent = {k: shares_of(member) for k, member in enumerate(committee.members) if member.recipe.power > 1}
    wanted = {name for shares in bent.values() for name in shares}
    found: dict[int, Between] = {}
    for block in committee.blocks:
        names = wanted.intersection(block.centring)
        if not names:
            continue
        rows = block.rows(seen)
        among = _among(block, seen, names, rows)
        for k, shares in bent.items():
            for name in names.intersection(shares):
                own, cross = shares[name] * among[name], shares[name] * rows[name].gram
                known = found.get(k)
                found[k] = Between(own, cross) if known is None else Between(known.own + own, known.cross + cross)
    return found


def _among(block: Block, seen: SeriesBatch, names: set[str], rows: dict[str, Rows]) -> dict[str, Tensor]:
    if isinstance(block, KernelBlock):
        found = {block.view.name: kernel_between(block, seen).own}
    else:
        assert isinstance(block, FeatureBlock)
        counts, found = Counter(block.kernels), {}
        for part, landmarks in zip(block.parts(seen), block.landmarks, strict=True):
            if part.name in names:
                values = part.values.double() - landmarks.values.double().mean(0)
                factor = block.centring[part.name].scale / counts[part.name]
                found[part.name] = found.get(part.name, 0.0) + factor * (values @ values.T)
    for name in names:  # the variances of predictions, which have a floor
        found[name] = found[name].clone()
        found[name].diagonal().copy_(rows[name].variance)
    return found


def _slope(gram: Tensor, size: Tensor, power: int) -> Tensor:
    above = 1 + gram / size
    total = sum((above**i for i in range(1, power)), torch.ones_like(above))
    return total / (2**power * size)


def shares_of(member: ViewMember) -> dict[str, float]:
    """The kernels of a member and their shares, which sum to 1."""
    total = sum(weight for _, weight in member.recipe.weights)
    return {name: weight / total for name, weight in member.recipe.weights}
