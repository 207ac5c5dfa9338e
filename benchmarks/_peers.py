"""Ourselves and the other libraries behind one interface.

Every method prepares its inputs and returns a call without arguments, which is what gets timed: `value(x, options)`
gives k(X_i, X_i) as (n,), `slope` the pair (k, gradient of its sum in the path), `autograd_slope` the same through
torch's autograd, `gram` the (n, n) matrix, `signature` the words of length 1 to depth, `signature_slope` those and the
gradient for a given cotangent. Each library is called in the cheapest way that its public interface offers, on one core
unless `n_jobs` says otherwise.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import inspect
import os
import warnings
from collections.abc import Callable

import _reference
import numpy as np
import torch
from _table import OURS, by_turns
from torch import Tensor

Call = Callable[[], object]


class Ours:
    """siggpde; options are those of `signature_kernel_diag`."""

    name = OURS
    families: tuple[tuple[dict, ...], ...] = ()

    def __init__(self, n_jobs: int = 1):
        module = importlib.import_module("siggpde")
        names = ("signature", "signature_kernel", "signature_kernel_diag", "signature_kernel_diag_gradient")
        missing = [name for name in names if not hasattr(module, name)]
        if missing:
            raise ImportError(f"siggpde has no {', '.join(missing)} yet")
        functions = [getattr(module, name) for name in names]
        self.takes_jobs = all("n_jobs" in inspect.signature(function).parameters for function in functions)
        jobs = {"n_jobs": n_jobs} if self.takes_jobs else {}
        calls = (functools.partial(function, **jobs) for function in functions)
        self._signature, self._gram, self._diag, self._diag_gradient = calls

    def value(self, x: Tensor, options: dict) -> Call:
        return functools.partial(self._diag, x, **options)

    def static(self, name: str) -> dict:
        """The options of a static kernel of bandwidth 1."""
        return {"static": name}

    def slope(self, x: Tensor, options: dict) -> Call:
        return functools.partial(self._diag_gradient, x, **options)

    def autograd_slope(self, x: Tensor, options: dict) -> Call:
        return _torch_slope(lambda leaf: self._diag(leaf, **options), x)

    def gram(self, x: Tensor, options: dict) -> Call:
        return functools.partial(self._gram, x, **options)

    def ragged_value(self, x: Tensor, lengths: Tensor | None, options: dict) -> Call:
        return functools.partial(self._diag, x, lengths=lengths, **options)

    def rectangular(
        self, x: Tensor, y: Tensor | None, lengths: Tensor | None, y_lengths: Tensor | None, options: dict
    ) -> Call:
        return functools.partial(self._gram, x, y, lengths=lengths, y_lengths=y_lengths, **options)

    def signature(self, x: Tensor, depth: int) -> Call:
        return functools.partial(self._signature, x, depth=depth)

    def signature_slope(self, x: Tensor, depth: int, cotangent: Tensor) -> Call:
        full = torch.cat([cotangent.new_zeros(len(x), 1), cotangent], 1)  # ours starts with the empty word
        return _torch_slope(lambda leaf: self._signature(leaf, depth=depth), x, full)


class Pysiglib:
    """pysiglib. Its gradient for one argument, doubled, is the cheapest one of k(X, X), which is symmetric."""

    families = (
        tuple({"dyadic_order": r} for r in range(6)),
        tuple({"method": "polynomial", "order": order} for order in (*range(2, 13), 14, 16)),
    )

    def __init__(self):
        self._module = importlib.import_module("pysiglib")
        self.name = f"pysiglib {importlib.metadata.version('pysiglib')}"

    @staticmethod
    def bytes_needed(x: Tensor, options: dict, slope: bool) -> float:
        """What its gradient stores: the refined grid of every series, or two polynomials a cell."""
        cells = x.shape[0] * x.shape[1] ** 2
        if "order" in options:
            return 8.0 * cells * (2 * options["order"] + 4 if slope else 1)
        return 8.0 * cells * (1 if not slope else 2 * 4 ** options["dyadic_order"])

    def static(self, name: str) -> dict:
        """The options of a static kernel of bandwidth 1."""
        kernels = {
            "rbf": lambda: self._module.RBFKernel(2.0),
            "matern12": lambda: self._module.Matern12Kernel(1.0),
            "matern52": lambda: self._module.Matern52Kernel(1.0),
            "rational_quadratic": lambda: self._module.RationalQuadraticKernel(1.0),
        }
        return {"static_kernel": kernels[name]()}

    def value(self, x: Tensor, options: dict) -> Call:
        return functools.partial(self._module.sig_kernel, x, x, n_jobs=1, **options)

    def slope(self, x: Tensor, options: dict) -> Call:
        """The quicker of two: its own reverse call after its forward one, or autograd, which keeps more in between."""
        finite_differences = "dyadic_order" in options
        ones = x.new_ones(len(x))

        def forward_and_back() -> tuple[Tensor, Tensor]:
            k = self._module.sig_kernel(x, x, n_jobs=1, return_grid=finite_differences, **options)
            kept = {"k_grid": k} if finite_differences else {}
            gradient = self._module.sig_kernel_backprop(ones, x, x, n_jobs=1, **kept, **options)[0]
            return k[:, -1, -1] if finite_differences else k, gradient * 2.0

        calls = [forward_and_back, self.autograd_slope(x, options)]
        seconds = by_turns(dict(enumerate(calls)), 3)
        return calls[min(seconds, key=seconds.__getitem__)]

    def autograd_slope(self, x: Tensor, options: dict) -> Call:
        def kernel(leaf: Tensor) -> Tensor:
            return self._module.torch_api.sig_kernel(leaf, x, n_jobs=1, **options)

        return _torch_slope(kernel, x, factor=2.0)

    def gram(self, x: Tensor, options: dict) -> Call:
        return functools.partial(self._module.sig_kernel_gram, x, x, n_jobs=1, **options)  # the same object: symmetric

    def signature(self, x: Tensor, depth: int) -> Call:
        return functools.partial(self._module.sig, x, depth, n_jobs=1)

    def signature_slope(self, x: Tensor, depth: int, cotangent: Tensor) -> Call:
        return _torch_slope(lambda leaf: self._module.torch_api.sig(leaf, depth, n_jobs=1), x, cotangent)


class Sigkernel:
    """sigkernel. It differentiates the first argument only; we double that for k(X, X), as its users must."""

    name = "sigkernel"
    families = (tuple({"dyadic_order": r} for r in range(6)),)
    note = "half gradient, doubled"

    def __init__(self):
        self._module = importlib.import_module("sigkernel")

    @staticmethod
    def bytes_needed(x: Tensor, options: dict, slope: bool) -> float:
        cells = x.shape[0] * x.shape[1] ** 2 * 4 ** options["dyadic_order"]
        return 8.0 * cells * (4 + (6 * x.shape[2] if slope else 0))

    def _kernel(self, options: dict):
        return self._module.SigKernel(self._module.LinearKernel(), options["dyadic_order"])

    def value(self, x: Tensor, options: dict) -> Call:
        return functools.partial(self._kernel(options).compute_kernel, x, x)

    def slope(self, x: Tensor, options: dict) -> Call:
        kernel = self._kernel(options)
        return _torch_slope(lambda leaf: kernel.compute_kernel(leaf, x), x, factor=2.0)

    autograd_slope = slope

    def gram(self, x: Tensor, options: dict) -> Call:
        return functools.partial(self._kernel(options).compute_Gram, x, x, sym=True)


class Iisignature:
    """iisignature, on numpy arrays."""

    name = "iisignature"

    def __init__(self):
        self._module = importlib.import_module("iisignature")

    def signature(self, x: Tensor, depth: int) -> Call:
        return functools.partial(self._module.sig, x.numpy(), depth)

    def signature_slope(self, x: Tensor, depth: int, cotangent: Tensor) -> Call:
        path, direction = x.numpy(), cotangent.numpy()
        return lambda: (self._module.sig(path, depth), self._module.sigbackprop(direction, path, depth))


class Signax:
    """signax under jit on jax arrays; the first, unmeasured call compiles."""

    name = "signax"

    def __init__(self):
        allowed = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {min(allowed)})  # the pool of XLA takes the cores it sees when it starts
        try:
            self._jax = importlib.import_module("jax")
            self._jax.config.update("jax_platforms", "cpu")
            self._jax.config.update("jax_enable_x64", True)
            self._signature = importlib.import_module("signax").signature
            self._jax.numpy.zeros(3).block_until_ready()
        finally:
            os.sched_setaffinity(0, allowed)

    def signature(self, x: Tensor, depth: int) -> Call:
        path = self._jax.numpy.asarray(x.numpy())
        compiled = self._jax.jit(lambda p: self._signature(p, depth))
        return lambda: compiled(path).block_until_ready()

    def signature_slope(self, x: Tensor, depth: int, cotangent: Tensor) -> Call:
        path, direction = (self._jax.numpy.asarray(t.numpy()) for t in (x, cotangent))

        @self._jax.jit
        def both(p, w):
            value, pull = self._jax.vjp(lambda q: self._signature(q, depth), p)
            return value, pull(w)[0]

        return lambda: self._jax.block_until_ready(both(path, direction))


class NaiveTorch:
    """Chen's identity step by step in torch, differentiated by autograd."""

    name = "naive torch"

    def signature(self, x: Tensor, depth: int) -> Call:
        return functools.partial(_reference.signature, x, depth)

    def signature_slope(self, x: Tensor, depth: int, cotangent: Tensor) -> Call:
        return _torch_slope(lambda leaf: _reference.signature(leaf, depth), x, cotangent)


def load() -> tuple[dict[str, object], list[str]]:
    """Those that are installed, by class name, and why the others are not here."""
    for message in ("Detected a non-contiguous", "sig_kernel produced negative"):  # copies; unrefined differences
        warnings.filterwarnings("ignore", message=message)
    methods, skipped = {}, []
    for kind in (Ours, Pysiglib, Sigkernel, Iisignature, Signax, NaiveTorch):
        try:
            methods[kind.__name__] = kind()
        except ImportError as error:
            skipped.append(f"{kind.__name__.lower()} skipped: {error}")
    return methods, skipped


def to_tensor(result: object) -> Tensor:
    return result if isinstance(result, Tensor) else torch.from_numpy(np.array(result))


def _torch_slope(
    f: Callable[[Tensor], Tensor], x: Tensor, cotangent: Tensor | None = None, factor: float = 1.0
) -> Call:
    """A call that gives f(x) and its gradient for a cotangent (all ones if none), times `factor`."""
    leaf = x.clone().requires_grad_()

    def call() -> tuple[Tensor, Tensor]:
        value = f(leaf)
        weights = torch.ones_like(value) if cotangent is None else cotangent
        gradient = torch.autograd.grad(value, leaf, weights)[0]
        return value, gradient if factor == 1 else gradient * factor

    return call
