"""A set of words as chains of prefixes, one chain for each lane of the compiled signature kernels.

A step of a path changes the coefficient of a word by those of its prefixes alone. So a lane takes one word that is no
prefix of another, carries the coefficients of all its prefixes, and needs nothing from other lanes. Of the lanes that
share a prefix, the first one writes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import torch
from torch import Tensor

from siggpde.numerics.words import Word


class Chains:
    """Tables of a prefix-closed list of words, the empty word first, on a device.

    prefix (depth + 1, lanes) int64: the position of a lane's prefix of k letters, or -1 after its last letter; owned,
    the same with -1 where another lane writes it; letter (depth, lanes): its letters, 0 after the last. For each word:
    level, its length, and the range first..last of the lanes that carry it.
    """

    def __init__(self, words: Sequence[Word], device: torch.device):
        position = {word: index for index, word in enumerate(words)}
        inner = {word[:-1] for word in words if word}
        leaves = sorted(word for word in words if word not in inner)  # depth first: lanes of a prefix are neighbours
        self.words, self.lanes = len(words), len(leaves)
        self.depth = max(map(len, leaves))
        prefix = [[position[leaf[:k]] if k <= len(leaf) else -1 for leaf in leaves] for k in range(self.depth + 1)]
        letter = [[leaf[k] if k < len(leaf) else 0 for leaf in leaves] for k in range(self.depth)]
        first, last = [-1] * self.words, [-1] * self.words
        owned = []
        for row in prefix:
            owned.append([-1] * self.lanes)
            for lane, word in enumerate(row):
                if word >= 0 and first[word] < 0:
                    first[word] = lane
                    owned[-1][lane] = word
                if word >= 0:
                    last[word] = lane + 1

        def table(rows: Sequence[Sequence[int]] | Sequence[int]) -> Tensor:
            return torch.tensor(rows, dtype=torch.int64, device=device)

        self.prefix, self.owned = table(prefix), table(owned)
        self.letter = table(letter).reshape(self.depth, self.lanes)
        self.first, self.last, self.level = table(first), table(last), table([len(word) for word in words])


@lru_cache(maxsize=16)
def chains(words: tuple[Word, ...], device: torch.device) -> Chains:
    """The tables, made once for each list of words and device."""
    return Chains(words, device)
