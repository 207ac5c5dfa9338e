"""`siggpde demo`: signatures, kernels and training on the data set inside the package."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.table import Table

from siggpde.cli.console import WrongCall, one_line_errors, print_tables, summary_table
from siggpde.cli.options import option
from siggpde.utils.files import check_replaceable

if TYPE_CHECKING:
    from torch import Tensor

    from siggpde.datasets import Dataset
    from siggpde.estimators import SigGPClassifier

log = logging.getLogger(__name__)

_DEPTH = 5
_GRAM_SIZE = 200


@one_line_errors()
def demo(
    output: Annotated[Path | None, option("Folder for demo.json, report.html, report.md and model/.")] = None,
    force: Annotated[bool, option("Overwrite the files of an earlier call.", name="--force")] = False,
    series: Annotated[int | None, option("Train on the first N series only.", "N", min=20)] = None,
    seed: Annotated[int, option("Two runs with the same seed give the same model.", "N")] = 0,
) -> None:
    """Train on the data set inside the package, and print accuracy, NLPP and times on its test set.

    First the signatures and kernels of the data set are computed and checked. --output keeps the model and a report.
    """
    for name in () if output is None else ("demo.json", "report.html", "report.md", "model"):
        path = Path(output or "", name)
        if path.exists() and not force:
            raise WrongCall(f"{path} exists; --force overwrites it")
        check_replaceable(path)
    from siggpde.datasets import load_pendigits

    if output is not None:
        output.mkdir(parents=True, exist_ok=True)
    data, page = load_pendigits(), None
    result = compute_kernels(data)
    result["training"], model = train_demo(data, series, seed)
    if output is not None:
        model.save(output / "model", force=True)
        (output / "report.md").write_text(_report(result["training"]), encoding="utf-8")
        (output / "demo.json").write_text(json.dumps(result, indent=2) + "\n")
        title, page = "Handwritten digits (PenDigits)", output / "report.html"
        model.report(data.X_test, data.y_test, page, title=title, target="digit", force=True)
    print_tables(_demo_table(result))
    if page is not None:
        log.info("model and figures are in %s", output)
        log.info("open the report in a browser: %s", page.resolve())


def compute_kernels(data: Dataset) -> dict[str, Any]:
    """Signatures and kernels of the training series: shapes, seconds and checks as plain values."""
    import torch

    import siggpde

    x = _as_paths(data)
    log.info("%s as paths: %d series, %d points, %d channels (time first)", data.name, *x.shape)
    features, signatures = _timed(lambda: siggpde.signature(x, depth=_DEPTH), len(x))
    diagonal, norms = _timed(lambda: siggpde.signature_kernel_diag(x), len(x))
    gram, pairs = _timed(lambda: siggpde.signature_kernel(x[:_GRAM_SIZE]), _GRAM_SIZE**2)
    tail = diagonal - features.square().sum(dim=1)
    eigenvalues = torch.linalg.eigvalsh(gram)
    return {
        "data": {"name": data.name, "series": x.shape[0], "points": x.shape[1], "channels": x.shape[2]},
        "signature": signatures | {"depth": _DEPTH},
        "kernel_diagonal": norms | {"smallest": diagonal.min().item(), "largest": diagonal.max().item()},
        "gram": pairs,
        "checks": {
            "smallest_tail": tail.min().item(),
            "smallest_relative_tail": (tail / diagonal).min().item(),
            "smallest_eigenvalue": eigenvalues[0].item(),
            "smallest_relative_eigenvalue": (eigenvalues[0] / eigenvalues[-1]).item(),
        },
    }


def train_demo(data: Dataset, series: int | None = None, seed: int = 0) -> tuple[dict[str, Any], SigGPClassifier]:
    """Returns accuracy, NLPP and seconds of the defaults, trained on the first `series` series, and the classifier."""
    import numpy as np

    from siggpde.estimators import SigGPClassifier
    from siggpde.report.card import model_facts

    x_train, y_train = data.X_train[:series], data.y_train[:series]
    started = time.perf_counter()
    classifier = SigGPClassifier(random_state=seed, n_jobs=None, verbose=1, channel_names=data.channel_names)
    classifier.fit(x_train, y_train)
    trained = time.perf_counter()
    probabilities, new = classifier.predict_with_novelty(data.X_test)
    assert new is not None
    of_label = probabilities[np.arange(len(probabilities)), np.searchsorted(classifier.classes_, data.y_test)]
    accuracy = float((classifier.classes_[probabilities.argmax(1)] == data.y_test).mean())
    summary = {
        "data": {"name": data.name, "train": len(x_train), "test": len(data.X_test)},
        "accuracy": accuracy,
        "nlpp": -float(np.log(of_label).mean()),
        "unlike": sum(reason is not None for reason in new.unlike),
        "seconds": {"training": trained - started, "prediction": time.perf_counter() - trained},
        "members": [
            {"weight": member.weight, "kernel": member.kernel, "left_out_nlpp": member.score}
            for member in model_facts(classifier).members
        ],
    }
    return summary, classifier


def _as_paths(data: Dataset) -> Tensor:
    """Returns series as standardised paths (n, length, 1 + channels), time first; points have length about 1."""
    import torch

    series = torch.from_numpy(data.X_train).double().transpose(1, 2)
    n, length, _ = series.shape
    times = torch.linspace(0.0, 1.0, length, dtype=series.dtype).expand(n, length).unsqueeze(-1)
    paths = torch.cat([times, series], dim=-1)
    mean, spread = paths.mean(dim=(0, 1)), paths.std(dim=(0, 1))
    return (paths - mean) / spread / paths.shape[-1] ** 0.5


def _timed(compute: Callable[[], Tensor], count: int) -> tuple[Tensor, dict[str, Any]]:
    """A result, and what its table shows of the time that `count` entries took."""
    started = time.perf_counter()
    result = compute()
    seconds = time.perf_counter() - started
    return result, {"shape": list(result.shape), "seconds": seconds, "per_second": count / seconds}


def _report(summary: dict[str, Any]) -> str:
    data, seconds = summary["data"], summary["seconds"]
    times = f"{seconds['training']:.1f} s | {seconds['prediction']:.2f} s"
    lines = [
        f"# {data['name']}: trained on {data['train']} series, tested on {data['test']}",
        "",
        "| accuracy | NLPP | training | prediction |",
        "| --- | --- | --- | --- |",
        f"| {100 * summary['accuracy']:.2f} % | {summary['nlpp']:.4f} | {times} |",
        "",
        "Members were chosen by leave-one-out on the training series alone. The models that are averaged:",
        "",
        "| weight | kernel | leave-one-out loss |",
        "| ---: | --- | ---: |",
        *(f"| {m['weight']:.2f} | {m['kernel']} | {m['left_out_nlpp']:.4f} |" for m in summary["members"]),
        "",
        "```python",
        "import siggpde",
        "",
        'classifier = siggpde.load("model")',
        "```",
    ]
    return "\n".join(lines) + "\n"


def _demo_table(result: dict[str, Any]) -> Table:
    data, signature = result["data"], result["signature"]
    diagonal, gram, checks = result["kernel_diagonal"], result["gram"], result["checks"]
    tail, relative_tail = checks["smallest_tail"], checks["smallest_relative_tail"]
    eigenvalue, relative_eigenvalue = checks["smallest_eigenvalue"], checks["smallest_relative_eigenvalue"]
    trained = result["training"]
    used, seconds = trained["data"], trained["seconds"]
    return summary_table(
        "siggpde demo",
        [
            ("data", f"{data['name']}: {data['series']} series, {data['points']} points, {data['channels']} channels"),
            (f"signatures, depth {signature['depth']}", _step(signature, "series")),
            ("k(X, X)", _step(diagonal, "series")),
            ("Gram matrix", _step(gram, "pairs")),
        ],
        [
            ("range of k(X, X)", f"{diagonal['smallest']:.4g} to {diagonal['largest']:.4g}"),
            ("smallest k(X, X) - |S_M|²", f"{tail:.3g} (relative to k: {relative_tail:.1e})"),
            ("smallest eigenvalue of Gram", f"{eigenvalue:.3g} (relative to the largest: {relative_eigenvalue:.1e})"),
        ],
        [
            ("trained on", f"{used['train']} series, tested on {used['test']} of other writers"),
            ("accuracy", f"{100 * trained['accuracy']:.2f} %"),
            ("NLPP", f"{trained['nlpp']:.4f}"),
            ("unlike all training series", f"{trained['unlike']} of the {used['test']}"),
            ("time", f"{seconds['training']:.1f} s for training, {seconds['prediction']:.2f} s for prediction"),
        ],
    )


def _step(step: dict[str, Any], unit: str) -> str:
    shape = " x ".join(map(str, step["shape"]))
    return f"{shape} in {step['seconds'] * 1e3:.1f} ms, {step['per_second']:,.0f} {unit} a second"
