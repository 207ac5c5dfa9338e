"""The posterior of effects and contributions is that of dense formulas and samples, with and without landmarks."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from helpers.small_committees import batch_of, ends, labels_of, one_member
from helpers.small_view_committees import finite_committee_of, view_committee_of
from siggpde.committee.recipes import Recipe
from siggpde.committee.weight_space import without_series
from siggpde.explain import PermutationSettings, SegmentContributions, importance, shapley
from siggpde.explain.importance import contrasts_of, cut_effects, global_importance, term_effects, whole_sums
from siggpde.explain.posterior import Gaussian
from siggpde.explain.terms import terms_of
from siggpde.gp.likelihoods import Bernoulli, Softmax
from siggpde.series import SeriesBatch
from siggpde.views import Rows
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
        for part, of_landmarks in zip(block.parts(committee.standard(series)), block.landmarks, strict=True):
            if part.name in shares:
                factor = shares[part.name] * block.centring[part.name].scale / counts[part.name]
                columns.append((part.values.double() - of_landmarks.values.double().mean(0)) * factor**0.5)
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
    terms, contrasts = terms_of(committee), contrasts_of(torch.arange(9.0), None)
    words = terms.vocabulary(NAMES).by_word()
    names = [words.names.index(name) for name in ("a", "time–a", "b–a")]
    groups = [[[names[0]], names[1:]]]
    posterior = term_effects(terms, new, contrasts, words, groups)
    finite = [block for block in committee.blocks if isinstance(block, FeatureBlock)]
    widths = [part.values.shape[1] for block in finite for part in block.landmarks]
    sizes = zip(words.parts, widths, strict=True)
    word_of = [torch.full((width,), -1) if part is None else part for part, width in sizes]
    of_column = torch.cat(word_of)
    for place, group in enumerate(groups[0]):
        direction = (contrasts.weights[0] @ here) * sum((of_column == word).double() for word in group)
        effect = posterior.words[0][place]
        assert effect.effect == pytest.approx(float(direction @ mean), rel=1e-6)
        assert effect.std == pytest.approx(float(direction @ covariance @ direction) ** 0.5, rel=1e-5)
    whole = whole_sums(terms, new, contrasts.weights, torch.ones(1, 1).double())
    both = contrasts.weights[0] @ here
    assert float(whole.std[0]) == pytest.approx(float(both @ covariance @ both) ** 0.5, rel=1e-5)
    for (effects,) in (posterior.scales, posterior.views):
        assert sum(effect.effect for effect in effects) == pytest.approx(float(whole.mean[0]), rel=1e-6)


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
    terms = terms_of(committee)
    posterior = whole_sums(terms, new, weights, torch.ones(2, 1).double())
    latents = committee.latents(new).mean[:, 0]
    assert posterior.mean.tolist() == pytest.approx((weights @ latents).tolist(), rel=1e-8)
    plain = recipe.average(joint_kernels(committee, committee.standard(new))).gram
    plain.diagonal().copy_(recipe.average(rows).variance)
    norms = plain.diagonal().sqrt()
    prior = ((1 + plain / norms / norms[:, None]) / 2) ** recipe.power
    explained = mixed.gram @ member.regression.root
    covariance = member.regression.amplitude * (prior + 10.0 - explained @ explained.T)
    assert covariance.diagonal().tolist() == pytest.approx(committee.latents(new).variance.tolist(), rel=1e-6, abs=1e-9)
    wanted = ((weights @ covariance) * weights).sum(1).sqrt()
    assert posterior.std.tolist() == pytest.approx(wanted.tolist(), rel=1e-5)
    contrasts = contrasts_of(torch.arange(9.0), None)
    words = terms.vocabulary(NAMES).by_word()
    parts = term_effects(terms, new, contrasts, words, [[list(range(len(words.names)))]])
    whole = whole_sums(terms, new, contrasts.weights, torch.ones(1, 1).double())
    for (effects,) in parts:
        assert sum(effect.effect for effect in effects) == pytest.approx(float(whole.mean[0]), rel=1e-6)
    assert parts.words[0][0].std == pytest.approx(float(whole.std[0]), rel=1e-5)  # all words are the whole


def test_without_landmarks_it_is_the_same(batch, new):
    committee = finite_committee_of(batch, labels_of(batch, 3), 3)
    reduced, _ = without_series(committee, complete=True)
    one, other = (global_importance(model, new, NAMES, 5) for model in (committee, reduced))
    for ours, theirs in zip(one.classes, other.classes, strict=True):
        for part in ("scales", "views", "words"):  # what replaces channels is not the same
            for mine, its in zip(getattr(ours, part), getattr(theirs, part), strict=True):
                assert its.effect == pytest.approx(mine.effect, rel=1e-8, abs=1e-8)
                assert its.std == pytest.approx(mine.std, rel=1e-8, abs=1e-8)


def test_words_of_the_paper_have_the_spread_of_samples(new):
    committee = one_member(batch_of(20, 18), Bernoulli())
    model, terms = committee.members[0].model, terms_of(committee)
    words = terms.vocabulary(NAMES).by_word()
    contrasts, group = contrasts_of(torch.arange(9) % 2, 2), [0, 1, 4]
    effects = term_effects(terms, new, contrasts, words, [[group], [group]])
    (first,), (second,) = effects.words
    q, random = model.variational.requires_grad_(False), torch.Generator().manual_seed(0)
    draws = q.mean[0] + torch.randn(20000, q.size, generator=random).double() @ q.root[0].tril().T
    paths = committee.members[0].paths(new)
    features = model.project(paths.values, lengths=paths.lengths).features.detach()[:, 1:]  # without the empty word
    direction = terms.logits.class_directions()[1, 0]
    samples = direction * (draws[:, 1:][:, group] @ (contrasts.weights[1] @ features)[group])
    assert second.effect == pytest.approx(float(samples.mean()), abs=4 * float(samples.std()) / 20000**0.5)
    assert second.std == pytest.approx(float(samples.std()), rel=0.03)
    assert first.effect == pytest.approx(second.effect)  # of two classes both sides are the same
    assert effects.scales == effects.views == [[], []]


@pytest.mark.parametrize("ragged", [False, True])
def test_channels_and_regions_sum_to_the_whole_effect(batch, ragged):
    committee = view_committee_of(batch, labels_of(batch, 3), 3)
    new = batch_of(8, 18, seed=9, ragged=ragged)
    targets = torch.arange(8) % 3
    terms = terms_of(committee)
    effects = [cut_effects(terms, new, targets, NAMES), cut_effects(terms, new, targets, list("1234"), 4)]
    sums = [[sum(effect.effect for effect in effects) for effects in by_class.values()] for by_class in effects]
    assert len(sums[0]) == 3 and sums[0] == pytest.approx(sums[1], abs=1e-6)
    cut, credits = importance.cut_series(terms, new, None)
    assert credits.sum(0).tolist() == [0.0, 0.0, 1.0, -1.0]
    series = cut[torch.arange(2, 32, 4)]
    directions = terms.logits.class_directions()
    logits = committee.latents(series).mean @ directions.T
    plain = committee.latents(new).mean @ directions.T
    assert logits.flatten().tolist() == pytest.approx(plain.flatten().tolist(), abs=1e-8)


def test_contrasts_and_probabilities():
    contrasts = contrasts_of(torch.tensor([0, 0, 2, 2, 2]), 3)
    assert contrasts.sides == [0, 2]
    assert contrasts.weights[0].tolist() == pytest.approx([0.5, 0.5, -1 / 3, -1 / 3, -1 / 3])
    assert contrasts_of(torch.tensor([3.0, 1.0, 2.0]), None).weights[0].tolist() == pytest.approx([1.0, -0.5, -0.5])
    assert contrasts_of(torch.tensor([1, 1]), 3).weights.tolist() == [[0.5, 0.5]]
    assert importance.spread_over(torch.tensor([0] * 10 + [1, 1]), 2, 6).tolist()[-2:] == [10, 11]
    chances = Gaussian(torch.tensor([-1.96, 0.0, 2.0]), torch.tensor([1.0, 1.0, 0.0])).probability_of_sign()
    assert chances.tolist() == pytest.approx([0.975, 0.5, 1.0], abs=1e-3)


SETTINGS = PermutationSettings(segments=3, permutations=4, seed=1)


def contributions_of(committee, batch: SeriesBatch, classes: int | None, background=None, settings=SETTINGS):
    labels = None if classes is None else list(range(classes))
    pairs = None if classes is None else torch.tensor([[1, 0]] * len(batch))
    return shapley.segment_contributions(terms_of(committee), batch, NAMES, labels, pairs, settings, background)


def sampled_of(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What `sample_credits` returns, as it is called."""
    seen: list[Any] = []
    plain = shapley.sample_credits

    def kept(*arguments: Any) -> Any:
        seen.append(plain(*arguments))
        return seen[-1]

    monkeypatch.setattr(shapley, "sample_credits", kept)
    return seen


def cut_series_of(sampled) -> tuple[SeriesBatch, Tensor]:
    """All cut series of all permutations, piece by piece, and the coefficients (pieces, cut series) of the credits."""
    cuts = sampled.cuts
    count, pieces = cuts.ranks.shape
    series, rows = [], []
    for number in range(count):
        values = cuts.references[cuts.used[number]].clone()
        series.append(values.clone())
        rows.append(torch.zeros(pieces, dtype=torch.float64))
        for piece in cuts.ranks[number].argsort().tolist():
            rows[-1][piece] -= 1 / count
            segment, channel = divmod(piece, cuts.one.channels)
            inside = cuts.of_point == segment
            values[inside, channel] = cuts.one.values[0, inside, channel]
            series.append(values.clone())
            rows.append(torch.zeros(pieces, dtype=torch.float64))
            rows[-1][piece] += 1 / count
    return SeriesBatch(torch.stack(series)), torch.stack(rows, dim=1)


def joint_kernels(committee, seen: SeriesBatch) -> dict[str, Rows]:
    """All kernels among the series, centred and scaled, from features and from all pairs of the PDE."""
    kernels: dict[str, Rows] = {}
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
            kernels[name] = Rows(gram, gram.diagonal().clone())
    return kernels


def joint_covariances(committee, batch: SeriesBatch) -> list[Tensor]:
    """Cov (latents or 1, n, n) of the latents of every member."""
    if committee.method == "paper":
        found = (member.model.predict_f(member.paths(batch).values, full_cov=True) for member in committee.members)
        return [covariance.double() for _, covariance in found]
    seen = committee.standard(batch)
    joint, rows, covariances = joint_kernels(committee, seen), committee.rows(batch), []
    for member in committee.members:
        prior = member.recipe.mix(joint).gram
        cross = member.mixed(rows)
        explained = cross.gram @ member.regression.root.double()
        covariances.append(member.regression.amplitude * (prior - explained @ explained.T)[None])
    return covariances


def oracle(committee, sampled, contributions: SegmentContributions) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """std, contrast_std and the std of the stretches, by the joint covariance of everything."""
    series, rows = cut_series_of(sampled)
    latents = joint_covariances(committee, series)
    segments, channels, classes = contributions.values.shape
    means = sampled.credits.mean(1).flatten(1, 2)  # (K, pieces, classes)
    sums = [[index] for index in range(segments * channels)]
    for stretch in contributions.main:
        inside = (contributions.starts >= stretch.start) & (contributions.ends <= stretch.end)
        channel = contributions.channels.index(stretch.channel)
        sums.append([segment * channels + channel for segment in np.flatnonzero(inside)])
    turns = [torch.eye(classes)[[c]].double() for c in range(classes)]
    turns.append(torch.tensor([[1.0]] if classes == 1 else [[-1.0, 1.0, *[0.0] * (classes - 2)]]).double())
    stds = np.zeros((len(sums), len(turns)))
    for row, pieces in enumerate(sums):
        weights = rows[pieces].sum(0)
        for column, turn in enumerate(turns):
            variances, values = [], []
            for k, covariance in enumerate(latents):
                direction = (turn @ terms_of(committee).logits.mixing)[0]
                each_latent = torch.einsum("lij,i,j->l", covariance, weights, weights)
                if len(each_latent) == len(direction):
                    variances.append(float(each_latent @ direction.square()))
                else:  # the latents sum to a number that is known
                    others = len(direction) - 1
                    apart = (1 + 1 / others) * direction.square().sum() - direction.sum().square() / others
                    variances.append(float(each_latent[0] * apart))
                values.append(float((means[k, pieces].sum(0) * turn[0]).sum()))
            share = committee.weights.double()
            inside, centre = torch.tensor(variances).double(), torch.tensor(values).double()
            total = share @ (inside + (centre - share @ centre).square())
            stds[row, column] = float(total.clamp_min(0).sqrt())
    whole = stds[: segments * channels].reshape(segments, channels, -1)
    return whole[..., :-1], whole[..., -1], stds[segments * channels :, -1]


@pytest.mark.parametrize(
    ("kind", "background"), [("classes", False), ("number", True), ("words", False), ("words", True)]
)
def test_the_spread_is_that_of_the_joint_covariance(kind: str, background: bool, monkeypatch: pytest.MonkeyPatch):
    batch = batch_of(24, 12)
    classes = None if kind == "number" else 3
    if kind == "words":
        committee = one_member(batch, Softmax(3))
    else:
        committee = view_committee_of(batch, ends(batch) if classes is None else labels_of(batch, 3), classes)
    sampled = sampled_of(monkeypatch)
    (contributions,) = contributions_of(committee, batch_of(1, 12, seed=3), classes, batch[:5] if background else None)
    std, contrast, stretches = oracle(committee, sampled[0], contributions)
    size = float(np.abs(std).max())
    assert contributions.std.shape == contributions.values.shape and size > 0
    # Kernels by the PDE are solved to 1e-3, and each batch rounds in its own way.
    assert contributions.std == pytest.approx(std, rel=0.01, abs=0.005 * size)
    assert contributions.contrast_std == pytest.approx(contrast, rel=0.01, abs=0.005 * size)
    assert [stretch.std for stretch in contributions.main] == pytest.approx(stretches, rel=0.01, abs=0.005 * size)


def test_uncertainty_is_the_same_without_series_and_falls_with_more():
    batch = batch_of(24, 12)
    with_series = finite_committee_of(batch, labels_of(batch, 3), 3)
    bare, _ = without_series(with_series, complete=True)
    (a,), (b,) = (contributions_of(model, batch_of(1, 12, seed=3), 3, batch[:5]) for model in (with_series, bare))
    assert b.std == pytest.approx(a.std, rel=1e-6, abs=1e-6 * a.std.max())
    assert b.contrast_std == pytest.approx(a.contrast_std, rel=1e-6, abs=1e-6 * a.contrast_std.max())
    batch, new = batch_of(120, 12), batch_of(1, 12, seed=3)
    contributions = [contributions_of(finite_committee_of(batch[:n], ends(batch)[:n]), new, None)[0] for n in (12, 120)]
    assert contributions[1].std.mean() < 0.8 * contributions[0].std.mean()


def test_memory_is_bounded_by_channels_at_a_time(monkeypatch: pytest.MonkeyPatch):
    batch = batch_of(24, 12)
    committee = view_committee_of(batch, labels_of(batch, 3), 3)
    (whole,) = contributions_of(committee, batch[:1], 3)
    monkeypatch.setattr(shapley, "_LARGEST_SUMS", 1)  # one channel
    monkeypatch.setattr(shapley, "_LARGEST_CHUNK", 5)
    (parts,) = contributions_of(committee, batch[:1], 3)
    assert parts.std == pytest.approx(whole.std, rel=1e-6)
    assert [stretch.std for stretch in parts.main] == pytest.approx([stretch.std for stretch in whole.main], rel=1e-6)


def test_without_uncertainty_contributions_are_the_same():
    batch = batch_of(12, 20)
    committee = view_committee_of(batch, ends(batch))
    both = (PermutationSettings(4, 4, uncertainty=known) for known in (True, False))
    (whole,), (fast,) = (contributions_of(committee, batch[:1], None, settings=settings) for settings in both)
    assert whole.std is not None and fast.std is None and fast.contrast_std is None
    assert np.array_equal(whole.values, fast.values) and np.array_equal(whole.sampling_error, fast.sampling_error)
    assert fast.main and all(stretch.std is None and "±" not in str(stretch) for stretch in fast.main)
    assert fast.in_units(2.0, 1.0).main[0].value == 2 * fast.main[0].value and "std" in fast.to_dict()
