"""The parts of an iteration of each method, one by one, ready to be measured: value and gradient on random series."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from siggpde.gp.inducing import OrthogonalSignatureFeatures
from siggpde.gp.kernel import SignatureKernel
from siggpde.gp.likelihoods import Gaussian
from siggpde.gp.model import AnyGP, SparseGP
from siggpde.numerics.signature import signature
from siggpde.series import SeriesBatch
from siggpde.training.signature_cache import SignatureCache
from siggpde_paper.experiments.torch_siggpde import TorchFeatures, TorchKernel, word_signatures
from siggpde_paper.gpsig import InducingSequences, InducingTensors, TruncatedKernel
from siggpde_paper.gpsig.models import whiten

METHODS = {
    "siggpde": "SigGPDE",
    "siggpde-torch": "SigGPDE in plain torch",
    "gpsig-it": "GPSig-IT",
    "gpsig-is": "GPSig-IS",
}
PARTS = ("C_uu", "C_fu", "signatures", "diag C_ff", "linear algebra")
FEWEST_CALLS = 2
LONG_CALL = 3.0  # seconds

Parts = dict[str, Callable[[], None]]


@dataclass(frozen=True)
class Size:
    """M inducing variables, series of `length` segments and d channels, a batch, n levels (of GPSig)."""

    M: int
    length: int
    d: int
    batch: int
    n: int


def series(size: Size, squared: float = 1.0) -> Tensor:
    """Random walks (batch, length + 1, d) whose squared increments sum to about `squared`, whatever the size."""
    generator = torch.Generator().manual_seed(0)
    steps = torch.randn(size.batch, size.length, size.d, generator=generator, dtype=torch.float64)
    steps *= (squared / (size.length * size.d)) ** 0.5
    return torch.cat([torch.zeros_like(steps[:, :1]), steps.cumsum(1)], 1)


def inducing_features(method: str, size: Size) -> OrthogonalSignatureFeatures | InducingTensors | InducingSequences:
    """The inducing variables of a method: words, or tensors or sequences that are learned."""
    if method == "siggpde":
        return OrthogonalSignatureFeatures(size.d, size.M, "lexicographic")
    if method == "siggpde-torch":
        return TorchFeatures(size.d, size.M, "lexicographic")
    if method == "gpsig-it":
        return InducingTensors(size.d, size.M, size.n)
    return InducingSequences(size.d, size.M, size.n + 1)


def parts_of(method: str, size: Size) -> Parts:
    """Value and gradient of every part; what a method does not have is absent."""
    features = inducing_features(method, size)
    if isinstance(features, OrthogonalSignatureFeatures):
        return _siggpde(features, size)
    return _gpsig(features, size)


def _siggpde(features: OrthogonalSignatureFeatures, size: Size) -> Parts:
    """By the core, or in plain torch; C_fu rescales signatures that are there, `signatures` computes them."""
    x, plain = series(size), isinstance(features, TorchFeatures)
    kernel = TorchKernel(size.d) if plain else SignatureKernel(size.d)
    cache = SignatureCache(SeriesBatch(x), features.words, kernel.log_theta)

    def cross() -> None:
        scaled = cache.values * features.scaling(kernel.log_theta, cache.reference)
        _differentiate(scaled, kernel)

    def signatures() -> None:
        (word_signatures(x, features.words) if plain else signature(x, words=features.words))

    def diagonal() -> None:
        _differentiate(kernel.squared_norm(x), kernel)

    parts = {"C_fu": cross, "signatures": signatures, "diag C_ff": diagonal}
    return parts | {"linear algebra": _products(SparseGP(kernel, features, Gaussian()), size)}


def _gpsig(features: InducingTensors | InducingSequences, size: Size) -> Parts:
    x = series(size)
    kernel = TruncatedKernel(size.d, size.n, method="recursion")
    products = _products(SparseGP(kernel, features, Gaussian()), size)

    def gram() -> None:
        _differentiate(features.inducing_covariance(kernel), kernel, features)

    def cross() -> None:
        _differentiate(features.cross_covariance(kernel, x), kernel, features)

    def diagonal() -> None:
        _differentiate(kernel(x, diag=True), kernel)

    fixed: list[Tensor] = []  # a covariance matrix and a batch of columns, whose values do not matter to time

    def algebra() -> None:
        if not fixed:
            generator = torch.Generator().manual_seed(2)
            root = torch.randn(size.M, size.M, dtype=torch.float64, generator=generator) / size.M**0.5
            fixed.extend([root @ root.T + torch.eye(size.M, dtype=torch.float64), root.new_ones(size.M, size.batch)])
        left, right = (values.clone().requires_grad_() for values in fixed)
        torch.autograd.grad(whiten(left, right, features.jitter).sum(), [left, right])
        products()

    return {"C_uu": gram, "C_fu": cross, "diag C_ff": diagonal, "linear algebra": algebra}


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


def cpu_seconds(call: Callable[[], None], min_seconds: float) -> float:
    """The fastest of repeated calls, which are as many as take `min_seconds`, and at least two.

    A call that takes more than three seconds is not repeated.
    """
    best, spent, calls = float("inf"), 0.0, 0
    while spent < (min_seconds if calls >= FEWEST_CALLS else LONG_CALL):
        started = time.process_time()
        call()
        seconds = time.process_time() - started
        best, spent, calls = min(best, seconds), spent + max(seconds, 1e-6), calls + 1
    return best
