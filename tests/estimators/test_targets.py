"""Labels that files give back in another type than the model was fitted with."""

from typing import Any

import numpy as np
import pytest

from helpers.small_estimators import classifier, rising
from siggpde.estimators.targets import as_classes

X, Y = rising(16)
NUMBERS = [np.where(Y, 1, 0), np.where(Y, 1.0, 0.0), np.where(Y, "1", "0"), np.where(Y, "1.0", "0.0")]


@pytest.mark.parametrize("fitted", range(4))
def test_partial_fit_and_likelihood_take_labels_of_every_type(fitted: int):
    model = classifier().fit(X, NUMBERS[fitted])
    expected = model.log_likelihood(X, NUMBERS[fitted])
    for labels in NUMBERS:
        np.testing.assert_array_equal(model.log_likelihood(X, labels), expected)
    more = classifier().fit(X, NUMBERS[fitted]).partial_fit(X[:6], NUMBERS[3 - fitted][:6])
    same = classifier().fit(X, NUMBERS[fitted]).partial_fit(X[:6], NUMBERS[fitted][:6])
    np.testing.assert_array_equal(more.predict_proba(X), same.predict_proba(X))
    assert more.classes_.dtype == NUMBERS[fitted].dtype


@pytest.mark.parametrize(
    ("labels", "classes", "expected"),
    [
        (["true", "False"], [False, True], [True, False]),
        ([True, False], ["False", "True"], ["True", "False"]),
        (["007"], [7, 8], ["007"]),
        ([1, 2], ["1", "1.0", "2"], [1, 2]),
        ([1.5, 2.0], ["1.5", "2"], ["1.5", "2"]),
        ([3, 1], ["1", "2"], [3, "1"]),
        (["a", "b"], ["a", "b"], ["a", "b"]),
    ],
)
def test_labels_become_classes_where_they_are_written_alike(labels: Any, classes: Any, expected: Any):
    assert as_classes(np.array(labels), np.array(classes)).tolist() == expected


def test_unknown_labels_are_named_and_no_others():
    model = classifier().fit(X, NUMBERS[0])
    with pytest.raises(ValueError, match="labels that the training set had not: 7; known are 0, 1"):
        model.log_likelihood(X[:3], np.array(["1", "7", "0"]))
