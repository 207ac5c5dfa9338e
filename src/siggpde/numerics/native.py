"""The operations by the native core `siggpde._core`, compiled from csrc/; tensors are passed by address."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from siggpde.numerics import autograd, inputs
from siggpde.numerics.autograd import Pairs, with_gradients
from siggpde.numerics.core import core, usual_threads
from siggpde.numerics.inputs import NOT_FINITE, OVERFLOW, RequestedWords, checked_once, raise_or_warn
from siggpde.numerics.static_kernels import KernelSettings
from siggpde.numerics.words import check_depth, check_words, count_up_to, parents, prefix_closure, word_column

if TYPE_CHECKING:
    from siggpde.numerics.logsignature import LogBasis
    from siggpde.numerics.windows import Chosen, PooledWindows, ScaledView, ViewedSeries, WindowView

_LINEAR = 0, 1.0, 1.0, 1.0


def address(tensor: Tensor | None) -> int:
    """Where the numbers of a tensor are; 0 for none."""
    return 0 if tensor is None else tensor.data_ptr()


def diagonal(x: Tensor, lengths: Tensor | None, settings: KernelSettings, log: bool, differentiable: bool) -> Tensor:
    if differentiable:
        return autograd.diagonal(_diagonal_and_gradients, x, lengths, settings, log)
    return _run_diagonal(x, lengths, settings, log)


def diagonal_with_gradient(
    x: Tensor, lengths: Tensor | None, settings: KernelSettings, log: bool
) -> tuple[Tensor, Tensor]:
    gradient = torch.empty_like(x)
    return _run_diagonal(x, lengths, settings, log, gradient), gradient


def diagonal_with_scale_gradient(
    x: Tensor, lengths: Tensor | None, theta: Tensor, settings: KernelSettings, log: bool
) -> tuple[Tensor, Tensor]:
    gradient = x.new_empty(x.shape[0], x.shape[2])
    return _run_diagonal(x, lengths, settings, log, gradient, theta=theta), gradient


def _diagonal_and_gradients(
    x: Tensor, lengths: Tensor | None, settings: KernelSettings, log: bool
) -> tuple[Tensor, Tensor, Tensor | None]:
    gradient, parameters = torch.empty_like(x), None if settings.static is None else x.new_empty(len(x), 2)
    return _run_diagonal(x, lengths, settings, log, gradient, parameters), gradient, parameters


def _run_diagonal(
    x: Tensor, lengths: Tensor | None, settings: KernelSettings, log: bool, gradient: Tensor | None = None,
    parameters: Tensor | None = None, theta: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """k(X_i, X_i) (n,); gradients are written where tensors for them are given, with theta that in log theta."""
    static, refine, tol, threads = settings
    n, length, channels = x.shape
    value = x.new_empty(n)
    run = core.diagonal_f64 if x.dtype == torch.float64 else core.diagonal_f32
    numbers = _LINEAR if static is None else static.numbers
    failure = run(
        x.data_ptr(), n, length, channels, address(lengths), address(theta), refine, tol, log, value.data_ptr(),
        address(gradient), theta is not None, threads, *numbers, address(parameters),
    )  # fmt: skip
    if failure is not None:
        raise_or_warn(failure, x, lengths, None, None, log)
    return value


def gram(pairs: Pairs, differentiable: bool) -> Tensor:
    return autograd.gram(_run_gram, _gram_gradients, pairs) if differentiable else _run_gram(pairs)


def _gram_gradients(pairs: Pairs, weight: Tensor) -> tuple[Tensor, Tensor | None, Tensor | None]:
    of_x, of_y = torch.empty_like(pairs.x), None if pairs.y is None else torch.empty_like(pairs.y)
    of_logarithms = None if pairs.settings.static is None else torch.zeros(2, dtype=torch.float64)
    _run_gram(pairs, weight.contiguous(), of_x, of_y, of_logarithms)
    return of_x, of_y, of_logarithms


def _run_gram(pairs: Pairs, weight: Tensor | None = None, *gradients: Tensor | None) -> Tensor:
    """The values (n, m), or with `weight` (n, m) the gradients of the weighted sum, written to what is given."""
    x, x_lengths, y, y_lengths, norms, (static, refine, tol, threads) = pairs
    other = x if y is None else y
    of_x, of_y, of_logarithms = gradients or (None, None, None)
    value = x.new_empty((len(x), len(other)) if weight is None else 0)
    if len(x) == 0 or len(other) == 0:  # the address of an empty tensor is 0, which would mean y None
        for gradient in gradients:
            if gradient is not None:
                gradient.zero_()
        return value
    run = core.gram_f64 if x.dtype == torch.float64 else core.gram_f32
    numbers = _LINEAR if static is None else static.numbers
    norm_x, norm_y = (None, None) if norms is None else (norms[0].contiguous(), norms[1].contiguous())
    failure = run(
        x.data_ptr(), x.shape[0], x.shape[1], address(x_lengths),
        address(y), other.shape[0], other.shape[1], address(y_lengths),
        x.shape[2], refine, tol, value.data_ptr(), address(weight), address(of_x),
        address(of_y), threads, *numbers, address(of_logarithms), address(norm_x), address(norm_y),
    )  # fmt: skip
    if failure is not None:
        raise_or_warn(failure, x, x_lengths, y, y_lengths, norms is not None)
    return value


def prepared_series(x: Tensor, lengths: Tensor | None, settings: KernelSettings) -> Any:
    """The core's copy of series that meet others again and again."""
    static, _, tol, threads = settings
    make = core.PreparedSeries_f64 if x.dtype == torch.float64 else core.PreparedSeries_f32
    numbers = _LINEAR if static is None else static.numbers
    return make(x.data_ptr(), *x.shape, address(lengths), tol, threads, *numbers)


def prepared_gram(series: Any, x: Tensor, lengths: Tensor | None, y: Tensor, y_lengths: Tensor | None) -> Tensor:
    """k(X_i, Y_j) (m, n) of `prepared_series` of x, with x in the lanes."""
    value = y.new_empty(len(x), len(y))
    failure = series.gram(y.data_ptr(), *y.shape[:2], address(y_lengths), value.data_ptr(), usual_threads())
    if failure is not None:
        raise_or_warn(failure, x, lengths, y, y_lengths, False)
    return value


def feature_table(landmarks: Sequence[Tensor], kernels: Sequence[int]) -> Tensor:
    """Addresses, rows, widths and kernels of the features of landmarks, part by part."""
    return torch.tensor([(y.data_ptr(), y.stride(0), y.shape[1], k) for y, k in zip(landmarks, kernels, strict=True)])


def add_features(
    table: Tensor, first: int, x: Tensor, units: tuple[list[float], list[float]], gram: Tensor, norms: Tensor
) -> None:
    rows = x if x.stride(1) == 1 else x.contiguous()
    given = *units, rows.data_ptr(), rows.stride(0), *gram.shape[1:], gram.data_ptr(), norms.data_ptr()
    core.add_features(table.data_ptr(), first, *given, usual_threads())


def product(x: Tensor, y: Tensor) -> Tensor:
    out = torch.zeros(len(x), len(y), dtype=torch.float64)
    core.add_product(x.data_ptr(), y.data_ptr(), *out.shape, x.shape[1], out.data_ptr(), usual_threads())
    return out


def extend(start: Tensor, increments: Tensor, words: RequestedWords, threads: int) -> Tensor:
    return signature(increments, None, words, threads, start.contiguous())


@checked_once
def word_tree(channels: int, words: RequestedWords) -> Any:
    """The core's `SignatureTree` for all words up to a depth, or for a tuple of words; one column for each word."""
    if not isinstance(words, tuple):
        check_depth(channels, words)
        return core.SignatureTree(channels, words)
    checked = check_words(words, channels)
    closure = prefix_closure(checked)
    column = {word: index for index, word in enumerate(checked)}
    letters = [word[-1] if word else -1 for word in closure]
    columns = [column.get(word, -1) for word in closure]
    return core.SignatureTree(channels, parents(closure).tolist(), letters, columns)


def signature(
    x: Tensor, lengths: Tensor | None, words: RequestedWords, threads: int, start: Tensor | None = None
) -> Tensor:
    """The signatures of paths x, or with `start` these signatures extended by increments x."""
    n, length, channels = x.shape
    tree, extends, double = word_tree(channels, words), start is not None, x.dtype == torch.float64

    def values(x: Tensor, start: Tensor | None, lengths: Tensor | None) -> Tensor:
        out = x.new_empty((n, tree.columns))
        run = tree.forward_double if double else tree.forward_float
        failure = run(x.data_ptr(), address(lengths), n, length, extends, address(start), out.data_ptr(), threads)
        if failure == NOT_FINITE:
            inputs.raise_not_finite(x, lengths, "increments" if extends else "x")
        if failure == OVERFLOW:
            inputs.raise_overflow(out, "the signature")
        return out

    def gradients(grad: Tensor, x: Tensor, start: Tensor | None, lengths: Tensor | None) -> tuple[Tensor | None, ...]:
        grad, of_x = grad.contiguous(), torch.empty_like(x)
        of_start = None if start is None else torch.zeros_like(start)
        run = tree.backward_double if double else tree.backward_float
        addresses = address(start), grad.data_ptr(), of_x.data_ptr(), address(of_start)
        run(x.data_ptr(), address(lengths), n, length, extends, *addresses, threads)
        return of_x, of_start, None

    return with_gradients(values, gradients, x, start, lengths)


def logsignature(signature: Tensor, basis: LogBasis, threads: int) -> Tensor:
    coordinates, n, double = _coordinates(basis), len(signature), signature.dtype == torch.float64

    def values(signature: Tensor) -> Tensor:
        out = signature.new_empty((n, coordinates.coordinates))
        run = coordinates.forward_double if double else coordinates.forward_float
        if run(signature.data_ptr(), n, out.data_ptr(), threads) == OVERFLOW:
            inputs.raise_overflow(out, "the log-signature")
        return out

    def gradients(grad: Tensor, signature: Tensor) -> tuple[Tensor]:
        grad, of_signature = grad.contiguous(), torch.empty_like(signature)
        run = coordinates.backward_double if double else coordinates.backward_float
        run(signature.data_ptr(), n, grad.data_ptr(), of_signature.data_ptr(), threads)
        return (of_signature,)

    return with_gradients(values, gradients, signature)


@lru_cache(maxsize=64)
def _coordinates(basis: LogBasis) -> Any:
    channels, lengths = basis.channels, [len(word) for word in basis.words]
    columns = [word_column(word, channels) for word in basis.words]
    ranks = [column - count_up_to(channels, m - 1) for column, m in zip(columns, lengths, strict=True)]
    change: tuple[list, list, list] = ([], [], [])
    if basis.elements is not basis.words:
        change = (basis.rows.tolist(), basis.columns.tolist(), basis.values.tolist())
    count = count_up_to(channels, basis.depth)
    return core.LogCoordinates(channels, basis.depth, count, lengths, ranks, columns, *change)


def pool_windows(series: ViewedSeries, path_scales: Tensor, thresholds: Tensor, out: PooledWindows) -> None:
    by_column, (whole, thirds) = thresholds.T.contiguous(), out
    levels = by_column.data_ptr(), len(thresholds)
    results = whole.data_ptr(), whole.stride(0), thirds.data_ptr(), thirds.stride(0)
    _run_windows("pool", series, whole, path_scales.data_ptr(), *levels, *results)


def window_signatures(series: ViewedSeries, path_scales: Tensor, chosen: Chosen) -> Tensor:
    out = series.x.new_empty(len(chosen[0]), series.view.columns)
    _run_windows("signatures", series, out, path_scales.data_ptr(), *map(address, chosen), len(out), out.data_ptr())
    return out


def window_path_lengths(series: ViewedSeries, chosen: Chosen) -> Tensor:
    out = series.x.new_empty(len(chosen[0]), len(series.view.groups))
    _run_windows("path_lengths", series, out, 0, *map(address, chosen), len(out), out.data_ptr())
    return out


def compiled_windows(views: Sequence[ScaledView], steps: float, largest: float) -> Any:
    """The core's `WindowFeatures` for several views."""
    compiled = core.WindowFeatures()
    for view, path_scales, thresholds, lift_scale, *scales in views:
        numbers = (1 / lift_scale)[list(view.used)].double(), path_scales.double(), thresholds.double().T.contiguous()
        columns = [[scale.kept.contiguous(), scale.mean.float(), scale.spread.float()] for scale in scales]
        addresses = [[len(of_scale[0]), *map(address, of_scale)] for of_scale in columns]
        compiled.add(_windows(view), *map(address, numbers), len(thresholds), addresses, steps, largest)
    return compiled


def scaled_windows(compiled: Any, x: Tensor, lengths: Tensor | None, part: range, threads: int) -> Tensor | None:
    """The features (n, p) of some of the views, None where a signature is out of range."""
    out = torch.empty(len(x), compiled.columns(part.start, part.stop), dtype=torch.int16)
    series = x.data_ptr(), address(lengths), *x.shape[:2]
    failure = compiled.run(part.start, part.stop, *series, out.data_ptr(), threads)
    if failure == NOT_FINITE:
        inputs.raise_not_finite(x, lengths)
    return None if failure == OVERFLOW else out


def _run_windows(name: str, series: ViewedSeries, result: Tensor, *arguments: int) -> None:
    """Calls a function of the core for a view; raises where a number is not finite, or the result out of range."""
    x, lengths, view, lift_scale, threads = series
    run = getattr(_windows(view), f"{name}_{'double' if x.dtype == torch.float64 else 'float'}")
    factors = (1 / lift_scale)[list(view.used)]
    failure = run(x.data_ptr(), address(lengths), len(x), x.shape[1], factors.data_ptr(), *arguments, threads)
    if failure == NOT_FINITE:
        inputs.raise_not_finite(x, lengths)
    if failure == OVERFLOW:
        inputs.raise_overflow(result, "the signature of a window")


@lru_cache(maxsize=256)
def _windows(view: WindowView) -> Any:
    used = list(view.used)
    groups = [[used.index(channel) for channel in group] for group in view.groups]
    return core.Windows(
        view.lift_code, view.points, view.dilation, view.smoothing, view.max_windows, view.base_point,
        view.depth, view.channels, used, groups,
    )  # fmt: skip


def separating_thresholds(values: Tensor, count: int, distinct: float, clearance: float, threads: int) -> Tensor:
    rows, columns = values.shape
    out = values.new_empty(count, columns)
    core.separating_thresholds(values.data_ptr(), rows, columns, count, distinct, clearance, out.data_ptr(), threads)
    return out
