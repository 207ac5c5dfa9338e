"""Transformers keep the conventions of scikit-learn and of aeon."""

import json
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from helpers.processes import run
from helpers.small_estimators import walks
from siggpde import SignatureTransformer, WindowSignatureTransformer

NAMES = ["SignatureTransformer", "WindowSignatureTransformer"]
needs_aeon = pytest.mark.skipif(find_spec("aeon") is None, reason="aeon is not installed")

# scikit-learn takes a 2-D X for a table whose columns have a meaning each, and wants an error where transform gets
# another number of them. Here they are time points, and series may have any length.
EXPECTED = {"check_n_features_in_after_fitting", "check_transformer_general"}

WITHOUT_AEON = """
import json, sys, warnings
sys.modules["aeon"] = None
warnings.simplefilter("ignore")
from sklearn.utils.estimator_checks import check_estimator
import siggpde
transformer = getattr(siggpde, sys.argv[1])()
found = check_estimator(transformer, on_fail=None)
assert "aeon" not in {name.split(".")[0] for kind in type(transformer).__mro__ for name in [kind.__module__]}
print(json.dumps([[one["check_name"], one["status"], str(one["exception"])] for one in found]))
"""


@needs_aeon
@pytest.mark.parametrize("kind", [SignatureTransformer, WindowSignatureTransformer])
@pytest.mark.filterwarnings("ignore")
def test_aeon_finds_nothing_wrong(kind: Any):
    from aeon.testing.estimator_checking import check_estimator  # noqa: PLC0415 - not everyone has it

    found = check_estimator(kind, raise_exceptions=False, verbose=False)
    assert len(found) > 20
    assert {name: result for name, result in found.items() if result != "PASSED"} == {}


@needs_aeon
def test_with_aeon_transformers_are_those_of_aeon():
    from aeon.transformations.collection import BaseCollectionTransformer  # noqa: PLC0415

    transformer: Any = SignatureTransformer()
    assert isinstance(transformer, BaseCollectionTransformer)
    assert transformer.get_tag("capability:unequal_length") and transformer.get_tag("output_data_type") == "Tabular"


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_scikit_learn_finds_nothing_wrong_but_lengths(name: str):
    found = json.loads(run(WITHOUT_AEON, name).splitlines()[-1])
    assert sum(status == "passed" for _, status, _ in found) > 30
    failed = {check: message for check, status, message in found if status == "failed"}
    assert set(failed) == EXPECTED
    assert all("number of features" in message.replace("\n", " ") for message in failed.values())


def test_parameters():
    mine = SignatureTransformer(depth=2, words=None, channel_names=["a", "b"], window="dyadic", window_depth=1)
    copied: Any = clone(mine)
    parameters = mine.get_params()
    assert SignatureTransformer(**parameters).get_params() == parameters == copied.get_params()
    wrong: dict[str, Any] = {"depth": -1, "window": object(), "dtype": 3}
    stored = SignatureTransformer(**wrong)
    assert all(getattr(stored, name) is value for name, value in wrong.items())


def test_fit_does_not_change_x_or_the_settings():
    X = walks(5, 2, 9)
    X[1, 0, 3] = np.nan
    before, mine = X.copy(), SignatureTransformer(words=[(0,), (1, 2)])
    parameters = dict(mine.get_params())
    mine.fit(X).transform(X)
    np.testing.assert_array_equal(X, before)
    assert mine.get_params() == parameters
