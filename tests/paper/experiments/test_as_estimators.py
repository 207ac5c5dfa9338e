"""Each of the paper's experiments is one call of `SigGPClassifier(method="paper")`: the same model to 1e-9."""

from typing import Any

import numpy as np
import pytest
import torch

from siggpde import SigGPClassifier
from siggpde.datasets import load_dataset
from siggpde_paper.experiments.methods import run_method
from siggpde_paper.experiments.results import load_config
from siggpde_paper.experiments.weather import load_windows
from siggpde_paper.experiments.weather_models import fit_paper_model, split_blocks, thin

PATH = {"base_point": False, "clock": "points"}


def estimator(config: dict[str, Any], **settings: Any) -> SigGPClassifier:
    schedule = config["schedule"]
    return SigGPClassifier(
        method="paper", n_features=config["inducing"], max_iter=schedule["iterations"], batch_size=schedule["batch"],
        learning_rate=schedule["learning_rate"], evaluate_every=schedule["evaluate_every"],
        random_state=0, **settings,
    )  # fmt: skip


def close(actual: Any, expected: Any) -> None:
    np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("name", "method", "settings"),
    [
        ("pendigits", "siggpde-paper", {}),
        ("crops", "siggpde", {"likelihood": "softmax", "validation": 0.1}),
        ("whales", "siggpde-paper", {"transforms": PATH | {"scale": "series"}}),
    ],
)
def test_digits_crops_and_whales(name: str, method: str, settings: dict[str, Any]):
    config = load_config(name, quick=True)
    try:
        data = load_dataset(config["data"])
    except (FileNotFoundError, OSError):
        pytest.skip(f"{config['data']} is not here")
    config["inducing"] = config.get("inducing", config.get("sizes", [0])[0])
    if "spectrogram" in config:
        settings = settings | {"spectrogram": config["spectrogram"]}
    rows = np.linspace(0, len(data.X_train) - 1, config["series"]).astype(int)
    mine = estimator(config, **settings).fit(data.X_train[rows], data.y_train[rows])
    record = run_method(config, config["methods"][method], 0, None)
    model = mine.committee_.model
    close(model.kernel.theta.tolist(), record["theta"])
    history = mine.committee_.history
    close([entry.nlpp for entry in history.records if entry.nlpp is not None], [e[2] for e in record["validation"]])
    tests = np.linspace(0, len(data.X_test) - 1, config["test_series"]).astype(int)
    paths = mine.committee_.paths(mine.preparation_(data.X_test[tests]))
    truth = torch.from_numpy(np.searchsorted(mine.classes_, data.y_test[tests]))
    close(-float(model.log_predictive(paths.values, truth).mean()), record["nlpp"])
    right = model.predict(paths.values).argmax(dim=1) == truth
    close(100 * float(right.double().mean()), record["accuracy"])
    assert mine.score(data.X_test[tests], data.y_test[tests]) == pytest.approx(record["accuracy"] / 100, abs=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["paper-series", "paper-set"])
def test_weather(method: str):
    config = load_config("weather", quick=True)
    try:
        every, test = (load_windows(config, part).every(config["data"]["train_every"]) for part in ("train", "test"))
    except FileNotFoundError:
        pytest.skip("the station's files are not here")
    train, each = every.take(thin(every.wet, config["data"]["ratio"], 0)), config["methods"][method]["each"]
    weeks, share = train.day // config["data"]["block_days"], config["paper"]["validation"]
    theirs = fit_paper_model(train.x, train.wet, weeks, config["paper"], by_series=each, seed=0)
    transforms, rows = PATH | {"scale": "series" if each else "set"}, split_blocks(weeks, share, 0)
    mine = estimator(config["paper"], transforms=transforms, validation=rows).fit(train.x, train.wet)
    close(mine.committee_.model.kernel.theta.tolist(), theirs.facts()["theta"])
    expected, spread = theirs.latent(test.x)
    latents = mine.committee_.predict(mine.preparation_(test.x)).latents()
    close(latents.mean[:, 0], expected)
    close(latents.std[:, 0], spread)
    assert torch.isfinite(latents.mean).all()
