"""The GPU kernels, verified and timed on the GPU at hand: the one command to run on a machine that has one.

    python benchmarks/gpu.py [--quick] [--json FILE]

First every operation is compared with the reference in float64 on the CPU, in both dtypes, with ragged batches, and
models and estimators trained on the GPU with the same trained on the CPU; where a difference is beyond the tolerance,
the command ends with status 1. Then times on the GPU are put beside those of the native core on the CPU. Without a GPU,
TRITON_INTERPRET=1 SIGGPDE_BACKEND=triton runs the first part, slowly.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

import siggpde
from siggpde import SigGPClassifier, SignatureGP
from siggpde.gp.features import OrthogonalSignatureFeatures
from siggpde.gp.kernel import SignatureKernel
from siggpde.gp.likelihoods import Softmax
from siggpde.gp.phases import NaturalGradients, PaperSchedule
from siggpde.numerics import backend, triton
from siggpde.numerics import reference as operations
from siggpde.numerics.autograd import Pairs
from siggpde.numerics.inputs import row_mask
from siggpde.numerics.static_kernels import KernelSettings, StaticKernel
from siggpde.numerics.words import words_up_to

ALLOWED = {torch.float64: 1e-7, torch.float32: 2e-4}
ALLOWED_AFTER_TRAINING = 1e-5


@dataclass
class Check:
    """The largest difference of the results of an operation, beside the largest number of each."""

    name: str
    dtype: str
    worst: float
    allowed: float


@dataclass
class Timing:
    """Milliseconds of a call on each device."""

    name: str
    gpu: float
    cpu: float


def paths(n: int, length: int, channels: int, seed: int = 0) -> Tensor:
    """Random walks with a root mean square length of about 2."""
    steps = torch.randn(n, length, channels, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return (steps * (2 / (length * channels) ** 0.5)).cumsum(1)


def results(value: Tensor, *inputs: Tensor) -> list[Tensor]:
    weight = torch.linspace(0.5, 1.5, value.numel(), dtype=value.dtype, device=value.device).reshape(value.shape)
    return [value.detach(), *torch.autograd.grad((value * weight).sum(), inputs)]


def lifted(function: Callable[..., Tensor], *series: Tensor, **settings: Any) -> list[Tensor]:
    """Results for paths lifted by the RBF kernel, with gradients in its parameters in the dtype of the series."""
    h, amplitude = (torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (0.7, 1.5))
    value = function(*series, static="rbf", bandwidth=h, amplitude=amplitude, **settings)
    *gradients, of_h, of_amplitude = results(value, *series, h, amplitude)
    return [*gradients, of_h.to(gradients[0]), of_amplitude.to(gradients[0])]


def checks(device: torch.device, length: int) -> list[Check]:
    """Every operation and its gradient, against the reference."""
    x64, y64 = paths(3, length, 2), paths(2, length - 1, 2, seed=1)
    lengths = torch.tensor([length, 1, length - 2])
    listed = words_up_to(2, 3)
    a, b = x64.clone().requires_grad_(), y64.clone().requires_grad_()
    log_theta = torch.zeros(3, 2, dtype=torch.float64, requires_grad=True)
    h, amplitude = (torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (0.7, 1.5))
    rbf, plain = KernelSettings(StaticKernel("rbf", h, amplitude, 1.0)), KernelSettings()
    scaled = operations.diagonal(x64 * log_theta.exp()[:, None], lengths, plain, False, True)
    norms = [operations.diagonal(v, c, plain, True, True) / 2 for v, c in ((a, lengths), (b, None))]
    wanted = {
        "diagonal": results(operations.diagonal(a, lengths, plain, False, True), a),
        "log diagonal": results(operations.diagonal(a, lengths, plain, True, True), a),
        "fd": results(operations.diagonal(a, lengths, KernelSettings(None, 1), False, True), a),
        "gram": results(operations.gram(Pairs(a, lengths, b, settings=plain), True), a, b),
        "symmetric gram": results(operations.gram(Pairs(a, lengths, settings=plain), True), a),
        "scales": [scaled.detach(), torch.autograd.grad(scaled.sum(), log_theta)[0]],
        "rbf diagonal": results(operations.diagonal(a, lengths, rbf, False, True), a, h, amplitude),
        "rbf gram": results(operations.gram(Pairs(a, lengths, b, settings=rbf), True), a, b, h, amplitude),
        "normalised gram": results(
            operations.gram(Pairs(a, lengths, b, norms=(norms[0], norms[1]), settings=plain), True), a, b
        ),
        "signature": results(operations.chen_signature(a, row_mask(a, lengths), listed), a),
    }
    wanted["diagonal, one pass"] = [*operations.diagonal_with_gradient(x64, lengths, plain, False)]
    checks: list[Check] = []
    for dtype, allowed in ALLOWED.items():
        x, y = (v.to(device, dtype).requires_grad_() for v in (x64, y64))
        settings: dict[str, Any] = {"lengths": lengths, "tol": allowed / 10}
        calls: dict[str, Callable[[], Any]] = {
            "diagonal": lambda x=x, s=settings: results(siggpde.signature_kernel_diag(x, **s), x),
            "diagonal, one pass": lambda x=x, s=settings: siggpde.signature_kernel_diag_gradient(x, **s),
            "log diagonal": lambda x=x, s=settings: results(siggpde.signature_kernel_diag(x, log=True, **s), x),
            "fd": lambda x=x: results(siggpde.signature_kernel_diag(x, lengths=lengths, solver="fd", refine=1), x),
            "gram": lambda x=x, y=y, s=settings: results(siggpde.signature_kernel(x, y, **s), x, y),
            "symmetric gram": lambda x=x, s=settings: results(siggpde.signature_kernel(x, **s), x),
            "scales": lambda x=x, s=settings: siggpde.signature_kernel_diag_scales(x, torch.ones(2), **s),
            "rbf diagonal": lambda x=x, s=settings: lifted(siggpde.signature_kernel_diag, x, **s),
            "rbf gram": lambda x=x, y=y, s=settings: lifted(siggpde.signature_kernel, x, y, **s),
            "normalised gram": lambda x=x, y=y, s=settings: results(
                siggpde.signature_kernel(x, y, normalize=True, **s), x, y
            ),
            "signature": lambda x=x: results(siggpde.signature(x, words=listed, lengths=lengths), x),
        }
        for name, call in calls.items():
            got = call()
            for item in got:
                if item.device.type != device.type or item.dtype != dtype:
                    raise RuntimeError(f"{name} came back as {item.dtype} on {item.device}")
            pairs = [(p.cpu().double(), q) for p, q in zip(got, wanted[name], strict=True)]
            worst = max(float((p - q).abs().max() / q.abs().max()) for p, q in pairs)
            checks.append(Check(name, str(dtype).removeprefix("torch."), worst, allowed))
    return checks


def trained(device: torch.device, n: int, length: int) -> dict[str, Tensor]:
    """What models and an estimator that were trained on the device predict, on the CPU."""
    x = paths(n, length, 2)
    y = (x[:, -1, 0] > 0).long() + (x[:, -1, 1] > 0).long()
    predictions: dict[str, Tensor] = {}
    for schedule in (NaturalGradients(max_iter=2), PaperSchedule(iterations=3, batch=n // 2, evaluate_every=3)):
        model = SignatureGP(SignatureKernel(2), OrthogonalSignatureFeatures(2, 7), Softmax(3)).to(device)
        siggpde.fit(model, (x, y), schedule, progress=False)
        predictions[type(schedule).__name__] = model.predict(x).cpu()
    estimator = SigGPClassifier(n_features=15, members=1, transforms={}, device=str(device), verbose=0)
    series = x.transpose(1, 2).numpy()
    predictions["SigGPClassifier"] = torch.from_numpy(estimator.fit(series, y.numpy()).predict_proba(series))
    return predictions


@contextmanager
def by_the_cpu() -> Iterator[None]:
    """Within, what is on the CPU is computed as usual, also where the interpreter has been asked for."""
    requested, backend.requested_backend = backend.requested_backend, ""
    try:
        yield
    finally:
        backend.requested_backend = requested


def training_checks(device: torch.device, n: int, length: int) -> list[Check]:
    """Training on the device, against training on the CPU."""
    with by_the_cpu():
        wanted = trained(torch.device("cpu"), n, length)
    got = trained(device, n, length)
    worst = {name: float((got[name] - wanted[name]).abs().max()) for name in wanted}
    return [Check(name, "float64", value, ALLOWED_AFTER_TRAINING) for name, value in worst.items()]


def milliseconds(call: Callable[[], Any], device: torch.device) -> float:
    """The least of five calls, after one that compiles."""
    best = float("inf")
    for turn in range(6):
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        start = time.perf_counter()
        call()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        if turn:
            best = min(best, time.perf_counter() - start)
    return 1000 * best


def timings(device: torch.device, quick: bool) -> list[Timing]:
    timings: list[Timing] = []
    shapes = [(1000, 46, 2), (10_000, 46, 2), (10_000, 9, 3), (200, 500, 6), (20, 3000, 3)]
    for n, length, channels in shapes[: 2 if quick else None]:
        for dtype in (torch.float64, torch.float32):
            times: dict[str, list[float]] = {}
            for where in (device, torch.device("cpu")):
                x = paths(n, length, channels).to(where, dtype)
                leaf, theta = x.clone().requires_grad_(), torch.ones(channels, dtype=dtype, device=where)
                small = x[:200]
                calls: dict[str, Callable[[], Any]] = {
                    "k(X,X)": lambda x=x: siggpde.signature_kernel_diag(x),
                    "k(X,X) + path gradient": lambda x=leaf: siggpde.signature_kernel_diag(x).sum().backward(),
                    "k(X,X) + scale gradient": lambda x=x, t=theta: siggpde.signature_kernel_diag_scales(x, t),
                    "k(X,X), RBF": lambda x=x: siggpde.signature_kernel_diag(x, static="rbf"),
                    "k(X,X), RBF + path gradient": lambda x=leaf: (
                        siggpde.signature_kernel_diag(x, static="rbf").sum().backward()
                    ),
                    "Gram of 200": lambda x=small: siggpde.signature_kernel(x),
                    "normalised Gram of 200": lambda x=small: siggpde.signature_kernel(x, normalize=True),
                    "signature, depth 4": lambda x=x: siggpde.signature(x, 4),
                    "signature, depth 4 + gradient": lambda x=leaf: siggpde.signature(x, 4).sum().backward(),
                }
                for name, call in calls.items():
                    times.setdefault(name, []).append(milliseconds(call, where))
            kind = str(dtype).removeprefix("torch.")
            timings += [Timing(f"{name}, ({n}, {length}, {channels}), {kind}", *both) for name, both in times.items()]
    return timings


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="the smaller half of it")
    parser.add_argument("--json", metavar="FILE", help="write the figures there too")
    options = parser.parse_args()
    reason = triton.why_not()
    if reason is not None:
        sys.stderr.write(f"the GPU kernels cannot be used here: {reason}\n")
        return 2
    device = torch.device("cpu" if triton.interpreted() else "cuda")
    compared = checks(device, 4 if triton.interpreted() else 40)
    compared += training_checks(device, *((12, 3) if triton.interpreted() else (300, 20)))
    for check in compared:
        verdict = "ok" if check.worst <= check.allowed else "WRONG"
        sys.stdout.write(f"{check.name:18} {check.dtype:8} {check.worst:9.1e} of {check.allowed:.0e}  {verdict}\n")
    timed = [] if triton.interpreted() else timings(device, options.quick)
    for timing in timed:
        sys.stdout.write(f"{timing.name:60} GPU {timing.gpu:10.3f} ms   CPU {timing.cpu:10.3f} ms\n")
    if options.json:
        name = "interpreter" if triton.interpreted() else torch.cuda.get_device_name(device)
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"device": name, "checks": [*map(asdict, compared)], "times": [*map(asdict, timed)]}, file)
    return 0 if all(check.worst <= check.allowed for check in compared) else 1


if __name__ == "__main__":
    sys.exit(main())
