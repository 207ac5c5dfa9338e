"""What the checks of scikit-learn and aeon find, in a process without aeon and in one with it."""

import json
from importlib.util import find_spec
from typing import Any

import pytest

from helpers.processes import run

needs_aeon = pytest.mark.skipif(find_spec("aeon") is None, reason="aeon is not installed")

WITHOUT_AEON = """
import json, sys, warnings
sys.modules["aeon"] = None
warnings.simplefilter("ignore")
from sklearn.utils.estimator_checks import check_estimator
import siggpde
checked = getattr(siggpde, sys.argv[1])(**json.loads(sys.argv[2]))
found = check_estimator(checked, on_fail=None)
assert "aeon" not in {name.split(".")[0] for kind in type(checked).__mro__ for name in [kind.__module__]}
print(json.dumps([[one["check_name"], one["status"], str(one["exception"])] for one in found]))
"""


def failed_checks(name: str, at_least: int, **settings: Any) -> dict[str, str]:
    """Messages of the checks of scikit-learn that fail, where more than `at_least` pass."""
    found = json.loads(run(WITHOUT_AEON, name, json.dumps(settings)).splitlines()[-1])
    assert sum(status == "passed" for _, status, _ in found) > at_least
    return {check: message for check, status, message in found if status == "failed"}


def assert_aeon_finds_nothing_wrong(kind: Any) -> None:
    from aeon.testing.estimator_checking import check_estimator  # noqa: PLC0415 - not everyone has it

    found = check_estimator(kind, raise_exceptions=False, verbose=False)
    assert len(found) > 20
    assert {name: result for name, result in found.items() if result != "PASSED"} == {}
