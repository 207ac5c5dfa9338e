"""What notebooks show of estimators."""

import numpy as np
import pytest
import sklearn
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from helpers.report_pages import Page, classifier, regressor
from siggpde import SigGPClassifier
from siggpde.report.gather import DEFAULTS


@pytest.mark.parametrize("make", [classifier, regressor])
def test_a_fitted_estimator_shows_a_short_card(make):
    made = make(30)
    html = made._repr_html_()
    page = Page(html)
    assert type(made).__name__ in page.text and "30 series, 2 channels, 12 points" in page.text
    assert "weight" in page.text and "leave-one-out loss" in page.text and len(html) < 5000
    assert made._repr_mimebundle_()["text/html"] == html and made._repr_mimebundle_()["text/plain"] == repr(made)


def test_labels_are_escaped():
    X = np.random.default_rng(0).normal(size=(20, 1, 8)).cumsum(axis=2)
    made = SigGPClassifier(n_features=20, members=1, views=["linear"])
    html = made.fit(X, np.where(np.arange(20) % 2, "<script>", "b"))._repr_html_()
    assert html is not None and "<script>" not in html and "&lt;script&gt;" in html


def test_before_a_fit_and_in_pipelines_there_is_scikit_learns_diagram():
    new = SigGPClassifier()
    html = new._repr_html_()
    assert html is not None and "sk-" in html and "text/html" in new._repr_mimebundle_()
    with sklearn.config_context(display="text"):
        assert "text/html" not in new._repr_mimebundle_()
    assert "SigGPClassifier" in make_pipeline(FunctionTransformer(), new)._repr_html_()


def test_defaults_told_in_reports_are_those_of_the_estimator():
    settings = SigGPClassifier().get_params(deep=False)
    assert {name: settings[name] for name in DEFAULTS} == DEFAULTS
    left = {"channel_names", "random_state", "n_jobs", "verbose", "checkpoint", "resume", "cache_dir"}
    assert settings.keys() - DEFAULTS.keys() == left
