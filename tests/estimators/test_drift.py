"""`siggpde.drift`: an exact level, power against what changes in practice, and a statistic that is MMD²."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from siggpde import Drift, drift, signature_kernel
from siggpde.estimators.drift import mmd, signature_gram
from siggpde.series import Preparation


def random_walks(n: int, seed: int, channels: int = 2, length: int = 24) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, channels, length)).cumsum(axis=2)


def double_sum(gram: torch.Tensor, x: list[int], y: list[int]) -> float:
    within = [sum(gram[i, j] for i in rows for j in rows if i != j) / len(rows) / (len(rows) - 1) for rows in (x, y)]
    return float(sum(within) - 2 * sum(gram[i, j] for i in x for j in y) / len(x) / len(y))


def test_statistic_and_result_are_the_double_sum():
    generator = torch.Generator().manual_seed(0)
    root = torch.randn(11, 4, generator=generator, dtype=torch.float64)
    gram = root @ root.T
    new = torch.tensor([True, False, False, True, True, False, True, False, False, False, True])
    x, y = (~new).nonzero()[:, 0].tolist(), new.nonzero()[:, 0].tolist()
    actual = mmd(gram, torch.stack([new, ~new]))
    assert actual.tolist() == pytest.approx([double_sum(gram, x, y)] * 2, rel=1e-12)
    reference, new = random_walks(7, 0), random_walks(9, 1) + 1.0
    batch = Preparation().fit_transform(np.concatenate([reference, new]))
    gram = signature_gram(type(batch)(batch.values, None, torch.arange(24.0).double().expand(16, 24)))
    x, y = [*range(7)], [*range(7, 16)]
    actual = drift(reference, new, permutations=10)
    assert actual.statistic == pytest.approx(double_sum(gram, x, y), abs=1e-6)
    assert (actual.n_reference, actual.n_new) == (7, 9)


def test_the_kernel_is_the_normalised_signature_kernel_of_positions_and_time():
    batch = Preparation().fit_transform(random_walks(8, 0))
    times = torch.arange(24.0).double().expand(8, 24)
    gram = signature_gram(type(batch)(batch.values, None, times))
    values = (batch.values - batch.values.mean((0, 1))) / batch.values.std((0, 1), correction=0)
    path = torch.cat([torch.zeros(8, 1, 2).double(), values], dim=1)
    clock = torch.cat([times[:, :1], times], dim=1)[:, :, None] / 23 * math.sqrt(2)
    path = torch.cat([clock, path], dim=2)
    path = 6 * path / path.diff(dim=1).norm(dim=2).sum(1).median()
    assert torch.allclose(gram, signature_kernel(path, normalize=True), atol=1e-4)


def test_series_of_one_source_have_uniform_p_values():
    """With 19 permutations p is one of 20 values, each of probability 1/20."""
    pairs = ((random_walks(6, 2 * s, 1, 8), random_walks(9, 2 * s + 1, 1, 8)) for s in range(150))
    actual = np.array([drift(*pair, permutations=19).p_value for pair in pairs])
    for level in (0.1, 0.25, 0.5, 0.75):
        error = math.sqrt(level * (1 - level) / len(actual))
        assert abs((actual <= level + 1e-9).mean() - level) < 3.5 * error
    assert actual.min() >= 1 / 20 and actual.max() <= 1


def rougher(X: np.ndarray) -> np.ndarray:
    return X + 2 * np.random.default_rng(9).normal(size=X.shape)


@pytest.mark.parametrize(
    ("change", "shifted"),
    [
        (lambda X: X + 4.0, "level of"),
        (lambda X: 3 * X, "spread of"),
        (rougher, "roughness of"),
        (lambda X: X[:, :, :12], "length: 24 to 12"),
        (lambda X: [x[:, : 10 + i % 5] for i, x in enumerate(X)], "length: -"),
        (lambda X: X * np.array([1.0, -1.0])[:, None] + np.arange(24), ""),
    ],
    ids=["shifted", "scaled", "rougher", "shortened", "ragged", "trend"],
)
def test_what_changed_is_found(change: Any, shifted: str):
    actual = drift(random_walks(40, 0), change(random_walks(40, 1)))
    assert actual.p_value < 0.02 and actual.statistic > 0
    assert actual.shifted.startswith(shifted)


def test_a_shift_is_in_standard_deviations_of_the_named_channel():
    reference, new = random_walks(40, 0), random_walks(40, 1)
    new[:, 1] += 30.0
    level = [walk[:, 1].mean(axis=1) for walk in (reference, new)]
    sd = math.sqrt((level[0].var() + level[1].var()) * 40 / 78)
    actual = drift(reference, new, channel_names=["x", "y"])
    assert actual.shifted == f"level of y: {(level[1].mean() - level[0].mean()) / sd:+.1f} sd"


def test_order_does_not_matter():
    reference, new = random_walks(30, 0), random_walks(25, 1) + 0.5
    actual = drift(reference, new, permutations=200)
    shuffled = drift(reference[::-1], new[np.random.default_rng(0).permutation(25)], permutations=200)
    assert (shuffled.p_value, shuffled.statistic) == (actual.p_value, actual.statistic)
    fewer = drift(reference, new, max_series=12)
    assert (fewer.n_reference, fewer.n_new) == (12, 12)
    assert drift(reference[::-1], new[::-1], max_series=12).statistic == fewer.statistic
    assert drift(reference, new, max_series=12, random_state=1).statistic != fewer.statistic


def test_gaps_lengths_and_channels_without_a_value_are_taken():
    generator = np.random.default_rng(3)
    sets = []
    for seed in (0, 1):
        X = random_walks(30, seed)
        X[generator.random(X.shape) < 0.1] = np.nan
        X[:5, 1] = np.nan
        sets.append([x[:, : 15 + i % 10] for i, x in enumerate(X)])
    actual = drift(*sets)
    assert actual.p_value > 0.05
    sets[1] = [np.where(np.arange(x.shape[1]) % 2, np.nan, x) for x in sets[1]]
    assert drift(*sets).shifted.startswith("share of missing values")


def test_time_stamps_and_lengths_count():
    times = np.broadcast_to(np.arange(24.0), (40, 24))
    reference, new = (np.concatenate([t[:, None], random_walks(40, s)], axis=1) for s, t in ((0, times), (1, times)))
    names = ["hour", "x", "y"]
    assert drift(reference, new, time_channel=0, channel_names=names).p_value > 0.05
    new[:, 0] *= 5
    actual = drift(reference, new, time_channel=0, channel_names=names)
    assert actual.p_value < 0.02 and actual.shifted == "time span: 23 to 115"
    generator = np.random.default_rng(0)
    sets = [generator.normal(size=(12, 1, length)) for length in (1200, 2400)]
    assert drift(*sets).p_value < 0.01


@pytest.mark.parametrize("constant", [0.0, 1e9])
def test_constant_series_do_not_differ(constant: float):
    X = np.full((6, 1, 10), constant)
    assert drift(X, X) == Drift(1.0, pytest.approx(0.0, abs=1e-9), "nothing", 6, 6)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"X": random_walks(5, 0, channels=3)}, "X has 3 channels, but reference has 2; hand in the same channels"),
        ({"reference": random_walks(1, 0)}, "reference has 1 series; a test of two sets needs two or more in each"),
        ({"X": random_walks(1, 0)}, "X has 1 series"),
        ({"permutations": 0}, "permutations must be an integer of at least 1, got 0"),
        ({"max_series": 1}, "max_series must be an integer of at least 2, got 1"),
        ({"random_state": -1}, "random_state must be"),
        ({"channel_names": ["x"]}, "channel_names has 1 names for series of 2 channels"),
        ({"X": np.full((5, 2, 4), np.inf)}, "X"),
    ],
)
def test_mistakes_are_explained(arguments: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        drift(**{"reference": random_walks(5, 0), "X": random_walks(5, 1), **arguments})
