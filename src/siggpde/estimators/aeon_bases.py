"""The base classes of the estimators: aeon's where it is installed, else scikit-learn's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

if TYPE_CHECKING:
    AEON: bool

    class ClassifierBase(ClassifierMixin, BaseEstimator):
        is_fitted: bool

    class RegressorBase(RegressorMixin, BaseEstimator):
        is_fitted: bool
else:
    try:
        from aeon.classification.base import BaseClassifier as ClassifierBase
        from aeon.regression.base import BaseRegressor as RegressorBase

        AEON = True
    except ImportError:
        AEON = False

        class ClassifierBase(ClassifierMixin, BaseEstimator):
            pass

        class RegressorBase(RegressorMixin, BaseEstimator):
            pass


TAGS: dict[str, Any] = {
    "X_inner_type": ["np-list", "numpy3D"],
    "algorithm_type": "feature",
    "capability:multivariate": True,
    "capability:unequal_length": True,
    "capability:missing_values": True,
    "capability:multithreading": True,
}
