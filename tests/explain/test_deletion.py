"""Deletion and insertion curves: of known functions, and of explanations of real series beside simpler ones."""

import numpy as np
import pytest
import torch

from siggpde import SigGPClassifier
from siggpde.datasets import load_dataset
from siggpde.explain.cuts import average_series, segments_of, stretched
from siggpde.explain.deletion import deletion_curve
from siggpde.explain.walks import logit_means
from siggpde.series import SeriesBatch

SERIES = 24


def test_areas_of_a_sum_are_those_of_its_terms():
    terms = np.array([4.0, 3.0, 2.0, 1.0])

    def f(masks: np.ndarray) -> np.ndarray:
        return masks @ terms

    best, worst = deletion_curve(f, terms), deletion_curve(f, -terms)
    assert best.values.tolist() == pytest.approx([10, 6, 3, 1, 0])
    assert best.area == pytest.approx((5 + 6 + 3 + 1) / 4) and best.area < worst.area
    assert deletion_curve(f, terms, insertion=True).values.tolist() == pytest.approx([0, 4, 7, 9, 10])


@pytest.mark.parametrize("wrong", [[], [[1.0]], [np.nan, 1.0]])
def test_contributions_must_be_numbers(wrong: list):
    with pytest.raises(ValueError, match="contributions must be finite"):
        deletion_curve(lambda masks: masks.sum(1), wrong)


def by_gradients(f, values: torch.Tensor, reference: torch.Tensor, of_point: torch.Tensor) -> np.ndarray:
    """Gradient times (series - reference), by finite differences along every piece, (segments * channels,)."""
    segments, channels = int(of_point[-1]) + 1, values.shape[1]
    step, moved = 1e-2, []
    for segment in range(segments):
        for channel in range(channels):
            copy = values.clone()
            inside = of_point == segment
            copy[inside, channel] -= step * (values - reference)[inside, channel]
            moved.append(copy)
    found = f(torch.stack([values, *moved]))
    return (found[0] - found[1:]) / step


@pytest.mark.slow
@pytest.mark.parametrize("name", ["GunPoint", "BasicMotions", "UWaveGestureLibrary"])
def test_explanations_of_real_series_beat_gradients_and_permutations(name: str):
    try:
        data = load_dataset(name, download=False)
    except (FileNotFoundError, ValueError) as error:
        pytest.skip(f"the data set is not there: {error}")
    model = SigGPClassifier().fit(data.X_train, data.y_train)
    random = np.random.default_rng(0)
    chosen = [data.X_test[row] for row in random.permutation(len(data.X_test))[:SERIES]]
    batch = model.preparation_(chosen)
    reference = stretched(average_series(model.committee_), batch.values.shape[1])
    areas = []
    for row, each in enumerate(model.explain(chosen)):
        there = each.segments
        assert there is not None and there.classes is not None
        first, second = (there.classes.index(label) for label in (each.label, each.runner_up))
        values = batch.values[row]
        segments, channels = there.contrast.shape
        of_point = segments_of(len(values), segments, values.device)

        def latent(series: torch.Tensor, first: int = first, second: int = second) -> np.ndarray:
            logits = logit_means(model.committee_, SeriesBatch(series))
            return (logits[:, first] - logits[:, second]).numpy()

        def f(masks: np.ndarray, values=values, of_point=of_point, latent=latent, channels=channels) -> np.ndarray:
            kept = torch.from_numpy(masks).view(len(masks), -1, channels)[:, of_point]
            return latent(torch.where(kept, values, reference))

        own = there.contrast.ravel()
        ways = [own, by_gradients(latent, values, reference, of_point), random.permutation(own)]
        areas.append([[deletion_curve(f, way, insertion=after).area for way in ways] for after in (False, True)])
    deletion, insertion = np.mean(areas, axis=0)
    print(f"{name}: deletion {deletion.round(2)}, insertion {insertion.round(2)} (ours, gradient, random)")
    assert deletion[0] < min(deletion[1:]) and insertion[0] > max(insertion[1:])
