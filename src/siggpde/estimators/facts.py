"""Tables of facts beside the series, one row a series, as numbers: with the kinds and levels of the training series."""

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
    """Returns the columns of a frame, mapping or array (n, facts) by name, gaps as None; `known` name an array's."""
    if isinstance(table, Mapping) or hasattr(table, "columns"):
        keys = list(table if isinstance(table, Mapping) else table.columns)
        names, columns = list(map(str, keys)), [table[key] for key in keys]
    else:
        array = np.asarray(table.detach().cpu() if isinstance(table, Tensor) else table)
        array = array[:, None] if array.ndim == 1 else array
        if array.ndim != 2:
            raise ValueError(f"facts must be a table (n_cases, n_facts), such as a DataFrame; got shape {array.shape}")
        names = [fact.name for fact in known] if len(known) == array.shape[1] else []
        names, columns = names or [f"fact {number}" for number in range(array.shape[1])], list(array.T)
    if len(set(names)) < len(names):
        raise ValueError(f"facts have two columns of one name: {', '.join(names)}; rename one")
    if not columns:
        raise ValueError("facts have no columns; leave facts= out, or name one")
    listed = dict(zip(names, map(_values, columns), strict=True))
    for name, values in listed.items():
        if len(values) != n:
            raise ValueError(f"the fact {name!r} has {len(values)} values for {n} series; give one a series")
    return listed


def learned_facts(table: Any, n: int, ranks: Ranks) -> tuple[tuple[Fact, ...], Tensor]:
    """Returns what the columns of all ranks are, numbers or categories, and the facts (n, facts) of this rank."""
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
        return tuple(facts), _encoded(facts, columns)


def facts_for(facts: Sequence[Fact], given: Any, n: int) -> Tensor:
    """Returns the facts of n series for a model that was fitted with `facts`; ValueError where they do not fit."""
    if not facts:
        raise ValueError("the model was fitted without facts; leave facts out, or fit it again with them")
    names = ", ".join(fact.name for fact in facts)
    if given is None:
        raise ValueError(f"the model was fitted with the facts {names}; give those of these series, facts=table")
    columns = _columns_of(given, n, facts)
    if missing := [fact.name for fact in facts if fact.name not in columns]:
        raise ValueError(f"facts lack {missing[0]!r}; the model was fitted with {names}, and needs all of them")
    return _encoded(facts, columns)


def _encoded(facts: Sequence[Fact], columns: Columns) -> Tensor:
    """Returns facts (n, facts), float64: numbers or places of levels, -1 for unknown levels, NaN for gaps."""
    encoded = [(_numbers if fact.levels is None else _places)(fact, columns[fact.name]) for fact in facts]
    return torch.tensor(encoded, dtype=torch.float64).T.contiguous()


def _numbers(fact: Fact, column: list[Any]) -> list[float]:
    try:
        numbers = [math.nan if value is None else float(value) for value in column]
    except (TypeError, ValueError) as error:
        raise ValueError(f"the fact {fact.name!r} was a number in the training series, but {error}") from None
    for series, number in enumerate(numbers):
        if abs(number) > _LARGEST:
            raise ValueError(f"the fact {fact.name!r} is too large in series {series}; give other units")
    return numbers


def _places(fact: Fact, column: list[Any]) -> list[float]:
    places = {level: float(place) for place, level in enumerate(fact.levels or ())}
    texts = [None if value is None else plain_text(value) for value in column]
    if new := sorted({text for text in texts if text is not None} - set(places)):
        log.warning(
            "the fact %r has levels that the training series had not: %s; they are predicted as if it were not known",
            fact.name,
            ", ".join(new[:5]),
        )
    return [math.nan if text is None else places.get(text, -1.0) for text in texts]


def _values(column: Any) -> list[Any]:
    """Returns the values of a column: floats for numbers and truth, None for gaps, else as they are."""
    values = column.to_list() if hasattr(column, "to_list") else np.asarray(column).tolist()
    for row, value in enumerate(values):
        if type(value).__name__ in _NO_VALUES or (isinstance(value, float) and math.isnan(value)):
            values[row] = None
        elif isinstance(value, bool | int | float | np.number | np.bool_):
            values[row] = float(value)
    return values
