"""How a process finds the others of its run: started by `torchrun`, every one of them calls `connect`."""

from __future__ import annotations

import datetime
import os
from typing import Any

import torch
import torch.distributed as dist

from siggpde.distributed.ranks import RankLost, Ranks


def connect(*, timeout: float = 600.0) -> Ranks:
    """The ranks of this run: those of a process group that is there, those that `torchrun` started, or this one alone.

    `timeout`: seconds after which a rank that does not answer is given up; one that dies is noticed at once. As a
    context manager it leaves the group at the end:

        with connect() as ranks:
            siggpde.fit(model, (x, y), ranks=ranks)
    """
    limit = datetime.timedelta(seconds=timeout)
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() and dist.is_nccl_available() else "gloo"
    if dist.is_available() and dist.is_initialized():
        if dist.get_world_size() == 1:
            return Ranks()
        own: Any = dist.new_group(timeout=limit, backend=backend)
        return Ranks(own, owner=True)
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
