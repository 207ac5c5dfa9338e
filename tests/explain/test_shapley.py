"""Contributions of segments and channels add up, find what was planted, and beat simpler ones by deletion curves."""

import functools
import itertools
import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from helpers.refusals import assert_refused
from helpers.small_committees import batch_of, ends, labels_of, latents, one_member
from helpers.small_view_committees import explained, finite_committee_of, view_committee_of
from siggpde import SigGPClassifier
from siggpde.committee.weight_space import without_series
from siggpde.datasets import load_dataset
from siggpde.explain import PermutationSettings, SeriesExplanation, Stretch, deletion_curve, explain_series, shapley
from siggpde.explain.posterior import over_members
from siggpde.explain.terms import stretched, terms_of
from siggpde.explain.text import moving_together, when
from siggpde.gp.likelihoods import Bernoulli, Gaussian, Poisson, Softmax
from siggpde.series import SeriesBatch

NAMES = ["a", "b"]
WORDS = {"softmax": Softmax(3), "bernoulli": Bernoulli(), "poisson": Poisson(0.7), "gaussian": Gaussian()}
KINDS = ["closed form", "number", "without series", *WORDS]
EXACT = {"rel": 1e-8, "abs": 1e-8}


def model(kind: str, batch: SeriesBatch):
    """A committee of this kind, and its number of classes."""
    if kind in WORDS:
        return one_member(batch, WORDS[kind]), {"softmax": 3, "bernoulli": 2}.get(kind)
    if kind == "number":
        return view_committee_of(batch, ends(batch) / 4), None
    if kind == "without series":
        return without_series(finite_committee_of(batch, labels_of(batch, 3), 3), complete=True)[0], 3
    return view_committee_of(batch, labels_of(batch, 3), 3), 3


def wanted(kind: str, committee, batch: SeriesBatch) -> Tensor:
    """Logits or numbers, (n, outputs)."""
    if kind not in WORDS:
        return explained(committee, batch)
    (mean,) = latents(committee, batch)
    return torch.cat([0 * mean, mean], dim=1) if kind == "bernoulli" else mean + (0.7 if kind == "poisson" else 0.0)


def explain(committee, batch, classes, background=None, **settings) -> list[SeriesExplanation]:
    labels = None if classes is None else [f"class {number}" for number in range(classes)]
    sampling = PermutationSettings(**{"segments": 4, "permutations": 4} | settings)
    return explain_series(committee, batch, NAMES, labels, background=background, walks=sampling)


@pytest.mark.parametrize(
    ("kind", "ragged"), [*itertools.product(KINDS, [False]), ("closed form", True), ("softmax", True)]
)
def test_contributions_add_up_to_the_latents_less_their_baseline(kind: str, ragged: bool):
    training = batch_of(24, 18, ragged=ragged)
    committee, classes = model(kind, training)
    new = batch_of(2, 18, seed=1, ragged=ragged)
    full = wanted(kind, committee, new).numpy()
    ordinary = terms_of(committee).ordinary
    for background in (None, batch_of(6, 18, seed=2)):
        for row, result in enumerate(explain(committee, new, classes, background)):
            segments = result.segments
            assert segments is not None and segments.values.shape == (4, 2, classes or 1)
            values = ordinary[None] if background is None else background.values
            length = int(new.counts()[row])
            moved = torch.nn.functional.interpolate(values.mT, size=length, mode="linear", align_corners=True)
            baseline = wanted(kind, committee, SeriesBatch(moved.mT)).mean(0).numpy()
            assert segments.baseline == pytest.approx(baseline, **EXACT)
            assert segments.latents == pytest.approx(full[row], **EXACT)
            assert segments.values.sum((0, 1)) == pytest.approx(segments.latents - segments.baseline, **EXACT)
            if classes is not None:
                first, second = (int(str(label)[-1]) for label in (result.label, result.runner_up))
                values, ends_at = segments.values, segments.latents
                assert segments.contrast == pytest.approx(values[..., first] - values[..., second], **EXACT)
                assert ends_at[first] - ends_at[second] == pytest.approx(result.latent, **EXACT)
            json.dumps(result.to_dict())


def test_permutations_average_to_the_values_of_all_orders():
    """Against an oracle: every order of segments, and of channels within them."""
    batch = batch_of(20, 12)
    committee = view_committee_of(batch, ends(batch))
    one, average = batch[3:4], terms_of(committee).ordinary

    @functools.cache
    def value(kept: frozenset[tuple[int, int]]) -> float:
        values = average.clone()
        for segment, channel in kept:
            values[segment * 4 : segment * 4 + 4, channel] = one.values[0, segment * 4 : segment * 4 + 4, channel]
        return float(explained(committee, SeriesBatch(values[None]))[0, 0])

    exact = np.zeros((3, 2))
    orders = list(itertools.product(itertools.permutations(range(3)), *[list(itertools.permutations(range(2)))] * 3))
    for segments, *channels in orders:
        kept: frozenset[tuple[int, int]] = frozenset()
        for segment in segments:
            for channel in channels[segment]:
                more = kept | {(segment, channel)}
                exact[segment, channel] += (value(more) - value(kept)) / len(orders)
                kept = more
    (result,) = explain(committee, one, None, segments=3, permutations=100)
    assert result.segments is not None
    assert (np.abs(result.segments.values[..., 0] - exact) <= 4 * result.segments.sampling_error[..., 0] + 1e-6).all()
    assert result.segments.sampling_error.max() < 0.1 * np.abs(exact).max()


def test_draws_are_those_of_the_seed_and_their_spread_is_the_sampling_error():
    batch = batch_of(20, 16)
    committee = view_committee_of(batch, ends(batch))
    drawn = [explain(committee, batch[:1], None, permutations=8, seed=seed)[0].segments for seed in range(10)]
    spread = np.std([segments.values for segments in drawn if segments is not None], axis=0, ddof=1)
    errors = np.mean([segments.sampling_error for segments in drawn if segments is not None], axis=0)
    assert 0.6 < np.sqrt((spread**2).mean() / (errors**2).mean()) < 1.6
    committee = view_committee_of(batch, labels_of(batch, 2), 2)
    two = explain(committee, batch[:2], 2)
    assert explain(committee, batch[:2], 2) == two
    assert explain(committee, batch[:2], 2, seed=1)[0].segments != two[0].segments
    (alone,) = explain(committee, batch[1:2], 2)
    assert alone.segments is not None and two[1].segments is not None
    assert alone.segments.values == pytest.approx(two[1].segments.values, abs=1e-5)


def planted(n: int, seed: int, wandering: bool) -> tuple[SeriesBatch, Tensor, Tensor]:
    """Noise with a bump of class c in channel c, in segment 2 + 3 c of 8 or anywhere, and the segments' numbers."""
    random = torch.Generator().manual_seed(seed)
    values = 0.5 * torch.randn(n, 40, 2, generator=random, dtype=torch.float64)
    labels = torch.arange(n) % 2
    segments = torch.randint(8, (n,), generator=random) if wandering else 2 + 3 * labels
    bump = 3 * torch.hann_window(7, periodic=False, dtype=torch.float64)[1:-1]
    for row, (label, segment) in enumerate(zip(labels.tolist(), segments.tolist(), strict=True)):
        values[row, 5 * segment : 5 * segment + 5, label] += bump
    return SeriesBatch(values), labels, segments


@pytest.mark.parametrize("background", [False, True])
@pytest.mark.parametrize("wandering", [False, True])
def test_the_planted_segment_and_channel_are_found(wandering: bool, background: bool):
    training, labels, _ = planted(60, 0, wandering)
    committee = finite_committee_of(training, labels, 2)
    new, _, where = planted(40, 1, wandering)
    base = training[:20] if background else None
    explanations = explain(committee, new, 2, base, segments=8, permutations=8)
    hits = []
    for result, label, segment in zip(explanations, itertools.cycle((0, 1)), where.tolist(), strict=False):
        assert result.segments is not None
        place = np.unravel_index(result.segments.values[..., label].argmax(), (8, 2))
        hits.append(tuple(place) in ([(segment, label)] if wandering else [(2, 0), (5, 1)]))
    assert np.mean(hits) >= 0.95


def test_segments_of_time_stamps_of_facts_and_of_short_series():
    batch = batch_of(12, 20)
    times = torch.linspace(0, 1, 20, dtype=torch.float64).square().expand(12, -1)
    timed = replace(batch, times=times)
    (result,) = explain(view_committee_of(timed, ends(batch)), timed[:1], None)
    assert result.segments is not None
    assert result.segments.starts.tolist() == times[0, ::5].tolist()
    assert result.segments.ends.tolist() == times[0, 4::5].tolist()
    statistics = torch.full((12, 9), 200.0, dtype=torch.float64)  # averaged from 200 points
    (result,) = explain(view_committee_of(batch, ends(batch)), replace(batch, statistics=statistics)[:1], None)
    assert result.segments is not None
    assert result.segments.starts.tolist() == [0, 50, 100, 150] and result.segments.ends.tolist() == [49, 99, 149, 199]
    batch = batch_of(12, 5)
    committee = view_committee_of(batch, ends(batch))
    (result,) = explain(committee, batch[:1], None, segments=10)
    assert result.segments is not None and result.segments.values.shape == (5, 2, 1)
    assert result.segments.starts.tolist() == result.segments.ends.tolist() == [0, 1, 2, 3, 4]
    scaled = result.in_units(10.0, 3.0).segments
    assert scaled is not None and scaled.latents == pytest.approx(3 + 10 * result.segments.latents)
    assert scaled.values.sum((0, 1)) == pytest.approx(scaled.latents - scaled.baseline, **EXACT)
    assert [stretch.value for stretch in scaled.main] == [10 * stretch.value for stretch in result.segments.main]


def test_stretches_and_their_times_by_hand():
    values = torch.tensor([[4.0, 0.1], [3.0, -1.0], [-2.0, -1.5], [0.5, 0.0]])
    assert shapley.main_runs(values, 5) == [shapley.Run(0, 0, 1), shapley.Run(1, 1, 2), shapley.Run(0, 2, 2)]
    assert shapley.main_runs(values, 1) == [shapley.Run(0, 0, 1)]
    assert shapley.main_runs(0 * values, 5) == []
    assert when(0.1 + 0.2, 12) == "0.3 to 12" and when(3, 3) == "at 3"
    assert when(1234567, 1234569) == "1234567 to 1234569"
    assert when(1.7e9 + 0.25, 1.7e9 + 3600) == "1700000000.25 to 1700003600"


def test_wrong_settings_and_contributions_are_refused():
    assert_refused("segments must be at least", PermutationSettings, segments=-1)
    assert_refused("permutations must be at least", PermutationSettings, permutations=3)
    for wrong in ([], [[1.0]], [np.nan, 1.0]):
        assert_refused("contributions must be finite", deletion_curve, lambda masks: masks.sum(1), wrong)


def test_sentences_tell_channels_that_do_the_same_together():
    batch = batch_of(12, 20)
    (result,) = explain(view_committee_of(batch, ends(batch)), batch[:1], None)
    assert result.segments is not None
    main = [
        Stretch("z", 12, 15, "falls", 0.5, 0.1, 0.1),
        Stretch("x", 0, 9, "rises", 1.0, 0.1, 0.1),
        Stretch("y", 5, 9, "rises", 0.8, 0.1, 0.1),
        Stretch("w", 4, 8, "is high", 0.7, 0.1, 0.1),
        Stretch("x", 16, 19, "rises", -2.0, 0.1, 0.1),
    ]
    segments = replace(result.segments, main=main)
    assert segments.sentence == "x and y rise while w is high, then z falls, points 0 to 15"
    assert replace(segments, timed=True).sentence == "x and y rise while w is high, then z falls, 0 to 15"
    assert replace(segments, main=main[4:]).sentence == ""
    again = [Stretch("z", 17, 18, "falls", 0.4, 0.1, 0.1), *main[:2]]
    assert replace(segments, main=again).sentence == "x rises, then z falls, points 0 to 18"
    assert str(main[0]) == "z falls, 12 to 15: +0.5 ± 0.1"


CHANNELS = 5


@pytest.fixture(scope="module")
def terms():
    batch = batch_of(24, 20, channels=CHANNELS)
    return terms_of(view_committee_of(batch, labels_of(batch, 3), 3))


def series_and_ends(terms, background: bool) -> tuple[SeriesBatch, shapley.Ends]:
    one = batch_of(1, 20, channels=CHANNELS, seed=4)
    references = batch_of(6, 20, channels=CHANNELS, seed=5).values if background else terms.ordinary[None]
    begins = shapley.member_logits(terms, SeriesBatch(references))
    return one, shapley.Ends(shapley.member_logits(terms, one)[:, 0], references, begins, torch.arange(len(references)))


@pytest.mark.parametrize("background", [False, True])
def test_means_spreads_and_latents_are_those_without_groups(terms, background: bool):
    plans = shapley.plans_of(terms)
    assert len(plans) == 2  # windows of the series and of the spectrum
    one, ends = series_and_ends(terms, background)
    settings, runs = PermutationSettings(4, 4, 2), [shapley.Run(1, 0, 2), shapley.Run(3, 2, 2)]
    fast, slow = (shapley.sample_credits(terms, one, ends, settings, used_plans) for used_plans in (plans, {}))
    torch.testing.assert_close(fast.credits, slow.credits, rtol=1e-6, atol=1e-6)  # features are float32
    pair = torch.tensor([0, 2])
    spreads = (shapley.posterior_spread(terms, sampled, pair, runs) for sampled in (fast, slow))
    for one_way, other_way in zip(*spreads, strict=True):
        torch.testing.assert_close(one_way, other_way, rtol=1e-6, atol=1e-6)
    again = shapley.posterior_spread(terms, fast, pair, runs[1:])  # of variances that are known by now
    anew = shapley.posterior_spread(terms, fast._replace(variances={}), pair, runs[1:])
    for one_way, other_way in zip(again, anew, strict=True):
        torch.testing.assert_close(one_way, other_way)
    cuts = shapley.sample_credits(terms, one, ends, PermutationSettings(4, 4, 2), shapley.plans_of(terms)).cuts
    numbers = cuts.numbers()
    _, means = shapley.add_up(terms, cuts, list(range(20)), shapley.plans_of(terms))
    plain, _ = terms.committee.member_latents(cuts.series(numbers))
    torch.testing.assert_close(means, plain, rtol=1e-6, atol=1e-6)


def test_states_are_what_is_kept_and_the_reference_of_the_rest():
    mask = torch.tensor([[[1, 0], [1, 1]], [[1, 1], [1, 0]], [[1, 1], [1, 0]], [[0, 1], [1, 1]]]).bool()
    states = shapley.States(mask, torch.tensor([0, 1, 2, 0]))
    first, state = states.of([0])
    assert state[0] == state[1] == state[2] != state[3] and len(first) == 2
    first, state = states.of([1])
    assert len(first) == 4  # the second and the third have other references
    assert torch.equal(mask[first][:, :, 1], mask[:, :, 1][first])


SERIES = 24


def test_areas_of_a_sum_are_those_of_its_terms():
    terms = np.array([4.0, 3.0, 2.0, 1.0])

    def f(masks: np.ndarray) -> np.ndarray:
        return masks @ terms

    best, worst = deletion_curve(f, terms), deletion_curve(f, -terms)
    assert best.values.tolist() == pytest.approx([10, 6, 3, 1, 0])
    assert best.area == pytest.approx((5 + 6 + 3 + 1) / 4) and best.area < worst.area
    assert deletion_curve(f, terms, insertion=True).values.tolist() == pytest.approx([0, 4, 7, 9, 10])


def by_gradients(f, values: torch.Tensor, reference: torch.Tensor, of_point: torch.Tensor) -> np.ndarray:
    """Gradient times (series - reference), by finite differences along every piece, (segments * channels,)."""
    segments, channels = int(of_point[-1]) + 1, values.shape[1]
    step, moved = 1e-2, []
    for segment in range(segments):
        for channel in range(channels):
            copy = values.clone()
            inside = of_point == segment
            copy[inside, channel] -= step * (values - reference)[inside, channel]
            moved.append(copy)
    values_there = f(torch.stack([values, *moved]))
    return (values_there[0] - values_there[1:]) / step


@pytest.mark.slow
@pytest.mark.parametrize("name", ["GunPoint", "BasicMotions", "UWaveGestureLibrary"])
def test_explanations_of_real_series_beat_gradients_and_permutations(name: str):
    try:
        data = load_dataset(name, download=False)
    except (FileNotFoundError, ValueError) as error:
        pytest.skip(f"the data set is not there: {error}")
    model = SigGPClassifier().fit(data.X_train, data.y_train)
    random = np.random.default_rng(0)
    chosen = [data.X_test[row] for row in random.permutation(len(data.X_test))[:SERIES]]
    batch = model.preparation_(chosen)
    terms = terms_of(model.committee_)
    reference = stretched(terms.ordinary, batch.values.shape[1])
    areas = []
    for row, result in enumerate(model.explain(chosen)):
        there = result.segments
        assert there is not None and there.classes is not None
        first, second = (there.classes.index(label) for label in (result.label, result.runner_up))
        values = batch.values[row]
        segments, channels = there.contrast.shape
        of_point = shapley.segments_of(len(values), segments, values.device)

        def latent(series: torch.Tensor, first: int = first, second: int = second) -> np.ndarray:
            logits = over_members(terms, shapley.member_logits(terms, SeriesBatch(series)))
            return (logits[:, first] - logits[:, second]).numpy()

        def f(masks: np.ndarray, values=values, of_point=of_point, latent=latent, channels=channels) -> np.ndarray:
            kept = torch.from_numpy(masks).view(len(masks), -1, channels)[:, of_point]
            return latent(torch.where(kept, values, reference))

        ours = there.contrast.ravel()
        ways = [ours, by_gradients(latent, values, reference, of_point), random.permutation(ours)]
        areas.append([[deletion_curve(f, way, insertion=after).area for way in ways] for after in (False, True)])
    deletion, insertion = np.mean(areas, axis=0)
    print(f"{name}: deletion {deletion.round(2)}, insertion {insertion.round(2)} (ours, gradient, random)")
    assert deletion[0] < min(deletion[1:]) and insertion[0] > max(insertion[1:])


def test_filled_values_are_told_as_no_reading():
    X = np.random.default_rng(0).normal(size=(40, 2, 20))
    y = np.arange(40) % 2
    X[y == 1, 0, 8:12] += 6.0
    model = SigGPClassifier(members=1, n_features=30).fit(X, y)
    x = X[1:2].copy()
    (before,) = model.explain(x, segments=5)
    assert before.sentence.startswith("channel 0 falls, points 8 to 11")
    x[:, 0, 8:12] = np.nan
    (why,) = model.explain(x, segments=5)
    assert why.segments is not None and why.sentence.startswith("channel 0 has no reading, points 8 to 11")
    assert all(one.does != "has no reading" for one in why.segments.main[1:])
    assert moving_together(["x", "y"], "has no reading") == "x and y have no reading"
