"""The page of a report: its sections, figures, links, what it asks for, and text that is no markup."""

import base64
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.refusals import assert_refused
from helpers.report_pages import SECTIONS, Page, parsed, turning
from siggpde import SigGPClassifier, SigGPRegressor
from siggpde.estimators.loading import load_predictor
from siggpde.explain import ClassEffects, Effect
from siggpde.report import figures
from siggpde.report.gather import NOT_OF_THE_MODEL, changed_settings, check_path
from siggpde.report.page import GENERATOR
from siggpde.report.wording import number, percent

FEWEST_FIGURES = 6


def check(page: Page) -> None:
    """What holds for every page."""
    assert page.sections == SECTIONS
    inside = [link["href"] for link in page.all("a") if (link["href"] or "").startswith("#")]
    assert inside[-8:] == [f"#{name}" for name in SECTIONS]
    images = page.all("img")
    assert len(images) >= FEWEST_FIGURES
    for image in images:
        assert image["alt"] and int(image["width"] or 0) > 0 and int(image["height"] or 0) > 0
        kind, content = (image["src"] or "").split(",", 1)
        assert kind == "data:image/svg+xml;base64"
        svg = base64.b64decode(content).decode()
        assert svg.startswith("<svg") and "<script" not in svg and "nan" not in re.findall(r' d="([^"]*)"', svg)
    captions = len(page.all("figcaption"))
    assert captions == len(page.all("figure")) > 0
    assert page.all("script") == [] and page.all("link") == [] and page.all("iframe") == []
    for link in page.all("a"):
        where = link["href"] or ""
        assert where.startswith("#") or re.match(r"https://(doi\.org|arxiv\.org|github\.com)/", where)
    addresses = set(re.findall(r"https?://[^\s\"'<]+", page.html))
    assert addresses <= {link["href"] for link in page.all("a")}
    assert "url(" not in page.html and "@import" not in page.html
    assert any(tag.get("name") == "viewport" for tag in page.all("meta"))
    assert "prefers-color-scheme: dark" in page.html and "@media print" in page.html
    assert len(page.html) < 5e6
    assert "nan" not in page.text.lower().split() and "None" not in page.text


@pytest.fixture(scope="module")
def of_classes(model: SigGPClassifier, tmp_path_factory: pytest.TempPathFactory) -> Page:
    X, y = turning(45, seed=1)
    path = tmp_path_factory.mktemp("page") / "classes.html"
    groups = np.arange(45) % 5
    assert model.report(X, y, path, groups=groups, explained=1, title="Turns", target="speed") == str(path)
    return parsed(path)


@pytest.fixture(scope="module")
def of_numbers(numbers: SigGPRegressor, tmp_path_factory: pytest.TempPathFactory) -> Page:
    X, _ = turning(30, seed=1)
    path = tmp_path_factory.mktemp("page") / "numbers.html"
    numbers.report(X, X[:, 0].mean(axis=1), path, explained=1)
    return parsed(path)


def test_a_page_about_classes(of_classes: Page, model: SigGPClassifier):
    check(of_classes)
    X, y = turning(45, seed=1)
    accuracy = model.score(X, y)
    assert f"{100 * accuracy:.1f} %" in of_classes.text or (accuracy == 1 and "100 %" in of_classes.text)
    for words in ("45 time series", "Group by group", "confusion", "most uncertain", "most surprising", "most novel"):
        assert words in of_classes.html
    assert "fitted without groups" in of_classes.text and model.fingerprint_ in of_classes.text
    assert of_classes.text.count("Judged on new series") == 1


def test_a_page_about_numbers(of_numbers: Page, numbers: SigGPRegressor, tmp_path: Path):
    check(of_numbers)
    X, _ = turning(30, seed=1)
    rmse = float(np.sqrt(np.square(numbers.predict(X) - X[:, 0].mean(axis=1)).mean()))
    assert f"{rmse:#.3g}" in of_numbers.text
    for words in ("RMSE", "coverage of 90 % intervals", "Are the intervals honest?", "Predicted and true numbers"):
        assert words in of_numbers.text
    again = numbers.report(X, X[:, 0].mean(axis=1), tmp_path / "numbers.html", explained=1)
    assert Path(again).read_text(encoding="utf-8") == of_numbers.html


def test_groups_of_one_series_have_no_picture(model: SigGPClassifier, numbers: SigGPRegressor, tmp_path: Path):
    X, y = turning(20, seed=2)
    for made, answers in ((model, y), (numbers, X[:, 0].mean(axis=1))):
        for groups, shown in ((np.arange(20), False), (np.arange(20) // 2, True)):
            page = parsed(made.report(X, answers, tmp_path / "r.html", explained=0, groups=groups, force=True))
            assert ("Group by group" in page.text) == shown


def test_without_answers_nothing_is_judged_and_training_series_as_left_out(model: SigGPClassifier, tmp_path: Path):
    page = parsed(model.report(turning(20, seed=2)[0], path=tmp_path / "r.html", explained=1))
    check(page)
    assert "no true answers" in page.text and "Brier" not in page.text and "most surprising" not in page.text
    page = parsed(model.report(*turning(60), tmp_path / "r.html", explained=1))
    check(page)
    assert "Judged on left-out training series" in page.text and "most surprising" in page.text
    figures = model.summary_["left_out"]
    for shown in (percent(figures["accuracy"]), number(figures["nlpp"])):  # of fit, its card and the page alike
        assert page.text.count(shown) >= 3
    assert "those that the model was fitted to" in page.text


def test_labels_that_are_numbers_are_classes(tmp_path: Path):
    X, _ = turning(30)
    y = np.arange(30) % 2 + 1.0
    made = SigGPClassifier(n_features=20, members=1, views=["linear"]).fit(X, y)
    page = parsed(made.report(X + 0.01, y, tmp_path / "r.html", explained=0))
    assert "class: 2 classes 1.0, 2.0" in page.text and "Series of every class" in page.text


def test_text_of_the_data_is_never_markup(tmp_path: Path):
    X, _ = turning(40)
    evil = "<script>alert('x')</script>&\"$\\frac{1$"
    y = np.where(np.arange(40) % 2 == 0, evil, "b<i>")
    names = ["<img src=x onerror=alert(1)>", "y $x$"]
    made = SigGPClassifier(n_features=20, members=1, views=["linear"], channel_names=names).fit(X, y)
    groups = np.where(np.arange(40) % 3 == 0, "<svg/onload=alert(2)>", "g")
    where = tmp_path / "a<b>&'.html"
    ids = [f"<b>{number}</b>" for number in range(40)]
    more: Any = {"groups": groups, "ids": ids, "title": "</title><script>", "target": "<u>", "explained": 1}
    page = parsed(made.report(X + 0.01, y, where, **more))
    check(page)
    assert page.all("script") == [] and page.all("b") != [] and page.all("i") == [] and page.all("u") == []
    assert evil in page.text and not any("onerror" in attributes for _, attributes in page.tags)


def test_paths_are_checked_before_any_work(model: SigGPClassifier, tmp_path: Path):
    X, y = turning(6, seed=2)
    assert_refused("is a folder", model.report, X, y, tmp_path)
    assert_refused("does not exist", model.report, X, y, tmp_path / "none" / "r.html")
    other = tmp_path / "thesis.html"
    other.write_text("<html>precious</html>")
    assert_refused("no report of siggpde", model.report, X, y, other, error=FileExistsError)
    assert other.read_text() == "<html>precious</html>"
    check_path(other, force=True)
    older = tmp_path / "older.html"
    older.write_text(f'<html><meta name="generator" content="{GENERATOR}">')
    check_path(older, force=False)  # an older report is replaced


def test_what_does_not_fit_is_refused(model: SigGPClassifier, tmp_path: Path):
    X, y = turning(6, seed=2)
    path = tmp_path / "r.html"
    assert_refused("groups must have shape", model.report, X, y, path, groups=[1, 2])
    assert_refused("ids must have shape", model.report, X, y, path, ids=["a"])
    assert_refused("explained must be", model.report, X, y, path, explained=-1)
    assert_refused("labels that the training set had not", model.report, X, ["turn 9"] * 6, path)
    assert not path.exists()


def test_settings_that_are_not_the_defaults_are_named(model: SigGPClassifier, of_numbers: Page, tmp_path: Path):
    assert "settings of the fit views=['linear', 'windows'], members=2, n_features=20" in of_numbers.text
    settings = SigGPClassifier().get_params(deep=False)
    assert set(NOT_OF_THE_MODEL) < set(settings)
    model.save(tmp_path / "model")  # reports of the command line are of what predicts alone
    assert changed_settings(load_predictor(tmp_path / "model")) == changed_settings(model) != ""


def test_figures_keep_the_digits_of_their_texts():
    def draw(ax: Any) -> None:
        ax.plot([0.123456, 1], [0, 1])
        ax.set_title("area (area < 0.0005, 0.01234)")

    svg = figures.picture(lambda figure: draw(figure.subplots()), "a line", 2).svg
    assert "area &lt; 0.0005, 0.01234)" in svg
    assert not re.search(r'[ "]\d+\.\d{3,}[ "]', svg)


def test_a_table_of_colours_has_room_for_its_labels():
    def table(names: list[str]) -> figures.Picture:
        effects = [Effect(name, (), 1.0, 0.1, 0.99) for name in names]
        return figures.effects_by_class([ClassEffects(label, 5, [], effects, [], [], []) for label in "ab"], "regions")

    short, long = table(["first", "last"]), table(["2025-04-06 14:30 to 17:40", "2025-04-06 17:40 to 20:50"])
    assert long.height > short.height + 96 and "to 20:50" in long.svg and "…" not in long.svg


def test_wrong_answers_are_explained_against_the_truth_and_neighbours_are_named(model: SigGPClassifier, tmp_path: Path):
    X, y = turning(12, seed=3)
    chances = model.predict_proba(X[:1])[0]
    least = model.classes_[chances.argmin()]
    (plain,), (told,) = model.explain(X[:1], segments=3), model.explain(X[:1], segments=3, y=[least])
    assert plain.segments is not None and plain.segments.against_truth is None and told.segments is not None
    against, at = told.segments.against_truth, [list(model.classes_).index(label) for label in (told.label, least)]
    assert against is not None
    np.testing.assert_allclose(against.contrast, against.values[..., at[0]] - against.values[..., at[1]], atol=1e-12)
    assert [one.target for one in told.neighbours] == [told.label, told.runner_up, least]
    training, _ = turning(60)
    for one in told.neighbours:
        np.testing.assert_allclose(one.values, training[one.index], atol=1e-5)
    y[0] = least
    page = parsed(model.report(X, y, tmp_path / "r.html", explained=1))
    assert f"rather than the truth, {least}" in page.text and "And against the truth" in page.text
    assert f"{told.label} (training series {told.neighbours[0].index})" in page.text
    assert "not scored on series held back" not in page.text and "SigGPClassifier(" in page.text
