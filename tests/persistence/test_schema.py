"""The checkers of saved values: what they take, what they refuse, and what they say."""

from typing import Any

import pytest
import torch

from helpers.refusals import assert_refused
from siggpde.persistence import schema as schemas
from siggpde.persistence.model_schema import check_model
from siggpde.persistence.schema import array, by_kind, integer, integers, list_of, map_of, maybe, number, plain

DEEP: Any = []
for _ in range(30):
    DEEP = [DEEP]


def check(schema: schemas.Schema, value: Any) -> None:
    schemas.check(schema, value, schemas.Place("it"))


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        (integer(1, 3), [1, 3], [0, 4, True, 2.0, "2", None, 10**400]),
        (number(0, 2), [0, 1.5, 2], [-0.1, 2.1, True, "1", None, float("nan"), float("inf"), 10**400]),
        (number(schemas.POSITIVE), [1e-300, 1], [0, 0.0, -1, 1e16]),
        (bool, [True, False], [0, 1, None, "true"]),
        (str, ["", "a" * 10_000], ["a" * 10_001, 3, None, ["a"]]),
        ({"a", "b"}, ["a"], ["c", None, 0, ["a"]]),
        (None, [None], [0, "", False]),
        (maybe(bool), [None, True], [0]),
        (list_of(bool, least=1, most=2), [[True], [True, False]], [[], [True] * 3, [1], (True,), {}, None]),
        ((str, number()), [["a", 1.0]], [["a"], [1.0, "a"], ["a", 1.0, 2.0], None]),
        (map_of(integer()), [{}, {"a": 1, "b": 2}], [{"a": -1}, [], None]),
        (by_kind("kind", {"a": {}}), [{"kind": "a"}], [{"kind": "b"}, {"kind": "a", "b": 1}, {}, {"kind": []}, None]),
        (plain, [None, 1, -2.5, "a", [{"b": [True]}]], [float("nan"), 10**400, torch.zeros(1), DEEP]),
    ],
)
def test_values(schema: schemas.Schema, good: list[Any], bad: list[Any]):
    for value in good:
        check(schema, value)
    for value in bad:
        assert_refused(r"^it", check, schema, value, error=schemas.SchemaError)


@pytest.mark.parametrize(
    "bad",
    [
        torch.zeros(3).double(), torch.zeros(3, 2),
        torch.zeros(2, 3).double() - 1, torch.full((2, 3), torch.nan).double(),
        torch.full((2, 3), torch.inf).double(), torch.zeros(2, 3, dtype=torch.int64), None, [[0.0]],
    ],
    ids=str,
)  # fmt: skip
def test_tensors(bad: Any):
    schema = array(None, None, low=0)
    check(schema, torch.zeros(2, 3).double())
    check(schema, torch.zeros(2, 0).double())
    assert_refused(r"^it must", check, schema, bad, error=schemas.SchemaError)
    check(array(None, None, dtypes=schemas.EITHER), torch.zeros(2, 3))
    check(array(...), torch.zeros(2, 3, 1).double())
    wrong = integers(None, high=5), torch.tensor([0, 6])
    assert_refused("from 0 to 5, got 0 to 6", check, *wrong, error=schemas.SchemaError)


def test_dictionaries_may_lack_some_fields_and_have_no_others():
    schema = {"a c": integer(), "b?": maybe({"mean": array(None), "names": plain})}
    for optional in ({}, {"b": None}, {"b": {"mean": torch.zeros(2).double(), "names": ["x"]}}):
        check(schema, {"a": 1, "c": 2, **optional})
    for wrong, said in (
        ({"c": 1, "b": None}, r"^it lacks 'a'$"),
        ({"a": 1, "c": 1, "d": 1}, r"^it has the field 'd', which is not known here$"),
        ({"a": 1, "c": -1}, r"^it\.c must be an integer"),
        ({"a": 1, "c": 1, "b": {"mean": torch.full((1,), torch.nan).double(), "names": 0}}, r"^it\.b\.mean must have"),
    ):
        assert_refused(said, check, schema, wrong, error=schemas.SchemaError)


def test_sizes_of_the_same_name_are_the_same():
    member = {"alpha": array("landmarks", "outputs"), "root": array("landmarks", ".rank"), "scale": array(".rank")}
    schema = {"classes": integer(1, size="outputs"), "members": list_of(member, size="members")}
    schema["weights"] = array("members")

    def state(outputs: int = 2, landmarks: int = 5, members: int = 2, scale: int = 4) -> dict[str, Any]:
        pairs = ((3, 3), (4, scale))
        shapes = [{"alpha": (landmarks, 2), "root": (5, rank), "scale": (width,)} for rank, width in pairs]
        tensors = [{name: torch.zeros(shape).double() for name, shape in member.items()} for member in shapes]
        return {"classes": outputs, "members": tensors, "weights": torch.zeros(members).double()}

    check(schema, state())  # with ranks of their own
    for wrong, said in (
        (state(outputs=3), r"it\.members\[0\]\.alpha has 2 for 3 outputs"),
        (state(landmarks=6), r"it\.members\[0\]\.root has 5 for 6 landmarks"),
        (state(scale=5), r"it\.members\[1\]\.scale has 5 for 4 rank"),
        (state(members=3), r"it\.weights has 3 for 2 members"),
    ):
        assert_refused(said, check, schema, wrong, error=schemas.SchemaError)


def test_messages_stay_short_and_a_model_without_anything_is_not_one():
    for value in ("x" * 10**6, 10**4000, ["x" * 100] * 1000, {"x" * 1000: 1}):
        with pytest.raises(schemas.SchemaError) as seen:
            check(bool, value)
        assert len(str(seen.value)) < 150
    assert_refused(r"^model lacks 'estimator'$", check_model, {}, {}, error=schemas.SchemaError)
