"""matplotlib without a screen, and pictures that are not empty."""

import importlib

import numpy as np
import pytest

from siggpde import SigGPClassifier


@pytest.fixture
def pyplot():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    module = importlib.import_module("matplotlib.pyplot")
    yield module
    module.close("all")


@pytest.fixture
def narrow(pyplot):
    """Axes of a figure of 80 mm."""
    return pyplot.subplots(figsize=(80 / 25.4, 70 / 25.4), layout="constrained")[1]


@pytest.fixture
def drawn(tmp_path):
    """Writes the picture of some axes, which must not be empty."""

    def write(ax):
        target = tmp_path / "picture.png"
        ax.figure.savefig(target)
        pixels = importlib.import_module("matplotlib.image").imread(target)
        assert pixels[..., :3].std() > 0.01

    return write


@pytest.fixture(scope="session")
def lines():
    """Two groups of lines, well apart, and a classifier of them."""
    random = np.random.default_rng(0)
    y = np.arange(24) % 2
    X = (2.0 * y[:, None, None] - 1) * np.linspace(0, 3, 12) + 0.1 * random.normal(size=(24, 1, 12))
    return SigGPClassifier(views=["path", "windows"]).fit(X, y), X, y
