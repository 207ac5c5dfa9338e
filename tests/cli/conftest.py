"""Models that tests of the command line share; they only read them."""

from pathlib import Path

import pytest

from helpers.cli_data import fitted


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with train.csv, test.csv, the classifier `kinds` and the regressor `sizes`."""
    return fitted(tmp_path_factory.mktemp("models"))
