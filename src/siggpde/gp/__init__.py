"""The Gaussian process; here are the names of its likelihoods, without torch, so that the command line starts fast."""

from enum import StrEnum
from typing import Literal

Task = Literal["classification", "regression"]


class LikelihoodName(StrEnum):
    """What estimators and the command line take as `likelihood`; `auto` is the one of the task in closed form."""

    auto = "auto"
    least_squares = "least_squares"
    softmax = "softmax"
    bernoulli = "bernoulli"
    robustmax = "robustmax"
    gaussian = "gaussian"
    student_t = "student_t"
    poisson = "poisson"

    @property
    def tasks(self) -> tuple[Task, ...]:
        if self is LikelihoodName.auto:
            return "classification", "regression"
        regression = (LikelihoodName.gaussian, LikelihoodName.student_t, LikelihoodName.poisson)
        return ("regression",) if self in regression else ("classification",)

    @property
    def closed_form(self) -> bool:
        """Whether the posterior is exact: the `is_gaussian` of the likelihood."""
        return self in (LikelihoodName.auto, LikelihoodName.least_squares, LikelihoodName.gaussian)


def names_for(task: Task) -> tuple[str, ...]:
    """The names that an estimator for this task takes.

    >>> names_for("regression")
    ('auto', 'gaussian', 'student_t', 'poisson')
    """
    return tuple(name.value for name in LikelihoodName if task in name.tasks)
