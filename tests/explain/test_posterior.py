"""The posterior of effects is that of the dense formulas, of samples, and the same with and without landmarks."""

import pytest
import torch

from helpers.small_committees import batch_of, ends, labels_of, one_member
from helpers.small_view_committees import finite_committee_of, view_committee_of
from siggpde.committee.recipes import Recipe
from siggpde.committee.weight_space import without_series
from siggpde.explain.between import powers_of
from siggpde.explain.contrasts import contrasts_of, spread_over
from siggpde.explain.cut_effects import cut_effects, whole_sums
from siggpde.explain.cut_series import cut_channels, cut_regions
from siggpde.explain.logits import logits_of
from siggpde.explain.overall import global_importance
from siggpde.explain.posterior import Gaussian, class_directions, probability_of_sign
from siggpde.explain.term_effects import term_effects, word_effects
from siggpde.explain.view_vocabulary import build_view_vocabulary
from siggpde.explain.vocabulary import build_vocabulary
from siggpde.explain.word_table import Words, word_table
from siggpde.explain.word_terms import model_logits, word_features
from siggpde.gp.likelihoods import Bernoulli
from siggpde.series import SeriesBatch
from siggpde.views.base import FeatureBlock

NAMES = ["a", "b"]
LINEAR = Recipe("two", (("L", 1.0), ("x1", 2.0)))


@pytest.fixture(scope="module")
def batch():
    return batch_of(24, 18)


@pytest.fixture(scope="module")
def new():
    return batch_of(9, 18, seed=5)


def stacked(committee, member, series):
    """Features of the linear kernel of a member, (n, all) with their prior variances in them, and the words of each."""
    blocks = [block for block in committee.blocks if isinstance(block, FeatureBlock)]
    parts = [part for block in blocks for part in block.landmarks]
    counts = {name: sum(part.name == name for part in parts) for name in {part.name for part in parts}}
    total = sum(weight for _, weight in member.recipe.weights)
    shares = {name: weight / total for name, weight in member.recipe.weights}
    columns = []
    for block in blocks:
        for part, own in zip(block.parts(committee.standard(series)), block.landmarks, strict=True):
            if part.name in shares:
                factor = shares[part.name] * block.centring[part.name].scale / counts[part.name]
                columns.append((part.values.double() - own.values.double().mean(0)) * factor**0.5)
            else:
                columns.append(torch.zeros(len(series), part.values.shape[1], dtype=torch.float64))
    return torch.cat(columns, dim=1)


def test_words_have_the_posterior_of_dense_weights(batch, new):
    """With f = psi w + c, w ~ N(0, s2 I): the covariance of w given the data, in full."""
    committee = view_committee_of(batch, ends(batch), None, [LINEAR])
    (member,) = committee.members
    here, there = stacked(committee, member, new), stacked(committee, member, batch)
    noise, scale = member.regression.noise, member.regression.amplitude
    gram = there @ there.T + 10.0 + noise * torch.eye(len(batch), dtype=torch.float64)
    mean = there.T @ torch.linalg.solve(gram, ends(batch).double())
    covariance = scale * (torch.eye(there.shape[1]).double() - there.T @ torch.linalg.solve(gram, there))
    contrasts = contrasts_of(torch.arange(9.0), None)
    vocabulary = build_view_vocabulary(committee, NAMES)
    words = Words.of(vocabulary, committee.device)
    names = [word_table(committee, new, words).names.index(name) for name in ("a", "time–a", "b–a")]
    groups = [[[names[0]], names[1:]]]
    found = term_effects(committee, new, contrasts, vocabulary, words, groups)
    widths = [
        part.values.shape[1]
        for block in committee.blocks
        if isinstance(block, FeatureBlock)
        for part in block.landmarks
    ]
    sizes = zip(vocabulary.parts, widths, strict=True)
    each = [torch.full((width,), -1) if part is None else words.places[part] for part, width in sizes]
    of_column = torch.cat(each)
    for place, group in enumerate(groups[0]):
        direction = (contrasts.weights[0] @ here) * sum((of_column == word).double() for word in group)
        assert float(found.words.mean[place]) == pytest.approx(float(direction @ mean), rel=1e-6)
        assert float(found.words.std[place]) == pytest.approx(
            float(direction @ covariance @ direction) ** 0.5, rel=1e-5
        )
    whole = whole_sums(committee, new, contrasts.weights, torch.ones(1, 1).double())
    both = contrasts.weights[0] @ here
    assert float(whole.std[0]) == pytest.approx(float(both @ covariance @ both) ** 0.5, rel=1e-5)
    for part in (found.scales, found.views):
        assert float(part.mean.sum()) == pytest.approx(float(whole.mean[0]), rel=1e-6)


@pytest.mark.parametrize(
    "recipe", [Recipe("L²", (("L", 1.0), ("base", 1.0)), 2), Recipe("LP³", (("L", 1.0), ("P", 1.0)), 3)]
)
def test_powers_of_kernels_have_the_joint_posterior(batch, new, recipe):
    """The kernel of all series at once, as a fit to both would have it with the centring of the landmarks."""
    committee = view_committee_of(batch, ends(batch), None, [recipe])
    (member,) = committee.members
    rows = committee.rows(new)
    mixed = member.mixed(rows)
    weights = torch.tensor([[1.0, -1.0, 0, 0, 0, 0, 0, 0, 0], [0.5, 0.5, 0, 0, -1.0, 0, 0, 0, 0]]).double()
    found = whole_sums(committee, new, weights, torch.ones(2, 1).double())
    latents = committee.latents(new).mean[:, 0]
    assert found.mean.tolist() == pytest.approx((weights @ latents).tolist(), rel=1e-8)
    plain = powers_of(committee, committee.standard(new))[0].own
    norms = plain.diagonal().sqrt()
    prior = ((1 + plain / norms / norms[:, None]) / 2) ** recipe.power
    told = mixed.gram @ member.regression.root
    covariance = member.regression.amplitude * (prior + 10.0 - told @ told.T)
    assert covariance.diagonal().tolist() == pytest.approx(committee.latents(new).variance.tolist(), rel=1e-6, abs=1e-9)
    wanted = ((weights @ covariance) * weights).sum(1).sqrt()
    assert found.std.tolist() == pytest.approx(wanted.tolist(), rel=1e-5)
    contrasts = contrasts_of(torch.arange(9.0), None)
    vocabulary = build_view_vocabulary(committee, NAMES)
    words = Words.of(vocabulary, committee.device)
    parts = term_effects(committee, new, contrasts, vocabulary, words, [[list(range(len(words.names)))]])
    whole = whole_sums(committee, new, contrasts.weights, torch.ones(1, 1).double())
    for part in (parts.words, parts.scales, parts.views):
        assert float(part.mean.sum()) == pytest.approx(float(whole.mean[0]), rel=1e-6)
    assert float(parts.words.std[0]) == pytest.approx(float(whole.std[0]), rel=1e-5)  # all words are the whole


def test_without_landmarks_it_is_the_same(batch, new):
    committee = finite_committee_of(batch, labels_of(batch, 3), 3)
    reduced, _ = without_series(committee, complete=True)
    one, other = (global_importance(each, new, NAMES, 5) for each in (committee, reduced))
    for ours, theirs in zip(one.classes, other.classes, strict=True):
        for part in ("scales", "views", "words"):  # what replaces channels is not the same
            for mine, its in zip(getattr(ours, part), getattr(theirs, part), strict=True):
                assert its.effect == pytest.approx(mine.effect, rel=1e-4, abs=1e-5)
                assert its.std == pytest.approx(mine.std, rel=1e-3, abs=1e-4)


def test_words_of_the_paper_have_the_spread_of_samples(new):
    committee = one_member(batch_of(20, 18), Bernoulli())
    model, vocabulary = committee.members[0].model, build_vocabulary(committee, NAMES)
    contrasts, group = contrasts_of(torch.arange(9) % 2, 2), [1, 2, 5]
    found = word_effects(committee, new, contrasts, vocabulary, [[group], [group]])
    q, random = model.variational.requires_grad_(False), torch.Generator().manual_seed(0)
    draws = q.mean[0] + torch.randn(20000, q.size, generator=random).double() @ q.root[0].tril().T
    features = word_features(model, committee.members[0].paths(new))
    direction = class_directions(model_logits(model))[1, 0]
    samples = direction * (draws[:, group] @ (contrasts.weights[1] @ features)[group])
    assert float(found.mean[1]) == pytest.approx(float(samples.mean()), abs=4 * float(samples.std()) / 20000**0.5)
    assert float(found.std[1]) == pytest.approx(float(samples.std()), rel=0.03)
    assert float(found.mean[0]) == pytest.approx(float(found.mean[1]))  # of two classes both sides are the same


@pytest.mark.parametrize("ragged", [False, True])
def test_channels_and_regions_sum_to_the_whole_effect(batch, ragged):
    committee = view_committee_of(batch, labels_of(batch, 3), 3)
    new = batch_of(8, 18, seed=9, ragged=ragged)
    targets = torch.arange(8) % 3
    found = [
        cut_effects(committee, new, targets, 3, 2, lambda own: cut_channels(committee, own)),
        cut_effects(committee, new, targets, 3, 4, lambda own: cut_regions(committee, own, 4)),
    ]
    sums = [posterior.mean.view(len(sides), -1).sum(1).tolist() for sides, posterior in found]
    assert sums[0] == pytest.approx(sums[1], abs=1e-6)
    cut = cut_channels(committee, new)
    series = SeriesBatch(
        cut.batch.values[2::4], cut.batch.lengths if cut.batch.lengths is None else cut.batch.lengths[2::4]
    )
    logits = committee.latents(series).mean @ class_directions(logits_of(committee)).T  # B_P, the series themselves
    plain = committee.latents(new).mean @ class_directions(logits_of(committee)).T
    assert logits.flatten().tolist() == pytest.approx(plain.flatten().tolist(), abs=1e-8)


def test_contrasts_and_probabilities():
    contrasts = contrasts_of(torch.tensor([0, 0, 2, 2, 2]), 3)
    assert contrasts.sides == [0, 2] and contrasts.weights[0].tolist() == pytest.approx(
        [0.5, 0.5, -1 / 3, -1 / 3, -1 / 3]
    )
    assert contrasts_of(torch.tensor([3.0, 1.0, 2.0]), None).weights[0].tolist() == pytest.approx([1.0, -0.5, -0.5])
    assert contrasts_of(torch.tensor([1, 1]), 3).weights.tolist() == [[0.5, 0.5]]
    assert spread_over(torch.tensor([0] * 10 + [1, 1]), 2, 6).tolist()[-2:] == [10, 11]
    found = probability_of_sign(Gaussian(torch.tensor([-1.96, 0.0, 2.0]), torch.tensor([1.0, 1.0, 0.0])))
    assert found.tolist() == pytest.approx([0.975, 0.5, 1.0], abs=1e-3)
