"""Failure codes and planning constants are the same in the native core and in Python."""

import pytest

from siggpde.numerics import errors
from siggpde.numerics.core import core
from siggpde.numerics.triton import plan_constants

pytestmark = pytest.mark.skipif(core is None, reason="the native core is not there")


def constants_of(module) -> dict[str, object]:
    return {name.lower(): value for name, value in vars(module).items() if name.isupper()}


def test_failure_codes_are_those_of_the_core():
    assert constants_of(errors) == core.failure_codes


def test_planning_constants_are_those_of_the_core():
    assert constants_of(plan_constants) == core.plan_constants
