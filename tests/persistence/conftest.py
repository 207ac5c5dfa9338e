from pathlib import Path

import pytest

from helpers.model_folders import OLD
from siggpde.persistence import write_folder


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """The folder of a small model, `OLD`."""
    write_folder(tmp_path / "m", *OLD)
    return tmp_path / "m"
