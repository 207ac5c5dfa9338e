"""Nadam, the optimiser of the paper, and the exact gradient of a minibatch ELBO in q(u): `q_gradient` and `Nadam.step`
are the oracle of `q_step`, which moves classes one by one in the native core, on one rank."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from siggpde.distributed.ranks import ALONE, Ranks
from siggpde.gp.model import AnyGP
from siggpde.gp.variational import add_times_upper, lower_products, pack_upper, times_lower, unpack_upper
from siggpde.numerics import inputs
from siggpde.numerics.core import core

_BETA1, _BETA2, _EPS, _DECAY = 0.9, 0.999, 1e-8, 4e-3


class Rates(NamedTuple):
    """Factors of gradients and first moments in one step, and the divisor of second moments."""

    gradient: float
    first: float
    correction: float


class Nadam:
    """The optimiser of the paper: the updates of torch.optim.NAdam for tensors with gradients computed elsewhere."""

    def __init__(self, parameters: list[Tensor], learning_rate: float) -> None:
        self.parameters, self.rate = parameters, learning_rate
        self.first = [torch.zeros_like(p, requires_grad=False) for p in parameters]
        self.second = [torch.zeros_like(p, requires_grad=False) for p in parameters]
        self.steps, self.product = 0, 1.0
        self._buffers: dict[str, Tensor] = {}

    def buffer(self, name: str, like: Tensor, *shape: int) -> Tensor:
        """Memory of that shape with undefined contents, the same at every call while shapes stay the same."""
        memory = self._buffers.get(name)
        if memory is None or memory.shape != shape or memory.dtype != like.dtype or memory.device != like.device:
            memory = self._buffers[name] = like.new_empty(shape)
        return memory

    def advance(self) -> Rates:
        """Begins the next step, in which every parameter is to be updated once."""
        self.steps += 1
        momentum, following = (_BETA1 * (1 - 0.5 * 0.96 ** (t * _DECAY)) for t in (self.steps, self.steps + 1))
        self.product *= momentum
        of_gradient = self.rate * (1 - momentum) / (1 - self.product)
        of_first = self.rate * following / (1 - self.product * following)
        return Rates(of_gradient, of_first, 1 - _BETA2**self.steps)

    @torch.no_grad()
    def update(self, index: int, gradient: Tensor, rates: Rates) -> None:
        parameter, first, second = self.parameters[index], self.first[index], self.second[index]
        first.lerp_(gradient, 1 - _BETA1)
        second.mul_(_BETA2).addcmul_(gradient, gradient, value=1 - _BETA2)
        below = second.div(rates.correction).sqrt_().add_(_EPS)
        parameter.addcdiv_(gradient, below, value=-rates.gradient).addcdiv_(first, below, value=-rates.first)

    def step(self, gradients: list[Tensor]) -> None:
        """One update; gradients in the order of the parameters."""
        rates = self.advance()
        for index, gradient in enumerate(gradients):
            self.update(index, gradient, rates)

    def update_root(self, index: int, latent: int, start: int, gradient: Tensor, rates: Rates) -> tuple[float, float]:
        """Moves `rows` of one lower triangular matrix of a stack, natively, by `gradient` (rows, M) of the rows from
        `start` on and that of the KL divergence; returns the sums of R_ij² and log |R_ii| over these rows before the
        step."""
        stack, size = self.parameters[index], gradient.shape[1]
        skip = latent * size * size * stack.element_size()
        tensors = (stack, self.first[index], self.second[index])
        value, first, second = (tensor.data_ptr() + skip for tensor in tensors)
        run = core.nadam_lower_f64 if stack.dtype == torch.float64 else core.nadam_lower_f32
        return run(
            value, gradient.data_ptr(), first, second, size, start, start + len(gradient),
            _BETA1, _BETA2, *rates, _EPS, inputs.thread_count(None),
        )  # fmt: skip

    def native(self, index: int) -> bool:
        tensors = (self.parameters[index], self.first[index], self.second[index])
        return core is not None and all(
            t.ndim == 3 and t.device.type == "cpu" and t.is_contiguous() and t.dtype in inputs.FLOATS for t in tensors
        )

    def state(self) -> dict:
        return {"first": self.first, "second": self.second, "steps": self.steps, "product": self.product}

    def load(self, state: dict) -> None:
        for mine, theirs in zip(self.first + self.second, state["first"] + state["second"], strict=True):
            mine.copy_(theirs)
        self.steps, self.product = state["steps"], state["product"]


class Minibatch(NamedTuple):
    """Features (B, M), tail, targets, weights (B,) of this rank; `size` of the batch and `total` series on all."""

    features: Tensor
    tail: Tensor
    y: Tensor
    total: int
    weights: Tensor | None = None
    size: int | None = None

    @property
    def factor(self) -> float:
        """The factor of sums over the minibatch."""
        return self.total / (self.size or len(self.y))


@dataclass
class QStep:
    """The ELBO before the step and, if asked for, gradients of its negative in features and tail."""

    elbo: float
    features: Tensor | None
    tail: Tensor | None


@dataclass
class QGradient(QStep):
    """With the gradients of the negative ELBO in m and R."""

    mean: Tensor
    root: Tensor


def q_gradient(model: AnyGP, batch: Minibatch, *, of_features: bool = False, ranks: Ranks = ALONE) -> QGradient:
    """Gradient of the negative minibatch ELBO in q(u); parameters of the likelihood get theirs in `.grad`.

    With T = s R_c for features s (B, M), g = dE/dmean and w = dE/dvariance: dE/dm_c = s^T g_c, dE/dR_c = 2 s^T (w_c T),
    dE/ds = sum_c g_c m_c^T + 2 (w_c T) R_c^T, dE/dtail = sum_c w_c. Only those in m and R are summed over ranks.
    """
    q, features = model.variational, batch.features.detach()
    with torch.no_grad():
        spread = torch.matmul(features, q.root.tril()) if q.full else None
        squares = features.square()
        variance = squares @ q.root.square().T if spread is None else spread.square().sum(dim=2).T
        value, g, w = _expectation(model, batch, features, variance)
        of_rows = g @ q.mean if of_features else None
        if spread is None:
            of_root = (w.T @ squares) * 2 * q.root
            if of_rows is not None:
                of_rows += 2 * features * (w @ q.root.square())
        else:
            pulled = spread * (2 * w.T[:, :, None])
            of_root = features.T @ pulled
            if of_rows is not None:
                of_rows += (pulled @ q.root.mT).sum(dim=0)
        value, of_mean, of_root = _summed(ranks, value, g.T @ features, of_root)
        if spread is None:
            of_root += q.root - q.root.reciprocal()
        else:
            of_root = (of_root + q.root).tril()
            of_root.diagonal(dim1=1, dim2=2).sub_(q.root.diagonal(dim1=1, dim2=2).reciprocal())
        elbo = value - float(q.kl().detach())
        return QGradient(elbo, of_rows, w.sum(dim=1) if of_features else None, of_mean + q.mean, of_root)


def _summed(ranks: Ranks, value: float, of_mean: Tensor, of_root: Tensor) -> tuple[float, Tensor, Tensor]:
    """Returns the sums of all three over all ranks; of matrices only the lower triangles are sent."""
    if ranks.alone:
        return value, of_mean, of_root
    full = of_root.ndim == 3
    total = of_mean.new_tensor(value, dtype=torch.float64)
    sums = ranks.all_reduce_sum(total, of_mean, pack_upper(of_root.mT) if full else of_root)
    return float(sums[0]), sums[1], unpack_upper(sums[2], of_root.shape[1]).mT if full else sums[2]


def q_step(
    model: AnyGP, optimizer: Nadam, rates: Rates, batch: Minibatch, *, of_features: bool = False, ranks: Ranks = ALONE
) -> QStep:
    """Updates the first two parameters of the optimizer, which must be mean and root of q(u), from a minibatch."""
    q = model.variational
    if not (ranks.alone and q.full and optimizer.native(1) and batch.features.device.type == "cpu"):
        gradient = q_gradient(model, batch, of_features=of_features, ranks=ranks)
        optimizer.update(0, gradient.mean, rates)
        optimizer.update(1, gradient.root, rates)
        return gradient
    with torch.no_grad():
        features, mean, root = batch.features.detach().contiguous(), q.mean.detach(), q.root.detach()
        spread = optimizer.buffer("spread", features, q.latents, *features.shape)
        buffer = optimizer.buffer("rows", features, *features.shape)
        of_root = optimizer.buffer("root", features, q.size, q.size)
        variance = features.new_empty(q.latents, len(features))
        for latent in range(q.latents):
            times_lower(features, root[latent], spread[latent])
            torch.sum(torch.square(spread[latent], out=buffer), dim=1, out=variance[latent])
        value, g, w = _expectation(model, batch, features, variance.T)
        of_rows = g @ mean if of_features else None
        doubled = (2 * w.T)[:, :, None]
        squares, logs = float(mean.square().sum(dtype=torch.float64)) - mean.numel(), 0.0
        for latent in range(q.latents):
            pulled = torch.mul(spread[latent], doubled[latent], out=buffer)
            if of_rows is not None:
                add_times_upper(pulled, root[latent], of_rows)
            for start, rows in lower_products(features, pulled, of_root):
                parts = optimizer.update_root(1, latent, start, rows, rates)
                squares, logs = squares + parts[0], logs + parts[1]
        optimizer.update(0, g.T @ features + mean, rates)
        return QStep(value - 0.5 * squares + logs, of_rows, w.sum(dim=1) if of_features else None)


def _expectation(model: AnyGP, batch: Minibatch, features: Tensor, spread: Tensor) -> tuple[float, Tensor, Tensor]:
    """The estimate of the sum of E_q[log p(y | f)], and gradients of its negative in mean and variance (B, C)."""
    mean = (features @ model.variational.mean.detach().T).requires_grad_()
    variance = (spread + batch.tail.detach().to(spread)[:, None]).requires_grad_()
    with torch.enable_grad():
        value = model.likelihood.expected_log_prob(mean, variance, batch.y)
        value = (value if batch.weights is None else value * batch.weights).sum() * -batch.factor
    value.backward()
    assert mean.grad is not None and variance.grad is not None
    return -float(value.detach()), mean.grad, variance.grad
