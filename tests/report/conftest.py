"""Models that tests of reports share; they only read them."""

import pytest

from helpers.report_pages import classifier, regressor
from siggpde import SigGPClassifier, SigGPRegressor


@pytest.fixture(scope="session")
def model() -> SigGPClassifier:
    return classifier()


@pytest.fixture(scope="session")
def numbers() -> SigGPRegressor:
    return regressor()
