"""The schema of what a model keeps to tell how unlike its training series a series is (`committee.novelty`)."""

from __future__ import annotations

from siggpde.persistence.schema import RAW, Fields, Maybe, Number
from siggpde.persistence.tensor_schema import SINGLE, Array, integers

_MOST_CLASSES = 10**6

_FACTS = Fields(  # in units of the user's
    {
        "medians": Array("facts", low=-RAW, high=RAW),
        "units": Array("facts", above=0, high=RAW),
        "low": Array("facts", low=-RAW, high=RAW),
        "high": Array("facts", low=-RAW, high=RAW),
        "least": Array("facts", low=0, high=RAW),
        "reference": Array("references", "facts", dtypes=SINGLE),
        "middle": Number(-RAW, RAW),
        "upper": Number(-RAW, RAW),
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
