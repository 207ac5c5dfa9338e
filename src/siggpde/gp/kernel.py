"""The signature kernel as a covariance function: channel scales, amplitude, normalisation, truncation."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function

from siggpde.numerics import inputs
from siggpde.numerics.autograd import once_differentiable
from siggpde.numerics.signature import signature
from siggpde.numerics.signature_kernel import (
    Lengths,
    signature_kernel,
    signature_kernel_diag,
    signature_kernel_diag_scales,
)
from siggpde.word_sets import Word, check_words, letter_counts, words_up_to


class PathKernel(nn.Module):
    """A covariance function of paths with channel scales theta (channels,) and an amplitude sigma².

    Both are learned, as logarithms; a number gives all channels the same scale. What k(X, Y) is, subclasses say in
    `forward`.
    """

    log_amplitude: nn.Parameter
    log_theta: nn.Parameter

    def __init__(self, channels: int, theta: float | Sequence[float] | Tensor = 1.0, amplitude: float = 1.0) -> None:
        super().__init__()
        scales = torch.as_tensor(theta, dtype=torch.float64)
        if scales.ndim == 0:
            scales = scales.expand(channels)
        if scales.shape != (channels,) or not bool((torch.isfinite(scales) & (scales > 0)).all()):
            raise ValueError(f"theta must be a positive number or {channels} of them, one a channel, got {theta}")
        if not (math.isfinite(amplitude) and amplitude > 0):
            raise ValueError(f"amplitude must be positive, got {amplitude}")
        self.channels = channels
        self.log_theta = nn.Parameter(scales.log().clone())
        self.log_amplitude = nn.Parameter(self.log_theta.detach().new_tensor(math.log(amplitude)))

    @property
    def theta(self) -> Tensor:
        """Channel scales (channels,)."""
        return self.log_theta.exp()

    @property
    def amplitude(self) -> Tensor:
        """sigma², a scalar."""
        return self.log_amplitude.exp()

    def forward(
        self,
        x: inputs.Series,
        y: inputs.Series | None = None,
        diag: bool = False,
        *,
        lengths: Lengths = None,
        y_lengths: Lengths = None,
    ) -> Tensor:
        """Covariances (n, m) of x (n, length, channels) with y (m, length', channels); (n,) with `diag=True`."""
        raise NotImplementedError(f"{type(self).__name__} does not say what its covariances are")

    @staticmethod
    def check_arguments(y: Any, diag: bool, y_lengths: Any) -> None:
        """Refuses arguments of `forward` that contradict each other."""
        if diag and (y is not None or y_lengths is not None):
            raise ValueError("diag=True gives k(X, X) of x alone; leave y out")
        if y is None and y_lengths is not None:
            raise ValueError("y_lengths is given, but y is not; for the covariances of x alone give `lengths`")

    def as_paths(self, x: inputs.Series, lengths: Any = None, name: str = "x") -> tuple[Tensor, Tensor | None]:
        """x as a float64 batch on the kernel's device with its lengths, after checking the number of channels.

        What is on the CPU is copied to the device of the kernel; nothing is copied from another device.
        """
        batch, counts = self.checked_paths(x, lengths, name)
        return inputs.to_device(batch, counts, self.device)

    def checked_paths(self, x: inputs.Series, lengths: Any = None, name: str = "x") -> tuple[Tensor, Tensor | None]:
        """The same where it is: for many series, of which parts are copied to the kernel's device one by one."""
        batch, counts = inputs.as_batch(x, lengths, name)
        if batch.shape[2] != self.channels:
            raise ValueError(f"{name} has {batch.shape[2]} channels, but the kernel was made for {self.channels}")
        if batch.device != self.device and not batch.is_cpu:
            place = str(batch.device)
            raise ValueError(f"{name} is on {place}, but the model on {self.device}; move it with model.to({place!r})")
        return batch.to(torch.float64), counts

    @property
    def device(self) -> torch.device:
        """Where the parameters are, and so where everything is computed."""
        return self.log_theta.device


class SignatureKernel(PathKernel):
    """sigma² k(theta X, theta Y), where k(X, Y) is the sum over words of S(X)^a S(Y)^a.

    theta (channels,) scales the channels (a number gives all the same) and sigma² is `amplitude`; both are learned, as
    logarithms. `normalized=True` divides by sqrt(k(X, X) k(Y, Y)), so that every series has variance sigma². The sum
    goes over all words, by the PDE to accuracy `tol`; over the words of at most `depth` letters; or over the `words`
    given. A kernel of finitely many words needs no PDE and leaves no tail to features that use them all.

    Examples:
        >>> kernel = SignatureKernel(1, theta=0.5, amplitude=2.0)
        >>> kernel(torch.tensor([[[0.0], [2.0]]]).double(), diag=True).detach()
        tensor([4.5592], dtype=torch.float64)
    """

    letters: Tensor

    def __init__(
        self,
        channels: int,
        *,
        theta: float | Sequence[float] | Tensor = 1.0,
        amplitude: float = 1.0,
        normalized: bool = False,
        depth: int | None = None,
        words: Iterable[Sequence[int]] | None = None,
        tol: float = 1e-8,
    ) -> None:
        super().__init__(channels, theta, amplitude)
        if depth is not None and words is not None:
            raise ValueError("give depth or words or neither, not both: each says over which words to sum")
        if not 0 < tol < 1:
            raise ValueError(f"tol must be between 0 and 1, got {tol!r}")
        self.depth = depth
        self.normalized = bool(normalized)
        self.tol = tol
        self.words: list[Word] | None = None
        if depth is not None:
            self.words = words_up_to(channels, depth)
        elif words is not None:
            self.words = check_words(words, channels)
        counts = letter_counts(self.words or [], channels)
        self.register_buffer("letters", counts.to(self.log_theta), persistent=False)

    @property
    def finite(self) -> bool:
        """Whether the sum goes over finitely many words."""
        return self.words is not None

    def forward(
        self,
        x: inputs.Series,
        y: inputs.Series | None = None,
        diag: bool = False,
        *,
        lengths: Lengths = None,
        y_lengths: Lengths = None,
    ) -> Tensor:
        """Covariances (n, m) of x (n, length, channels) with y (m, length', channels); (n,) with `diag=True`.

        Float64 whatever the dtype of x. Lists of series and `lengths` as for `signature_kernel`.
        """
        self.check_arguments(y, diag, y_lengths)
        if diag:
            if not self.normalized:
                return self.amplitude * self.squared_norm(x, lengths=lengths)
            batch, _ = self.as_paths(x, lengths)
            return self.amplitude.expand(len(batch))
        xs, x_counts = self.as_paths(x, lengths)
        ys, y_counts = (None, None) if y is None else self.as_paths(y, y_lengths, "y")
        if self.words is None:
            scaled = None if ys is None else self._scaled(ys, y_counts)
            gram = signature_kernel(
                self._scaled(xs, x_counts), scaled, lengths=x_counts, y_lengths=y_counts, tol=self.tol
            )
        else:
            left = self._all_features(xs, x_counts)
            gram = left @ (left if ys is None else self._all_features(ys, y_counts)).T
        if self.normalized:
            left_norm = self.squared_norm(xs, lengths=x_counts)
            right_norm = left_norm if ys is None else self.squared_norm(ys, lengths=y_counts)
            gram = gram / (left_norm[:, None].sqrt() * right_norm[None, :].sqrt())
        return self.amplitude * gram

    def squared_norm(self, x: inputs.Series, *, lengths: Lengths = None) -> Tensor:
        """k(theta X, theta X) of every series, (n,), float64: without amplitude, before normalisation."""
        xs, counts = self.as_paths(x, lengths)
        if self.words is not None:
            return self._all_features(xs, counts).square().sum(dim=1)
        if not xs.requires_grad and self.log_theta.requires_grad and torch.is_grad_enabled():
            return _ScaledDiagonal.apply(self.log_theta, xs, counts, self.tol)  # pyright: ignore[reportReturnType]
        return signature_kernel_diag(self._scaled(xs, counts), lengths=counts, tol=self.tol)

    def _scaled(self, xs: Tensor, counts: Tensor | None) -> Tensor:
        """theta X; padding becomes zero, for the gradient in theta multiplies by it, and it may be NaN."""
        if counts is not None and torch.is_grad_enabled():
            xs = torch.where(inputs.row_mask(xs, counts)[:, :, None], xs, 0.0)
        return xs * self.theta

    def _all_features(self, xs: Tensor, counts: Tensor | None) -> Tensor:
        assert self.words is not None
        plain = signature(xs * self.theta.detach(), words=self.words, lengths=counts)
        return plain * (self.letters @ (self.log_theta - self.log_theta.detach())).exp()

    def extra_repr(self) -> str:
        kind = "all words" if self.words is None else f"{len(self.words)} words"
        return f"{self.channels} channels, {kind}, normalized={self.normalized}"


class _ScaledDiagonal(Function):
    """k(theta X, theta X) and its gradient in log theta, in one fused pass."""

    @staticmethod
    def forward(ctx: Any, log_theta: Tensor, xs: Tensor, counts: Tensor | None, tol: float) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        value, slope = signature_kernel_diag_scales(xs, log_theta.exp(), lengths=counts, tol=tol)
        ctx.save_for_backward(log_theta, slope)
        return value

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return once_differentiable(_pull_back, *ctx.saved_tensors, grad), None, None, None


def _pull_back(_log_theta: Tensor, slope: Tensor, grad: Tensor) -> Tensor:
    """The slope depends on log theta, though it is not computed from it here: `once_differentiable` has to know."""
    return grad @ slope
