"""Language and algorithm apart: whole iterations of SigGPDE and GPSig by the core and in torch.

The core against a baseline in torch compares two things at once. Plain torch against torch compares the algorithms, and
so does the core against the core; the core against plain torch compares the languages. Times of the TensorFlow code of
the authors of both methods are quoted beside them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from siggpde.gp.inducing import OrthogonalSignatureFeatures
from siggpde.gp.kernel import SignatureKernel
from siggpde.gp.likelihoods import Bernoulli, RobustMax
from siggpde.gp.model import AnyGP, SparseGP
from siggpde.series import SeriesBatch
from siggpde.training.path_cache import PathStore
from siggpde.training.signature_cache import SignatureCache
from siggpde_paper.experiments.measurements import (
    Size,
    in_fresh_process,
    iteration_times,
    measurable,
    peak_growth,
    series,
)
from siggpde_paper.experiments.report import duration, markdown_table
from siggpde_paper.experiments.results import Record, Results, least, pass_key
from siggpde_paper.experiments.time_table import load_average, spoken_load
from siggpde_paper.experiments.variants import TorchFeatures, TorchKernel
from siggpde_paper.gpsig import gpsig

_TOL = 1e-6  # of the core, as in the paper's experiments
_EVERY = ", signatures at every iteration"
_NAMES = {
    "core": "SigGPDE, core",
    "core-every": f"SigGPDE, core{_EVERY}",
    "torch": "SigGPDE, plain torch",
    "torch-every": f"SigGPDE, plain torch{_EVERY}",
    "gpsig-it-core": "GPSig-IT, core",
    "gpsig-is-core": "GPSig-IS, core",
    "gpsig-it": "GPSig-IT, torch",
    "gpsig-is": "GPSig-IS, torch",
}
_BASELINES = {"gpsig-it": "GPSig-IT", "gpsig-is": "GPSig-IS"}
_QUOTED = {
    "siggpde": "SigGPDE, its authors' TensorFlow",
    "gpsig-it": "GPSig-IT, its authors' TensorFlow",
    "gpsig-is": "GPSig-IS, its authors' TensorFlow",
}

Seconds = dict[str, float]  # `fixed` and `moving`: with the kernel fixed, and with the kernel learned


def tasks(config: dict[str, Any], number: int) -> dict[str, Callable[[], Record]]:
    """A pass over whole iterations of every method at the sizes of every experiment, and, once, their peak memory."""
    settings, listed = config["iteration"], {}
    for case, sizes in settings["sizes"].items():
        for method in _NAMES:
            key = pass_key(f"iteration/{method}/{case}", number)
            listed[key] = partial(_measure, method, sizes, settings["squared"], settings["iterations"])
            if measurable():
                peak = partial(in_fresh_process, _peak, method, sizes, settings["squared"])
                listed[f"peak/{method}/{case}"] = peak
    return listed


def _measure(method: str, sizes: dict[str, int], squared: float, iterations: int) -> Seconds:
    """The least CPU seconds of an iteration: ELBO, gradient and update.

    With the kernel fixed no features of SigGPDE change: they are stored, and nothing is computed at every iteration.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        kinds = {"moving": True} if method.endswith("-every") else {"fixed": False, "moving": True}
        record = {name: min(_iterate(method, sizes, squared, iterations, learn)()) for name, learn in kinds.items()}
    finally:
        torch.set_num_threads(threads)
    return record | load_average()


def _peak(method: str, sizes: dict[str, int], squared: float) -> dict[str, float]:
    """MiB to the peak of an iteration with the kernel learned, after one of small size; for a fresh process."""
    _iterate(method, sizes | {"M": sizes["classes"], "batch": sizes["classes"]}, squared, 1, True)()
    return {"MiB": peak_growth(_iterate(method, sizes, squared, 1, True))}


def _iterate(
    method: str, sizes: dict[str, int], squared: float, iterations: int, learn: bool
) -> Callable[[], list[float]]:
    """Iterations on random walks with labels in turn, ready to be run."""
    size = Size(sizes["M"], sizes["length"], sizes["d"], sizes["batch"], sizes["n"])
    x, y = series(size, squared), torch.arange(size.batch) % sizes["classes"]
    model, cache = _model(method, size, x, y, sizes)
    return partial(iteration_times, model, cache, y, size.batch, iterations, learn)


def _model(
    method: str, size: Size, x: Tensor, y: Tensor, sizes: dict[str, int]
) -> tuple[AnyGP, SignatureCache | PathStore]:
    likelihood = Bernoulli() if sizes["classes"] == 2 else RobustMax(sizes["classes"])
    paths = SeriesBatch(x)
    if method.startswith("gpsig"):
        kind = "sequences" if method.startswith("gpsig-is") else "tensors"
        way = "core" if method.endswith("-core") else "recursion"
        model = gpsig(x, y, likelihood, kind=kind, count=size.M, level=size.n, method=way)
        return model, PathStore(model, paths)
    if method.startswith("core"):
        kernel, features = (
            SignatureKernel(size.d, tol=_TOL),
            OrthogonalSignatureFeatures(size.d, size.M, "lexicographic"),
        )
    else:
        kernel = TorchKernel(size.d, refine=sizes["refine"])
        features = TorchFeatures(size.d, size.M, "lexicographic")
    model = SparseGP(kernel, features, likelihood)
    if method.endswith("-every"):
        return model, PathStore(model, paths)
    return model, SignatureCache(paths, features.words, kernel.log_theta)


def report(config: dict[str, Any], results: Results) -> str:
    if not results.records("iteration/") and not results.records("peak/"):
        return ""
    settings = config["iteration"]
    cases = list(settings["sizes"])
    quoted = {name: {case: _as_seconds(pair) for case, pair in row.items()} for name, row in settings["quoted"].items()}
    measured = {
        method: {case: record for case in cases if (record := least(results, f"iteration/{method}/{case}")) is not None}
        for method in _NAMES
    }
    rows = [[name, *(_cell(measured[method].get(case)) for case in cases)] for method, name in _NAMES.items()]
    rows += [[f"{name} (quoted)", *(_cell(quoted[key].get(case)) for case in cases)] for key, name in _QUOTED.items()]
    by_core = {method: measured[f"{method}-core"] for method in _BASELINES}
    compared = [
        ("{} / SigGPDE, both in the core", measured["core"], by_core),
        ("{} in torch / SigGPDE in the core", measured["core"], measured),
        ("{} in torch / SigGPDE in the core" + _EVERY, measured["core-every"], measured),
        ("{} / SigGPDE, both in torch", measured["torch"], measured),
        ("{} / SigGPDE, both in torch" + _EVERY, measured["torch-every"], measured),
        ("{} / SigGPDE, both in TensorFlow (quoted)", quoted["siggpde"], quoted),
    ]
    ratios = [
        [label.format(name), *(_ratio(table[method].get(case), own.get(case)) for case in cases)]
        for method, name in _BASELINES.items()
        for label, own, table in compared
    ]
    described = "; ".join(
        f"{case}: " + ", ".join(f"{key} = {value}" for key, value in sizes.items())
        for case, sizes in settings["sizes"].items()
    )
    peaks = [
        [name, *(_mebibytes(results.get(f"peak/{method}/{case}")) for case in cases)] for method, name in _NAMES.items()
    ]
    peaks += [
        [f"{name} (quoted)", *(_gigabytes(settings["quoted_peak"][key], case) for case in cases)]
        for key, name in _QUOTED.items()
    ]
    return (
        "## Language and algorithm\n\nCPU time of a whole iteration (ELBO, gradients, update) on one thread, the least "
        f"of {settings['iterations']} after a first one in each of {config['passes']} passes, with the kernel fixed / "
        f"learned, on random walks with a sum of squared increments of {settings['squared']}. {described}. "
        "`refine` is the refinement of the finite differences of plain torch, that of the authors; the core solves to "
        "a tolerance. The times of the authors' own code were measured separately, on one core of a machine of this "
        "kind, and are quoted. "
        f"{spoken_load(list(results.records('iteration/').values()))}\n\n"
        f"{markdown_table(['method', *cases], rows)}\n\nRatios, with the kernel learned:\n\n"
        f"{markdown_table(['ratio', *cases], ratios)}\n\n"
        "Memory by which a fresh process grows to its peak during an iteration with the kernel learned; quoted ones "
        "are of the whole process, with TensorFlow itself:\n\n"
        f"{markdown_table(['method', *cases], peaks)}\n"
    )


def _as_seconds(pair: list[float]) -> Seconds:
    """Of [fixed, learned], or of [learned] alone."""
    return {"moving": pair[-1]} | ({"fixed": pair[0]} if len(pair) > 1 else {})


def _cell(record: Seconds | None) -> str:
    if record is None:
        return "–"
    return " / ".join(duration(record[name]) if name in record else "–" for name in ("fixed", "moving"))


def _mebibytes(record: dict[str, float] | None) -> str:
    return "–" if record is None else f"{record['MiB']:.0f} MiB"


def _gigabytes(row: dict[str, float], case: str) -> str:
    return f"{row[case]:.1f} GB" if case in row else "–"


def _ratio(record: Seconds | None, own: Seconds | None) -> str:
    if record is None or own is None:
        return "–"
    ratio = record["moving"] / own["moving"]
    return f"{ratio:.1f}" if ratio < 10 else f"{ratio:.0f}"
