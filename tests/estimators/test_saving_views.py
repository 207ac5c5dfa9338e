"""Saved committees of views: bitwise the same predictions, what is in the folder and what its card says."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import siggpde
from helpers.small_estimators import estimator, outputs, random_walks, reloaded, rising
from siggpde import SigGPClassifier, SigGPRegressor
from siggpde.committee.committee import ViewCommittee
from siggpde.io.predictions import _digest
from siggpde.persistence import read_folder
from siggpde.series import SeriesBatch
from siggpde.views.kinds import SavedBlocks, block_from_state, block_state

KINDS = ("classifier", "regressor")
X, Y = rising(40, noise=3.0)
WAVES = random_walks(40, 3, 40)
TIMED = np.concatenate([np.random.default_rng(1).exponential(size=(40, 1, 12)).cumsum(axis=2), X], axis=1)
DEFAULTS: dict[str, Any] = {"members": "auto", "transforms": "auto", "n_features": 60}


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("series", "settings"),
    [
        (WAVES, DEFAULTS),
        ([one[:, : 20 + i % 9] for i, one in enumerate(WAVES)], DEFAULTS),
        (TIMED, {**DEFAULTS, "time_channel": 0}),
        (X[:, 0], {**DEFAULTS, "views": ["windows", "linear"]}),
    ],
    ids=["waves", "ragged", "timed", "listed"],
)
def test_predictions_are_bitwise_the_same(kind: str, series: Any, settings: dict[str, Any], keep: bool, tmp_path: Path):
    fitted = estimator(kind, **settings, keep_series=keep).fit(series, Y)
    loaded = reloaded(fitted, tmp_path / "m")
    assert isinstance(loaded.committee_, ViewCommittee) and (loaded.committee_.landmarks is not None) == keep
    assert _digest(loaded) == _digest(fitted)  # nothing is computed for it
    assert np.array_equal(outputs(fitted, series), outputs(loaded, series))
    assert np.array_equal(fitted.log_likelihood(series, Y), loaded.log_likelihood(series, Y))
    assert loaded.get_params() == fitted.get_params() and _digest(loaded) == _digest(fitted)
    loaded.save(tmp_path / "again")
    first, again = (read_folder(tmp_path / name)[0] for name in ("m", "again"))
    assert first.keys() == again.keys() and all(torch.equal(first[name], again[name]) for name in first)
    if not keep:
        assert not any(word in name for name in first for word in ("landmarks", "centring", "alpha", "norms"))
        assert all(block.landmarks == [] for block in fitted.committee_.blocks)


@pytest.mark.parametrize("views", ["linear", "path", "kernel", "lifted", "windows", "spectrum"])
def test_features_of_landmarks_are_bitwise_the_same(views: str):
    fitted = SigGPRegressor(views=[views], n_features=60).fit(WAVES, WAVES[:, 0, -1])
    committee = fitted.committee_
    assert isinstance(committee, ViewCommittee)
    for block in committee.blocks:
        again = block_from_state(block_state(block), committee.landmarks, {})
        assert block.centring.keys() == again.centring.keys()
        rows, others = block.rows(committee.landmarks), again.rows(committee.landmarks)
        assert all(torch.equal(a, b) for name in rows for a, b in zip(rows[name], others[name], strict=True))


def test_landmarks_and_roots_of_many_are_in_single_precision(tmp_path: Path):
    series, labels = rising(620, noise=4.0)
    fitted = SigGPClassifier(views=["linear", "kernel"]).fit(series, labels)
    roots = [member.regression.root.dtype for member in fitted.committee_.members]
    assert set(roots) == {torch.float32}
    loaded = reloaded(fitted, tmp_path / "m")
    blocks = loaded.committee_.blocks
    assert isinstance(blocks, SavedBlocks) and not any(blocks._blocks)  # computed by the first prediction
    assert np.array_equal(outputs(fitted, series[:50]), outputs(loaded, series[:50]))
    assert all(blocks._blocks)
    fitted = estimator("classifier", **DEFAULTS).fit(X, Y)
    fitted.save(tmp_path / "few")
    values = read_folder(tmp_path / "few")[0]["committee.landmarks.values"]
    assert values.dtype == torch.float32 and torch.equal(values.double(), fitted.committee_.landmarks.values)


def test_settings_that_need_series():
    with pytest.raises(ValueError, match=r"the view 'kernel' predicts by comparing with training series.*keep_series"):
        SigGPClassifier(views=["linear", "kernel"], keep_series=False).fit(X, Y)
    with pytest.raises(ValueError, match="keep_series must be True or False, got 'no'"):
        SigGPRegressor(keep_series="no").fit(X, Y)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("settings", "contains"),
    [
        ({}, "This model contains 40 training series (landmarks), all of them"),
        ({"keep_series": False}, "This model contains no training series, only weights of features."),
    ],
    ids=["default", "no series"],
)
def test_the_card_is_right_about_training_series(settings: dict[str, Any], contains: str, tmp_path: Path):
    """What it says is what is in the folder: all points of the training series, or none of them."""
    fitted = SigGPClassifier(views=["linear", "windows"], **settings).fit(WAVES, Y)
    fitted.save(tmp_path / "m")
    card, tensors = (tmp_path / "m" / "README.md").read_text(), read_folder(tmp_path / "m")[0]
    assert contains in card and card.count("\n| 0.") >= len(fitted.committee_.members)
    assert f"A committee of {len(fitted.committee_.members)} Gaussian processes on views of the series" in card
    assert "signatures of windows" in card and "Leave-one-out loss of the best member" in card
    standardised = fitted.committee_.standard(SeriesBatch(torch.from_numpy(WAVES).transpose(1, 2))).values.float()
    numbers = torch.cat([tensor.flatten().float() for tensor in tensors.values()])
    share = float(torch.isin(standardised, numbers).double().mean())  # of the points of the training series
    assert share < 0.01 if "no training series" in card else share == 1  # a few numbers are alike by chance


@pytest.mark.slow
@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize(("count", "channels", "length"), [(1700, 1, 60), (800, 10, 1000)], ids=["many", "long"])
def test_saved_models_have_at_most_50_megabytes(count: int, channels: int, length: int, keep: bool, tmp_path: Path):
    """Of many series the roots of members would be larger, of long ones the landmarks themselves."""
    random, labels = np.random.default_rng(0), np.arange(count) % 3
    waves = 2 * np.sin(np.linspace(0, 6, length) * (1 + 0.2 * labels[:, None, None]))
    series = 0.3 * random.normal(size=(count, channels, length)).cumsum(axis=2) + waves
    fitted = SigGPClassifier(keep_series=keep).fit(series, labels)
    fitted.save(tmp_path / "m")
    assert sum(file.stat().st_size for file in (tmp_path / "m").iterdir()) <= 50e6
    card = (tmp_path / "m" / "README.md").read_text()
    if keep:
        landmarks = len(fitted.committee_.landmarks)
        assert f"This model contains {landmarks} training series (landmarks), of {count}" in card
    else:
        assert "This model contains no training series" in card


def unusual(name: str) -> np.ndarray:
    """Series of the largest and smallest units, that stand still, or one of which is far from all others."""
    series = X[:24].copy()
    if name == "still":
        series[:16] = 0
    if name == "outlier":
        series[0, 0, 3] = 1e9
    if name == "constant channel":
        series = np.concatenate([series, np.full_like(series, 7.0)], axis=1)
    return series * {"huge": 1e147, "tiny": 1e-300, "zero": 0.0}.get(name, 1.0)


@pytest.mark.parametrize(
    "settings",
    [DEFAULTS, {**DEFAULTS, "keep_series": False}, {"method": "paper"}],
    ids=["default", "no series", "paper"],
)
@pytest.mark.parametrize("name", ["huge", "tiny", "zero", "still", "outlier", "constant channel"])
def test_models_of_unusual_series_are_within_what_loading_takes(name: str, settings: dict[str, Any], tmp_path: Path):
    series = unusual(name)
    for kind in KINDS:
        fitted = estimator(kind, **settings).fit(series, Y[:24])
        fitted.save(tmp_path / kind)
        assert np.array_equal(outputs(siggpde.load(tmp_path / kind), series), outputs(fitted, series))
