"""The signature kernel as a covariance function: channel scales, amplitude, normalisation, truncation."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from siggpde.distributed.ranks import ALONE, Ranks
from siggpde.distributed.shard import Shard
from siggpde.numerics import inputs
from siggpde.numerics.autograd import with_gradients
from siggpde.numerics.signature import signature
from siggpde.numerics.signature_kernel import (
    Lengths,
    signature_kernel,
    signature_kernel_diag,
    signature_kernel_diag_scales,
)
from siggpde.numerics.static_kernels import Static, check_static
from siggpde.numerics.words import Word, as_integer, check_words, letter_counts, words_up_to
from siggpde.series import SeriesBatch

_SPREAD_POINTS = 1000


def lengthscales(x: Tensor, lengths: Tensor | None, random: torch.Generator, ranks: Ranks = ALONE) -> Tensor:
    """Returns GPSig's max(1, sqrt(d E|x_i - x'_i|²)) for every channel i of d, over 1000 points of all ranks."""
    points = x[inputs.row_mask(x, lengths)]
    of_points = Shard(ranks, len(points))
    drawn = torch.randperm(of_points.total, generator=random)[:_SPREAD_POINTS]
    points = of_points.all_gather(drawn, points[of_points.local_index(drawn)])
    spread = 2 * points.var(dim=0, correction=0)
    return (x.shape[2] * spread).sqrt().clamp_min(1.0)


class PathKernel(nn.Module):
    """A covariance function of paths; subclasses say in `forward` what k(X, Y) is.

    Parameters
    ----------
    channels : int
        Channels of the paths.
    theta : float or sequence of floats, default 1.0
        Initial scales of the channels, learned as logarithms.
    amplitude : float, default 1.0
        The initial sigma², learned as a logarithm.
    """

    log_amplitude: nn.Parameter
    log_theta: nn.Parameter

    def __init__(self, channels: int, theta: float | Sequence[float] | Tensor = 1.0, amplitude: float = 1.0) -> None:
        super().__init__()
        if as_integer(channels) is None or channels < 1:
            raise ValueError(f"channels must be a positive whole number, got {channels!r}")
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

    def as_paths(self, x: inputs.Series, lengths: Any = None, name: str = "x") -> SeriesBatch:
        """x (n, length, channels) as a checked float64 batch on the kernel's device, copied there from the CPU only."""
        return self.checked_paths(x, lengths, name).to(self.device)

    def checked_paths(self, x: inputs.Series, lengths: Any = None, name: str = "x") -> SeriesBatch:
        """Checks series as `as_paths` does, but leaves them on the device of x, to be copied in parts."""
        values, counts = inputs.as_batch(x, lengths, name)
        if values.shape[2] != self.channels:
            raise ValueError(f"{name} has {values.shape[2]} channels, but the kernel was made for {self.channels}")
        if values.device != self.device and not values.is_cpu:
            device = str(values.device)
            raise ValueError(
                f"{name} is on {device}, but the model on {self.device}; move it with model.to({device!r})"
            )
        return SeriesBatch(values.to(torch.float64), counts)

    @property
    def device(self) -> torch.device:
        """Where the parameters are, and so where everything is computed."""
        return self.log_theta.device


class SignatureKernel(PathKernel):
    """sigma² k(theta X, theta Y), where k(X, Y) is the sum over words of S(X)^a S(Y)^a: k_theta of the paper.

    The sum goes over all words, by the PDE; a kernel of finitely many words needs no PDE and leaves no tail to features
    that use them all.

    Parameters
    ----------
    channels : int
        Channels of the paths.
    theta : float or array (channels,), default 1
        Scales of the channels, learned as logarithms.
    amplitude : float, default 1
        sigma², learned as a logarithm.
    normalized : bool, default False
        Whether to divide by sqrt(k(X, X) k(Y, Y)), so that every series has variance sigma².
    depth : int, optional
        Sum over the words of at most so many letters.
    words : list of words, optional
        Sum over these words.
    static : str, default "linear"
        The kernel of points a² c(|theta (x - y)|) that lifts the scaled paths before, as for `signature_kernel`: theta
        are then inverse bandwidths. It takes neither `depth` nor `words`, and its inducing variables are landmarks.
    static_amplitude : float, default 1
        a, learned as well.
    alpha : float, optional
        The mixture of scales of `static="rational_quadratic"`.
    tol : float, default 1e-8
        The accuracy of the PDE.

    Examples
    --------
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
        static: Static = "linear",
        static_amplitude: float = 1.0,
        alpha: float | None = None,
        tol: float = 1e-8,
    ) -> None:
        super().__init__(channels, theta, amplitude)
        if not isinstance(static_amplitude, int | float) or not 1e-30 <= static_amplitude <= 1e30:
            raise ValueError(f"static_amplitude must be a positive number, got {static_amplitude!r}")
        lift, _ = check_static(static, None, static_amplitude, alpha)
        if lift is not None and not (depth is None and words is None):
            raise ValueError(f"depth and words are for static='linear'; the kernel lifted by {static!r} has all words")
        if lift is None and static_amplitude != 1:
            raise ValueError("static_amplitude is for static kernels other than 'linear', where theta does its work")
        if depth is not None and words is not None:
            raise ValueError("give depth or words or neither, not both: each says over which words to sum")
        if not 0 < tol < 1:
            raise ValueError(f"tol must be between 0 and 1, got {tol!r}")
        self.static: Static = static
        self.alpha, self.depth, self.normalized, self.tol = alpha, depth, bool(normalized), tol
        log_static_amplitude = self.log_theta.detach().new_tensor(math.log(static_amplitude))
        self.log_static_amplitude = None if lift is None else nn.Parameter(log_static_amplitude)
        self.words: list[Word] | None = None if words is None else check_words(words, channels)
        if depth is not None:
            self.words = words_up_to(channels, depth)
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
        """Covariances (n, m), float64, of x (n, length, channels) and y (m, length', channels); (n,) if `diag`."""
        self.check_arguments(y, diag, y_lengths)
        if diag:
            if not self.normalized:
                return self.amplitude * self.squared_norm(x, lengths=lengths)
            return self.amplitude.expand(len(self.as_paths(x, lengths)))
        left = self.as_paths(x, lengths)
        right = None if y is None else self.as_paths(y, y_lengths, "y")
        if self.words is None:
            settings = {"lengths": left.lengths, "normalize": self.normalized, "tol": self.tol, **self._lift()}
            if right is not None:
                settings |= {"y": self._scaled(right), "y_lengths": right.lengths}
            return self.amplitude * signature_kernel(self._scaled(left), **settings)
        features = self._all_features(left)
        gram = features @ (features if right is None else self._all_features(right)).T
        if self.normalized:
            left_norm = self._squared_norm(left)
            right_norm = left_norm if right is None else self._squared_norm(right)
            gram = gram / (left_norm[:, None].sqrt() * right_norm[None, :].sqrt())
        return self.amplitude * gram

    def squared_norm(self, x: inputs.Series, *, lengths: Lengths = None) -> Tensor:
        """k(theta X, theta X) of every series, (n,), float64: without amplitude, before normalisation."""
        return self._squared_norm(self.as_paths(x, lengths))

    def _squared_norm(self, paths: SeriesBatch) -> Tensor:
        if self.words is not None:
            return self._all_features(paths).square().sum(dim=1)
        values, lengths = paths.values, paths.lengths
        fused = self.static == "linear" and not values.requires_grad and self.log_theta.requires_grad
        if not (fused and torch.is_grad_enabled()):
            return signature_kernel_diag(self._scaled(paths), lengths=lengths, tol=self.tol, **self._lift())
        slopes: list[Tensor] = []  # found in one pass with the values

        def value(log_theta: Tensor) -> Tensor:
            k, slope = signature_kernel_diag_scales(values, log_theta.exp(), lengths=lengths, tol=self.tol)
            slopes.append(slope)
            return k

        return with_gradients(value, lambda grad, _: (grad @ slopes[0],), self.log_theta)

    def _lift(self) -> dict[str, Any]:
        if self.log_static_amplitude is None:
            return {}
        return {"static": self.static, "amplitude": self.log_static_amplitude.exp(), "alpha": self.alpha}

    def _scaled(self, paths: SeriesBatch) -> Tensor:
        """theta X; padding becomes zero, for the gradient in theta multiplies by it, and it may be NaN."""
        values = paths.values
        if paths.lengths is not None and torch.is_grad_enabled():
            values = torch.where(paths.inside()[:, :, None], values, 0.0)
        return values * self.theta

    def _all_features(self, paths: SeriesBatch) -> Tensor:
        """S_theta(X) on the words of the sum, (n, words)."""
        assert self.words is not None
        plain = signature(paths.values * self.theta.detach(), words=self.words, lengths=paths.lengths)
        return plain * (self.letters @ (self.log_theta - self.log_theta.detach())).exp()

    def extra_repr(self) -> str:
        kind = "all words" if self.words is None else f"{len(self.words)} words"
        kind += "" if self.static == "linear" else f", lifted by {self.static}"
        return f"{self.channels} channels, {kind}, normalized={self.normalized}"
