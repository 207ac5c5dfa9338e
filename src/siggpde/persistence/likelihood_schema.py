"""The schema of the settings of likelihoods, of which there are as many as names.

Sizes are bounded before anything of that size is made: `classes` has to be that of the labels, and quadrature points
are few.
"""

from __future__ import annotations

from typing import Any

from siggpde.persistence.schema import (
    Absent,
    ByKind,
    Fields,
    Flag,
    Integer,
    ListOf,
    Maybe,
    Number,
    OneOf,
    Place,
    Schema,
    Size,
    Text,
)
from siggpde.persistence.tensor_schema import Array

LOGARITHM = 100.0
"""The largest logarithm, up or down, of a scale, noise or amplitude: of standardised series all are far from it."""

_SMALLEST, _LARGEST = 1e-40, 1e40
_POINTS = Integer(1, 2**14)
_SEED = Absent(Integer(0, 2**63))
_POSITIVE = Number(_SMALLEST, _LARGEST)
_CLASS_WEIGHT = Absent(Maybe(ListOf(Number(above=0), size="classes")))


def _named(entries: dict[str, Schema]) -> Fields:
    return Fields({"name": Text(), **entries})


LIKELIHOOD = ByKind(
    "name",
    {
        "least_squares": _named(
            {
                "classes": Size("classes"),
                "noise": _POSITIVE,
                "temperature": _POSITIVE,
                "lapse": Number(0, 0.999),
                "mixing": Absent(Maybe(ListOf(ListOf(Number(), size="classes"), size="classes"))),
                "offset": Absent(Maybe(ListOf(Number(), size="classes"))),
                "predict_points": Absent(_POINTS),
                "class_weight": _CLASS_WEIGHT,
                "seed": _SEED,
                "opposite": Absent(Flag()),
            }
        ),
        "softmax": _named(
            {
                "classes": Size("classes"),
                "points": Absent(_POINTS),
                "predict_points": Absent(_POINTS),
                "class_weight": _CLASS_WEIGHT,
                "seed": _SEED,
            }
        ),
        "robustmax": _named({"classes": Size("classes"), "eps": Number(1e-12, 0.999), "class_weight": _CLASS_WEIGHT}),
        "bernoulli": _named({"link": OneOf(("probit", "logit")), "class_weight": _CLASS_WEIGHT}),
        "gaussian": _named({"noise": _POSITIVE}),
        "student_t": _named({"scale": _POSITIVE, "df": Number(1e-3, 1e9), "learn_df": Flag()}),
        "poisson": _named({"offset": Number(-LOGARITHM, LOGARITHM)}),
    },
)


class _Calibration:
    """The tensor [temperature, lapse] of `least_squares`."""

    def check(self, value: Any, at: Place) -> None:
        Array(2, low=0, high=_LARGEST).check(value, at)
        Number(_SMALLEST, _LARGEST).check(float(value[0]), at.at(0))
        Number(0, 0.999).check(float(value[1]), at.at(1))


_LOGARITHM = Absent(Array(low=-LOGARITHM, high=LOGARITHM))
PARAMETERS: dict[str, Schema] = {
    "likelihood.log_noise": _LOGARITHM,
    "likelihood.log_scale": _LOGARITHM,
    "likelihood.log_df": _LOGARITHM,
    "likelihood.calibration": Absent(_Calibration()),
    "likelihood.mixing": Absent(Array("classes", "classes")),
    "likelihood.offset": Absent(Array("classes")),
}
"""The tensors of likelihoods in the state of a model."""
