"""Batches: ragged, sliced, threaded, forked. A result never depends on what else is computed, or where."""

import multiprocessing
import threading

import numpy as np
import pytest
import torch

from helpers.random_paths import paths
from siggpde.numerics.signature import extend, signature
from siggpde.numerics.words import words, words_up_to

dtypes = pytest.mark.parametrize("dtype", [torch.float64, torch.float32])


@dtypes
@pytest.mark.parametrize("n", [1, 7, 8, 9, 37])
def test_a_row_does_not_depend_on_the_others(n, dtype):
    x = paths(n, 13, 3, dtype)
    whole = signature(x, 5)
    for row in range(n):
        assert torch.equal(whole[row], signature(x[row : row + 1], 5)[0])


@dtypes
def test_a_gradient_does_not_depend_on_the_others(dtype):
    x = paths(19, 13, 2, dtype).requires_grad_()
    whole = torch.autograd.grad(signature(x, 6).sum(), x)[0]
    for row in range(19):
        alone = x[row : row + 1].detach().requires_grad_()
        assert torch.equal(whole[row], torch.autograd.grad(signature(alone, 6).sum(), alone)[0][0])


@dtypes
@pytest.mark.parametrize("channels", [2, 5])
def test_a_list_is_lengths_is_one_by_one(channels, dtype):
    lengths = [(7 * row) % 20 + 1 for row in range(21)]
    x = paths(21, 20, channels, dtype)
    for row, length in enumerate(lengths):
        x[row, length:] = float("nan")
    pieces = [x[row, :length].clone().requires_grad_() for row, length in enumerate(lengths)]
    ragged = signature(pieces, 4)
    ragged.sum().backward()
    padded = x.clone().requires_grad_()
    with_lengths = signature(padded, 4, lengths=torch.tensor(lengths, dtype=torch.int32))
    with_lengths.sum().backward()
    assert torch.equal(ragged, with_lengths)
    for row, length in enumerate(lengths):
        alone = pieces[row].detach()[None].requires_grad_()
        single = signature(alone, 4)
        single.sum().backward()
        assert torch.equal(single[0], ragged[row])
        assert torch.equal(alone.grad[0], pieces[row].grad) and torch.equal(alone.grad[0], padded.grad[row, :length])
        assert not padded.grad[row, length:].any()


def test_words_pick_columns():
    x = paths(9, 10, 3)
    some = [(2, 1, 0), (), (0,), (2, 2)]
    everything = dict(zip(words_up_to(3, 3), signature(x, 3).unbind(1), strict=True))
    assert torch.equal(signature(x, words=some), torch.stack([everything[word] for word in some], 1))
    assert torch.equal(signature(x, words=[()]), torch.ones(9, 1, dtype=torch.float64))
    assert signature(x, words=[]).shape == (9, 0)
    assert torch.equal(signature(x, words=words(3, 13)), signature(x, 2))
    assert torch.equal(signature(x, 0), torch.ones(9, 1, dtype=torch.float64))


def test_kinds_of_input():
    x = paths(5, 6, 3)
    expected = signature(x, 3)
    strided = torch.empty(6, 3, 10, dtype=torch.float64)[..., ::2].permute(2, 0, 1)
    strided.copy_(x)
    frozen = x.numpy().copy()
    frozen.flags.writeable = False
    for same in (
        strided,
        x.numpy(),
        np.asfortranarray(x.numpy()),
        frozen,
        x.numpy()[::-1][::-1],
        x.numpy()[:, ::-1][:, ::-1],
    ):
        assert torch.equal(signature(same, 3), expected)
    assert torch.equal(signature([row.numpy() for row in x], 3), expected)
    assert signature(x.numpy().astype(np.float32), 3).dtype == torch.float32


def test_gradients_reach_leaves_through_views():
    x = paths(5, 6, 3)
    leaf = x.transpose(0, 1).contiguous().requires_grad_()
    signature(2 * leaf.transpose(0, 1), 3).sum().backward()
    plain = x.clone().requires_grad_()
    signature(2 * plain, 3).sum().backward()
    assert torch.equal(leaf.grad, plain.grad.transpose(0, 1))
    with torch.no_grad():
        assert not signature(plain, 3).requires_grad
    assert not signature(x, 3).requires_grad


def test_inputs_are_left_alone():
    x, weights = paths(9, 6, 2).requires_grad_(), torch.randn(9, 15, dtype=torch.float64)
    before, weights_before = x.detach().clone(), weights.clone()
    signature(x, 3).backward(weights)
    assert torch.equal(x.detach(), before) and torch.equal(weights, weights_before)


def test_empty_batch():
    assert signature(torch.zeros(0, 5, 2), 3).shape == (0, 15)
    x = torch.zeros(0, 5, 2, requires_grad=True)
    signature(x, 3).sum().backward()
    assert x.grad.shape == (0, 5, 2)
    assert extend(torch.zeros(0, 3), torch.zeros(0, 1, 2), words_up_to(2, 1)).shape == (0, 3)


@dtypes
def test_threads_change_no_bit(dtype):
    x = paths(300, 60, 3, dtype).requires_grad_()
    results = []
    for jobs in (1, 2, 5, -1, None):
        out = signature(x, 5, n_jobs=jobs)
        results.append((out.detach(), torch.autograd.grad(out.sum(), x)[0]))
    for out, gradient in results[1:]:
        assert torch.equal(out, results[0][0]) and torch.equal(gradient, results[0][1])


def test_many_python_threads_at_once():
    x = paths(64, 40, 3)
    expected = signature(x, 4)
    wrong = []

    def work(seed):
        for depth in (4, 2, 4):
            mine = x.clone().requires_grad_()
            out = signature(mine, depth)
            out.sum().backward()
            if not torch.equal(out, expected[:, : out.shape[1]]) or not torch.isfinite(mine.grad).all():
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def _child(x, queue):
    queue.put(signature(x, 4, n_jobs=2).numpy())


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_after_a_fork():
    x = paths(400, 50, 3)
    expected = signature(x, 4, n_jobs=2)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_child, args=(x, queue), daemon=True)
    child.start()
    try:
        assert np.array_equal(queue.get(timeout=30), expected.numpy())
    finally:
        child.kill()
        child.join()
