"""Several processes (ranks) that train one model: all that they exchange goes through `Ranks`."""

from __future__ import annotations

import datetime
import hashlib
import io
import os
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
    """The processes of a run, seen from one of them.

    All ranks must call the same methods in the same order; results are bitwise the same on all of them.

    Parameters
    ----------
    group : torch.distributed.ProcessGroup, optional
        A group that can send tensors of the CPU; None for a process alone.
    owner : bool
        Whether `close` destroys the group.

    Attributes
    ----------
    rank, count : int
        The number of this process, and how many there are.
    alone : bool
        Whether there is one process only.
    leads : bool
        Whether this is rank 0, which prints and writes.

    Examples
    --------
    >>> alone = Ranks()
    >>> alone.all_reduce_sum(torch.tensor([1.5, 2.0]))
    [tensor([1.5000, 2.0000])]
    >>> alone.broadcast(lambda: {"noise": 0.1})
    {'noise': 0.1}
    """

    def __init__(self, group: dist.ProcessGroup | None = None, *, owner: bool = False) -> None:
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
        """Leaves the group, if `connect` made it; without references its threads end here, not at shutdown."""
        group, self._group = self._group, None
        if self._owner and dist.is_initialized():
            dist.destroy_process_group(group)
        self._owner = False

    def all_reduce_sum(self, *tensors: Tensor) -> list[Tensor]:
        """Returns every tensor summed over the ranks, by one message in float64, in its own dtype."""
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
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
        for parameter, total in zip(parameters, self.all_reduce_sum(*gradients), strict=True):
            parameter.grad = total

    def all_reduce_max(self, values: Tensor) -> Tensor:
        """Returns the largest value among the ranks, element by element."""
        if self.alone:
            return values
        largest = values.detach().clone()
        self._reduce(largest, dist.ReduceOp.MAX)
        return largest

    def all_gather_rows(self, values: Tensor, indices: Tensor | None = None, total: int | None = None) -> Tensor:
        """Returns the rows of all ranks (total, ...), in rank order or at the `indices` of their ranks."""
        if self.alone and indices is None:
            return values
        if indices is None:
            sizes = self.all_gather_sizes(len(values))
            indices, total = torch.arange(len(values)) + sum(sizes[: self.rank]), sum(sizes)
        assert total is not None
        whole = torch.zeros(total, *values.shape[1:], dtype=values.dtype, device=values.device)
        whole[indices] = values.detach()
        if not self.alone:  # the sum is exact: a row is zero on all ranks but one
            self._reduce(whole)
        return whole

    def gather_rows(self, values: Tensor) -> list[Tensor]:
        """Returns on rank 0 a list of the rows of every rank, in rank order, and an empty list elsewhere."""
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
        """Returns the `size` of every rank."""
        counts = torch.zeros(self.count, dtype=torch.int64)
        counts[self.rank] = size
        if not self.alone:
            self._reduce(counts)
        return counts.tolist()

    def broadcast(self, make: Callable[[], Plain]) -> Plain:
        """Returns on all ranks the plain values or tensors of `make()`, called on rank 0; if it raises, all do."""
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
        """Returns the number of rank 0 on all ranks, for decisions that rounding or a clock could make differ."""
        if self.alone:
            return value
        sent = torch.tensor([value], dtype=torch.float64)
        self._send(sent)
        return float(sent)

    def all_gather(self, value: Plain) -> list[Plain]:
        """Returns the values of all ranks, in rank order; types are those of `broadcast`."""
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
        """Runs a block without messages on every rank: if it fails on one of them, all ranks raise."""
        if self.alone:
            yield
            return
        trouble: Exception | None = None
        try:
            yield
        except Exception as error:  # raised below, on all ranks
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
    """Returns the value with its tensors on the CPU, since the sender's device may not exist here."""
    return torch.load(io.BytesIO(content.numpy().tobytes()), weights_only=True, map_location="cpu")


def connect(*, timeout: float = 600.0) -> Ranks:
    """Returns the ranks of this run: an existing process group, the processes of `torchrun`, or this process alone.

    Parameters
    ----------
    timeout : float, default 600.0
        Seconds after which a rank that does not answer counts as lost; one that dies is noticed at once.

    Returns
    -------
    Ranks

    Examples
    --------
    As a context manager it leaves the group at the end:

        with connect() as ranks:
            siggpde.fit(model, (x, y), ranks=ranks)
    """
    limit = datetime.timedelta(seconds=timeout)
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() and dist.is_nccl_available() else "gloo"
    if dist.is_available() and dist.is_initialized():
        if dist.get_world_size() == 1:
            return Ranks()
        group: Any = dist.new_group(timeout=limit, backend=backend)
        return Ranks(group, owner=True)
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return Ranks()
    missing = [name for name in ("RANK", "MASTER_ADDR", "MASTER_PORT") if not os.environ.get(name)]
    if missing:
        raise ValueError(
            f"WORLD_SIZE is {os.environ['WORLD_SIZE']}, but {', '.join(missing)} is not set: start with torchrun, or "
            "unset WORLD_SIZE for a process alone"
        )
    try:
        dist.init_process_group(backend, timeout=limit)
    except (RuntimeError, ValueError) as error:
        where = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
        raise RankLost(
            f"rank {os.environ['RANK']} of {os.environ['WORLD_SIZE']} could not meet the others at {where}: {error}"
        ) from error
    return Ranks(dist.group.WORLD, owner=True)
