"""Failure codes and planning constants are the same in the native core and in Python."""

import pytest
import torch

from siggpde.numerics import goursat as reference
from siggpde.numerics import inputs
from siggpde.numerics.core import core
from siggpde.numerics.static_kernels import KINDS
from siggpde.numerics.triton import plan

pytestmark = pytest.mark.skipif(core is None, reason="the native core is not there")


def constants_of(module) -> dict[str, object]:
    return {name.lower(): value for name, value in vars(module).items() if name.isupper() and not name.startswith("_")}


def test_static_kernels_are_those_of_the_core():
    assert {name: number for number, name in enumerate(KINDS)} == core.static_kinds


def test_failure_codes_are_those_of_the_core():
    assert constants_of(inputs) == {**core.failure_codes, "floats": inputs.FLOATS}


def test_planning_constants_are_those_of_the_core():
    assert constants_of(plan) == core.plan_constants


def test_the_reference_refuses_what_the_core_refuses():
    constants = core.plan_constants
    assert reference.LONGEST_SEGMENT[torch.float64] == constants["overflowing_segment_f64"]
    assert reference.LONGEST_SEGMENT[torch.float32] == constants["overflowing_segment_f32"]
    assert constants["overflowing_segment_log"] == reference.LONGEST_SEGMENT_OF_LOG
