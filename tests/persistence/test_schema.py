"""The checkers of saved values: what they take, what they refuse, and what they say."""

from functools import partial
from typing import Any

import pytest
import torch

from siggpde.persistence.estimator_schema import check_estimator
from siggpde.persistence.schema import (
    EITHER,
    Absent,
    Place,
    Schema,
    SchemaError,
    array,
    by_kind,
    fields,
    flag,
    integer,
    integers,
    items,
    list_of,
    map_of,
    maybe,
    number,
    one_of,
    plain,
    size,
    text,
)  # fmt: skip

DEEP: Any = []
for _ in range(30):
    DEEP = [DEEP]


def check(schema: Schema, value: Any) -> None:
    schema(value, Place("it"))


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        (integer(1, 3), [1, 3], [0, 4, True, 2.0, "2", None, 10**400]),
        (number(0, 2), [0, 1.5, 2], [-0.1, 2.1, True, "1", None, float("nan"), float("inf"), 10**400]),
        (number(above=0), [1e-300, 1], [0, 0.0, -1, 1e16]),
        (flag, [True, False], [0, 1, None, "true"]),
        (partial(text, longest=3), ["", "abc"], ["abcd", 3, None, ["a"]]),
        (one_of("a", "b"), ["a"], ["c", None, 0, ["a"]]),
        (maybe(flag), [None, True], [0]),
        (list_of(flag, least=1, most=2), [[True], [True, False]], [[], [True] * 3, [1], (True,), {}, None]),
        (list_of(flag, size=2), [[True, True]], [[True]]),
        (items(text, number()), [["a", 1.0]], [["a"], [1.0, "a"], ["a", 1.0, 2.0], None]),
        (map_of(integer(), most=1), [{}, {"a": 1}], [{"a": -1}, {"a": 1, "b": 1}, [], None]),
        (by_kind("kind", {"a": fields({"kind": text})}), [{"kind": "a"}], [{"kind": "b"}, {}, {"kind": []}, None]),
        (plain(), [None, 1, -2.5, "a", [{"b": [True]}]], [float("nan"), 10**400, torch.zeros(1), DEEP]),
        (
            plain(tensors=True),
            [{"a": [torch.zeros(2), 3, None]}, torch.zeros(1, dtype=torch.int64)],
            [torch.tensor([torch.nan])],
        ),
    ],
)
def test_values(schema: Schema, good: list[Any], bad: list[Any]):
    for value in good:
        check(schema, value)
    for value in bad:
        with pytest.raises(SchemaError, match=r"^it"):
            check(schema, value)


@pytest.mark.parametrize(
    "bad",
    [
        torch.zeros(3), torch.zeros(3, 2), torch.zeros(2, 3).double() - 1, torch.full((2, 3), torch.nan).double(),
        torch.full((2, 3), torch.inf).double(), torch.zeros(2, 3, dtype=torch.int64), None, [[0.0]],
    ],
    ids=str,
)  # fmt: skip
def test_tensors(bad: Any):
    schema = array(2, None, low=0)
    check(schema, torch.zeros(2, 3).double())
    check(schema, torch.zeros(2, 0).double())
    with pytest.raises(SchemaError, match=r"^it must"):
        check(schema, bad)
    check(array(None, None, dtypes=EITHER), torch.zeros(2, 3))
    with pytest.raises(SchemaError, match="from 0 to 5, got 0 to 6"):
        check(integers(None, high=5), torch.tensor([0, 6]))


FIELDS = fields({"a": integer(), "b": Absent(maybe(plain(tensors=True)))})


def test_an_optional_field_is_one_line_and_unknown_ones_are_refused():
    for value in ({"a": 1}, {"a": 1, "b": None}, {"a": 1, "b": {"mean": torch.zeros(2), "names": ["x"]}}):
        check(FIELDS, value)
    with pytest.raises(SchemaError, match=r"^it lacks 'a'$"):
        check(FIELDS, {"b": None})
    with pytest.raises(SchemaError, match=r"^it has the field 'c', which is not known here$"):
        check(FIELDS, {"a": 1, "c": 1})
    with pytest.raises(SchemaError, match=r"^it\.b\.mean must have finite numbers"):
        check(FIELDS, {"a": 1, "b": {"mean": torch.tensor([torch.nan])}})


def test_sizes_of_the_same_name_are_the_same():
    member = fields({"alpha": array("landmarks", "outputs"), "root": array("landmarks", "rank")}, own=("rank",))
    schema = fields(
        {"classes": size("outputs"), "members": list_of(member, size="members"), "weights": array("members")}
    )

    def state(outputs: int = 2, landmarks: int = 5, members: int = 2) -> dict[str, Any]:
        ranks = [
            {"alpha": torch.zeros(landmarks, 2).double(), "root": torch.zeros(5, rank).double()} for rank in (3, 4)
        ]
        return {"classes": outputs, "members": ranks, "weights": torch.zeros(members).double()}

    check(schema, state())  # with ranks of their own
    for wrong, said in (
        (state(outputs=3), r"it\.members\[0\]\.alpha has 2 for 3 outputs"),
        (state(landmarks=6), r"it\.members\[0\]\.root has 5 for 6 landmarks"),
        (state(members=3), r"it\.weights has 3 for 2 members"),
    ):
        with pytest.raises(SchemaError, match=said):
            check(schema, wrong)


def test_messages_stay_short():
    for value in ("x" * 10**6, 10**4000, ["x" * 100] * 1000, {"x" * 1000: 1}):
        with pytest.raises(SchemaError) as seen:
            check(flag, value)
        assert len(str(seen.value)) < 150


def test_a_model_without_anything_is_not_one():
    with pytest.raises(SchemaError, match=r"^model lacks 'estimator'$"):
        check_estimator({})
