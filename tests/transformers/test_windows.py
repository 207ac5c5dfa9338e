"""WindowSignatureTransformer: the table, its settings, and the manual's comparison with aeon's MiniRocket."""

import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import RidgeClassifierCV
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from helpers.conformance import needs_aeon
from helpers.refusals import assert_refused
from helpers.small_estimators import random_walks
from siggpde import WindowSignatureTransformer
from siggpde.datasets import find_dataset
from siggpde.numerics.core import core
from siggpde.views.window_features import WindowFeatures

SMALL: dict[str, Any] = {"lifts": ("x", "dx"), "max_dilations": 2, "max_windows": 20}


def test_the_table_is_that_of_window_features():
    X = random_walks(8, 2, 40)
    transformer = WindowSignatureTransformer(**SMALL)
    table = transformer.fit_transform(X)
    assert isinstance(transformer.features_, WindowFeatures) and table.dtype == np.float32
    assert table.shape == (8, sum(transformer.features_.widths()))
    np.testing.assert_array_equal(table, transformer.transform(X))
    names = transformer.get_feature_names_out(["level", "flow"])
    assert len(names) == table.shape[1] and names[1] == "x dilation 1: mean of flow"
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(transformer)).transform(X), table)


def test_series_of_unequal_lengths_and_other_company():
    X = random_walks(9, 3, 50)
    ragged = [series[:, : 50 - 5 * i] for i, series in enumerate(X)]
    transformer = WindowSignatureTransformer(**SMALL).fit(ragged)
    table = transformer.transform(ragged)
    for row in (0, 4, 8):
        alone = transformer.transform([ragged[row]])[0]
        np.testing.assert_allclose(alone, table[row], rtol=1e-6, atol=1e-9)
        if core is not None:
            np.testing.assert_array_equal(alone, table[row])
    assert np.isfinite(transformer.transform([X[0][:, :1]])).all()


def test_dtypes_threads_and_seeds():
    X = random_walks(20, 6, 60)
    one = WindowSignatureTransformer(**SMALL).fit_transform(X)
    np.testing.assert_array_equal(WindowSignatureTransformer(**SMALL, n_jobs=2).fit_transform(X), one)
    exact = WindowSignatureTransformer(**SMALL, dtype="float64").fit_transform(X)
    assert exact.dtype == np.float64
    np.testing.assert_array_equal(exact.astype(np.float32), one)
    assert WindowSignatureTransformer(**SMALL, dtype="auto").fit_transform(X.astype(np.float32)).dtype == np.float32
    other = WindowSignatureTransformer(**SMALL, random_state=1).fit_transform(X)
    assert other.shape == one.shape and not np.allclose(other, one)


def test_frequencies_are_told_apart():
    random = np.random.default_rng(0)
    y = np.arange(60) % 2
    phase = random.uniform(0, 6, size=(60, 1))
    X = np.sin(np.arange(80) * (0.5 + 0.1 * y[:, None]) + phase) + 0.5 * random.normal(size=(60, 80))
    model = make_pipeline(WindowSignatureTransformer(), StandardScaler(), RidgeClassifierCV())
    assert cross_val_score(model, X[:, None], y, cv=3).mean() > 0.9


def test_errors_name_the_setting():
    X = random_walks(4, 2, 20)
    wrong: dict[str, dict[str, Any]] = {
        "lifts must be a list of some of x, dx, cum, zn, got 'x'": {"lifts": "x"},
        "lifts must be some of": {"lifts": ["y"]},
        "window must be an integer of at least 3, got 2": {"window": 2},
        "max_windows must be an integer of at least 1, got 1.5": {"max_windows": 1.5},
        "thresholds must be an integer of at least 0": {"thresholds": -1},
        "max_channels must be an integer of at least 2": {"max_channels": 1},
        "random_state must be None": {"random_state": "a"},
    }
    for message, settings in wrong.items():
        assert_refused(message, WindowSignatureTransformer(**settings).fit, X)


PAGE = Path(__file__).parents[2] / "docs" / "transformers.md"


@needs_aeon
@pytest.mark.filterwarnings("ignore")
def test_the_example_runs_and_wins():
    try:
        find_dataset("UWaveGestureLibrary")
    except FileNotFoundError:
        pytest.skip("UWaveGestureLibrary is not in SIGGPDE_DATA or the cache")
    (code,) = re.findall(r"^```py\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    namespace: dict = {"__name__": "__main__"}
    exec(compile(code, PAGE.name, "exec"), namespace)
    accuracy, seconds = namespace["accuracy"], namespace["seconds"]
    assert accuracy["WindowSignatureTransformer"] > max(0.92, accuracy["MiniRocket"])
    assert 0 < seconds["WindowSignatureTransformer"] < 30
