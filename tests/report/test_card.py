"""The cards of models: they say what the model is, nothing else, and nobody's label can break them."""

import ast
import re
import shlex
from dataclasses import replace

import numpy as np
import pytest
import sklearn
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from helpers.report_pages import Page, classifier, regressor
from siggpde import SigGPClassifier, SigGPRegressor, plots
from siggpde.report.card import Member, ModelFacts, as_markdown, card_blocks, model_card, model_facts

VIEWS = ModelFacts(
    estimator="SigGPClassifier",
    committee=None,
    task="classification",
    method="views",
    likelihood="least squares on ±1, then a softmax link",
    members=[Member(0.75, "W", "signatures of windows (x | dx)", 0.12345), Member(0.25, "L", "words", 0.2)],
    kinds=["windows", "linear"],
    options={},
    series=120,
    groups=None,
    landmarks=7,
    channels=("x", "y", "z"),
    lengths=(40, 315),
    labels={"circle": 70, "square": 46, "wave_left": 4},
    target=None,
    seconds=75.25,
)
PAPER = replace(
    VIEWS,
    estimator="SigGPRegressor",
    task="regression",
    method="paper",
    likelihood="Gaussian",
    members=[Member(1.0, "model 1", "500 words of one path", 0.0831)],
    options={"time": True, "lead_lag": False, "append": "variation"},
    landmarks=0,
    labels=None,
    target=(1.5, 12345.6),
)


def card(facts: ModelFacts, name: str = "gestures") -> str:
    return as_markdown(card_blocks(facts, name))


def row(text: str, name: str) -> str:
    """The second cell of the row with this first cell."""
    (line,) = [line for line in text.splitlines() if line.startswith(f"| {name} |")]
    return line.split(" | ", 1)[1].removesuffix(" |")


def test_a_card_of_a_committee():
    text = card(VIEWS, "my gestures")
    assert text.startswith(
        "# SigGPClassifier, my gestures\n\nA committee of 2 Gaussian processes on views of the series"
    )
    headings = ["Scores", "Trained on", "Members", "Training series", "Settings", "Use it", "Limits"]
    assert re.findall("^## (.*)$", text, re.M) == headings
    assert row(text, "Series") == "120" and row(text, "Channels") == "3 (x, y, z)"
    assert row(text, "Points a series") == "40 to 315"
    assert row(text, "circle") == "70" and row(text, "wave_left") == "4"
    assert "| Label | Series |\n| --- | ---: |" in text
    assert r"| 0.75 | signatures of windows (x \| dx) | 0.1235 |" in text and "| ---: | --- | ---: |" in text
    assert "contains 7 training series (landmarks), of 120" in text and "keep_series=False" in text
    assert row(text, "Leave-one-out loss of the best member, nats a series") == "0.1235"
    assert row(text, "Seconds to fit") == "75.25"
    assert "siggpde predict 'my gestures'" in text
    assert 'siggpde.load("my gestures")' in text and "predict_proba(X)" in text
    assert "None" not in text and "\n\n\n" not in text


@pytest.mark.parametrize("make", [classifier, regressor])
def test_cards_say_first_how_well_left_out_series_are_predicted(make):
    model = make()
    facts = model_facts(model)
    assert facts.judged is not None and f"{model.n_series_} series" in facts.judged
    text = card(facts)
    assert text.index(facts.judged.split(";")[0]) < text.index("## Members")
    assert "not scored on series held back" in text
    judged = as_markdown(card_blocks(facts, "m", "accuracy 95 %, for the 20 series of this page"))
    assert "not scored on" not in judged and row(judged, "On new series").startswith("accuracy 95 %")


def test_losses_of_numbers_are_in_their_units():
    X = np.random.default_rng(0).normal(size=(30, 1, 6)).cumsum(axis=2)
    y = X[:, 0].mean(axis=1)
    small, large = (
        model_facts(SigGPRegressor(members=1, n_features=20).fit(X, factor * y)) for factor in (1.0, 1000.0)
    )
    score, larger = small.members[0].score, large.members[0].score
    assert score is not None and larger is not None
    for loss, other in ((score, larger), (small.tried[0][1], large.tried[0][1])):
        assert other - loss == pytest.approx(np.log(1000.0), abs=1e-6)
    assert small.figures is not None and abs(score - small.figures["nlpd"]) < 0.3  # both of numbers
    (drawn,) = (text.get_text() for text in plots.plot_weights(large.committee, units=large.units).texts)
    assert float(drawn.replace("−", "-")) == pytest.approx(larger, rel=0.01)


def test_a_card_of_the_papers_method():
    text = card(PAPER)
    assert "A Gaussian process with the signature kernel, fitted by siggpde" in text and "## Members" not in text
    assert row(text, "Mean of the target") == "1.5" and row(text, "Channels appended") == "variation"
    assert row(text, "Spread of the target (standard deviation)") == "12346"
    assert row(text, "Time as a channel") == "yes" and row(text, "Lead-lag") == "no"
    assert row(text, "Inducing variables") == "500 words of one path"
    (name,) = re.findall("^. (NLPP on validation series .*?) . 0.0831 .$", text, re.M)
    assert "lower is better" in name and "leave-one" not in text.lower()
    assert "model.predict(X, return_std=True)" in text


def test_limits_are_those_of_this_model_and_groups_are_named():
    text = card(VIEWS)
    assert "Probabilities are calibrated for series like those of the training data" in text
    assert "It was not scored on series held back" in text
    assert "fewer than 10 series are known poorly: wave_left (4)." in text and "series only" not in text
    few = card(replace(PAPER, series=30))
    assert "Means and spreads are calibrated" in few and "It has seen 30 series only" in few
    assert "The validation series also took part in choosing settings" in few and "label" not in few
    text = card(replace(VIEWS, groups=12))
    assert row(text, "Groups of series") == "12" and "each of 12 groups was left out as a whole" in text
    assert "Leave-one-group-out loss" in text and "Leave-one-out" not in text
    assert "assume that the series are independent" in card(VIEWS)
    labels = {f"l{i}": i for i in range(50)}
    text = card(replace(VIEWS, labels=labels, channels=tuple(f"c{i}" for i in range(50)), lengths=(7, 7)))
    assert row(text, "l19") == "19" and "| l20 |" not in text
    assert row(text, "30 more labels") == str(sum(range(20, 50)))
    assert row(text, "Channels").startswith("50 (c0, ") and row(text, "Channels").endswith("c19, ..)")
    assert row(text, "Points a series") == "7"


@settings(max_examples=80, deadline=None)
@given(st.text(max_size=30), st.text(min_size=1, max_size=30))
def test_no_text_breaks_the_card(word: str, name: str):
    members = [Member(1.0, word, word, 0.5)]
    facts = replace(VIEWS, estimator=word, labels={word: 3}, channels=(word,), members=members)
    outside, lines = [], card(facts, name).split("\n")
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
    assert {len(re.findall(r"(?<!\\)\|", re.sub(r"\\\\", "", line))) for line in tables} == {3, 4}
    assert sum(line.startswith("# ") for line in outside) == 1
    (load,) = [line for line in lines if line.startswith("model = siggpde.load(")]
    assert ast.literal_eval(load.removeprefix("model = siggpde.load(").removesuffix(")")) == name
    (command,) = re.findall(r"^siggpde predict (.*) new-series\.csv$", "\n".join(lines), re.M | re.S)
    assert shlex.split(command) == [name]


@pytest.mark.parametrize("make", [classifier, regressor])
def test_facts_are_those_of_the_estimator(make):
    made = make(30)
    facts = model_facts(made)
    assert facts.series == facts.landmarks == 30 and facts.channels == made.channel_names_ and facts.lengths == (12, 12)
    assert [member.weight for member in facts.members] == sorted(made.committee_.weights.tolist(), reverse=True)
    assert {"linear"} <= set(facts.kinds) <= {"linear", "windows"} and facts.seconds == made.seconds_
    assert facts.labels == made.summary_.get("labels") and (facts.labels is None) == (facts.target is not None)
    text = model_card(made, "folder/model")
    assert text.startswith(f"# {type(made).__name__}, model\n") and row(text, "Likelihood") == facts.likelihood
    html = made._repr_html_()
    page = Page(html)
    assert type(made).__name__ in page.text and "30 series, 2 channels, 12 points" in page.text
    assert "weight" in page.text and "leave-one-out loss" in page.text and len(html) < 5000
    assert made._repr_mimebundle_()["text/html"] == html and made._repr_mimebundle_()["text/plain"] == repr(made)


def test_notebooks_escape_labels_and_show_the_diagram_before_a_fit():
    X = np.random.default_rng(0).normal(size=(20, 1, 8)).cumsum(axis=2)
    made = SigGPClassifier(n_features=20, members=1, views=["linear"])
    html = made.fit(X, np.where(np.arange(20) % 2, "<script>", "b"))._repr_html_()
    assert html is not None and "<script>" not in html and "&lt;script&gt;" in html
    new = SigGPClassifier()
    html = new._repr_html_()
    assert html is not None and "sk-" in html and "text/html" in new._repr_mimebundle_()
    with sklearn.config_context(display="text"):
        assert "text/html" not in new._repr_mimebundle_()
    assert "SigGPClassifier" in make_pipeline(FunctionTransformer(), new)._repr_html_()
