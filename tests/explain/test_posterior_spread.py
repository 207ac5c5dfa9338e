"""The posterior's uncertainty of contributions, against the joint covariance of the latents at all cut series."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from helpers.small_committees import batch_of, committee_of, ends, labels_of
from helpers.small_view_committees import finite_committee_of, view_committee_of
from siggpde.committee.committee import Committee
from siggpde.committee.weight_space import without_series
from siggpde.explain import SegmentContributions, WalkSettings
from siggpde.explain.logits import logits_of, logits_of_likelihood
from siggpde.explain.when_and_where import segment_contributions
from siggpde.series import SeriesBatch
from siggpde.views import Rows
from siggpde.views.base import FeatureBlock

SETTINGS = WalkSettings(segments=3, permutations=4, seed=1)
NAMES = ["a", "b"]


def contributions(committee, batch: SeriesBatch, classes: int | None, background=None, settings=SETTINGS):
    labels = None if classes is None else list(range(classes))
    pairs = None if classes is None else torch.tensor([[1, 0]] * len(batch))
    return segment_contributions(committee, batch, NAMES, labels, pairs, settings, background)


def walks_of(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What `walk` returns, as it is called."""
    import siggpde.explain.when_and_where as module  # noqa: PLC0415

    seen: list[Any] = []
    plain = module.walk

    def kept(*arguments: Any) -> Any:
        seen.append(plain(*arguments))
        return seen[-1]

    monkeypatch.setattr(module, "walk", kept)
    return seen


def cut_series(walked) -> tuple[SeriesBatch, Tensor]:
    """All cut series of all walks, made piece by piece, and the coefficients (pieces, cut series) of the credits."""
    nodes = walked.nodes
    walks, pieces = nodes.ranks.shape
    series, rows = [], []
    for number in range(walks):
        values = nodes.references[nodes.used[number]].clone()
        series.append(values.clone())
        rows.append(torch.zeros(pieces, dtype=torch.float64))
        for piece in nodes.ranks[number].argsort().tolist():
            rows[-1][piece] -= 1 / walks
            segment, channel = divmod(piece, nodes.one.channels)
            inside = nodes.of_point == segment
            values[inside, channel] = nodes.one.values[0, inside, channel]
            series.append(values.clone())
            rows.append(torch.zeros(pieces, dtype=torch.float64))
            rows[-1][piece] += 1 / walks
    return SeriesBatch(torch.stack(series)), torch.stack(rows, dim=1)


def joint_kernels(committee, seen: SeriesBatch) -> dict[str, Rows]:
    """All kernels among the series, centred and scaled, from features and from all pairs of the PDE."""
    found: dict[str, Rows] = {}
    for block in committee.blocks:
        raw, sums = block.raw(seen), {}
        if isinstance(block, FeatureBlock):
            for part in block.parts(seen):
                sums.setdefault(part.name, []).append(part.values.double() @ part.values.double().T)
        else:
            sums[block.view.name] = [block.gram(seen)]
        for name, grams in sums.items():
            mean, centring = raw[name].gram.mean(1), block.centring[name]
            gram = centring.scale * (torch.stack(grams).mean(0) - mean[:, None] - mean + centring.mean)
            found[name] = Rows(gram, gram.diagonal().clone())
    return found


def joint_covariances(committee, batch: SeriesBatch) -> list[Tensor]:
    """Cov (latents or 1, n, n) of the latents of every member."""
    if isinstance(committee, Committee):
        return [
            member.model.predict_f(member.paths(batch).values, full_cov=True)[1].double()
            for member in committee.members
        ]
    seen = committee.standard(batch)
    joint, rows, found = joint_kernels(committee, seen), committee.rows(batch), []
    for member in committee.members:
        prior = member.recipe.mix(joint, joint).gram
        cross = member.recipe.mix(rows, Rows(torch.empty(0), torch.empty(0)) if member.norms is None else member.norms)
        told = cross.gram @ member.regression.root.double()
        found.append(member.regression.amplitude * (prior - told @ told.T)[None])
    return found


def oracle(committee, walked, each: SegmentContributions) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """std, contrast_std and the std of the stretches, by the joint covariance of everything."""
    series, rows = cut_series(walked)
    latents = joint_covariances(committee, series)
    segments, channels, classes = each.values.shape
    means = walked.credits.mean(1).flatten(1, 2)  # (K, pieces, classes)
    sums = [[index] for index in range(segments * channels)]
    for stretch in each.main:
        inside = (each.starts >= stretch.start) & (each.ends <= stretch.end)
        channel = each.channels.index(stretch.channel)
        sums.append([segment * channels + channel for segment in np.flatnonzero(inside)])
    turns = [torch.eye(classes)[[c]].double() for c in range(classes)]
    turns.append(torch.tensor([[1.0]] if classes == 1 else [[-1.0, 1.0, *[0.0] * (classes - 2)]]).double())
    found = np.zeros((len(sums), len(turns)))
    for row, pieces in enumerate(sums):
        weights = rows[pieces].sum(0)
        for column, turn in enumerate(turns):
            own, values = [], []
            for k, covariance in enumerate(latents):
                mixing = (
                    logits_of_likelihood(committee.members[k].model.likelihood, committee.device).mixing
                    if isinstance(committee, Committee)
                    else logits_of(committee).mixing
                )
                direction = (turn @ mixing)[0]
                each_latent = torch.einsum("lij,i,j->l", covariance, weights, weights)
                if len(each_latent) == len(direction):
                    own.append(float(each_latent @ direction.square()))
                else:  # the latents sum to a number that is known
                    others = len(direction) - 1
                    apart = (1 + 1 / others) * direction.square().sum() - direction.sum().square() / others
                    own.append(float(each_latent[0] * apart))
                values.append(float((means[k, pieces].sum(0) * turn[0]).sum()))
            share = committee.weights.double()
            inside, centre = torch.tensor(own).double(), torch.tensor(values).double()
            total = share @ (inside + (centre - share @ centre).square())
            found[row, column] = float(total.clamp_min(0).sqrt())
    whole = found[: segments * channels].reshape(segments, channels, -1)
    return whole[..., :-1], whole[..., -1], found[segments * channels :, -1]


@pytest.mark.parametrize(
    ("kind", "background"),
    [("classes", False), ("number", True), ("words", False), ("words", True)],
)
def test_the_spread_is_that_of_the_joint_covariance(kind: str, background: bool, monkeypatch: pytest.MonkeyPatch):
    batch = batch_of(24, 12)
    classes = 3 if kind in ("classes", "words") else None
    y = labels_of(batch, 3) if classes else ends(batch)
    committee = committee_of(batch, y) if kind == "words" else view_committee_of(batch, y, classes)
    walks = walks_of(monkeypatch)
    (each,) = contributions(committee, batch_of(1, 12, seed=3), classes, batch[:5] if background else None)
    std, contrast, stretches = oracle(committee, walks[0], each)
    size = float(np.abs(std).max())
    assert each.std.shape == each.values.shape and size > 0
    # Kernels by the PDE are solved to 1e-3, and each batch rounds in its own way.
    assert each.std == pytest.approx(std, rel=0.01, abs=0.005 * size)
    assert each.contrast_std == pytest.approx(contrast, rel=0.01, abs=0.005 * size)
    assert [stretch.std for stretch in each.main] == pytest.approx(stretches, rel=0.01, abs=0.005 * size)


def test_without_series_it_is_that_with_series():
    batch = batch_of(24, 12)
    with_series = finite_committee_of(batch, labels_of(batch, 3), 3)
    bare, _ = without_series(with_series, complete=True)
    (a,), (b,) = (contributions(each, batch_of(1, 12, seed=3), 3, batch[:5]) for each in (with_series, bare))
    assert b.std == pytest.approx(a.std, rel=1e-3, abs=1e-3 * a.std.max())
    assert b.contrast_std == pytest.approx(a.contrast_std, rel=1e-3, abs=1e-3 * a.contrast_std.max())


def test_more_series_make_it_smaller():
    batch, new = batch_of(120, 12), batch_of(1, 12, seed=3)
    found = [contributions(finite_committee_of(batch[:n], ends(batch)[:n]), new, None)[0] for n in (12, 120)]
    assert found[1].std.mean() < 0.8 * found[0].std.mean()


def test_memory_is_bounded_by_channels_at_a_time(monkeypatch: pytest.MonkeyPatch):
    import siggpde.explain.walks as module  # noqa: PLC0415

    batch = batch_of(24, 12)
    committee = view_committee_of(batch, labels_of(batch, 3), 3)
    (whole,) = contributions(committee, batch[:1], 3)
    monkeypatch.setattr(module, "_LARGEST_SUMS", 1)  # one channel
    monkeypatch.setattr(module, "_LARGEST_CHUNK", 5)
    (parts,) = contributions(committee, batch[:1], 3)
    assert parts.std == pytest.approx(whole.std, rel=1e-3)
    assert [each.std for each in parts.main] == pytest.approx([each.std for each in whole.main], rel=1e-3)


def test_without_uncertainty_contributions_are_the_same():
    batch = batch_of(12, 20)
    committee = view_committee_of(batch, ends(batch))
    (whole,), (fast,) = (
        contributions(committee, batch[:1], None, settings=WalkSettings(4, 4, uncertainty=known))
        for known in (True, False)
    )
    assert whole.std is not None and fast.std is None and fast.contrast_std is None
    assert np.array_equal(whole.values, fast.values) and np.array_equal(whole.sampling_error, fast.sampling_error)
    assert fast.main and all(each.std is None and "±" not in str(each) for each in fast.main)
    assert fast.in_units(2.0, 1.0).main[0].value == 2 * fast.main[0].value and "std" in fast.to_dict()
