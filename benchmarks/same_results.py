"""Whether a change of the code changes results: predictions of fits with fixed seeds, written before, compared after.

    python benchmarks/same_results.py write before.npz --models before-models
    python benchmarks/same_results.py compare before.npz --models before-models [--tolerance 1e-6]

Bits depend on the processor and on the versions of torch and numpy, so both calls belong on one machine and one
environment. Probabilities are compared as they are, predicted numbers in units of the spread of the targets; the scores
(leave-one-out or validation losses of the members) may fall but not rise. Models saved by `write` have to predict the
same within 1e-9. A data set that is not at hand is left out by both calls.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import siggpde
from siggpde.datasets import load_dataset, load_pendigits
from siggpde.series import PathTransform, collect

SAVED = 1e-9


def part(x: np.ndarray, lengths: np.ndarray, count: int) -> Any:
    """The first `count` series (n_cases, n_channels, longest), cut to their lengths where these differ."""
    if (lengths == x.shape[2]).all():
        return x[:count].astype(float)
    return [one[:, :length].astype(float) for one, length in zip(x[:count], lengths[:count], strict=True)]


def digits(train: int, test: int) -> tuple[Any, np.ndarray, Any]:
    data = load_pendigits()
    return data.X_train[:train].astype(float), data.y_train[:train], data.X_test[:test].astype(float)


def by_name(name: str, train: int = 10**6, test: int = 10**6) -> tuple[Any, np.ndarray, Any]:
    data = load_dataset(name, download=False)
    return (
        part(data.X_train, data.lengths_train, train),
        data.y_train[:train],
        part(data.X_test, data.lengths_test, test),
    )


def classify(data: tuple[Any, np.ndarray, Any], **settings: Any) -> tuple[Any, dict[str, np.ndarray]]:
    x, y, new = data
    model = siggpde.SigGPClassifier(random_state=0, n_jobs=1, **settings).fit(x, y)
    return model, {"values": model.predict_proba(new), "scores": scores(model)}


def regress(data: tuple[Any, np.ndarray, Any], **settings: Any) -> tuple[Any, dict[str, np.ndarray]]:
    x, y, new = data
    model = siggpde.SigGPRegressor(random_state=0, n_jobs=1, **settings).fit(x, y)
    mean, std = model.predict(new, return_std=True)
    return model, {"values": np.stack([mean, std], axis=1) / y.std(), "scores": scores(model)}


def scores(model: Any) -> np.ndarray:
    return np.array([member.score for member in model.committee_.members if member.score is not None], dtype=float)


def partial(data: tuple[Any, np.ndarray, Any]) -> tuple[Any, dict[str, np.ndarray]]:
    """More series for a model that is there."""
    x, y, new = data
    model = siggpde.SigGPClassifier(random_state=0, n_jobs=1, n_features=100).fit(x[:300], y[:300])
    model.partial_fit(x[300:], y[300:])
    return None, {"values": model.predict_proba(new), "scores": np.zeros(0)}


def judged(data: tuple[Any, np.ndarray, Any], numbers: bool = False) -> tuple[Any, dict[str, np.ndarray]]:
    """Explanations and p-values of novelty, in units of the targets' spread for numbers."""
    x, y, new = data
    kind = siggpde.SigGPRegressor if numbers else siggpde.SigGPClassifier
    model = kind(random_state=0, n_jobs=1).fit(x, y)
    scale = y.std() if numbers else 1.0
    values = [model.novelty(new)]
    for explanation in model.explain(new):
        terms = [
            explanation.latent,
            explanation.constant,
            explanation.rest,
            *(term.value for term in explanation.contributions),
        ]
        values += [
            np.array(terms) / scale,
            explanation.segments.values.ravel() / scale,
            explanation.segments.std.ravel() / scale,
        ]
    return None, {"values": np.concatenate(values), "scores": np.zeros(0)}


def plain(data: tuple[Any, np.ndarray, Any], schedule: Any, likelihood: Any) -> tuple[Any, dict[str, np.ndarray]]:
    """A model without an estimator: the untruncated kernel, words by energy."""
    x, y, new = data
    train, test = collect(x), collect(new)
    transform = PathTransform().fit(train.values)
    paths = transform(train.values)[0]
    channels = paths.shape[2]
    kernel = siggpde.SignatureKernel(channels, theta=0.7)
    model = siggpde.SignatureGP(kernel, siggpde.OrthogonalSignatureFeatures(channels, 60), likelihood)
    targets = torch.as_tensor(np.unique(y, return_inverse=True)[1])
    history = siggpde.fit(model, (paths, targets), schedule, seed=0, progress=False)
    last = next(record.nlpp for record in reversed(history.records) if record.nlpp is not None)
    return None, {"values": model.predict(transform(test.values)[0]).numpy(), "scores": np.array([last])}


def paper(data: tuple[Any, np.ndarray, Any]) -> tuple[Any, dict[str, np.ndarray]]:
    schedule = siggpde.PaperSchedule(iterations=60, evaluate_every=20)
    return plain(data, schedule, siggpde.likelihoods.RobustMax(10))


def natural(data: tuple[Any, np.ndarray, Any]) -> tuple[Any, dict[str, np.ndarray]]:
    return plain(data, siggpde.NaturalGradients(max_iter=8), siggpde.likelihoods.Softmax(10))


FITS: dict[str, Callable[[], tuple[Any, dict[str, np.ndarray]]]] = {
    "PenDigits": lambda: classify(digits(700, 500)),
    "PenDigits, balanced": lambda: classify(digits(300, 200), class_weight="balanced", members=2),
    "PenDigits, without series": lambda: classify(digits(300, 200), keep_series=False),
    "PenDigits, explained": lambda: judged(digits(200, 4)),
    "Tecator, explained": lambda: judged(by_name("Tecator", 172, 4), numbers=True),
    "PenDigits, method paper": lambda: classify(digits(300, 200), method="paper", max_iter=30, n_features=60),
    "PenDigits, partial_fit": lambda: partial(digits(500, 200)),
    "PenDigits, the paper's schedule": lambda: paper(digits(400, 300)),
    "PenDigits, natural gradients": lambda: natural(digits(400, 300)),
    "CharacterTrajectoriesHalf": lambda: classify(by_name("CharacterTrajectoriesHalf", 300, 200)),
    "Epilepsy": lambda: classify(by_name("Epilepsy")),
    "Covid3Month": lambda: regress(by_name("Covid3Month")),
    "Tecator": lambda: regress(by_name("Tecator")),
}


def compute(models: Path | None) -> dict[str, np.ndarray]:
    """Values and scores of every fit; with `models`, estimators are saved there."""
    results: dict[str, np.ndarray] = {}
    for name, fit in FITS.items():
        try:
            model, arrays = fit()
        except FileNotFoundError:
            print(f"{name}: the data set is not at hand", file=sys.stderr)
            continue
        results |= {f"{name}/{key}": value for key, value in arrays.items()}
        if model is not None and models is not None:
            model.save(models / name.replace(", ", "-"), force=True)
        print(f"{name}: done", file=sys.stderr)
    return results


def compare(before: dict[str, np.ndarray], after: dict[str, np.ndarray], tolerance: float) -> bool:
    good = set(before) == set(after)
    for key in sorted(set(before) & set(after)):
        old, new = before[key], after[key]
        if key.endswith("/scores"):
            rise = float((new - old).max(initial=0.0)) if old.shape == new.shape else np.inf
            same = bool(np.array_equal(old, new)) if tolerance == 0 else rise <= tolerance
            print(f"{key:45s} {'same' if same else 'WORSE'}: largest rise {rise:.1e}")
        else:
            gap = float(np.abs(old - new).max(initial=0.0)) if old.shape == new.shape else np.inf
            same = bool(np.array_equal(old, new)) if tolerance == 0 else gap <= tolerance
            print(f"{key:45s} {'same' if same else 'DIFFERENT'}: largest difference {gap:.1e}")
        good &= same
    return good


def compare_saved(before: dict[str, np.ndarray], models: Path) -> bool:
    """Saved models predict what they did when they were saved."""
    good = True
    for name, (x, y, new) in {
        "PenDigits": digits(700, 500),
        "CharacterTrajectoriesHalf": by_name("CharacterTrajectoriesHalf", 300, 200),
        "Covid3Month": by_name("Covid3Month"),
        "Tecator": by_name("Tecator"),
    }.items():
        if not (models / name).is_dir():
            continue
        del x
        model = siggpde.load(models / name)
        if isinstance(model, siggpde.SigGPClassifier):
            values = model.predict_proba(new)
        else:
            values = np.stack(model.predict(new, return_std=True), axis=1) / y.std()
        gap = float(np.abs(values - before[f"{name}/values"]).max())
        print(f"{'saved ' + name:45s} {'same' if gap <= SAVED else 'DIFFERENT'}: largest difference {gap:.1e}")
        good &= gap <= SAVED
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["write", "compare"])
    parser.add_argument("file", type=Path)
    parser.add_argument("--models", type=Path, help="folder of saved models")
    parser.add_argument("--tolerance", type=float, default=0.0, help="0: to the last bit")
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.what == "write":
        np.savez(given.file, **compute(given.models))
        return 0
    with tempfile.TemporaryDirectory() as folder, np.load(given.file) as archive:
        before = dict(archive)
        good = compare(before, compute(Path(folder)), given.tolerance)
    if given.models is not None:
        good &= compare_saved(before, given.models)
    print("the same" if good else "NOT THE SAME")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
