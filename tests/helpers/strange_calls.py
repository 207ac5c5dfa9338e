"""Random calls of the operations, most of them strange, each made from one number so that it can be made again.

`strange_call(seed)` is a call with its arguments; `outcome(call, backend)` is what it gives, or the error it ends in.
Sizes are bounded, so that the slow
reference computes a call in a fraction of a second; what is refused may be of any size.
"""

import linecache
import random
import traceback
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from torch import Tensor

import siggpde
from siggpde.numerics import logsignature as logsignature_module
from siggpde.numerics import signature as signature_module
from siggpde.numerics import signature_kernel as kernel_module
from siggpde.numerics.words import prefix_closure, words_up_to

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


_BAD = 0.04  # the share of bad values of each argument: about two calls in three are good
_SIZES = (0.0, 1e-200, 1e-20, 0.01, 0.3, 1.0, 1.0, 3.0)
_HUGE = (1e7, 1e18, 1e30, 1e160, 1e307)  # more than any kernel, and more than log k


def _backwards(values: list[Any]) -> np.ndarray:
    return np.array(values[::-1])[::-1]


class Draw:
    """Draws from one seed. `channels` and `leaves` are those of the series drawn so far."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.generator = torch.Generator().manual_seed(seed)
        self.channels = 1
        self.dtype = torch.float64
        self.leaves: list[Tensor] = []

    def pick(self, *options: Any) -> Any:
        return self.random.choice(options)

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def series(self, name: str = "x", small: bool = False, like_x: bool = False) -> dict[str, Any]:
        """{name: series}, tensor, array or list."""
        if self.chance(_BAD):
            return {name: self._no_series()}
        n, length = self.pick(0, 1, 1, 2, 3, 9), self.pick(1, 1, 2, 2, 3, 5, 9, 13)
        if small:
            n, length = min(n, 2), min(length, 4)
        if not like_x or self.chance(_BAD):
            self.channels, self.dtype = self.pick(1, 1, 2, 2, 3, 5), self.pick(torch.float64, torch.float32)
        steps = torch.randn(n, length, self.channels, generator=self.generator, dtype=torch.float64)
        size = self.pick(*_SIZES, 12.0 if length < 3 else 1.0) if not small else 0.3
        x = (steps * size / max(1, length * self.channels) ** 0.5).cumsum(1) + self.pick(0.0, 0.0, 100.0)
        if n and self.chance(_BAD):
            series = self.random.randrange(n)
            x[series] = steps[series] * self.pick(*_HUGE)
        x = x.to(self.dtype)
        if n and self.chance(_BAD):
            at = tuple(map(self.random.randrange, x.shape))
            x[at] = self.pick(float("nan"), float("inf"), -float("inf"))
        return {name: self._dressed(x)}

    def _dressed(self, x: Tensor) -> Any:
        """The same numbers as a tensor, an array or a list, of any strides, with or without a gradient."""
        form = self.pick("tensor", "tensor", "tensor", "array", "list")
        if form == "array":
            return self._array(x.numpy())
        if form == "list" and len(x):
            ends = [self.random.randint(1, x.shape[1]) for _ in x]
            parts: list[Any] = [one[:end] for one, end in zip(x, ends, strict=True)]
            kind = self.pick("tensors", "leaves", "arrays", "numbers")
            if kind == "leaves":
                parts = [self._leaf(part.clone()) for part in parts]
            elif kind == "arrays":
                parts = [self._array(part.numpy()) for part in parts]
            elif kind == "numbers":
                parts = [part.double().tolist() for part in parts]
            return tuple(parts) if self.chance(0.2) else parts
        if self.chance(0.5):
            x = self._leaf(x)
        return self._strided(x)

    def _leaf(self, x: Tensor) -> Tensor:
        leaf = x.requires_grad_()
        self.leaves.append(leaf)
        return leaf

    def _strided(self, x: Tensor) -> Tensor:
        kind = self.pick("plain", "plain", "turned", "every other", "expanded", "offset", "scaled")
        if kind == "turned":
            return x.permute(2, 0, 1).contiguous().permute(1, 2, 0)
        if kind == "every other":
            return torch.stack([x, x + 1], 2).flatten(1, 2)[:, ::2]
        if kind == "expanded" and len(x):
            return x[:1].expand(self.pick(1, 3), -1, -1)
        if kind == "offset":
            return torch.cat([x[:0], x])[:, :, :]
        return x * 0.5 if kind == "scaled" else x

    def _array(self, x: np.ndarray) -> np.ndarray:
        kind = self.pick("plain", "fortran", "reversed", "foreign", "frozen", "turned")
        if kind == "fortran":
            return np.asfortranarray(x)
        if kind in ("reversed", "turned"):
            axis = 0 if kind == "reversed" else x.ndim - 1
            return np.flip(np.flip(x, axis).copy(), axis)
        if kind == "foreign":
            return x.astype(x.dtype.newbyteorder(">"))
        if kind == "frozen":
            x = x.copy()
            x.flags.writeable = False
        return x

    def _no_series(self) -> Any:
        good = torch.zeros(2, 3, 2)
        return self.pick(
            None, "series", 3.5, [], {}, [[]], [[[]]], ..., [None], ["ab"], [[1.0], [2.0]], [[[1.0], [2.0, 3.0]]],
            good[0], good[None], good[:, :0], good[:, :, :0], good.long(), good.half(), good.bool(), good.bfloat16(),
            good.to(torch.cfloat), good.to_sparse(), good.to("meta"), [good[0], good[0].double()], [good[0], None],
            [good[0], good[0, :, :1]], [good[0], good[0, :0]], [good[0].to("meta"), good[0]], np.float64(1),
            good.numpy().astype(np.float16), good.numpy().astype(int), good.numpy().astype(object), np.array("ab"),
            good.numpy().astype(np.longdouble), np.ma.masked_array(np.zeros((1, 2, 1)), True),
        )  # fmt: skip

    def lengths(self, x: Any) -> dict[str, Any]:
        """{} or {"lengths": ..} for the series x."""
        if self.chance(_BAD):
            return {"lengths": self.pick([], 3, "ab", [1.0], [0], [-1], [10**9], [2**80], [None], torch.ones(2), [[1]])}
        shape = getattr(x, "shape", ())
        if len(shape) != 3 or not shape[1] or self.chance(0.5):
            return {}
        given = [self.random.randint(1, shape[1]) for _ in range(shape[0])]
        form = self.pick(list, tuple, np.array, _backwards, torch.tensor)
        if not given:
            form = torch.LongTensor
        return {"lengths": form(given)}

    def words(self, channels: int) -> dict[str, Any]:
        """{"depth": ..} or {"words": ..}, seldom both or none."""
        if self.chance(_BAD):
            bad_words = (None, 3, "ab", [0], [(0.5,)], [("a",)], [(channels,)], [(-1,)], [(0,), (0,)], [(0,) * 2000])
            bad_depth = (-1, 1.5, 2.0, "2", [2], True, 60, 10**5, 10**9, 10**400, float("nan"), None, (), 1j)
            depth, words = {"depth": self.pick(*bad_depth)}, {"words": self.pick(*bad_words)}
            return self.pick(depth, words, {}, {"depth": 1, "words": []})
        if self.chance(0.5):
            return {"depth": self.pick(0, 1, 2, 3, np.int64(2))}
        drawn = {tuple(self.random.randrange(channels) for _ in range(self.pick(0, 1, 2, 3, 6))) for _ in range(5)}
        listed = sorted(drawn)
        self.random.shuffle(listed)
        as_lists = [list(word) for word in listed]
        return {"words": self.pick(listed, tuple(listed), as_lists, [], [()], np.array([[0, channels - 1]]))}

    def prefix_closed_words(self, channels: int) -> Any:
        if self.chance(_BAD):
            return self.pick([(0,)], [(), (0, 0)], [(), (0,), (0,)], [(), (channels,)], [], None, 3, [(), (0.5,)])
        return self.pick([()], words_up_to(channels, 1), words_up_to(channels, 3), prefix_closure([(0,) * 5, (0, 0)]))

    def signature(self, steps: Any, words: Any) -> dict[str, Any]:
        """{"signature": (n, words)} of what was before the increments `steps`."""
        odd = not isinstance(steps, Tensor) or not steps.is_floating_point() or not isinstance(words, list)
        if odd or self.chance(_BAD):
            return {"signature": self.pick(None, "ab", torch.ones(2, 2), torch.ones(2, 3, 1), np.ones((1, 2)), 1.0)}
        start = torch.randn(len(steps), len(words), generator=self.generator).to(steps.dtype)
        if self.chance(0.3):
            start = start.T.contiguous().T
        return {"signature": self._leaf(start) if self.chance(0.5) else start}

    def solver(self) -> dict[str, Any]:
        if self.chance(_BAD):
            return self.pick(
                {"solver": self.pick("exact", None, 1, ["series"], np.zeros(2))},
                {"refine": self.pick(1, -1, 13, 1.0, True, None, "1", [1])},
                {"solver": "fd", "refine": self.pick(-1, 13, 10**30, 1.0, True, None, "1", [1], torch.tensor(1))},
                {"tol": self.pick(0, 1, -1, 2, None, "x", float("nan"), float("inf"), [1e-8], 1j, True)},
            )
        if self.chance(0.4):
            return {"solver": "fd", "refine": self.pick(0, 0, 1, 2, np.int8(1))}
        return self.pick({}, {"solver": "series"}, {"tol": 10 ** -self.random.uniform(0.1, 15)}, {"tol": 1e-300})

    def gradient(self) -> dict[str, Any]:
        if self.chance(_BAD):
            return {"gradient": self.pick("tape", None, 1, [], np.zeros(2))}
        return {} if self.chance(0.6) else {"gradient": self.pick("adjoint", "variation", "augmented")}

    def static(self) -> dict[str, Any]:
        """{} or a static kernel."""
        if self.chance(_BAD):
            return self.pick(
                {"static": self.pick("gauss", None, 1, ["rbf"], np.zeros(2))},
                {"bandwidth": self.pick(1.0, 2, "x")},
                {"alpha": self.pick(1.0, 0)},
                {"static": "rbf", "bandwidth": self.pick(0, -1, float("nan"), "x", [1.0], torch.ones(2), 1j, True)},
                {"static": "rbf", "amplitude": self.pick(0, -1, float("inf"), "x", None, torch.zeros(0), 1j)},
                {"static": "rational_quadratic", "alpha": self.pick(0, -2.0, float("nan"), "x", [1], 1j)},
            )
        if self.chance(0.4):
            return self.pick({}, {"static": "linear"}, {"amplitude": self.random.uniform(0.3, 1.5)})
        drawn = {"static": self.pick("rbf", "matern12", "matern32", "matern52", "rational_quadratic")}
        if self.chance(0.7):
            drawn["bandwidth"] = self.pick(1, np.float32(0.5), torch.tensor(2.0), self.random.uniform(0.3, 3))
        if self.chance(0.7):
            drawn["amplitude"] = self.pick(1, torch.tensor([0.7]), np.float64(1.5), self.random.uniform(0.1, 2))
        return drawn | ({"alpha": 2} if drawn["static"] == "rational_quadratic" and self.chance(0.5) else {})

    def normalize(self) -> dict[str, Any]:
        if self.chance(_BAD):
            return {"normalize": self.pick("x", None, 1, 0.0, [], torch.tensor(True))}
        return self.pick({}, {}, {"normalize": True}, {"normalize": False}, {"normalize": np.True_})

    def basis(self) -> dict[str, Any]:
        """{"depth": .., "basis": ..} of a log-signature."""
        if self.chance(_BAD):
            return self.pick(
                {"depth": self.pick(0, -1, 1.5, 2.0, "2", [2], True, 60, 10**5, 10**9, None, 1j)},
                {"depth": 2, "basis": self.pick("lie", None, 1, ["hall"])},
            )
        depth, basis = {"depth": self.pick(1, 2, 3, 4, np.int64(2))}, {"basis": self.pick("lyndon", "hall", "words")}
        return depth | self.pick({}, basis)

    def log(self) -> dict[str, Any]:
        if self.chance(_BAD):
            return {"log": self.pick("x", None, 1, 0, 1.0, [], torch.tensor(True))}
        return self.pick({}, {"log": True}, {"log": False}, {"log": np.True_})

    def theta(self) -> dict[str, Any]:
        if self.chance(_BAD):
            return {
                "theta": self.pick(None, "ab", [], 1.0, [1.0] * 9, [[1.0]], [None], [float("nan")] * self.channels, 1j)
            }
        values = [self.random.uniform(0.1, 2) * self.pick(1, 1, -1, 0) for _ in range(self.channels)]
        form = self.pick(list, np.array, torch.tensor, partial(torch.tensor, dtype=torch.float64), _backwards)
        return {"theta": form(values)}

    def n_jobs(self) -> dict[str, Any]:
        if self.chance(_BAD):
            return {"n_jobs": self.pick(0, -2, 1.0, True, "2", [1], float("nan"))}
        return {} if self.chance(0.5) else {"n_jobs": self.pick(None, 1, 2, 3, -1, 2**31, 2**70, np.int32(2))}


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


DRAWN: list[Callable[..., Any]] = [
    siggpde.signature,
    siggpde.extend,
    siggpde.signature_kernel,
    siggpde.signature_kernel_diag,
    siggpde.signature_kernel_diag_scales,
    siggpde.signature_kernel_diag_gradient,
    siggpde.logsignature,
]


def arguments_of(name: str, draw: Draw) -> dict[str, Any]:
    """The arguments of a call of the operation of that name."""
    if name == "extend":
        steps = draw.series("increments")
        words = draw.prefix_closed_words(draw.channels)
        return draw.signature(steps["increments"], words) | steps | {"words": words} | draw.n_jobs()
    gradient = draw.gradient() if name in ("signature_kernel", "signature_kernel_diag") else {}
    arguments = draw.series(small=str(gradient.get("gradient")) == "augmented")
    if name == "signature":
        arguments |= draw.words(draw.channels)
    elif name == "signature_kernel_diag_scales":
        arguments |= draw.theta()
    elif name == "logsignature":
        arguments |= draw.basis()
    arguments |= draw.lengths(arguments["x"])
    if name == "signature_kernel":
        arguments |= draw.solver() | gradient | draw.static() | draw.normalize()
    elif name.startswith("signature_kernel"):
        arguments |= draw.static() | draw.log() | draw.solver() | gradient
    arguments |= draw.n_jobs()
    if name == "signature_kernel" and draw.chance(0.6):
        y = draw.series("y", like_x=True)
        arguments |= y | {f"y_{key}": value for key, value in draw.lengths(y["y"]).items()}
    return arguments


def strange_call(seed: int) -> Call:
    """The call that belongs to a number."""
    draw = Draw(seed)
    function = DRAWN[seed % len(DRAWN)]
    return Call(seed, function, arguments_of(function.__name__, draw), draw.leaves)


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
