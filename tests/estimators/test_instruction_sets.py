"""A fit and its predictions do not depend on the instruction set of the processor."""

from functools import cache
from typing import Any

import pytest

from helpers.random_paths import numbers_from
from siggpde.numerics.core import core

CODE = """
import json
import numpy as np
from siggpde import SigGPClassifier, SigGPRegressor
from siggpde.numerics.core import core

random = np.random.default_rng(0)
X = random.normal(size=(60, 2, 40)).cumsum(axis=2)
y = X[:, 0].max(axis=1) - X[:, 1].mean(axis=1)
labels = (y > np.median(y)).astype(int)
classifier = SigGPClassifier().fit(X[:40], labels[:40])
regressor = SigGPRegressor().fit(X[:40], y[:40])
mean, std = regressor.predict(X[40:], return_std=True)
weights = classifier.committee_.weights.tolist() + regressor.committee_.weights.tolist()
print(json.dumps([core.isa(), classifier.predict_proba(X[40:]).tolist(), mean.tolist(), std.tolist(), weights]))
"""


@cache
def results(isa: str) -> list[Any]:
    return numbers_from(CODE, SIGGPDE_ISA=isa)


@pytest.mark.skipif(core is None, reason="there is no core")
@pytest.mark.parametrize("isa", ["baseline", "avx2"])
def test_estimators_are_the_same_to_the_last_bit(isa: str):
    name, *numbers = results(isa)
    if name != isa:
        pytest.skip(f"this processor has no {isa}")
    assert numbers == results("")[1:]
