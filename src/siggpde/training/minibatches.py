"""Which series come next: minibatches drawn without replacement."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class Minibatches:
    """Draws row numbers so that every series comes once before any comes again.

    Examples:
        >>> batches = Minibatches(torch.Generator().manual_seed(0))
        >>> first, second = (batches.next(torch.arange(6), 3) for _ in range(2))
        >>> torch.cat([first, second]).sort().values
        tensor([0, 1, 2, 3, 4, 5])
    """

    def __init__(self, generator: torch.Generator) -> None:
        self.generator = generator
        self.upcoming = torch.empty(0, dtype=torch.int64)

    def reset(self) -> None:
        """Begins a new pass."""
        self.upcoming = self.upcoming[:0]

    def next(self, rows: Tensor, size: int) -> Tensor:
        """The next `size` of the rows, or all of them where there are fewer."""
        picked, upcoming = self.upcoming[:size], self.upcoming[size:]
        while len(picked) < min(size, len(rows)):
            shuffled = rows[torch.randperm(len(rows), generator=self.generator)]
            missing = size - len(picked)
            again = torch.isin(shuffled, picked)
            shuffled = torch.cat([shuffled[~again], shuffled[again]])
            picked, upcoming = torch.cat([picked, shuffled[:missing]]), shuffled[missing:]
        self.upcoming = upcoming
        return picked

    def state_dict(self) -> dict[str, Any]:
        return {"generator": self.generator.get_state(), "upcoming": self.upcoming}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.generator.set_state(state["generator"])
        self.upcoming = state["upcoming"]
