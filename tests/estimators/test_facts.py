"""Facts beside the series: found where they decide, explained, novel, saved, and refused where they are wrong."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

import siggpde
from helpers.small_estimators import outputs
from siggpde import SigGPClassifier, SigGPRegressor
from siggpde.committee.fit import ViewSettings
from siggpde.distributed.ranks import ALONE
from siggpde.estimators.facts import facts_for, learned_facts
from siggpde.io import SeriesData

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(120, 2, 12)).cumsum(axis=2)
AGE, SEX = RANDOM.uniform(20, 90, 120), RANDOM.choice(["f", "m"], 120)
DEVICE = [None if row % 17 == 3 else str(device) for row, device in enumerate(RANDOM.choice(["A", "B", "C"], 120))]
TABLE = pd.DataFrame({"age": AGE, "sex": SEX, "device": DEVICE})
TRAIN, TEST = np.arange(80), np.arange(80, 120)
SMALL: dict[str, Any] = {"n_features": 50, "views": ["linear", "windows"]}


def some(rows: np.ndarray) -> pd.DataFrame:
    return TABLE.iloc[rows]


def fitted(kind: Any = SigGPClassifier, **settings: Any) -> Any:
    y = AGE > 55 if kind is SigGPClassifier else AGE + RANDOM.normal(size=120)
    return kind(**SMALL, **settings).fit(X[TRAIN], y[TRAIN], facts=some(TRAIN))


@pytest.fixture(scope="module")
def model() -> SigGPClassifier:
    return fitted()


@pytest.mark.parametrize("keep_series", [True, False])
def test_a_fact_that_decides_is_found_explained_and_saved(keep_series: bool, tmp_path: Path):
    y = AGE > 55
    made = fitted(keep_series=keep_series)
    blind = SigGPClassifier(**SMALL, keep_series=keep_series).fit(X[TRAIN], y[TRAIN])
    right = (made.predict(X[TEST], facts=some(TEST)) == y[TEST]).mean()
    assert right > 0.85 and right > (blind.predict(X[TEST]) == y[TEST]).mean() + 0.2
    importances = made.importance(X[TEST], facts=some(TEST))
    assert importances.facts[0].name == "age" and importances.facts[0].share > 0.5
    assert all(one.facts[0].name == "age" and one.facts[0].probability > 0.8 for one in importances.classes)
    for row, one in zip(TEST, made.explain(X[TEST[:6]], facts=some(TEST[:6]), segments=0), strict=False):
        assert {fact.letters for fact in one.facts} == {("age",), ("sex",), ("device",)}
        assert one.facts[0].name == f"age {AGE[row]:.6g}" and one.facts[0].value > 0
        assert one.facts[0].name in one.sentence and "device not known" not in one.sentence
    before = outputs(made, SeriesData(X[TEST], facts=dict(some(TEST))))
    made.save(tmp_path / "model")
    again = siggpde.load(tmp_path / "model")
    assert np.array_equal(outputs(again, SeriesData(X[TEST], facts=dict(some(TEST)))), before)
    assert again.facts_ == made.facts_ and [fact.name for fact in again.facts_] == ["age", "sex", "device"]


def test_a_regression_finds_facts_and_learns_more_of_them():
    made = fitted(SigGPRegressor)
    assert np.corrcoef(made.predict(X[TEST], facts=some(TEST)), AGE[TEST])[0, 1] > 0.9
    assert made.partial_fit(X[TEST], AGE[TEST], facts=some(TEST)).n_series_ == 120


def test_facts_are_taken_from_tables_of_every_kind(model: SigGPClassifier):
    expected = model.predict_proba(X[TEST], facts=some(TEST))
    frame = some(TEST)
    tables: list[Any] = [
        dict(frame),
        frame[["device", "sex", "age"]].assign(more=1),
        pl.DataFrame({"age": AGE[TEST], "sex": SEX[TEST].tolist(), "device": DEVICE[80:]}),
        frame.to_numpy(dtype=object),
        frame.astype({"sex": "category"}),
    ]
    for table in tables:
        np.testing.assert_array_equal(model.predict_proba(X[TEST], facts=table), expected)
    single = np.concatenate([model.predict_proba(X[[row]], facts=some(np.array([row]))) for row in TEST])
    np.testing.assert_allclose(single, expected, rtol=1e-9)
    whole = SeriesData(X, y=AGE > 55, facts={name: TABLE[name].to_numpy() for name in TABLE})
    assert np.array_equal(SigGPClassifier(**SMALL).fit(whole[TRAIN]).predict_proba(whole[TEST]), expected)


def test_what_is_not_known_counts_nothing_and_what_is_unusual_is_named(model: SigGPClassifier, caplog: Any):
    rows = some(TEST[:3]).copy()
    unknown = rows.assign(device=[None, "Z", "Z"])
    chances = model.predict_proba(X[TEST[:3]], facts=unknown)
    assert np.isfinite(chances).all() and "device" in caplog.text and "had not: Z" in caplog.text
    gaps = model.predict_proba(X[TEST[1:3]], facts=rows[1:].assign(device=None))
    assert (chances[1:].argmax(axis=1) == gaps.argmax(axis=1)).all()
    facts = model.explain(X[TEST[:2]], facts=unknown[:2], segments=0)
    assert any(fact.name == "device not known" and fact.value == pytest.approx(0) for fact in facts[0].facts)
    old = rows.assign(age=[900.0, 40.0, 41.0])
    p, reasons = model.novelty(X[TEST[:3]], facts=old, return_reason=True)
    assert reasons[0] == "age" and p[0] == p.min() < 0.05
    with pytest.warns(UserWarning, match="age is unusual"):
        model.predict_proba(X[TEST[:3]], facts=old)


def test_wrong_facts_are_refused_with_the_reason(model: SigGPClassifier):
    cases = [
        (None, "fitted with the facts age, sex, device; give those"),
        (TABLE[["age", "sex"]].iloc[TEST], "facts lack 'device'"),
        (some(TEST[:3]), "'age' has 3 values for 40 series"),
        (some(TEST).assign(age="old"), "'age' was a number in the training series"),
        (some(TEST).assign(age=np.inf), "'age' is too large in series 0"),
        (np.zeros((40, 1, 3)), "facts must be a table"),
    ]
    for table, message in cases:
        with pytest.raises(ValueError, match=message):
            model.predict(X[TEST], facts=table)
    with pytest.raises(ValueError, match="fitted without facts"):
        SigGPClassifier(**SMALL).fit(X[TRAIN], AGE[TRAIN] > 55).predict(X[TEST], facts=some(TEST))
    with pytest.raises(ValueError, match="facts need method='views'"):
        SigGPClassifier(method="paper").fit(X[TRAIN], AGE[TRAIN] > 55, facts=some(TRAIN))
    with pytest.raises(ValueError, match="one name"):
        SigGPClassifier().fit(X[TRAIN], AGE[TRAIN] > 55, facts=pd.concat([some(TRAIN), some(TRAIN)], axis=1))


def test_counterfactuals_and_reports_have_the_facts_of_their_series(model: SigGPClassifier, tmp_path: Path):
    change = model.counterfactual(X[85], facts=some(np.array([85])))
    assert change.series.shape == X[85].shape and np.isfinite(change.probability_after or 0)
    page = Path(model.report(X[TEST], (AGE > 55)[TEST], tmp_path / "report.html", facts=some(TEST))).read_text()
    for words in ("age", "sex", "device", "facts beside the series", "facts=facts_page)", "y, facts=facts)"):
        assert words in page


def test_landmarks_of_many_series_have_facts(monkeypatch: pytest.MonkeyPatch):
    class Few(ViewSettings):
        def __init__(self, **given: Any) -> None:
            super().__init__(**given, max_landmarks=40)

    monkeypatch.setattr("siggpde.estimators.training.ViewSettings", Few)
    made = fitted()
    assert len(made.committee_.landmarks) == 40
    assert (made.predict(X[TEST], facts=some(TEST)) == (AGE > 55)[TEST]).mean() > 0.8


def test_levels_are_ordered_by_frequency_and_unknown_ones_lie_apart():
    facts, values = learned_facts({"site": ["b", "a", "b", None, 1.0], "n": [1, None, 3, 4, True]}, 5, ALONE)
    assert facts[0].levels == ("b", "1", "a") and facts[1].levels is None
    assert values[:, 0].tolist()[:3] == [0, 2, 0] and bool(values[3, 0].isnan()) and values[4, 0] == 1
    assert values[:, 1].nan_to_num(-1).tolist() == [1, -1, 3, 4, 1]
    other = facts_for(facts, {"n": ["2", 5.0], "site": ["c", 1]}, 2)
    assert other is not None and torch.equal(other, torch.tensor([[-1.0, 2.0], [1.0, 5.0]]).double())


def test_contributions_of_facts_and_of_segments_add_up():
    made = fitted(SigGPRegressor)
    one, table = X[TEST[:1]], some(TEST[:1])
    (known,) = made.explain(one, segments=2, permutations=4, facts=table)
    (unknown,) = made.explain(one, segments=0, facts=table.assign(age=np.nan, sex=None, device=None))
    assert sum(fact.value for fact in known.facts) == pytest.approx(known.latent - unknown.latent, abs=1e-6)
    segments: Any = known.segments
    there, average = float(segments.latents[0]), float(segments.baseline[0])
    assert segments.values.sum() == pytest.approx(there - average, abs=1e-6)
    assert there == pytest.approx(known.latent, abs=1e-6)
