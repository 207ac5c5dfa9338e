"""The parts of an iteration of each method, one by one, ready to be timed: value and gradient on random series."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from siggpde.baselines import InducingSequences, InducingTensors, TruncatedKernel
from siggpde.baselines.whitening import whiten
from siggpde.gp.inducing import OrthogonalSignatureFeatures
from siggpde.gp.kernel import SignatureKernel
from siggpde.gp.likelihoods import Gaussian
from siggpde.gp.model import AnyGP, SparseGP
from siggpde.paths import SeriesBatch
from siggpde.training.signature_cache import SignatureCache

PARTS = ("Kuu", "Kuf", "diag Kff", "linear algebra")


@dataclass(frozen=True)
class Size:
    """M inducing variables, series of `length` segments and d channels, a batch, n levels (of GPSig)."""

    M: int
    length: int
    d: int
    batch: int
    n: int


def series(size: Size) -> Tensor:
    """Random walks (batch, length + 1, d) whose kernels are neither 1 nor huge."""
    generator = torch.Generator().manual_seed(0)
    steps = torch.randn(size.batch, size.length, size.d, generator=generator, dtype=torch.float64)
    steps /= (size.length * size.d) ** 0.5
    return torch.cat([torch.zeros_like(steps[:, :1]), steps.cumsum(1)], 1)


def parts_of(method: str, size: Size) -> dict[str, Callable[[], None]]:
    """Value and gradient of every part; what a method does not have is absent."""
    return _siggpde(size) if method == "siggpde" else _gpsig(method, size)


def _siggpde(size: Size) -> dict[str, Callable[[], None]]:
    x = series(size)
    kernel = SignatureKernel(size.d)
    features = OrthogonalSignatureFeatures(size.d, size.M, "lexicographic")
    cache = SignatureCache(SeriesBatch(x), features.words, kernel.log_theta)

    def cross() -> None:
        scaled = cache.values * features.scaling(kernel.log_theta, cache.reference)
        scaled.backward(torch.ones_like(scaled))

    def diagonal() -> None:
        kernel.squared_norm(x).sum().backward()

    return {
        "Kuf": cross,
        "diag Kff": diagonal,
        "linear algebra": _products(SparseGP(kernel, features, Gaussian()), size),
    }


def _gpsig(method: str, size: Size) -> dict[str, Callable[[], None]]:
    x = series(size)
    kernel = TruncatedKernel(size.d, size.n, method="recursion")
    features: InducingTensors | InducingSequences
    if method == "gpsig-it":
        features = InducingTensors(size.d, size.M, size.n)
    else:
        features = InducingSequences(size.d, size.M, size.n + 1)
    products = _products(SparseGP(kernel, features, Gaussian()), size)
    with torch.no_grad():
        fixed_gram, fixed_cross = features.inducing_covariance(kernel), features.cross_covariance(kernel, x)

    def gram() -> None:
        features.inducing_covariance(kernel).sum().backward()

    def cross() -> None:
        features.cross_covariance(kernel, x).sum().backward()

    def diagonal() -> None:
        kernel(x, diag=True).sum().backward()

    def algebra() -> None:
        left, right = fixed_gram.clone().requires_grad_(), fixed_cross.clone().requires_grad_()
        whiten(left, right, features.jitter).sum().backward()
        products()

    return {"Kuu": gram, "Kuf": cross, "diag Kff": diagonal, "linear algebra": algebra}


def _products(model: AnyGP, size: Size) -> Callable[[], None]:
    """Mean and variance of one latent function from features (batch, M), with gradients."""
    features = torch.randn(size.batch, size.M, dtype=torch.float64, generator=torch.Generator().manual_seed(1))

    def run() -> None:
        mean, spread = model.variational(features.clone().requires_grad_())
        (mean.sum() + spread.sum()).backward()

    return run


def cpu_seconds(call: Callable[[], None], min_seconds: float) -> float:
    """The fastest of repeated calls, after one to warm up; about `min_seconds` seconds in all."""
    call()
    best, spent = float("inf"), 0.0
    while spent < min_seconds:
        started = time.process_time()
        call()
        best = min(best, time.process_time() - started)
        spent += max(best, 1e-6)
    return best
