"""Several processes that train one model: each holds a part of the series, and sums over all of them are exchanged.

A process is a *rank*. Everything that ranks send each other goes through `Ranks`; a process alone is `Ranks()`, which
sends nothing, so that there is one code for one process and for a thousand. `distributed.connecting` makes them.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

Plain = TypeVar("Plain")


class RankLost(RuntimeError):
    """Another rank died or stalled, so that nothing more can be computed together."""


class StoppedElsewhere(RuntimeError):
    """Another rank could not go on; the message is its own."""


class Ranks:
    """The processes of a run, seen from one of them: its number `rank` of `count`. `Ranks()` is a process `alone`.

    Rank 0 `leads`: it prints and writes.

    All ranks must call the same methods in the same order. What comes back is bitwise the same for all of them.

    Examples:
        >>> alone = Ranks()
        >>> alone.all_reduce_sum(torch.tensor([1.5, 2.0]))
        [tensor([1.5000, 2.0000])]
        >>> alone.broadcast(lambda: {"noise": 0.1})
        {'noise': 0.1}
    """

    def __init__(self, group: dist.ProcessGroup | None = None, *, owner: bool = False) -> None:
        """`group` is one of torch.distributed that can send tensors of the CPU; `owner` closes it at the end."""
        self._group, self._owner = group, owner
        self.rank = 0 if group is None else dist.get_rank(group)
        self.count = 1 if group is None else dist.get_world_size(group)
        self.alone = self.count == 1
        self.leads = self.rank == 0

    def __enter__(self) -> Ranks:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Leaves the group, if `connect` made it. Ranks that still wait for this one are told.

        No reference to the group is kept, so that its threads end here. A thread that lets go of a tensor while the
        interpreter shuts down would abort the process.
        """
        group, self._group = self._group, None
        if self._owner and dist.is_initialized():
            dist.destroy_process_group(group)
        self._owner = False

    def all_reduce_sum(self, *tensors: Tensor) -> list[Tensor]:
        """Each of the tensors summed over the ranks, in one message and in float64; their dtypes come back."""
        if self.alone:
            return list(tensors)
        packed = torch.cat([tensor.detach().reshape(-1).double() for tensor in tensors])
        self._reduce(packed)
        parts = packed.split([tensor.numel() for tensor in tensors])
        return [part.view(tensor.shape).to(tensor.dtype) for part, tensor in zip(parts, tensors, strict=True)]

    def all_reduce_gradients(self, parameters: Sequence[Tensor]) -> None:
        """Replaces the `.grad` of every parameter by its sum over the ranks; a missing one counts as zero."""
        if self.alone or not parameters:
            return
        own = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
        for parameter, total in zip(parameters, self.all_reduce_sum(*own), strict=True):
            parameter.grad = total

    def all_reduce_max(self, values: Tensor) -> Tensor:
        """The largest value among the ranks, element by element."""
        if self.alone:
            return values
        largest = values.detach().clone()
        self._reduce(largest, dist.ReduceOp.MAX)
        return largest

    def all_gather_rows(self, values: Tensor, indices: Tensor | None = None, total: int | None = None) -> Tensor:
        """The rows of all ranks, (total, ...), on every rank; those of this rank at `indices`, or in rank order."""
        if self.alone and indices is None:
            return values
        if indices is None:
            sizes = self.all_gather_sizes(len(values))
            indices, total = torch.arange(len(values)) + sum(sizes[: self.rank]), sum(sizes)
        assert total is not None
        whole = torch.zeros(total, *values.shape[1:], dtype=values.dtype, device=values.device)
        whole[indices] = values.detach()
        if not self.alone:  # every row is of one rank and zero elsewhere, so that the sum is exact
            self._reduce(whole)
        return whole

    def gather_rows(self, values: Tensor) -> list[Tensor]:
        """On rank 0 a list of the rows of every rank, in rank order; an empty list on the others."""
        sizes = self.all_gather_sizes(len(values))
        if not self.leads:
            with self._contact():
                dist.send(values.contiguous(), group=self._group, group_dst=0)
            return []
        values_of_ranks = [values]
        for rank in range(1, self.count):
            buffer = torch.empty(sizes[rank], *values.shape[1:], dtype=values.dtype, device=values.device)
            with self._contact():
                dist.recv(buffer, group=self._group, group_src=rank)
            values_of_ranks.append(buffer)
        return values_of_ranks

    def all_gather_sizes(self, size: int) -> list[int]:
        """The `size` of every rank."""
        counts = torch.zeros(self.count, dtype=torch.int64)
        counts[self.rank] = size
        if not self.alone:
            self._reduce(counts)
        return counts.tolist()

    def broadcast(self, make: Callable[[], Plain]) -> Plain:
        """The result of `make()` of rank 0 on all ranks; only rank 0 calls it, and if it raises, all ranks raise.

        It may hold tensors, numbers, strings, lists and dictionaries.
        """
        if self.alone:
            return make()
        content = torch.empty(0, dtype=torch.uint8)
        with self.together():
            if self.leads:
                content = _bytes_of(make())
        size = torch.tensor([len(content)])
        self._send(size)
        content = content if self.leads else torch.empty(int(size), dtype=torch.uint8)
        self._send(content)
        return _from_bytes(content)

    def broadcast_value(self, value: float) -> float:
        """The number of rank 0 on all ranks, for decisions that a rounding or a clock could make differ."""
        if self.alone:
            return value
        sent = torch.tensor([value], dtype=torch.float64)
        self._send(sent)
        return float(sent)

    def all_gather(self, value: Plain) -> list[Plain]:
        """The values of all ranks, in rank order, on every rank; of the same types as for `broadcast`."""
        if self.alone:
            return [value]
        content = _bytes_of(value)
        parts = self.all_gather_rows(content).split(self.all_gather_sizes(len(content)))
        return [_from_bytes(part) for part in parts]

    def check_same(self, what: str, value: Any) -> None:
        """Raises on every rank if the value of one of them differs from that of rank 0, by its `repr`."""
        if self.alone:
            return
        hashes = self.all_gather(hashlib.sha256(repr(value).encode()).hexdigest())
        other = next((rank for rank, digest in enumerate(hashes) if digest != hashes[0]), None)
        if other is not None:
            self.refuse(f"rank {other} has another {what} than rank 0; all ranks need the same")

    def refuse(self, message: str) -> NoReturn:
        """Raises an error that all ranks have detected: a ValueError on rank 0, StoppedElsewhere on the others."""
        raise ValueError(message) if self.leads else StoppedElsewhere(f"rank 0 of {self.count} stopped: {message}")

    @contextmanager
    def together(self) -> Iterator[None]:
        """Work that each rank does by itself, without messages: if it fails on one rank, all ranks raise."""
        if self.alone:
            yield
            return
        trouble: Exception | None = None
        try:
            yield
        except Exception as error:  # handed on below, to all
            trouble = error
        messages = self.all_gather("" if trouble is None else str(trouble) or type(trouble).__name__)
        if trouble is not None:
            raise trouble
        for rank, message in enumerate(messages):
            if message:
                raise StoppedElsewhere(f"rank {rank} of {self.count} stopped: {message}")

    def _reduce(self, tensor: Tensor, operation: Any = dist.ReduceOp.SUM) -> None:
        with self._contact():
            dist.all_reduce(tensor, operation, group=self._group)

    def _send(self, tensor: Tensor) -> None:
        with self._contact():
            dist.broadcast(tensor, group=self._group, group_src=0)

    @contextmanager
    def _contact(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:
            why = str(error).splitlines()[0]
            raise RankLost(
                f"rank {self.rank} of {self.count} lost contact with the others: one of them died or stalled ({why}). "
                "Start again, with any number of ranks; where there is a checkpoint, resume from it"
            ) from error


ALONE = Ranks()


def _bytes_of(value: Any) -> Tensor:
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return torch.frombuffer(bytearray(buffer.getvalue()), dtype=torch.uint8)


def _from_bytes(content: Tensor) -> Any:
    """Tensors come to the CPU: the device they were on is that of another rank."""
    return torch.load(io.BytesIO(content.numpy().tobytes()), weights_only=True, map_location="cpu")
