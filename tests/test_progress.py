"""The bars on the terminal: one a phase, one below it for a long pass, and none that stays behind."""

import pytest
import torch

import siggpde
from siggpde import SignatureGP, likelihoods
from siggpde.gp.inducing import OrthogonalSignatureFeatures
from siggpde.gp.kernel import SignatureKernel
from siggpde.progress import Progress
from siggpde.training import Exact
from siggpde.training.phases import exact


def running(bar: Progress) -> list[tuple[str, float, float | None]]:
    return [(task.description, task.completed, task.total) for task in bar._bars.tasks]


def test_a_long_pass_has_a_bar_below_that_of_its_phase():
    seen = []
    with Progress(True) as bar:
        bar.start("phase", 3)
        for piece in bar.over(range(10), "pass"):
            seen.append(piece)
            assert running(bar) == [("phase", 0, 3), ("pass", piece, 10)]
        bar.step()
        assert running(bar) == [("phase", 1, 3)]
        assert list(bar.over(range(3), "short")) == [0, 1, 2]
    assert seen == list(range(10))
    assert running(bar) == [("phase", 1, 1)]  # ended early, and done all the same


def test_a_pass_that_fails_leaves_the_phase_as_it_was():
    bar = Progress(True)

    def fail() -> None:
        with bar:
            bar.start("phase", 3)
            bar.step()
            for piece in bar.over(range(10), "pass"):
                _ = 1 // (5 - piece)

    with pytest.raises(ZeroDivisionError):
        fail()
    assert running(bar)[0] == ("phase", 1, 1)


def test_nothing_is_shown_where_nothing_is_wanted(capsys: pytest.CaptureFixture[str]):
    with Progress(False) as bar:
        bar.start("phase", 3)
        assert list(bar.over(range(10), "pass")) == list(range(10))
        bar.step("facts")
    assert capsys.readouterr() == ("", "")


def test_the_closed_form_shows_its_passes(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(exact, "_CHUNK", 4)
    passes = []
    over = Progress.over

    def told(self: Progress, pieces, name: str):
        for number, piece in enumerate(over(self, pieces, name)):
            passes.append((name, number, running(self)[-1]))
            yield piece

    monkeypatch.setattr(Progress, "over", told)
    x = torch.randn(40, 5, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).cumsum(1)
    model = SignatureGP(SignatureKernel(2), OrthogonalSignatureFeatures(2, 7), likelihoods.Gaussian(0.1))
    siggpde.fit(model, (x, x[:, -1, 0]), Exact(), progress=True)
    assert passes == [(name, k, (name, k, 10)) for name in ("adding up", "judging") for k in range(10)]
