"""Chunks of series on several threads, each of which computes a chunk alone: sums do not depend on their number."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import torch

from siggpde.numerics.core import usual_threads

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_order(work: Callable[[Item], Result], items: Iterable[Item], threads: int | None = None) -> Iterator[Result]:
    """The results of `work` for the items, in their order, by `threads` threads; None takes as many as the core has.

    Every item is computed by one thread, as with one thread alone, so that results are bitwise the same for any number
    of them; and threads wait for each other at the end of an item only, not after every operation. At most one item a
    thread is computed ahead of the one that is asked for.

    Examples:
        >>> list(in_order(lambda x: x * x, [3, 1, 2], threads=2))
        [9, 1, 4]
    """
    before = torch.get_num_threads()
    threads = usual_threads() if threads is None else threads
    if threads == 1:
        yield from map(work, items)
        return
    ahead: deque[Future[Result]] = deque()
    pool = ThreadPoolExecutor(threads, "chunk", initializer=torch.set_num_threads, initargs=(1,))
    try:
        for item in items:
            ahead.append(pool.submit(work, item))
            if len(ahead) > threads:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(before)  # of a part of torch the initializer sets that of all threads
