"""The model card: it says what it is told, nothing else, and nobody's label can break it."""

import ast
import re
import shlex
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from siggpde.report.card import CardContent, CardData, model_card

DATA: CardData = {
    "name": "Gestures",
    "series": 120,
    "channels": 3,
    "channel_names": ["x", "y", "z"],
    "lengths": (40, 315),
    "labels": {"circle": 70, "square": 46, "wave_left": 4},
}
CONTENT: CardContent = {
    "title": "Gestures of a hand",
    "kind": "classification",
    "data": DATA,
    "settings": {
        "path_length": 8.0,
        "time": True,
        "lead_lag": False,
        "append": "variation",
        "words": 3280,
        "directions": None,
        "likelihood": {"name": "softmax", "classes": 3, "class_weight": None},
        "learning_rate": 0.0123456,
    },
    "scores": {"seconds": 75.25, "nlpp": 0.0831, "accuracy": 0.98125, "rmse": None},
    "versions": {"siggpde": "0.1.0", "torch": "2.13.0"},
    "created": "2026-01-02T03:04:05+00:00",
    "path": "my models/gestures",
}


def row(card: str, name: str) -> str:
    """The second cell of the row with this first cell."""
    (line,) = [line for line in card.splitlines() if line.startswith(f"| {name} |")]
    return line.split(" | ", 1)[1].removesuffix(" |")


def test_a_card_of_a_committee():
    sentence = "This model contains 7 training series."
    members = [(0.75, "signatures of windows (x | dx)", 0.12345), (0.25, "words", -1.0)]
    card = model_card({**CONTENT, "model": "A committee of 2", "members": members, "contains": sentence})
    assert "A committee of 2, fitted by siggpde. It gives" in card and f"## Training series\n\n{sentence}\n" in card
    assert r"| 0.75 | signatures of windows (x \| dx) | 0.1235 |" in card and "| 0.25 | words | -1.0000 |" in card


def test_a_full_card():
    card = model_card(CONTENT)
    assert card.startswith("# Gestures of a hand\n\nA Gaussian process with the signature kernel")
    assert re.findall("^## (.*)$", card, re.M) == ["Trained on", "Settings", "Scores", "Use it", "Limits"]
    assert row(card, "Series") == "120"
    assert row(card, "Channels") == "3 (x, y, z)"
    assert row(card, "Points a series") == "40 to 315"
    assert row(card, "circle") == "70" and row(card, r"wave\_left") == "4"
    assert row(card, "Likelihood") == "softmax (classes 3)"
    assert row(card, "Median length of a path, after scaling") == "8"
    assert row(card, "Time as a channel") == "yes" and row(card, "Lead-lag") == "no"
    assert row(card, "Learning rate") == "0.01235"
    assert row(card, "Accuracy on validation series") == "98.12%"
    assert row(card, "Seconds to fit") == "75.25"
    assert "Directions" not in card and "Root mean squared" not in card and "None" not in card
    assert "siggpde predict 'my models/gestures'" in card
    assert 'siggpde.load("my models/gestures")' in card and "predict_proba(X)" in card
    assert card.endswith("Saved 2026-01-02T03:04:05+00:00 with siggpde 0.1.0, torch 2.13.0.\n")
    assert "\n\n\n" not in card


def test_limits_are_those_of_this_model():
    card = model_card(CONTENT)
    assert "Probabilities are calibrated for series like those of the training data" in card
    assert "The validation series also took part in choosing settings" in card
    assert r"fewer than 10 series are known poorly: wave\_left (4)." in card
    assert "series only" not in card
    few = model_card({"kind": "regression", "data": {"series": 30, "target_mean": 1.5, "target_spread": 12345.6}})
    assert "Means and spreads are calibrated" in few and "It has seen 30 series only" in few
    assert "It was not scored on series held back" in few and "label" not in few
    assert row(few, "Mean of the target") == "1.5"
    assert row(few, "Spread of the target (standard deviation)") == "12346"
    assert "model.predict(X, return_std=True)" in few


@pytest.mark.parametrize("key", [*CONTENT, None])
def test_every_fact_may_be_missing(key: str | None):
    for content in ({k: v for k, v in CONTENT.items() if k != key}, dict(CONTENT) | ({key: None} if key else {})):
        card = model_card(content)
        assert card.startswith("# ") and "## Limits" in card and "None" not in card and "\n\n\n" not in card


def test_a_card_of_nothing():
    card = model_card({})
    assert card.startswith("# A model of time series\n") and "| |" not in card and "Saved" not in card
    assert 'siggpde.load("path/to/this/folder")' in card


def test_many_labels_and_channels_are_cut_short():
    data = {"labels": {f"l{i}": i for i in range(50)}, "channel_names": [f"c{i}" for i in range(50)], "lengths": (7, 7)}
    card = model_card({"data": data})
    assert row(card, "l19") == "19" and "| l20 |" not in card
    assert row(card, "30 more labels") == str(sum(range(20, 50)))
    assert row(card, "Channels").startswith("50 (c0, ") and row(card, "Channels").endswith("c19, ..)")
    assert row(card, "Points a series") == "7"


def test_the_command_may_be_given():
    assert "```console\nsiggpde predict m --input x.parquet\n```" in model_card(
        {"command": "siggpde predict m --input x.parquet"}
    )


@settings(max_examples=80, deadline=None)
@given(st.text(max_size=30), st.text(min_size=1, max_size=30))
def test_no_text_breaks_the_card(text: str, path: str):
    content: dict[str, Any] = {
        "title": text,
        "data": {"name": text, "labels": {text: 3}, "channel_names": [text]},
        "settings": {text: text},
        "path": path,
    }
    outside, lines = [], model_card(content).split("\n")
    fence = ""
    for line in lines:
        mark = re.match("`{3,}", line)
        if mark and (not fence or line == fence):
            fence = "" if fence else mark.group()
        elif not fence:
            outside.append(line)
    assert not fence
    plain = "\n".join(outside)
    assert not re.search(r"(?<!\\)[<>`]", re.sub(r"\\\\", "", plain))
    tables = [line for line in outside if line.startswith("|")]
    assert all(len(re.findall(r"(?<!\\)\|", re.sub(r"\\\\", "", line))) == 3 for line in tables)
    assert sum(line.startswith("# ") for line in outside) == 1
    (load,) = [line for line in lines if line.startswith("model = siggpde.load(")]
    assert ast.literal_eval(load.removeprefix("model = siggpde.load(").removesuffix(")")) == path
    (command,) = re.findall(r"^siggpde predict (.*) new-series\.csv$", "\n".join(lines), re.M | re.S)
    assert shlex.split(command) == [path]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"titel": "x"}, "content cannot hold 'titel'; it takes title, kind, model, data"),
        ({"data": {"rows": 3}}, r"content\['data'\] cannot hold 'rows'; it takes name, series"),
        ({"kind": "clustering"}, "kind must be 'classification' or 'regression', got 'clustering'"),
    ],
)
def test_unknown_content_are_refused(content: Any, message: str):
    with pytest.raises(ValueError, match=message):
        model_card(content)
