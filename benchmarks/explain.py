"""Speed of explanations at equal quality: contributions of segments and channels beside KernelSHAP.

    pip install shap
    python benchmarks/explain.py --data BasicMotions --series 8

Both explain the same function, the difference of the logits of the predicted class and the runner-up, by the same
pieces (10 segments of every channel), which are cut out in the same way. The deletion score of an explanation is the
area below the curve of that difference, in logits, as pieces are cut out, those with the largest contributions first:
small is good. (It is not divided by the difference between its ends: where the ordinary series has the larger one, that
would turn the curve upside down.) KernelSHAP is asked for more and more evaluations, until its mean
score is that of ours with the fewest permutations, or better; the figure is the CPU time of one over that of the other,
resampled over the series. KernelSHAP gets its function in batches, all pieces in its regression (`l1_reg=0`, with which
it scores best), and the latents of the committee, without probabilities.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable

import numpy as np
import torch

from siggpde import SigGPClassifier
from siggpde.datasets import load_dataset
from siggpde.explain import PermutationSettings, deletion_curve
from siggpde.explain.contributions import top_two_classes
from siggpde.explain.posterior import over_members
from siggpde.explain.shapley import Ends, member_logits, plans_of, sample_credits, segment_contributions, segments_of
from siggpde.explain.terms import Terms, stretched, terms_of
from siggpde.series import SeriesBatch

SEGMENTS = 10
PERMUTATIONS = 4  # the fewest that have a sampling error
SAMPLES = (125, 250, 500, 1000, 2168, 4000)  # evaluations of KernelSHAP; 2 * 60 + 2048 are its default for 60 pieces


class Case:
    """One series: the function of masks (n, segments * channels) that is explained, and its deletion score."""

    def __init__(self, terms: Terms, one: SeriesBatch, pair: torch.Tensor) -> None:
        self.terms, self.one, self.pair = terms, one, pair
        length, self.channels = one.values.shape[1:]
        self.of_point = segments_of(length, SEGMENTS, one.values.device)
        self.segments = int(self.of_point[-1]) + 1
        self.reference = stretched(terms.ordinary, length)

    def __call__(self, masks: np.ndarray) -> np.ndarray:
        kept = torch.from_numpy(np.asarray(masks)).bool().view(len(masks), self.segments, self.channels)
        cut = torch.where(kept[:, self.of_point], self.one.values, self.reference)
        logits = over_members(self.terms, member_logits(self.terms, SeriesBatch(cut)))
        return (logits[:, self.pair[0]] - logits[:, self.pair[1]]).numpy()

    def score(self, contributions: np.ndarray) -> float:
        return deletion_curve(self, contributions.ravel()).area

    def kernel_shap(self, samples: int) -> np.ndarray:
        import shap  # noqa: PLC0415 - a peer of this benchmark alone

        pieces = self.segments * self.channels
        np.random.seed(0)  # noqa: NPY002 - it draws from the global generator
        explainer = shap.KernelExplainer(self, np.zeros((1, pieces)))
        return explainer.shap_values(np.ones((1, pieces)), nsamples=samples, l1_reg=0, silent=True)[0]


def contributions(cases: list[Case], batch: SeriesBatch, permutations: int) -> list[np.ndarray]:
    """Contributions alone, as `explain` computes them, without their uncertainty, which KernelSHAP has not."""
    terms, reference = cases[0].terms, cases[0].reference[None]
    plans = plans_of(terms)
    latents, begins = member_logits(terms, batch), member_logits(terms, SeriesBatch(reference))
    explanations = []
    for row, case in enumerate(cases):
        ends = Ends(latents[:, row], reference, begins, torch.zeros(1, dtype=torch.int64))
        settings = PermutationSettings(SEGMENTS, permutations, uncertainty=False)
        sampled = sample_credits(terms, case.one, ends, settings, plans)
        credits = over_members(terms, sampled.credits).mean(0)
        explanations.append((credits[..., case.pair[0]] - credits[..., case.pair[1]]).numpy())
    return explanations


def with_uncertainty(cases: list[Case], batch: SeriesBatch, permutations: int) -> list[np.ndarray]:
    """The same with standard deviations, sampling errors and the main stretches."""
    terms, names = cases[0].terms, [f"channel {c}" for c in range(batch.channels)]
    pairs, classes = torch.stack([case.pair for case in cases]), len(terms.logits.offset)
    settings = PermutationSettings(SEGMENTS, permutations)
    explanations = segment_contributions(terms, batch, names, list(range(classes)), pairs, settings)
    return [explanation.contrast for explanation in explanations]


def measured_together(
    cases: list[Case], batch: SeriesBatch, explain: Callable[[list[Case], SeriesBatch, int], list[np.ndarray]]
) -> tuple[np.ndarray, np.ndarray]:
    """CPU seconds, the same for every series of one call, and deletion scores."""
    start = time.process_time()
    explanations = explain(cases, batch, PERMUTATIONS)
    seconds = (time.process_time() - start) / len(cases)
    return np.full(len(cases), seconds), np.array(
        [case.score(curves) for case, curves in zip(cases, explanations, strict=True)]
    )


def measured(cases: list[Case], explain: Callable[[Case], np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """CPU seconds and deletion scores, of every series."""
    seconds, scores = [], []
    for case in cases:
        start = time.process_time()
        explanations = explain(case)
        seconds.append(time.process_time() - start)
        scores.append(case.score(explanations))
    return np.array(seconds), np.array(scores)


def shown(name: str, seconds: np.ndarray, scores: np.ndarray) -> None:
    print(f"{name:44s} {seconds.mean():8.3f} s a series   deletion {scores.mean():.4f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="BasicMotions")
    parser.add_argument("--series", type=int, default=8, help="test series that are explained")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    data = load_dataset(arguments.data)
    model = SigGPClassifier().fit(data.X_train, data.y_train)
    random = np.random.default_rng(arguments.seed)
    chosen = random.permutation(len(data.X_test))[: arguments.series]
    batch = model.preparation_([data.X_test[row] for row in chosen])
    pairs = top_two_classes(model.committee_.probabilities(batch))
    cases = [Case(terms_of(model.committee_), batch[row : row + 1], pairs[row]) for row in range(len(batch))]
    contributions(cases[:1], batch[:1], PERMUTATIONS)  # the first call of everything
    ours = measured_together(cases, batch, contributions)
    with_std = measured_together(cases, batch, with_uncertainty)
    shown(f"ours, {PERMUTATIONS} permutations", *ours)
    shown(f"ours, {PERMUTATIONS} permutations, with uncertainty", *with_std)
    shown("at random", *measured(cases, lambda case: random.normal(size=case.segments * case.channels)))
    for samples in SAMPLES:
        theirs = measured(cases, lambda case, samples=samples: case.kernel_shap(samples))
        shown(f"KernelSHAP, {samples} evaluations", *theirs)
        if theirs[1].mean() <= ours[1].mean():
            break
    else:
        print(f"KernelSHAP does not reach our score with {SAMPLES[-1]} evaluations: its time is a lower bound")
    for name, curves in (("", ours[0]), (" with uncertainty", with_std[0])):
        draws = random.integers(len(cases), size=(1000, len(cases)))
        ratios = theirs[0][draws].sum(1) / curves[draws].sum(1)
        low, high = np.quantile(ratios, [0.05, 0.95])
        print(f"ours{name}: {theirs[0].sum() / curves.sum():.1f} times as fast ({low:.1f} to {high:.1f})")


if __name__ == "__main__":
    main()
