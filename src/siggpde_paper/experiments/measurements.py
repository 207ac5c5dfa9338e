"""CPU time and peak memory (the growth of `VmHWM` during a call, Linux only) of iterations and of their parts."""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor, nn

from siggpde.gp.cache import PathStore, SignatureCache
from siggpde.gp.features import OrthogonalSignatureFeatures
from siggpde.gp.kernel import SignatureKernel
from siggpde.gp.likelihoods import Bernoulli, Gaussian, RobustMax
from siggpde.gp.model import AnyGP, SparseGP
from siggpde.gp.phases import NadamPhase, PaperSchedule
from siggpde.gp.trainer import History, Trainer
from siggpde.numerics.core import limited
from siggpde.numerics.signature import signature
from siggpde.series import SeriesBatch
from siggpde_paper.experiments.variants import TorchFeatures, TorchKernel, word_signatures
from siggpde_paper.gpsig import InducingSequences, InducingTensors, TruncatedKernel, gpsig, kernel, models
from siggpde_paper.gpsig.models import whiten

METHODS = {
    "siggpde": "SigGPDE",
    "siggpde-torch": "SigGPDE in plain torch",
    "gpsig-it": "GPSig-IT",
    "gpsig-is": "GPSig-IS",
}
_LOAD = "load"  # of the machine when a record was made, beside the parts
_TOL = 1e-6  # of the core, as in the paper's experiments
EVERY = ", signatures at every iteration"
WAYS = {
    "core": "SigGPDE, core",
    "core-every": f"SigGPDE, core{EVERY}",
    "torch": "SigGPDE, plain torch",
    "torch-every": f"SigGPDE, plain torch{EVERY}",
    "gpsig-it-core": "GPSig-IT, core",
    "gpsig-is-core": "GPSig-IS, core",
    "gpsig-it": "GPSig-IT, torch",
    "gpsig-is": "GPSig-IS, torch",
}
FEWEST_CALLS = 2
LONG_CALL = 3.0  # seconds

Parts = dict[str, Callable[[], object]]
STORED = "inducing parameters"
_SPACE_PARTS = ("C_uu", "C_fu", "signatures", "diag C_ff")
Result = TypeVar("Result")
_TINY = {"M": 12, "length": 4, "batch": 9}  # warms up: what a first call loads and keeps is not what it needs
_MMAP_THRESHOLD, _BLOCK = -3, 2**16  # mallopt's M_MMAP_THRESHOLD, and from how many bytes on a block is mapped


@dataclass(frozen=True)
class Size:
    """M inducing variables, `length` segments, d channels, a batch, n levels, z points of sequences (0: n + 1)."""

    M: int
    length: int
    d: int
    batch: int
    n: int
    z: int = 0


def series(size: Size, squared: float = 1.0) -> Tensor:
    """Random walks (batch, length + 1, d) whose squared increments sum to about `squared`, whatever the size."""
    generator = torch.Generator().manual_seed(0)
    steps = torch.randn(size.batch, size.length, size.d, generator=generator, dtype=torch.float64)
    steps *= (squared / (size.length * size.d)) ** 0.5
    return torch.cat([torch.zeros_like(steps[:, :1]), steps.cumsum(1)], 1)


def inducing_features(method: str, size: Size) -> OrthogonalSignatureFeatures | InducingTensors | InducingSequences:
    """The inducing variables of a method: words, or tensors or sequences that are learned."""
    if method in ("siggpde", "siggpde-torch"):
        kind = TorchFeatures if method == "siggpde-torch" else OrthogonalSignatureFeatures
        return kind(size.d, size.M, "lexicographic")
    if method == "gpsig-it":
        return InducingTensors(size.d, size.M, size.n)
    return InducingSequences(size.d, size.M, size.z or size.n + 1)


def parts_of(method: str, size: Size) -> Parts:
    """Value and gradient of every part; C_fu of SigGPDE rescales stored signatures, `signatures` computes them."""
    x, features = series(size), inducing_features(method, size)
    if isinstance(features, OrthogonalSignatureFeatures):
        plain = isinstance(features, TorchFeatures)
        paths = TorchKernel(size.d) if plain else SignatureKernel(size.d)
        cache = SignatureCache(SeriesBatch(x), features.words, paths.log_theta)
        compute = word_signatures if plain else lambda x, words: signature(x, words=words)
        return {
            "C_fu": lambda: _differentiate(cache.values * features.scaling(paths.log_theta, cache.reference), paths),
            "signatures": lambda: compute(x, features.words),
            "diag C_ff": lambda: _differentiate(paths.squared_norm(x), paths),
            "linear algebra": _products(SparseGP(paths, features, Gaussian()), size),
        }
    truncated = TruncatedKernel(size.d, size.n, method="recursion")
    return {
        "C_uu": lambda: _differentiate(features.inducing_covariance(truncated), truncated, features),
        "C_fu": lambda: _differentiate(features.cross_covariance(truncated, x), truncated, features),
        "diag C_ff": lambda: _differentiate(truncated(x, diag=True), truncated),
        "linear algebra": _whitening(SparseGP(truncated, features, Gaussian()), size, features.jitter),
    }


def _whitening(model: AnyGP, size: Size, jitter: float) -> Callable[[], None]:
    """The whitening of columns by a covariance matrix, whose values do not matter to time, and `_products`."""
    products, generator, fixed = _products(model, size), torch.Generator().manual_seed(2), list[Tensor]()

    def run() -> None:
        if not fixed:  # made by the first call, that memory is that of all parts
            root = torch.randn(size.M, size.M, dtype=torch.float64, generator=generator) / size.M**0.5
            fixed.extend([root @ root.T + torch.eye(size.M, dtype=torch.float64), root.new_ones(size.M, size.batch)])
        left, right = (values.clone().requires_grad_() for values in fixed)
        torch.autograd.grad(whiten(left, right, jitter).sum(), [left, right])
        products()

    return run


def _products(model: AnyGP, size: Size) -> Callable[[], None]:
    """Mean and variance of one latent function from features (batch, M), with gradients."""
    features = torch.randn(size.batch, size.M, dtype=torch.float64, generator=torch.Generator().manual_seed(1))

    def run() -> None:
        inputs = features.clone().requires_grad_()
        mean, spread = model.variational(inputs)
        _differentiate(torch.stack([mean, spread]), model.variational, inputs)

    return run


def _differentiate(values: Tensor, *sources: nn.Module | Tensor) -> None:
    """The gradient of the sum in tensors and in parameters of modules; it is given to nobody."""
    wanted = [p for source in sources for p in ([source] if isinstance(source, Tensor) else source.parameters())]
    torch.autograd.grad(values.sum(), wanted, allow_unused=True)


def cpu_seconds(call: Callable[[], object], min_seconds: float) -> float:
    """The fastest of at least two calls, as many as take `min_seconds`; one call, if it takes over 3 seconds."""
    taken: list[float] = []
    while sum(taken) < (min_seconds if len(taken) >= FEWEST_CALLS else LONG_CALL):
        started = time.process_time()
        call()
        taken.append(max(time.process_time() - started, 1e-6))
    return min(taken)


def iteration_times(
    model: AnyGP, cache: SignatureCache | PathStore, y: Tensor, batch: int, iterations: int, learn: bool
) -> list[float]:
    """CPU seconds of each of `iterations` iterations after a first one; with `learn` also of the kernel."""
    nothing = torch.empty(0, dtype=torch.int64)
    trainer = Trainer(model, cache, y, torch.arange(len(y)), nothing, History(), torch.Generator().manual_seed(0))
    endless = 10**9  # no evaluation falls into the timing
    phase = NadamPhase("", "train", learn, PaperSchedule(iterations=endless, batch=batch, evaluate_every=endless))
    phase.begin(trainer)
    phase.prepare(trainer)
    seconds = []
    for _ in range(iterations + 1):
        trainer.history.step_seconds.clear()
        phase.iterate(trainer)
        seconds.append(trainer.history.step_seconds[""])
        trainer.iteration += 1
    return seconds[1:]


def measurable() -> bool:
    """Whether this operating system can say what the peak during one call was."""
    return sys.platform == "linux" and Path("/proc/self/clear_refs").exists()


def in_fresh_process(function: Callable[..., Result], *arguments: object) -> Result:
    """Calls a function of a module in a fresh process with one thread, and returns what it returns."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])  # every process starts with torch imported
    with ProcessPoolExecutor(1, context, _start) as executor:
        return executor.submit(function, *arguments).result()


def _start() -> None:
    """One thread; large blocks of memory, when freed, go back to the operating system at once (glibc)."""
    torch.set_num_threads(1)
    _call_c("mallopt", _MMAP_THRESHOLD, _BLOCK)


def _call_c(name: str, *arguments: int) -> None:
    with contextlib.suppress(OSError, AttributeError):  # another C library keeps what it likes
        getattr(ctypes.CDLL(None), name)(*arguments)


def part_memory(method: str, size: Size, tiled: bool = True) -> dict[str, float]:
    """Returns the MiB to the peak of every part of a method, for a fresh process; GPSig stores all unless `tiled`."""
    if not tiled:
        for module in (kernel, models):  # of this process, which ends with the measurement
            vars(module)["_CELLS"] = sys.maxsize
    for call in parts_of(method, replace(size, **_TINY)).values():
        call()
    parts = parts_of(method, size)
    return {part: peak_growth(parts[part]) for part in _SPACE_PARTS if part in parts}


def parameter_memory(method: str, size: Size) -> dict[str, float]:
    """MiB that the inducing variables of a method keep; for a fresh process."""
    inducing_features(method, replace(size, **_TINY))
    before = reset_peak()
    features = inducing_features(method, size)
    after = reset_peak()
    del features
    return {STORED: after - before}


def peak_growth(call: Callable[[], object]) -> float:
    """MiB by which resident memory rises above its present level, at most, during a call."""
    before = reset_peak()
    call()
    return _status("VmHWM") - before


def reset_peak() -> float:
    """Gives freed memory back, lowers the recorded peak to what is held now, and returns that in MiB."""
    _call_c("malloc_trim", 0)
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def _status(field: str) -> float:
    text = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(text.split(f"{field}:")[1].split()[0]) / 1024


def part_times(method: str, size: Size, min_seconds: float) -> dict[str, float]:
    with limited(1):
        return {part: cpu_seconds(call, min_seconds) for part, call in parts_of(method, size).items()} | load_average()


def load_average() -> dict[str, float]:
    """The mean number of running processes in the last minute, where the operating system tells."""
    return {_LOAD: os.getloadavg()[0]} if hasattr(os, "getloadavg") else {}


def load_sentence(records: Iterable[dict[str, float]]) -> str:
    """In which range the load of the machine was, as a sentence; empty where it is unknown."""
    loads = [record[_LOAD] for record in records if _LOAD in record]
    return f"Load average of the machine meanwhile: {min(loads):.1f} to {max(loads):.1f}." if loads else ""


def time_iteration(method: str, sizes: dict[str, int], squared: float, iterations: int) -> dict[str, float]:
    """The least CPU seconds of an iteration; features of SigGPDE are stored where the kernel is fixed."""
    kinds = {"moving": True} if method.endswith("-every") else {"fixed": False, "moving": True}
    with limited(1):
        record = {name: min(_iterations(method, sizes, squared, iterations, learn)()) for name, learn in kinds.items()}
    return record | load_average()


def iteration_peak(method: str, sizes: dict[str, int], squared: float) -> dict[str, float]:
    """Returns the MiB to the peak of an iteration that learns the kernel, after a small one; for a fresh process."""
    _iterations(method, sizes | {"M": sizes["classes"], "batch": sizes["classes"]}, squared, 1, True)()
    return {"MiB": peak_growth(_iterations(method, sizes, squared, 1, True))}


def _iterations(
    method: str, sizes: dict[str, int], squared: float, iterations: int, learn: bool
) -> Callable[[], list[float]]:
    """Iterations on random walks with labels in turn, ready to be run."""
    size = Size(*(sizes[name] for name in ("M", "length", "d", "batch", "n")))
    x, y = series(size, squared), torch.arange(size.batch) % sizes["classes"]
    likelihood = Bernoulli() if sizes["classes"] == 2 else RobustMax(sizes["classes"])
    if method.startswith("gpsig"):
        kind = "sequences" if method.startswith("gpsig-is") else "tensors"
        way = "core" if method.endswith("-core") else "recursion"
        model: AnyGP = gpsig(x, y, likelihood, kind=kind, count=size.M, level=size.n, method=way)
    elif method.startswith("core"):
        model = SparseGP(SignatureKernel(size.d, tol=_TOL), inducing_features("siggpde", size), likelihood)
    else:
        covariance = TorchKernel(size.d, refine=sizes["refine"])
        model = SparseGP(covariance, inducing_features("siggpde-torch", size), likelihood)
    cache = store_of(model, SeriesBatch(x), signatures=method in ("core", "torch"))
    return partial(iteration_times, model, cache, y, size.batch, iterations, learn)


def store_of(model: AnyGP, paths: SeriesBatch, signatures: bool) -> SignatureCache | PathStore:
    """The series of a model, with their signatures, or for signatures that are computed at every iteration."""
    if not signatures:
        return PathStore(model, paths)
    return SignatureCache(paths, model.features.words, model.kernel.log_theta)
