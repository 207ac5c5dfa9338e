"""The public surface: names that users import stay where they are."""

import inspect
import pkgutil
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import siggpde
from siggpde import SigGPClassifier, SigGPRegressor

PUBLIC = {
    "siggpde": (
        "Drift Exact History LandmarkFeatures NaturalGradients NewtonBasis OrthogonalSignatureFeatures "
        "PaperSchedule SigGPClassifier SigGPRegressor SignatureGP SignatureKernel SignatureTransformer SparseGP "
        "WindowSignatureTransformer average_points connect drift extend fit "
        "likelihoods load logsignature logsignature_basis predict_stream series signature "
        "signature_kernel signature_kernel_diag signature_kernel_diag_gradient signature_kernel_diag_scales words"
    ),
    "siggpde.likelihoods": ("Bernoulli Gaussian Likelihood Poisson RobustMax Softmax StudentT from_gpytorch"),
    "siggpde.series": "PathOptions PathTransform Preparation SeriesBatch Spectrogram collect fill_gaps pool",
    "siggpde.io": "NotStreamable SeriesData SeriesStream from_frame groups_by_time read stream write",
    "siggpde.explain": (
        "ClassEffects Contribution Counterfactual Effect Importance Importances Neighbour PaperReading "
        "PermutationSettings SegmentContributions SeriesExplanation Stretch WalkSettings WordWeight deletion_curve "
        "explain_series global_importance paper_reading"
    ),
    "siggpde.metrics": (
        "CalibrationBins ClassificationMetrics RegressionMetrics RiskCoverage SetMetrics calibration_bins "
        "classification_metrics regression_metrics risk_coverage set_metrics"
    ),
    "siggpde.plots": (
        "kernel_directions plot_calibration plot_confusion plot_explanation plot_history plot_importance "
        "plot_intervals plot_map plot_novelty plot_pit plot_risk_coverage plot_series plot_sizes plot_trials "
        "plot_weights require_matplotlib"
    ),
    "siggpde.datasets": "Dataset data_folders find_dataset load_dataset load_pendigits read_dataset",
    "siggpde.training": "Exact History NaturalGradients PaperSchedule Record fit",
    "siggpde_paper.gpsig": "InducingSequences InducingTensors TruncatedKernel gpsig",
    "siggpde.views": (
        "Block KernelView Part PathView Rows TransformerView View WindowBlock WindowFeatures WindowScaler "
        "WindowSettings WindowsView"
    ),
    "siggpde.numerics.words": (
        "check_words count_up_to letter_counts parents prefix_closure word_names words words_up_to"
    ),
}
MODULES = {"likelihoods", "series", "views"}


@pytest.mark.parametrize("module", PUBLIC)
def test_public_names_are_where_they_were(module: str):
    source = import_module(module)
    for name in PUBLIC[module].split():
        value = getattr(source, name)
        if name not in MODULES:
            assert callable(value), f"{module}.{name} is {value!r}, not what it is called after"


def test_the_reference_has_every_public_name():
    pages = (Path(__file__).parents[1] / "docs" / "api").glob("*.md")
    listed = {name for page in pages for name in re.findall(r"^::: (\S+)$", page.read_text("utf-8"), re.MULTILINE)}
    shown = {name.rpartition(".")[2] for name in listed}
    assert {name for names in PUBLIC.values() for name in names.split()} - MODULES <= shown
    for name in listed:
        module, _, attribute = name.rpartition(".")
        assert hasattr(import_module(module), attribute), name


def test_dir_lists_what_can_be_imported():
    assert set(PUBLIC["siggpde"].split()) <= set(dir(siggpde))
    for name in siggpde.__all__:  # pyright: ignore[reportAttributeAccessIssue]
        assert getattr(siggpde, name) is not None
    with pytest.raises(AttributeError, match="nonsense"):
        _ = siggpde.nonsense  # pyright: ignore[reportAttributeAccessIssue]


def test_no_function_is_hidden_by_a_module_of_its_name():
    """Whatever is imported first: no module at the top level has the name of a public function."""
    modules = {module.name for module in pkgutil.iter_modules(siggpde.__path__)}
    functions = set(PUBLIC["siggpde"].split()) - MODULES
    assert modules & functions == set()
    assert modules >= MODULES


def documented(kind: type, section: str) -> set[str]:
    """The names that a section of a class's docstring describes."""
    text = re.split(rf"^{section}\n-+$", inspect.getdoc(kind) or "", flags=re.MULTILINE)[1]
    body = re.split(r"^[\w ]+\n-+$", text, flags=re.MULTILINE)[0]
    return {name for names in re.findall(r"^([\w, ]+) : ", body, re.MULTILINE) for name in names.split(", ")}


@pytest.mark.parametrize("kind", [SigGPClassifier, SigGPRegressor])
def test_docstrings_of_estimators_describe_all_settings_and_fitted_attributes(kind: Any):
    estimator = kind(n_features=20, members=1).fit(np.random.default_rng(0).normal(size=(12, 9)), np.arange(12) % 2)
    fitted = {name for name in vars(estimator) if name.endswith("_") and name != "metadata_"}  # one of aeon's
    assert documented(kind, "Parameters") == set(estimator.get_params())
    assert documented(kind, "Attributes") == fitted
