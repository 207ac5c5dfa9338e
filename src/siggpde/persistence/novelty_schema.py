"""The schema of what a model keeps to tell how unlike its training series a series is (`ensemble.novelty`)."""

from __future__ import annotations

from siggpde.persistence.schema import Fields, Maybe, Number
from siggpde.persistence.tensor_schema import SINGLE, Array, integers

_MOST_CLASSES = 10**6

_FACTS = Fields(
    {
        "medians": Array("facts"),
        "units": Array("facts", above=0),
        "low": Array("facts"),
        "high": Array("facts"),
        "least": Array("facts", low=0),
        "reference": Array("references", "facts", dtypes=SINGLE),
        "middle": Number(),
        "upper": Number(),
    }
)
NOVELTY = Fields(
    {
        "weights": Array("members", low=0, high=1),
        "centres": Array("members"),
        "widths": Array("members", above=0),
        "middle": Number(),
        "upper": Number(),
        "facts": _FACTS,
        "left_out": Array("members", "known", dtypes=SINGLE),
        "left_out_facts": Array("known"),
        "labels": Maybe(integers("known", high=_MOST_CLASSES)),
    }
)
