"""The operations in plain torch, slow and obvious: oracles of the fast ones, and the backend of last resort. `tol` and
`threads` are not used; `signature_by` and `extend_by` take the function that applies Chen's identity."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from siggpde.numerics import goursat, inputs
from siggpde.numerics.autograd import Pairs
from siggpde.numerics.inputs import RequestedWords, word_list
from siggpde.numerics.static_kernels import KernelSettings, StaticKernel, squared_segments
from siggpde.numerics.words import prefix_closure, word_column, words_up_to

if TYPE_CHECKING:
    from siggpde.numerics.logsignature import LogBasis
    from siggpde.numerics.windows import Chosen, PooledWindows, ViewedSeries, WindowView

PairSolver = Callable[[Tensor, Tensor], Tensor]


def diagonal(x: Tensor, lengths: Tensor | None, settings: KernelSettings, log: bool, differentiable: bool) -> Tensor:
    scheme = goursat.scheme_of(settings.refine)
    coefficients = _coefficients(settings.static)

    def solve(a: Tensor, b: Tensor) -> Tensor:
        return goursat.solve_goursat(coefficients(a, b), scheme, log=log)

    return diagonal_by(solve, x, lengths, settings, log)


def diagonal_with_gradient(
    x: Tensor, lengths: Tensor | None, settings: KernelSettings, log: bool
) -> tuple[Tensor, Tensor]:
    leaf = x.detach().requires_grad_()
    with torch.enable_grad():
        value = diagonal(leaf, lengths, settings, log, True)
        (gradient,) = torch.autograd.grad(value.sum(), leaf)
    return value.detach(), gradient


def diagonal_with_scale_gradient(
    x: Tensor, lengths: Tensor | None, theta: Tensor, settings: KernelSettings, log: bool
) -> tuple[Tensor, Tensor]:
    log_factor = torch.zeros_like(theta).expand(len(x), -1).clone().requires_grad_()
    with torch.enable_grad():
        points = torch.where(inputs.row_mask(x, lengths)[:, :, None], x, 0.0)
        scaled = points * (theta * log_factor.exp())[:, None, :]
        value = diagonal(scaled, lengths, settings, log, True)
        (gradient,) = torch.autograd.grad(value.sum(), log_factor)
    return value.detach(), gradient


def gram(pairs: Pairs, differentiable: bool) -> Tensor:
    scheme, coefficients = goursat.scheme_of(pairs.settings.refine), _coefficients(pairs.settings.static)

    def solve(a: Tensor, b: Tensor) -> Tensor:
        rho = coefficients(a, b)
        if pairs.norms is None:
            return goursat.solve_goursat(rho, scheme)
        return torch.stack(goursat.solve_scaled(rho, scheme), 1)

    return gram_by(solve, pairs)


def diagonal_by(solve: PairSolver, x: Tensor, lengths: Tensor | None, settings: KernelSettings, log: bool) -> Tensor:
    """k(X_i, X_i) (n,), or its logarithm, by a function of paired pieces."""
    pieces = _checked_pieces(x, lengths, settings, "x", log)
    return check_range(goursat.solve_in_chunks(solve, pieces, pieces), True, log)


def gram_by(solve: PairSolver, pairs: Pairs) -> Tensor:
    """k(X_i, Y_j) (n, m), by a function of paired pieces, with norms one that gives (u, shift)."""
    x, x_lengths, y, y_lengths, norms, settings = pairs
    other, other_lengths = (x, x_lengths) if y is None else (y, y_lengths)
    if len(x) == 0 or len(other) == 0:  # zero numbers, but in the graph as every other result
        return x.new_zeros(len(x), len(other)) + x[:, :0].sum() + other[:, :0].sum()
    left = _checked_pieces(x, x_lengths, settings, "x", norms is not None)
    right = _checked_pieces(other, other_lengths, settings, "y", norms is not None)
    value = goursat.solve_in_chunks(solve, left.repeat_interleave(len(right), 0), right.repeat(len(left), 1, 1))
    value = value.unflatten(0, (len(left), len(right)))
    if norms is not None:
        scaled, shift = value.unbind(2)
        value = scaled * (shift - norms[0][:, None] - norms[1]).exp()
    return check_range(value, False)


def _coefficients(static: StaticKernel | None) -> PairSolver:
    """Returns the function that computes rho (n, I, J) of paired pieces: increments, or lifted segments."""
    if static is None:
        return lambda dx, dy: dx @ dy.transpose(1, 2)
    return lambda a, b: goursat.lifted_coefficients(a, b, static)


def _checked_pieces(x: Tensor, lengths: Tensor | None, settings: KernelSettings, name: str, log: bool) -> Tensor:
    inputs.check_finite(x, lengths, name)
    scheme, static = goursat.scheme_of(settings.refine), settings.static
    longest = goursat.LONGEST_SEGMENT_OF_LOG if log else goursat.LONGEST_SEGMENT[x.dtype]
    inside = inputs.row_mask(x, lengths)
    points = torch.where(inside[:, :, None], x.detach(), 0.0)
    segments = points.diff(dim=1).norm(dim=2) if static is None else squared_segments(static, points).detach().sqrt()
    too_long = (~(segments <= longest) & inside[:, 1:]).any(1).nonzero()
    if len(too_long):
        inputs.raise_kernel_overflow(x.dtype, f"of series {int(too_long[0])} of {name}", True, log)
    return goursat.split_path(x, lengths, scheme, static)


def check_range(value: Tensor, diagonal: bool, log: bool = False) -> Tensor:
    """The values, (n,) or (n, m); raises OverflowError if one of them is not finite."""
    bad = (~torch.isfinite(value.detach())).nonzero()
    if len(bad):
        first = bad[0].tolist()
        which = f"of series {first[0]} of x" + ("" if diagonal else f" and series {first[1]} of y")
        inputs.raise_kernel_overflow(value.dtype, which, diagonal, log)
    return value


def signature(x: Tensor, lengths: Tensor | None, words: RequestedWords, threads: int) -> Tensor:
    return signature_by(apply_chen, x, lengths, words)


def extend(start: Tensor, increments: Tensor, words: RequestedWords, threads: int) -> Tensor:
    return extend_by(apply_chen, start, increments, words)


Extend = Callable[[Tensor, Tensor, Sequence[tuple[int, ...]]], Tensor]


def apply_chen(start: Tensor, increments: Tensor, words: Sequence[tuple[int, ...]]) -> Tensor:
    """The signature (n, M) after straight increments (n, steps, channels), from `start`: for each v in turn S_w <- sum
    over j <= |w| of S_(w without its last j letters) times the product of v over these letters / j!, for prefix-closed
    `words`."""
    depth = max(len(word) for word in words)
    position = {word: index for index, word in enumerate(words)}
    absent = len(words)  # a column of zeros, for words shorter than j
    terms = []
    for j in range(1, depth + 1):
        prefix = [position[word[:-j]] if len(word) >= j else absent for word in words]
        letter = [word[-j] if len(word) >= j else 0 for word in words]
        terms.append((j, torch.tensor(prefix, device=start.device), torch.tensor(letter, device=start.device)))
    state = start
    for v in increments.unbind(1):
        padded = torch.cat([state, state.new_zeros(len(state), 1)], 1)
        tail = torch.ones_like(state)
        for j, prefix, letter in terms:
            tail = tail * v[:, letter] / j
            state = state + padded[:, prefix] * tail
    return state + increments[:, :0].sum()  # nothing, but the empty word is then in the graph as every other one


def chen_signature(x: Tensor, mask: Tensor, words: Sequence[tuple[int, ...]], by: Extend = apply_chen) -> Tensor:
    """The signature (n, M) of paths x (n, length, channels) at points of mask (n, length), words prefix-closed."""
    before = torch.cat([x[:, :1], x[:, :-1]], 1)  # the first increment is zero, which changes nothing
    increments = torch.where(mask[:, :, None], x - before, 0.0)
    start = torch.zeros(len(x), len(words), dtype=x.dtype, device=x.device)
    start[:, 0] = 1
    return by(start, increments, words)


def signature_by(by: Extend, x: Tensor, lengths: Tensor | None, words: RequestedWords) -> Tensor:
    """S(X_i) (n, M) on any words, computed on their prefix closure; raises if an input or a result is not finite."""
    listed = word_list(x.shape[2], words)
    mask = inputs.row_mask(x, lengths)
    x = torch.where(mask[:, :, None], x, 0.0)
    if not torch.isfinite(x).all():
        inputs.raise_not_finite(x, lengths)
    closure = prefix_closure(listed)
    position = {word: index for index, word in enumerate(closure)}
    columns = torch.tensor([position[word] for word in listed], dtype=torch.int64, device=x.device)
    return _check_signature(chen_signature(x, mask, closure, by)[:, columns])


def extend_by(by: Extend, start: Tensor, increments: Tensor, words: RequestedWords) -> Tensor:
    """Chen's identity on prefix-closed words; raises if an input or a result is not finite."""
    listed = word_list(increments.shape[2], words)
    if not torch.isfinite(increments).all():
        inputs.raise_not_finite(increments, None, "increments")
    return _check_signature(by(start, increments, listed))


def _check_signature(result: Tensor) -> Tensor:
    if not torch.isfinite(result).all():
        inputs.raise_overflow(result, "the signature")
    return result


Levels = list[Tensor]  # 1 to the depth, each (n, channels, .., channels)


def logsignature(signature: Tensor, basis: LogBasis, threads: int) -> Tensor:
    sizes = [basis.channels**m for m in range(basis.depth + 1)]
    words = signature.split(sizes, dim=1)[1:]
    levels = [part.reshape(len(part), *[basis.channels] * m) for m, part in enumerate(words, 1)]
    log = torch.cat([level.flatten(1) for level in tensor_log(levels)], 1)
    columns, values, rows = (part.to(log.device) for part in _change_of_basis(basis))
    terms = log[:, columns] * values.to(log.dtype)
    result = log.new_zeros(len(log), int(rows[-1]) + 1).index_add(1, rows, terms)
    if not torch.isfinite(result).all():
        inputs.raise_overflow(result, "the log-signature")
    return result


def tensor_log(levels: Levels) -> Levels:
    """log(1 + x) = x - x^2 / 2 + x^3 / 3 - .. for a tensor x without constant, given and returned by levels."""
    total, power = levels, levels
    for k in range(2, len(levels) + 1):
        power = tensor_product(power, levels)
        total = [t + p * ((-1) ** (k + 1) / k) for t, p in zip(total, power, strict=True)]
    return total


def tensor_product(a: Levels, b: Levels) -> Levels:
    """The product of two tensors without constants, cut at the same level."""
    result = [torch.zeros_like(a[0])]
    for m in range(2, len(a) + 1):
        parts = [torch.einsum("np,nq->npq", a[j - 1].flatten(1), b[m - j - 1].flatten(1)) for j in range(1, m)]
        result.append(torch.stack([part.reshape(a[m - 1].shape) for part in parts]).sum(0))
    return result


@lru_cache(maxsize=64)
def _change_of_basis(basis: LogBasis) -> tuple[Tensor, Tensor, Tensor]:
    """The entries of the matrix from words to coordinates: word (its column without the empty word), value, row."""
    words = np.array([word_column(word, basis.channels) - 1 for word in basis.words])
    rows = np.repeat(np.arange(len(basis.elements)), np.diff(basis.rows))
    return torch.from_numpy(words[basis.columns]), torch.from_numpy(basis.values), torch.from_numpy(rows)


Signature = Callable[[Tensor, int], Tensor]  # of paths (m, points, letters) up to a depth
_CHUNK = 2**24  # numbers of the words of a chunk of series


def pool_windows(series: ViewedSeries, path_scales: Tensor, thresholds: Tensor, out: PooledWindows) -> None:
    x, lengths, view, lift_scale, _ = series
    inputs.check_finite(x, lengths)
    for rows, same in equally_long(x, lengths, view):
        words = normalised_words(windows_of(same, view, lift_scale), view, path_scales, plain_signature)
        out.whole[rows], out.thirds[rows] = statistics(words, thresholds)
    _check_words(out.whole)


def window_signatures(series: ViewedSeries, path_scales: Tensor, chosen: Chosen) -> Tensor:
    points = _chosen_windows(series, chosen)
    return _check_words(normalised_words(points[:, None], series.view, path_scales, plain_signature)[:, 0])


def window_path_lengths(series: ViewedSeries, chosen: Chosen) -> Tensor:
    paths = paths_of(_chosen_windows(series, chosen), series.view)
    return _check_words(torch.stack([path.diff(dim=1).norm(dim=2).sum(1) for path in paths], 1))


def equally_long(x: Tensor, lengths: Tensor | None, view: WindowView) -> Iterator[tuple[Tensor, Tensor]]:
    """(rows (g,), their series (g, l, channels)) of one length l each, in chunks that fit in memory."""
    counts = inputs.counts_of(x, lengths)
    size = max(1, _CHUNK // (view.max_windows * (view.columns + view.points * view.channels)))
    for length in counts.unique().tolist():
        for rows in (counts == length).nonzero()[:, 0].split(size):
            yield rows, x[rows, :length]


def windows_of(x: Tensor, view: WindowView, lift_scale: Tensor) -> Tensor:
    """Cuts all windows from series of one length: (n, length, channels) -> (n, windows, points, channels)."""
    y = _hold(lifted_series(x, view, lift_scale), view.smoothing)
    y = _hold(y.unfold(1, view.smoothing, 1).mean(3), view.span)
    length = torch.tensor([x.shape[1]])
    starts = torch.arange(int(view.window_counts(length)), device=x.device) * int(view.strides(length))
    return y[:, starts[:, None] + torch.arange(view.points, device=x.device) * view.dilation]


def lifted_series(x: Tensor, view: WindowView, lift_scale: Tensor) -> Tensor:
    """The lift of series of one length (n, length, channels); one point less for increments, if there are two."""
    if view.lift == "x":
        return x
    if view.lift == "dx":
        return x.diff(dim=1) / lift_scale if x.shape[1] > 1 else torch.zeros_like(x)
    deviations = x - x.mean(1, keepdim=True)
    if view.lift == "cum":
        return deviations.cumsum(1) / lift_scale
    return deviations / (deviations.square().mean(1, keepdim=True).sqrt() + 1e-3)


def paths_of(windows: Tensor, view: WindowView) -> list[Tensor]:
    """Paths (m, points, letters) of time and the channels of each group, from windows (m, points, channels)."""
    time = torch.linspace(0, 1, view.points, dtype=windows.dtype, device=windows.device)
    time = time[:, None].expand(len(windows), -1, -1)
    paths = [torch.cat([time, windows[:, :, list(group)]], 2) for group in view.groups]
    return [torch.cat([torch.zeros_like(path[:, :1]), path], 1) for path in paths] if view.base_point else paths


def normalised_words(windows: Tensor, view: WindowView, path_scales: Tensor, signature: Signature) -> Tensor:
    """S / |S| without words of time alone, for all groups: (n, windows, points, channels) -> (n, windows, M)."""
    out = []
    for path, scale in zip(paths_of(windows.flatten(0, 1), view), path_scales, strict=True):
        values = signature(path * scale, view.depth)
        values = values / values.abs().amax(1, keepdim=True)  # squares may be out of range
        values = values / values.norm(dim=1, keepdim=True)
        out.append(values[:, [i for i, word in enumerate(words_up_to(path.shape[2], view.depth)) if any(word)]])
    return torch.cat(out, 1).unflatten(0, windows.shape[:2])


def plain_signature(path: Tensor, depth: int) -> Tensor:
    """The signature (m, words) of paths (m, points, letters) by Chen's identity."""
    everywhere = torch.ones(path.shape[:2], dtype=torch.bool, device=path.device)
    return chen_signature(path, everywhere, words_up_to(path.shape[2], depth))


def statistics(words: Tensor, thresholds: Tensor) -> tuple[Tensor, Tensor]:
    """Statistics of windows (n, windows, M) with thresholds (q, M): whole and thirds, as in `PooledWindows`."""
    count = words.shape[1]
    mean, deviation = words.mean(1), words.std(1, correction=0)
    above = [(words > t).to(words.dtype) for t in thresholds]
    whole = torch.stack([mean, deviation, words.amax(1), words.amin(1), *(share.mean(1) for share in above)], 1)
    third = 3 * torch.arange(count, device=words.device) // count
    thirds = []
    for values in (words, *above[::2]):
        parts = [values[:, third == t] for t in range(3)]
        thirds.append(torch.stack([(part if part.shape[1] else values).mean(1) for part in parts], 1))
    return whole, torch.stack(thirds, 1)


def _chosen_windows(series: ViewedSeries, chosen: Chosen) -> Tensor:
    (x, lengths, view, lift_scale, _), (row, window) = series, chosen
    inputs.check_finite(x, lengths)
    out = x.new_empty(len(row), view.points, view.channels)
    for rows, same in equally_long(x, lengths, view):
        number = torch.full((len(x),), -1, device=x.device)
        number[rows] = torch.arange(len(rows), device=x.device)
        wanted = (number[row] >= 0).nonzero()[:, 0]
        out[wanted] = windows_of(same, view, lift_scale)[number[row[wanted]], window[wanted]]
    return out


def _hold(y: Tensor, length: int) -> Tensor:
    """The series (n, l, channels) with its last value repeated up to `length`, if it is shorter."""
    return torch.cat([y, y[:, -1:].expand(-1, max(0, length - y.shape[1]), -1)], 1)


def _check_words(result: Tensor) -> Tensor:
    if not torch.isfinite(result).all():
        inputs.raise_overflow(result, "the signature of a window")
    return result


def separating_thresholds(values: Tensor, count: int, distinct: float, clearance: float, threads: int) -> Tensor:
    last = len(values) - 1
    ordered = values.sort(dim=0).values
    thresholds = (ordered[-1] + clearance).repeat(count, 1)
    wide = ordered.diff(dim=0) > distinct
    some = wide.any(0)
    if not bool(some.any()):
        return thresholds
    for j in range(count):
        # 2 (count + 1) times the distance of every gap from the quantile; the order is that of ranks, the larger first.
        distance = (2 * torch.arange(last, device=values.device) + 1) * (count + 1) - 2 * (j + 1) * last
        order = 2 * distance.abs() + (distance < 0)
        nearest = torch.where(wide, order[:, None], torch.iinfo(torch.int64).max).argmin(dim=0)[None]
        middle = (ordered.gather(0, nearest) + ordered.gather(0, nearest + 1))[0] / 2
        thresholds[j] = torch.where(some, middle, thresholds[j])
    return thresholds
