"""Random calls of the operations, most of them strange, each made from one number so that it can be made again.

`strange_call(seed)` is a call with its arguments; `outcome(call, backend)` is what it gives, or the error it ends in.
An operation is added by one function, which draws its arguments: see `operation`. Sizes are bounded, so that the slow
reference computes a call in a fraction of a second; what is refused may be of any size.
"""

import linecache
import traceback
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from torch import Tensor

import siggpde
from helpers.strange_arguments import Draw
from siggpde.numerics import logsignature as logsignature_module
from siggpde.numerics import signature as signature_module
from siggpde.numerics import signature_kernel as kernel_module

_MODULES = (signature_module, kernel_module, logsignature_module)  # which ask for a backend
PACKAGE = str(Path(siggpde.__file__).parent)


KERNELS: dict[str, Callable[..., Any]] = {
    "gram": siggpde.signature_kernel,
    "diagonal": siggpde.signature_kernel_diag,
    "points": siggpde.signature_kernel_diag_gradient,
    "scales": lambda x, **settings: siggpde.signature_kernel_diag_scales(x, [1.0, 1.0], **settings),
}
OPERATIONS = KERNELS | {"signature": lambda x, **settings: siggpde.signature(x, 2, **settings)}


def by_operation(operations: dict[str, Callable[..., Any]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("operation", operations.values(), ids=operations)


@dataclass(frozen=True)
class Call:
    """A call of an operation. `leaves` are the tensors inside the arguments that require a gradient."""

    seed: int
    function: Callable[..., Any]
    arguments: dict[str, Any]
    leaves: list[Tensor]

    def __str__(self) -> str:
        given = ", ".join(f"{name}={_shown(value)}" for name, value in self.arguments.items())
        return f"strange_call({self.seed}): {self.function.__name__}({given})"


@dataclass(frozen=True)
class Outcome:
    """The results of a call with the gradients of their weighted sum, or the error; and whether there was a warning."""

    values: list[Tensor]
    gradients: list[Tensor]
    error: Exception | None = None
    warned: bool = False


_DRAWN: list[tuple[Callable[..., Any], Callable[[Draw], dict[str, Any]]]] = []


def operation(function: Callable[..., Any]) -> Callable[[Callable[[Draw], dict[str, Any]]], Any]:
    """Registers the function below it, which draws the arguments of a call of `function`."""

    def register(arguments: Callable[[Draw], dict[str, Any]]) -> Callable[[Draw], dict[str, Any]]:
        _DRAWN.append((function, arguments))
        return arguments

    return register


@operation(siggpde.signature)
def _signature(draw: Draw) -> dict[str, Any]:
    x = draw.series()
    return x | draw.words(draw.channels) | draw.lengths(x["x"]) | draw.n_jobs()


@operation(siggpde.extend)
def _extend(draw: Draw) -> dict[str, Any]:
    steps = draw.series("increments")
    words = draw.prefix_closed_words(draw.channels)
    return draw.signature(steps["increments"], words) | steps | {"words": words} | draw.n_jobs()


@operation(siggpde.signature_kernel)
def _gram(draw: Draw) -> dict[str, Any]:
    gradient = draw.gradient()
    x = draw.series(small=str(gradient.get("gradient")) == "augmented")
    arguments = x | draw.lengths(x["x"]) | draw.solver() | gradient | draw.static() | draw.normalize() | draw.n_jobs()
    if draw.chance(0.6):
        y = draw.series("y", like_x=True)
        arguments |= y | {f"y_{name}": value for name, value in draw.lengths(y["y"]).items()}
    return arguments


@operation(siggpde.signature_kernel_diag)
def _diagonal(draw: Draw) -> dict[str, Any]:
    gradient = draw.gradient()
    x = draw.series(small=str(gradient.get("gradient")) == "augmented")
    return x | draw.lengths(x["x"]) | draw.static() | draw.log() | draw.solver() | gradient | draw.n_jobs()


@operation(siggpde.signature_kernel_diag_scales)
def _scales(draw: Draw) -> dict[str, Any]:
    x = draw.series()
    return x | draw.theta() | draw.lengths(x["x"]) | draw.static() | draw.log() | draw.solver() | draw.n_jobs()


@operation(siggpde.signature_kernel_diag_gradient)
def _points(draw: Draw) -> dict[str, Any]:
    x = draw.series()
    return x | draw.lengths(x["x"]) | draw.static() | draw.log() | draw.solver() | draw.n_jobs()


@operation(siggpde.logsignature)
def _logsignature(draw: Draw) -> dict[str, Any]:
    x = draw.series()
    return x | draw.basis() | draw.lengths(x["x"]) | draw.n_jobs()


def strange_call(seed: int) -> Call:
    """The call that belongs to a number."""
    draw = Draw(seed)
    function, arguments = _DRAWN[seed % len(_DRAWN)]
    return Call(seed, function, arguments(draw), draw.leaves)


def outcome(call: Call, backend: Any = None) -> Outcome:
    """What a call gives, by a backend's `operations` where one is given."""
    with warnings.catch_warnings(record=True) as caught, ExitStack() as stack:
        warnings.simplefilter("always")
        if backend is not None:
            for module in _MODULES:
                stack.enter_context(mock.patch.object(module, "backend_for", return_value=backend))
        try:
            result = call.function(**call.arguments)
            values = list(result) if isinstance(result, tuple) else [result]
            gradients = _gradients(values[0], call.leaves)
        except Exception as error:  # whatever it is, the test looks at it
            return Outcome([], [], error)
    ours = [item for item in caught if "signature kernel" in str(item.message)]
    return Outcome([value.detach() for value in values], gradients, warned=bool(ours))


def raised_on_purpose(error: Exception) -> bool:
    """Whether the error was raised by a `raise` of the package, and not by something that it called."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    statement = linecache.getline(last.filename, last.lineno or 0).strip()
    return last.filename.startswith(PACKAGE) and statement.startswith("raise ")


def _gradients(value: Tensor, leaves: list[Tensor]) -> list[Tensor]:
    if not leaves or not value.requires_grad:
        return []
    weight = torch.linspace(0.5, 1.5, value.numel(), dtype=value.dtype).reshape(value.shape)
    return list(torch.autograd.grad(value, leaves, weight, retain_graph=True))


def _shown(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"<tensor {value.dtype} {tuple(value.shape)} of strides {value.stride() if not value.is_sparse else ''}>"
    if hasattr(value, "dtype") and hasattr(value, "strides"):
        return f"<array {value.dtype} {value.shape} of strides {value.strides}>"
    if isinstance(value, list) and value and hasattr(value[0], "dtype"):
        return f"[{', '.join(map(_shown, value))}]"
    text = repr(value)
    return text if len(text) < 200 else text[:200] + " .."
