"""What a person sees of the progress: on stderr, only where it is wanted, and passes of the closed form too."""

import pytest
import torch

import siggpde
from siggpde import SignatureGP, likelihoods
from siggpde.gp import exact
from siggpde.gp.features import OrthogonalSignatureFeatures
from siggpde.gp.kernel import SignatureKernel
from siggpde.training import Exact
from siggpde.utils import progress
from siggpde.utils.progress import Progress


def test_phases_and_passes_are_shown_on_stderr_and_errors_get_through(capsys: pytest.CaptureFixture[str]):
    with Progress(True) as bar:
        bar.start("phase", 3)
        bar.step("ELBO -1.5")
        bar.start("next phase", 2)
        bar.step()
        bar.step()
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "phase" in shown.err and "ELBO -1.5" in shown.err
    assert "1/1" in shown.err  # a phase that ends early is complete all the same
    assert "next phase" in shown.err and "2/2" in shown.err
    with Progress(True) as bar:
        bar.start("phase", 1)
        assert list(bar.over(range(10), "pass")) == list(range(10))
        bar.step()
    assert "pass" not in capsys.readouterr().err.splitlines()[-1]

    def fail() -> None:
        with Progress(True) as bar:
            bar.start("phase", 3)
            for piece in bar.over(range(10), "pass"):
                _ = 1 // (5 - piece)

    with pytest.raises(ZeroDivisionError):
        fail()
    assert "phase" in capsys.readouterr().err


def test_lines_without_control_characters_where_there_is_no_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    clock = iter(range(0, 100, 3))
    monkeypatch.setattr(progress.time, "monotonic", lambda: float(next(clock)))
    with Progress(None) as bar:
        bar.start("views", 2)
        bar.step("about half")
        bar.step()
        assert list(bar.over(range(3), "pass")) == [0, 1, 2]
    shown = capsys.readouterr()
    lines = shown.err.splitlines()
    assert shown.out == "" and lines[0] == "views: 1 of 2, 6 s, about half" and lines[1].startswith("views: 2 of 2, ")
    assert lines[2].startswith("views, pass: 1 of 3, ") and len(lines) == 5
    assert not any(ord(letter) < 32 for line in lines for letter in line)


@pytest.mark.parametrize("wanted", [False, None], ids=["unwanted", "no time"])
def test_nothing_is_shown_where_nothing_is_wanted_or_all_takes_no_time(
    wanted: bool | None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    if wanted is None:
        monkeypatch.setattr(progress.time, "monotonic", lambda: 5.0)
    with Progress(wanted) as bar:
        bar.start("views", 2)
        assert list(bar.over(range(10), "pass")) == list(range(10))
        bar.step("note")
        bar.step()
    assert capsys.readouterr() == ("", "")


def test_the_closed_form_goes_over_its_series_in_passes(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(exact, "_CHUNK", 4)
    passes: list[tuple[str, int]] = []
    over = Progress.over

    def counted(self: Progress, pieces, name: str):
        passes.append((name, len(pieces)))
        return over(self, pieces, name)

    monkeypatch.setattr(Progress, "over", counted)
    x = torch.randn(40, 5, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).cumsum(1)
    model = SignatureGP(SignatureKernel(2), OrthogonalSignatureFeatures(2, 7), likelihoods.Gaussian(0.1))
    siggpde.fit(model, (x, x[:, -1, 0]), Exact(), progress=False)
    assert passes == [("adding up", 10), ("ELBO", 10)]
