"""The signature of piecewise-linear paths, differentiable, on the words one asks for, by Chen's identity."""

from collections.abc import Iterable, Sequence

import torch

from siggpde.numerics import inputs
from siggpde.numerics.backend import backend_for
from siggpde.numerics.inputs import as_requested_words, check_prefix_closed


def signature(
    x: inputs.Series,
    depth: int | None = None,
    words: Iterable[Sequence[int]] | None = None,
    lengths: torch.Tensor | Sequence[int] | None = None,
    *,
    n_jobs: int | None = None,
) -> torch.Tensor:
    """Returns the signature coefficients of a batch of paths, one column for each word.

    This is the feature map S(X) of Lemercier et al. (2021), and the columns asked for are the truncation S_M(X). S(X)^w
    of the word w = (a1, .., aj) is the integral over s1 < .. < sj of dX^(a1) .. dX^(aj); the empty word gives 1.

    Parameters
    ----------
    x : Tensor (n, length, channels), or list of tensors (length_i, channels)
        The series, in float32 or float64. Gradients flow to them.
    depth : int, optional
        Takes all words of at most so many letters, in the order of `words_up_to`. Give either this or `words`.
    words : iterable of tuples of int, optional
        Any list of words, whose letters are 0-based; the work is that of their prefix closure.
    lengths : array of int (n,), optional
        Only the first lengths[i] points of series i count.
    n_jobs : int, optional
        How many threads share the series, by default torch's number; the result does not depend on it.

    Returns
    -------
    Tensor (n, M)
        The coefficients, of x's dtype.

    Examples
    --------
    >>> signature(torch.tensor([[[0.0, 0.0], [1.0, 0.0], [1.0, 2.0]]]), depth=2)
    tensor([[1.0000, 1.0000, 2.0000, 0.5000, 2.0000, 0.0000, 2.0000]])
    """
    threads = inputs.thread_count(n_jobs)
    batch, counts = inputs.as_batch(x, lengths)
    requested = as_requested_words(depth, words)
    return backend_for(batch).signature(batch, counts, requested, threads)


def extend(
    signature: torch.Tensor, increments: torch.Tensor, words: Iterable[Sequence[int]], *, n_jobs: int | None = None
) -> torch.Tensor:
    """Returns the signature of continued paths, by Chen's identity for the new increments only, as in the paper.

    S(X * v) = S(X) ⊗ exp(v) for each increment v.

    Parameters
    ----------
    signature : Tensor (n, M)
        The signature so far. Gradients flow to it and to the increments.
    increments : Tensor (n, steps, channels) or (n, channels)
        The new steps, or one of them.
    words : iterable of tuples of int
        The words of the columns, with all their prefixes.
    n_jobs : int, optional
        How many threads share the series.

    Returns
    -------
    Tensor (n, M)
        The signature of the longer paths.

    Examples
    --------
    >>> from siggpde.numerics.words import words_up_to
    >>> words = words_up_to(1, 2)
    >>> extend(signature(torch.tensor([[[0.0], [1.0]]]), words=words), torch.tensor([[2.0]]), words)
    tensor([[1.0000, 3.0000, 4.5000]])
    """
    threads = inputs.thread_count(n_jobs)
    for name, given in (("signature", signature), ("increments", increments)):
        if not isinstance(given, torch.Tensor):
            raise ValueError(f"{name} must be a tensor, got {type(given).__name__}; convert it with torch.as_tensor")
    steps = increments[:, None] if increments.ndim == 2 else increments
    if steps.ndim == 3 and steps.shape[1] == 0:
        steps = steps.new_zeros(len(steps), 1, steps.shape[2])
    steps, _ = inputs.as_batch(steps, name="increments")
    requested = as_requested_words(None, words)
    assert isinstance(requested, tuple)
    if signature.shape != (len(steps), len(requested)):
        raise ValueError(
            f"signature must have shape (n, words) = ({len(steps)}, {len(requested)}), got {tuple(signature.shape)}"
        )
    if signature.dtype != steps.dtype or signature.device != steps.device:
        raise ValueError(
            f"signature is {signature.dtype} on {signature.device}, increments are {steps.dtype} on {steps.device}; "
            "convert one to the other"
        )
    check_prefix_closed(requested)
    return backend_for(steps, signature).extend(signature, steps, requested, threads)
