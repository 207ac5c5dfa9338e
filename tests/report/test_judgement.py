"""Confidence intervals: metrics of counts are those of repeated series, and intervals behave as they should."""

from dataclasses import replace

import numpy as np
import pytest

from siggpde.metrics import classification_metrics, regression_metrics
from siggpde.report.judgement import ClassJudgement, NumberJudgement, intervals, mistakes, parts

LEVELS = np.array([0.025, 0.05, 0.1, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.9, 0.95, 0.975])


def of_classes(n: int = 60, classes: int = 4) -> ClassJudgement:
    generator = np.random.default_rng(0)
    p = generator.dirichlet(np.ones(classes), size=n)
    truth = np.array([generator.choice(classes, p=row) for row in p])
    return ClassJudgement(list("abcd")[:classes], truth, p, -np.log(p[np.arange(n), truth]), None, False)


def of_numbers(n: int = 60) -> NumberJudgement:
    from scipy.stats import norm  # noqa: PLC0415

    generator = np.random.default_rng(0)
    mean, std = generator.normal(size=n), np.full(n, 0.5)
    y = mean + std * generator.normal(size=n)
    quantiles = mean[:, None] + std[:, None] * norm.ppf(LEVELS)
    return NumberJudgement(y, mean, std, -norm.logpdf(y, mean, std), LEVELS, quantiles, None, False)


def test_metrics_and_errors_of_counts_are_those_of_repeated_series():
    judged = of_classes()
    counts = np.random.default_rng(1).multinomial(60, np.full(60, 1 / 60), size=3).astype(float)
    ends = judged.figures(counts)
    for row, plain in enumerate(counts.astype(int)):
        rows = np.repeat(np.arange(60), plain)
        labels = [judged.classes[index] for index in judged.truth[rows]]
        wanted = classification_metrics(labels, judged.p[rows], judged.classes)
        for name in ("accuracy", "balanced_accuracy", "nlpp", "brier", "ece", "f1"):
            assert ends[name][row] == pytest.approx(getattr(wanted, name), abs=1e-12), name
    judged = of_numbers()
    low, high = judged.interval(0.9)
    ends = judged.figures(counts)
    for row, plain in enumerate(counts.astype(int)):
        r = np.repeat(np.arange(60), plain)
        of_rows = judged.y[r], judged.mean[r], judged.std[r], -judged.loss[r]
        wanted = regression_metrics(*of_rows, {0.9: (low[r], high[r])})
        for name in ("rmse", "mae", "r2", "nlpd"):
            assert ends[name][row] == pytest.approx(getattr(wanted, name), abs=1e-12), name
        assert ends["coverage"][row] == pytest.approx(wanted.coverage[0.9])
        assert ends["width"][row] == pytest.approx(wanted.width[0.9])


def test_parts_are_worst_first_and_mistakes_are_counted():
    judgement = replace(of_classes(), groups=np.arange(60) % 7)
    for by_group in (False, True):
        shares = parts(judgement, by_group)
        assert sum(part.series for part in shares) == 60
        assert sum(part.series * part.value for part in shares) == pytest.approx(judgement.right.sum())
        assert [part.value for part in shares] == sorted(part.value for part in shares)
        assert all(part.low <= part.value <= part.high for part in shares)
    numbers = replace(of_numbers(), groups=np.arange(60) % 7)
    shares = parts(numbers, True)
    assert sum(part.series * part.value**2 for part in shares) == pytest.approx(60 * numbers.rmse**2)
    assert [part.value for part in shares] == sorted((part.value for part in shares), reverse=True)
    truth, named = np.array([0, 0, 0, 1, 2]), np.array([1, 1, 0, 0, 2])
    judgement = ClassJudgement(list("abc"), truth, np.eye(3)[named], np.zeros(5), None, False)
    assert mistakes(judgement) == [("a", "b", 2), ("b", "a", 1)] and mistakes(judgement, 1) == [("a", "b", 2)]


def test_intervals_of_a_mean_and_of_groups():
    values = np.random.default_rng(0).normal(size=400)
    ends = intervals(lambda counts: {"mean": counts @ values / counts.sum(axis=1)}, 400)["mean"]
    half = 1.96 * values.std() / 20
    assert ends.value == pytest.approx(values.mean())
    assert ends.low == pytest.approx(values.mean() - half, abs=0.015)
    assert ends.high == pytest.approx(values.mean() + half, abs=0.015)
    values = np.repeat(np.random.default_rng(0).normal(size=20), 20)
    groups = np.repeat(np.arange(20), 20)

    def mean(counts: np.ndarray) -> dict[str, np.ndarray]:
        return {"mean": counts @ values / counts.sum(axis=1)}

    apart, together = intervals(mean, 400)["mean"], intervals(mean, 400, groups)["mean"]
    ratio = (together.high - together.low) / (apart.high - apart.low)
    assert ratio == pytest.approx(20**0.5, rel=0.15)


def test_values_are_within_their_intervals_and_seeds_decide():
    def scores(judgement: ClassJudgement | NumberJudgement, seed: int):
        return intervals(judgement.figures, len(judgement), judgement.groups, seed)

    judged, numbers = of_classes(), of_numbers()
    for ends in (scores(judged, 0), scores(numbers, 0)):
        for name, value in ends.items():
            if name != "ece":  # of which resamples have more: noise adds to it
                assert value.low <= value.value <= value.high, name
    assert scores(judged, 0) == scores(judged, 0) != scores(judged, 1)


def test_classes_have_intervals_of_resampled_groups():
    right = np.repeat([True, False, True, True], 25)
    p = np.where(right[:, None], [0.9, 0.1], [0.1, 0.9])
    judgement = ClassJudgement(["a", "b"], np.zeros(100, dtype=int), p, -np.log(p[:, 0]), None, False)
    both = (replace(judgement, groups=groups) for groups in (None, np.repeat(np.arange(4), 25)))
    (apart,), (together,) = (parts(one, False) for one in both)
    assert apart.value == together.value == 0.75
    assert together.low == pytest.approx(0.25) and together.high == 1 and apart.low > 0.6
