"""Models that tests of the command line share; they only read them."""

from pathlib import Path

import pytest

from helpers.cli_data import FAST, LONG, long_table, succeed, write


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with train.csv, test.csv, the model `kinds`, a classifier, and `sizes`, a regressor."""
    folder = tmp_path_factory.mktemp("models")
    train = write(long_table(40), folder / "train.csv")
    write(long_table(12, seed=1), folder / "test.csv")
    for model, target in (("kinds", "kind"), ("sizes", "size")):
        succeed("fit", train, "--output", folder / model, "--target", target, *LONG, *FAST)
    return folder
