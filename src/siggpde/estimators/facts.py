"""Tables of facts beside the series, one row a series, as numbers: with the kinds and levels of the training series."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from siggpde.distributed.ranks import Ranks
from siggpde.estimators.targets import plain_text
from siggpde.views.facts import Fact

log = logging.getLogger(__name__)

_LARGEST = 1e150
_NO_VALUES = ("NAType", "NaTType", "NoneType")  # of pandas and Python

Columns = dict[str, list[Any]]


def _columns_of(table: Any, n: int, known: Sequence[Fact] = ()) -> Columns:
    """Returns the columns of a table of facts by their names, gaps as None: a frame of pandas or polars, a mapping of
    columns, or an array (n, facts), whose columns are called "fact 0" and so on, or as those `known`."""
    if isinstance(table, Mapping):
        columns = {str(name): _listed(column) for name, column in table.items()}
    elif hasattr(table, "columns"):
        names = [str(name) for name in table.columns]
        if len(set(names)) < len(names):
            raise ValueError(f"facts have two columns of one name: {', '.join(names)}; rename one")
        columns = {name: _listed(table[given]) for name, given in zip(names, table.columns, strict=True)}
    else:
        array = np.asarray(table.detach().cpu() if isinstance(table, Tensor) else table)
        array = array[:, None] if array.ndim == 1 else array
        if array.ndim != 2:
            raise ValueError(f"facts must be a table (n_cases, n_facts), such as a DataFrame; got shape {array.shape}")
        names = [fact.name for fact in known] if len(known) == array.shape[1] else []
        names = names or [f"fact {number}" for number in range(array.shape[1])]
        columns = {name: _listed(column) for name, column in zip(names, array.T, strict=True)}
    if not columns:
        raise ValueError("facts have no columns; leave facts= out, or name one")
    for name, column in columns.items():
        if len(column) != n:
            raise ValueError(f"the fact {name!r} has {len(column)} values for {n} series; give one a series")
    return columns


def learned_facts(table: Any, n: int, ranks: Ranks) -> tuple[tuple[Fact, ...], Tensor]:
    """Returns what the columns of all ranks are, numbers where all values are, else categories with their levels; and
    the facts (n, facts) of the series of this rank."""
    with ranks.together():
        columns = _columns_of(table, n)
    ranks.check_same("names of facts", list(columns))
    facts: list[Fact] = []
    for name, column in columns.items():
        values = [value for value in column if value is not None]
        if all(ranks.all_gather(all(isinstance(value, float) for value in values))):
            facts.append(Fact(name, None))
            continue
        counts: Counter[str] = Counter()
        for texts in ranks.all_gather(list(map(plain_text, values))):
            counts.update(texts)
        facts.append(Fact(name, tuple(sorted(counts, key=lambda level: (-counts[level], level)))))
    with ranks.together():
        return tuple(facts), _encoded_all(facts, columns)


def _encoded_all(facts: Sequence[Fact], columns: Columns) -> Tensor:
    """Returns the facts as numbers (n, facts), float64: those of numbers, the places of levels, NaN for gaps, and for a
    level that the training series had not -1."""
    missing = [fact.name for fact in facts if fact.name not in columns]
    if missing:
        raise ValueError(f"facts lack {missing[0]!r}; the model was fitted with {_named(facts)}, and needs all of them")
    return torch.stack([_encoded(fact, columns[fact.name]) for fact in facts], dim=1)


def facts_for(facts: Sequence[Fact], given: Any, n: int) -> Tensor | None:
    """Returns the facts of n series for a model that was fitted with `facts`, or with none; ValueError otherwise."""
    if not facts and given is not None:
        raise ValueError("the model was fitted without facts; leave facts out, or fit it again with them")
    if not facts:
        return None
    if given is None:
        raise ValueError(
            f"the model was fitted with the facts {_named(facts)}; give those of these series, facts=table"
        )
    return _encoded_all(facts, _columns_of(given, n, facts))


def _named(facts: Sequence[Fact]) -> str:
    return ", ".join(fact.name for fact in facts)


def _listed(column: Any) -> list[Any]:
    """Returns the values of a column: floats for numbers and truth, None for gaps, else as they are."""
    values = column.to_list() if hasattr(column, "to_list") else np.asarray(column).tolist()
    return [_value(value) for value in values]


def _value(value: Any) -> Any:
    if type(value).__name__ in _NO_VALUES or (isinstance(value, float) and math.isnan(value)):
        return None
    return float(value) if isinstance(value, bool | int | float | np.number | np.bool_) else value


def _encoded(fact: Fact, column: list[Any]) -> Tensor:
    gaps = np.array([value is None for value in column])
    if fact.levels is None:
        try:
            numbers = np.array([math.nan if value is None else float(value) for value in column])
        except (TypeError, ValueError) as error:
            raise ValueError(f"the fact {fact.name!r} was a number in the training series, but {error}") from None
        if (wrong := np.abs(numbers) > _LARGEST).any():
            raise ValueError(f"the fact {fact.name!r} is too large in series {int(wrong.argmax())}; give other units")
        return torch.from_numpy(numbers)
    from sklearn.preprocessing import OrdinalEncoder  # noqa: PLC0415 - takes long to import

    codes = np.full(len(column), math.nan)
    texts = np.array([plain_text(value) for value in column if value is not None], dtype=object)
    if len(texts) and fact.levels:
        levels = np.array(fact.levels, dtype=object)
        settings: dict[str, Any] = {"handle_unknown": "use_encoded_value", "unknown_value": -1}
        encoder = OrdinalEncoder(categories=[levels], dtype=np.float64, **settings)  # pyright: ignore[reportArgumentType]
        codes[~gaps] = encoder.fit(levels[:, None]).transform(texts[:, None])[:, 0]
        if unknown := sorted(set(texts) - set(fact.levels)):
            log.warning(
                "the fact %r has levels that the training series had not: %s; they are predicted as if it were not "
                "known", fact.name, ", ".join(unknown[:5])
            )  # fmt: skip
    return torch.from_numpy(codes)
