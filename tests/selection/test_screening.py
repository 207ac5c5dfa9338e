"""Screening finds what matters, says what it tried, and builds models of it."""

import json
import math
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor

import siggpde
from siggpde.gp.likelihoods import Gaussian, LeastSquares, Softmax, StudentT
from siggpde.selection import screening as module
from siggpde.selection.screening import Candidate, Screening
from siggpde.series import PathOptions

LABELS = torch.arange(80) % 2
SMALL: dict[str, Any] = {"max_words": 60}


def walks(n: int = 40, length: int = 12, channels: int = 2, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, length, channels, generator=generator, dtype=torch.float64).cumsum(dim=1)


def least(found: Screening, **wanted: Any) -> float:
    """The least score of what was tried with these settings."""
    return min(e["score"] for e in found.report if all(e[key] == value for key, value in wanted.items()))


def test_positions_need_a_base_point_and_screening_finds_out():
    found = siggpde.screen(0.1 * walks(80) + LABELS[:, None, None], LABELS, **SMALL)
    assert found.candidate.options.base_point and found.result.error == 0
    assert found.result.score < 0.1 and least(found, base_point=False) > 0.5


def test_when_something_happens_needs_more_than_linear_words_of_changes():
    """A step up and down again that comes early or late."""
    series = 0.02 * walks(80, 20, 1)
    for i, late in enumerate(LABELS.tolist()):
        series[i, 12 if late else 4 : 16 if late else 8] += 1
    assert siggpde.screen(series, LABELS, **SMALL).result.error == 0


def test_roughness_needs_what_a_path_hides():
    noise = torch.randn(80, 24, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    slow = torch.linspace(0, 3, 24).double()[:, None] * torch.randn(
        80, 1, 2, generator=torch.Generator().manual_seed(2)
    )
    found = siggpde.screen(slow.double() + noise * torch.where(LABELS == 1, 0.15, 0.05)[:, None, None], LABELS, **SMALL)
    options = found.candidate.options
    assert options.append != "none" or options.lead_lag
    assert found.result.score < least(found, append="none", lead_lag=False) - 0.01


def test_time_stamps_are_seen_where_only_they_differ():
    series = torch.linspace(0, 1, 10).double()[:, None] + 0.02 * walks(80, 10, 1)
    times = torch.linspace(0, 1, 10).double() ** torch.where(LABELS == 1, 2.0, 0.6).double()[:, None]
    found = siggpde.screen(series, LABELS, times=times, **SMALL)
    assert found.result.error == 0 and found.transform.duration is not None
    without = siggpde.screen(series, LABELS, **SMALL)
    assert without.result.score > 0.5 and without.transform.duration is None
    paths, _ = found.transform(series, times=times)
    assert paths.isfinite().all()


def test_of_those_alike_the_plain_one_is_taken():
    found = siggpde.screen(0.01 * walks(80) + LABELS[:, None, None], LABELS, **SMALL)
    assert found.candidate.options == PathOptions() and found.candidate.degree is None


def test_others_are_of_other_kinds_the_best_first():
    found = siggpde.screen(walks(60), torch.arange(60) % 2, **SMALL)
    everything = [found, *found.others]
    kinds = [one.candidate.kind for one in everything]
    assert len(set(kinds)) == len(kinds) >= 4
    scores = [one.result.score for one in everything]
    assert all(b > a - 1e-5 for a, b in pairwise(scores)) and scores[0] < scores[-1]
    for one in everything:
        tried = [
            e
            for e in found.report
            if (e["append"], e["degree"]) == (one.candidate.options.append, one.candidate.degree)
        ]
        assert one.result.score in [e["score"] for e in tried]
        assert one.report is found.report and one.others == found.others[: 0 if one is not found else None]
        assert one.build().features.words == one.words


def test_more_series_than_the_first_round_takes(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "_WORK", 10 * 12 * 60 * 30)  # 30 series for the first round
    found = siggpde.screen(walks(80), LABELS, **SMALL)
    sizes = [entry["series"] for entry in found.report]
    assert set(sizes) == {30, 80} and sizes == sorted(sizes) and found.series == 80
    assert 1 <= len(found.others) <= 3
    few = siggpde.screen(walks(80), LABELS, max_series=20, **SMALL)
    assert {entry["series"] for entry in few.report} == {20} and few.series == 20


def test_the_same_seed_finds_the_same_and_nothing_global_moves():
    series, labels = walks(), torch.arange(40) % 2
    kept, before = series.clone(), torch.get_rng_state()
    first, second = (siggpde.screen(series, labels, max_series=30, seed=3, **SMALL) for _ in range(2))
    assert torch.equal(before, torch.get_rng_state()) and torch.equal(series, kept)
    assert first.candidate == second.candidate
    assert torch.equal(first.theta, second.theta) and first.result.score == second.result.score
    drop = {"seconds"}
    for one, other in zip(first.report, second.report, strict=True):
        assert {k: v for k, v in one.items() if k not in drop} == {k: v for k, v in other.items() if k not in drop}
    third = siggpde.screen(series, labels, max_series=30, seed=4, **SMALL)
    assert third.report[0]["score"] != first.report[0]["score"], "another seed takes other series"


def test_a_model_is_built_for_classes_and_for_numbers():
    series = walks()
    some = [Candidate(PathOptions(), 4.0, 1.0, 60)]
    classes = siggpde.screen(series, torch.arange(40) % 3, candidates=some)
    model = classes.build()
    assert isinstance(model.likelihood, LeastSquares) and model.likelihood.classes == 3
    assert model.likelihood.temperature == classes.result.temperature
    assert model.variational.shared and model.features.rank is None
    assert (model.likelihood.noise / model.kernel.amplitude).item() == pytest.approx(classes.result.noise)
    assert classes.build(rank=10).features.size == 10
    soft = classes.build(Softmax(3), covariance="diagonal", dtype=torch.float32)
    assert soft.variational.covariance == "diagonal" and soft.dtype == torch.float32
    assert classes.build(Softmax(3)).variational.covariance == "full"
    y = 100 * series[:, -1, 0]
    numbers = siggpde.screen(series, y, candidates=some)
    assert isinstance(numbers.build().likelihood, Gaussian) and len(numbers.report) == 1
    assert numbers.build(StudentT()).variational.covariance == "full"
    paths, _ = numbers.transform(series)
    for schedule in (siggpde.Exact(), siggpde.NaturalGradients()):
        model = numbers.build()
        siggpde.fit(model, (paths, y), schedule, screening=numbers, progress=False)
        assert (model.predict(paths)[0] - y).square().mean() < 0.1 * y.var()


def test_the_exact_posterior_is_the_regression_that_was_judged():
    series, labels = walks(60), torch.arange(60) % 2
    found = siggpde.screen(series, labels, candidates=[Candidate(words=60)])
    model = found.build()
    paths, _ = found.transform(series)
    siggpde.fit(model, (paths, labels), siggpde.Exact(tune=False), progress=False)
    values = siggpde.signature(paths * found.theta, words=found.words)
    predicted = values / values.norm(dim=1, keepdim=True) @ found.result.weights
    assert torch.allclose(model.predict_f(paths)[0], predicted, atol=1e-6)


@pytest.mark.parametrize("likelihood", [None, Softmax(2)], ids=["least squares", "softmax"])
def test_the_weights_found_start_the_fit(likelihood: Any):
    series, labels = walks(60), torch.arange(60) % 2
    found = siggpde.screen(series, labels, candidates=[Candidate(words=60)])
    model = found.build(likelihood, rank=None)
    start = found.starting_mean(model)
    assert start is not None and start.shape == model.variational.mean.shape
    paths, _ = found.transform(series)
    with torch.no_grad():
        model.variational.mean.copy_(start)
    values = siggpde.signature(paths * found.theta, words=found.words)
    predicted = values / values.norm(dim=1, keepdim=True) @ found.result.weights
    factor = 1.0 if likelihood is None else found.result.temperature
    assert torch.allclose(model.predict_f(paths)[0], factor * predicted, rtol=1e-8)
    assert found.starting_mean(found.build(Softmax(5))) is None


def test_many_classes_take_fewer_directions():
    found = siggpde.screen(walks(), torch.arange(40) % 3, candidates=[Candidate(words=700)], max_words=700)
    few, many = found.build(Softmax(3)), found.build(Softmax(400))
    assert few.features.size == min(500, len(found.words))
    assert many.variational.root.numel() * 8 <= 2**27


def test_ragged_series_and_a_time_limit():
    series = [walks(1, 5 + i % 6)[0] * (1 + i % 2) for i in range(24)]
    labels = torch.arange(24) % 2
    found = siggpde.screen(series, labels, time_limit=0.0, **SMALL)
    full = siggpde.screen(series, labels, **SMALL)
    assert 1 <= len(found.report) < len(full.report)
    assert found.build().features.words == found.words
    facts = json.loads(json.dumps(full.to_dict()))
    assert len(facts["tried"]) == len(full.report) and facts["score"] == full.result.score


def test_a_candidate_that_overflows_is_left_out_and_reported():
    wild = Candidate(path_length=1e60, words=60)
    found = siggpde.screen(walks(), torch.arange(40) % 2, candidates=[wild, Candidate(words=60)])
    assert "too large" in found.report[0]["failed"] and found.candidate == Candidate(words=60)
    with pytest.raises(ArithmeticError, match="no candidate could be scored"):
        siggpde.screen(walks(), torch.arange(40) % 2, candidates=[wild])


def one_bad(place: int) -> Tensor:
    series = walks(50)
    series[place, 3, 1] = math.nan
    return series


@pytest.mark.parametrize(
    ("series", "labels", "more", "message"),
    [
        (walks(1), torch.zeros(1).long(), {}, "two or more"),
        (walks(5), torch.zeros(4).long(), {}, r"shape \(5,\)"),
        (one_bad(37), torch.arange(50) % 2, {"max_series": 10}, "in series 37, at time index 3, channel 1"),
        (walks(5), torch.tensor([0, 1, -1, 0, 1]), {}, "target 2 is -1: labels must be whole numbers"),
        (walks(5), torch.tensor([0.0, 1.0, math.nan, 0.0, 1.0]), {}, "target 2 is nan: targets must be finite"),
        (walks(5), torch.arange(5) % 2, {"times": torch.zeros(5, 3)}, r"times must have shape \(5, 12\), got \(5, 3\)"),
    ],
)
def test_errors_say_what_is_wrong(series: Tensor, labels: Tensor, more: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        siggpde.screen(series, labels, **more)


def test_one_class_only_still_makes_a_model():
    found = siggpde.screen(walks(10), torch.zeros(10).long(), candidates=[Candidate(words=20)])
    assert found.classes == 2 and found.result.error == 0
    assert isinstance(found.build().likelihood, LeastSquares)
