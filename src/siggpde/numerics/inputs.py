"""Checks of arguments, long series shortened by averaging, and the errors of checks and computations. Failures of
backends are (code, series, index, channel, side), codes as in `csrc/arguments.hpp`: `index` is a time, or the second
series of a pair that overflows; `side` is 0 for x, 1 for y."""

import logging
import os
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache, wraps
from typing import Any, NoReturn, TypeVar

import numpy as np
import torch
from torch import Tensor

from siggpde.numerics.core import usual_threads
from siggpde.numerics.words import Word, as_integer, check_words, parents, words_up_to

log = logging.getLogger(__name__)

FLOATS = (torch.float64, torch.float32)
_CHUNK = 4096  # series checked at a time, so that temporary results stay in the processor's cache
_MOST_THREADS = 1024  # more are never useful, and a system may refuse to start them
Series = torch.Tensor | np.ndarray | Sequence[torch.Tensor | np.ndarray]

Result = TypeVar("Result")


def checked_once(function: Callable[..., Result]) -> Callable[..., Result]:
    """Keeps the last results by type and value; what cannot be hashed reaches the function, which raises."""
    cached = lru_cache(maxsize=64, typed=True)(function)

    @wraps(function)
    def call(*args: Any) -> Result:
        try:
            return cached(*args)
        except TypeError:
            return function(*args)

    return call


def as_batch(x: Series, lengths: Any = None, name: str = "x") -> tuple[torch.Tensor, torch.Tensor | None]:
    """Checks and returns (x, lengths): x (n, length, channels), lists padded differentiably; lengths int64, or None."""
    if not isinstance(x, torch.Tensor) or lengths is not None:
        batch, counts = _checked(x, lengths, name)
    elif x.dtype in FLOATS and x.ndim == 3 and 0 not in x.shape[1:] and x.layout is torch.strided and not x.is_meta:
        batch, counts = x, None  # as almost always
    else:
        batch, counts = _checked(x, None, name)
    if threading.active_count() == 1 or not batch.is_cpu:
        return batch.contiguous(), counts
    # Other threads of the program may change x meanwhile, so that a copy is taken.
    with suppress(RuntimeError):  # of tensors that a transform of functions wraps
        batch.detach().numpy()  # after which its memory cannot be resized
    return batch.clone(memory_format=torch.contiguous_format), counts


def _checked(x: Series, lengths: Any, name: str) -> tuple[torch.Tensor, torch.Tensor | None]:
    if not isinstance(x, torch.Tensor):
        if isinstance(x, list | tuple):
            if lengths is not None:
                raise ValueError(f"{name} is a list of series, which have their own lengths; leave `lengths` out")
            return _pad(x, name)
        x = _from_numpy(x, name)
    if x.ndim != 3:
        raise ValueError(
            f"{name} must have shape (n, length, channels), got {tuple(x.shape)}"
            + ("; for one series write x[None], for one channel x[..., None]" if x.ndim in (1, 2) else "")
        )
    _check_type(x, name)
    _, length, channels = x.shape
    if length == 0 or channels == 0:
        what = "no points" if length == 0 else "no channels"
        raise ValueError(f"{name} has shape {tuple(x.shape)}: its series have {what}; give at least one")
    if lengths is not None:
        lengths = _check_lengths(lengths, x, name).clone()
    return x, lengths


def thread_count(n_jobs: int | None) -> int:
    """Threads for a call: those of `core.limited` or torch's number by default, all cores for -1."""
    if n_jobs is None:
        return usual_threads()
    count = as_integer(n_jobs)
    if count is None or (count < 1 and count != -1):
        raise ValueError(f"n_jobs must be None, -1 (all cores) or a positive integer, got {n_jobs!r}")
    return min(count, _MOST_THREADS) if count > 0 else os.cpu_count() or 1


def counts_of(x: torch.Tensor, lengths: torch.Tensor | None) -> torch.Tensor:
    """The number of points of each series, (n,), int64."""
    return torch.full((len(x),), x.shape[1], device=x.device) if lengths is None else lengths


def row_mask(x: torch.Tensor, lengths: torch.Tensor | None) -> torch.Tensor:
    """Whether each point is before the end of its series, (n, length), bool."""
    return torch.arange(x.shape[1], device=x.device) < counts_of(x, lengths)[:, None]


def check_finite(x: torch.Tensor, lengths: torch.Tensor | None, name: str = "x") -> None:
    """Raises ValueError if a number that counts is not finite, with its index in the whole batch."""
    for index, chunk in enumerate(x.detach().split(_CHUNK)):
        finite = torch.isfinite(chunk)
        if not bool(finite.all()):
            counts = None if lengths is None else lengths[index * _CHUNK : (index + 1) * _CHUNK]
            if bool((~finite & row_mask(chunk, counts)[:, :, None]).any()):
                raise_not_finite(x, lengths, name)


def raise_not_finite(x: torch.Tensor, lengths: torch.Tensor | None, name: str = "x") -> NoReturn:
    """Raises ValueError for the first number of the batch, before the end of its series, that is not finite."""
    bad = (~torch.isfinite(x.detach()) & row_mask(x, lengths)[:, :, None]).nonzero()
    series, time, channel = bad[0].tolist()
    value = x[series, time, channel].item()
    raise ValueError(
        f"{name} is not finite ({value}) in series {series}, at time index {time}, channel {channel}; drop or "
        "interpolate missing values first (padding after the end of a series is fine when `lengths` says so)"
    )


def raise_overflow(result: torch.Tensor, what: str) -> NoReturn:
    """Raises OverflowError for the first row of a result that is not finite."""
    bad = ~torch.isfinite(result.detach()).reshape(len(result), -1).all(1)
    series = int(bad.nonzero()[0])
    advice = "rescale the series" if result.dtype == torch.float64 else "rescale the series or use float64"
    raise OverflowError(f"{what} of series {series} is too large for {result.dtype}; {advice}")


def _check_type(x: torch.Tensor, name: str) -> None:
    if x.dtype not in FLOATS:
        fix = "convert it with .float() or .double()" if not x.is_complex() else "pass two real channels"
        raise ValueError(f"{name} must be float32 or float64, got {x.dtype}; {fix}")
    if x.layout is not torch.strided:
        raise ValueError(f"{name} must be a dense tensor, got {x.layout}; convert it with .to_dense()")
    if _has_no_numbers(x):
        raise ValueError(f"{name} is on the device meta, where tensors have no numbers; move it to another")


def _has_no_numbers(x: torch.Tensor) -> bool:
    """Whether x is on the device meta. Tensors of other classes may keep their numbers elsewhere."""
    return x.is_meta and type(x) in (torch.Tensor, torch.nn.Parameter)


def _from_numpy(x: Any, name: str) -> torch.Tensor:
    try:
        array = np.asarray(x)
    except ValueError as error:  # lists of numbers that do not make an array
        raise ValueError(f"{name} must be an array or a list of them: {error}") from None
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{name} must be a float tensor, a numpy array or a list of them, got {type(x).__name__}")
    if np.ma.is_masked(x):
        raise ValueError(f"{name} has masked numbers, which a path cannot have; drop or interpolate them first")
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    array = np.require(array, requirements=["C", "W", "A"])
    if any(stride < 0 or stride % array.itemsize for stride in array.strides):  # of axes with one entry
        array = array.copy()
    try:
        return torch.from_numpy(array)
    except TypeError:  # a type that torch does not have, such as long double
        raise ValueError(
            f"{name} must be float32 or float64, got {array.dtype}; convert it with .astype(float)"
        ) from None


def _check_lengths(lengths: Any, x: torch.Tensor, name: str) -> torch.Tensor:
    wanted = f"lengths must be integers of shape ({len(x)},), one for each series of {name}"
    given, got = None, type(lengths).__name__
    if isinstance(lengths, torch.Tensor):
        got = lengths.dtype
        if not (got.is_floating_point or got.is_complex or got == torch.bool or _has_no_numbers(lengths)):
            given = lengths.detach().to(torch.int64)
    else:
        with suppress(ValueError, TypeError, RuntimeError):  # lists of lists, or of tensors elsewhere
            array = np.asarray(lengths)
            got = array.dtype if array.dtype.kind != "O" else got
            given = (
                torch.from_numpy(array.astype(np.int64)) if array.dtype.kind in "iu" or array.shape == (0,) else None
            )
    if given is None:
        raise ValueError(f"{wanted}, got {got}")
    if given.shape != x.shape[:1]:
        raise ValueError(f"{wanted}, got shape {tuple(given.shape)}")
    outside = ((given < 1) | (given > x.shape[1])).nonzero()
    if len(outside):
        series = int(outside[0])
        raise ValueError(
            f"lengths[{series}] is {int(given[series])}, but series of {name} have between 1 and {x.shape[1]} points"
        )
    return given.to(device=x.device).contiguous()


def _pad(series: Sequence[Any], name: str) -> tuple[torch.Tensor, torch.Tensor]:
    if not series:
        raise ValueError(f"{name} is an empty list, so its channels are unknown; pass a (0, length, channels) tensor")
    items = [
        item if isinstance(item, torch.Tensor) else _from_numpy(item, f"{name}[{index}]")
        for index, item in enumerate(series)
    ]
    for index, item in enumerate(items):
        if item.ndim != 2 or 0 in item.shape:
            raise ValueError(f"{name}[{index}] must have shape (length, channels), got {tuple(item.shape)}")
        _check_type(item, f"{name}[{index}]")
        if item.device != items[0].device:
            raise ValueError(f"{name}[{index}] is on {item.device}, but {name}[0] is on {items[0].device}; move one")
        if item.shape[1] != items[0].shape[1] or item.dtype != items[0].dtype:
            raise ValueError(
                f"{name}[{index}] has {item.shape[1]} channels of {item.dtype}, but {name}[0] has "
                f"{items[0].shape[1]} of {items[0].dtype}; all series need the same"
            )
    lengths = torch.tensor([len(item) for item in items], device=items[0].device)
    return torch.nn.utils.rnn.pad_sequence(items, batch_first=True), lengths


NOT_FINITE, OVERFLOW, MEMORY, INACCURATE, LOST, COSTLY, NEGATIVE = 1, 2, 3, 4, 5, 6, 7


def raise_or_warn(
    failure: tuple[int, ...], x: Tensor, x_lengths: Tensor | None, y: Tensor | None, y_lengths: Tensor | None, log: bool
) -> None:
    """Raises the error that a failure stands for, or warns of a result that is inaccurate."""
    code, series, other, _, side = failure
    name = "y" if side else "x"
    if code in (INACCURATE, LOST):
        digits = "most" if code == INACCURATE else "all"
        message = (
            f"the signature kernel of series {series} of {name} has lost {digits} of its digits to rounding: the path "
            "comes back on itself, so that k(X, X) is far smaller than on the way; rescale the series, or add a time "
            "channel"
        )
        if code == LOST:
            raise ArithmeticError(message)
        warnings.warn(message, UserWarning, stacklevel=5)
        return
    if code == COSTLY:
        raise OverflowError(
            f"the signature kernel of series {series} of {name} would take too much work: its points are so far apart "
            "that the segments between them are cut into too many pieces; rescale the series"
        )
    if code == NEGATIVE:
        raise ArithmeticError(
            f"the signature kernel of series {series} of {name} with itself came out below zero, which it never is; "
            "rescale the series, or lower `tol`"
        )
    if code == NOT_FINITE:
        raise_not_finite(*((y, y_lengths) if side and y is not None else (x, x_lengths)), name)
    if code == MEMORY:
        raise MemoryError(
            f"not enough memory for the signature kernel of series of shape {tuple(x.shape)}, {x.nbytes / 1e9:.3g} GB "
            "of numbers; use fewer or shorter ones at a time"
        )
    if other >= 0:
        raise_kernel_overflow(
            x.dtype, f"of series {series} of x and series {other} of {'x' if y is None else 'y'}", False, log
        )
    raise_kernel_overflow(x.dtype, f"of series {series} of {name}", True, log)


def raise_kernel_overflow(dtype: torch.dtype, which: str, diagonal: bool, log: bool) -> NoReturn:
    """Raises OverflowError for a kernel value, described by `which`, that is out of the range of its type."""
    if log:
        raise OverflowError(f"the signature kernel {which} is beyond even its logarithm; rescale the series")
    fixes = ["rescale the series"] + ["use float64"] * (dtype != torch.float64)
    if diagonal:
        fixes.append("take signature_kernel_diag(..., log=True)")
    fixes.append("normalise the kernel")
    raise OverflowError(f"the signature kernel {which} is too large for {dtype}; {' or '.join(fixes)}")


RequestedWords = int | tuple[tuple[int, ...], ...]


def as_requested_words(depth: int | None, words: Iterable[Sequence[int]] | None) -> RequestedWords:
    """The depth, or the words as a tuple of tuples, letters not checked; exactly one of both must be given."""
    if depth is not None and words is None:
        number = as_integer(depth)
        if number is None:
            raise ValueError(f"depth must be an integer, got {depth!r}")
        return number
    if words is None or depth is not None:
        raise ValueError("give exactly one of depth and words, " + ("got both" if words is not None else "got none"))
    try:
        return tuple(map(tuple, words))
    except TypeError:
        raise ValueError(f"words is a list of words, and a word is a tuple of integers, got {words!r}") from None


def word_list(channels: int, words: RequestedWords) -> list[Word]:
    if isinstance(words, tuple):
        return check_words(words, channels)
    return words_up_to(channels, words)


@checked_once
def check_prefix_closed(words: tuple[tuple[int, ...], ...]) -> None:
    """Raises ValueError if a prefix of a word is missing; checked once for each list of words."""
    parents(words)


Side = tuple[Tensor, Tensor | None]  # what `as_batch` returns: (n, length, channels), and (n,) or None


def average_points(x: Series, max_points: int | None, *, lengths: Any = None) -> Side:
    """Returns the series with long ones averaged down to `max_points` points, and the lengths of all.

    A series of l points is cut into `max_points` bins of l / max_points consecutive points, rounded up or down, and
    each bin becomes its mean, whatever the other series are. The log says how many series were shortened.

    Parameters
    ----------
    x : Tensor (n, length, channels), or list of tensors (length_i, channels)
        The series. Gradients flow through.
    max_points : int or None
        The largest number of points; None changes nothing.
    lengths : array of int (n,), optional
        Only so many points of each series count.

    Returns
    -------
    Tensor (n, at most max_points, channels), Tensor (n,) or None
        The series and their lengths, None where all series have all the points.

    Examples
    --------
    >>> values, lengths = average_points([torch.arange(6.0)[:, None], torch.ones(2, 1)], 3)
    >>> values[0].flatten(), lengths
    (tensor([0.5000, 2.5000, 4.5000]), tensor([3, 2]))
    """
    return average_sides(max_points, as_batch(x, lengths))[0]


def average_sides(max_points: int | None, *sides: Side) -> tuple[Side, ...]:
    """`average_points` of x and, where there is one, y, checked batches, with one line in the log for both."""
    check_max_points(max_points)
    if max_points is None:
        return sides
    counts = [counts_of(*side) for side in sides]
    shortened = [int((count > max_points).sum()) for count in counts]
    if not any(shortened):
        return sides
    for name, side, number in zip("xy", sides, shortened, strict=False):
        if number:
            check_finite(*side, name)  # an error names the point as it was given
    total, longest = sum(map(len, counts)), max(int(count.max()) for count in counts if len(count))
    log.info("%d of %d series, of up to %d points, averaged to %d", sum(shortened), total, longest, max_points)
    return tuple(averaged(*side, max_points) if number else side for side, number in zip(sides, shortened, strict=True))


def averaged(values: Tensor, lengths: Tensor | None, max_points: int) -> Side:
    """`average_points` of a checked batch, cut to the end of its longest series, without a line in the log."""
    counts = counts_of(values, lengths)
    shorter = counts.clamp(max=max_points)
    longest = int(shorter.max())
    means = values[:, :longest].clone()
    for count in counts[counts > max_points].unique().tolist():
        rows = counts == count
        series = values[:, :count] if bool(rows.all()) else values[rows, :count]  # a slice is no copy
        sizes = (torch.arange(max_points + 1, device=values.device) * count // max_points).diff()
        sizes = sizes.expand(len(series), max_points).contiguous()
        bins = torch.segment_reduce(series.double().contiguous(), "mean", lengths=sizes, axis=1)
        means[rows] = bins.to(values.dtype)
    return means, None if bool((shorter == longest).all()) else shorter


def check_max_points(max_points: Any) -> None:
    points = 1 if max_points is None else as_integer(max_points)
    if points is None or points < 1:
        raise ValueError(f"max_points must be a positive whole number, or None for never, got {max_points!r}")


@contextmanager
def memory_named(needs: Callable[[], str]) -> Iterator[None]:
    """Raises a MemoryError that says what `needs` how much, where Python, numpy or torch find too little memory."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and "allocate memory" not in str(error):
            raise
        raise MemoryError(f"{needs()}{f' ({error})' if str(error) else ''}") from error
