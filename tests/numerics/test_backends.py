"""The backends: which of them computes, with how many threads, and that all of them give the same numbers.

Instruction sets of the native core agree with each other and with the reference; failure codes, constants and plans of
series are the same in C++ and in Python; CUDA tensors, fake here, take the Triton path or say why they cannot.
"""

import json
import math
import threading
from contextlib import suppress
from typing import Any

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from helpers.random_paths import FAMILIES, make, modest, numbers_from
from helpers.triton_cases import worst
from siggpde.numerics import backend, goursat, inputs, native, reference, triton
from siggpde.numerics.autograd import Pairs
from siggpde.numerics.backend import installation
from siggpde.numerics.core import FEW, core, limited, torch_threads, usual_threads, waits_passively
from siggpde.numerics.inputs import thread_count
from siggpde.numerics.static_kernels import KINDS, KernelSettings
from siggpde.numerics.triton import plan
from siggpde.numerics.triton.plan import PlanRequest, make_plans

CODE = """
import json, sys, warnings
import torch
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import siggpde
    from siggpde.numerics.core import core
    from siggpde.numerics.windows import WindowView, pool_windows
    x = (torch.arange(2 * 9 * 3).double() * 0.7).sin().reshape(2, 9, 3).requires_grad_()
    y = (torch.arange(3 * 6 * 3).double() * 0.3).cos().reshape(3, 6, 3)
    theta = torch.tensor([0.5, 1.0, 2.0]).double()
    fine = {"tol": 1e-11}
    results = [siggpde.signature_kernel_diag(x, log=log, **fine) for log in (False, True)]
    results += [siggpde.signature_kernel(x, y, **fine), siggpde.signature_kernel(x, **fine)]
    for log in (False, True):
        results += siggpde.signature_kernel_diag_scales(x, theta, log=log, **fine)
        results += siggpde.signature_kernel_diag_gradient(x, log=log, **fine)
    results += [torch.autograd.grad(value.sum(), x)[0] for value in results[:4]]
    results.append(siggpde.signature(x, 2))
    lengths = torch.arange(19) % 28 + 3
    path = (torch.arange(19 * 30 * 3).double() ** 1.5).sin().reshape(19, 30, 3).requires_grad_()
    algebra = [siggpde.signature(path, 5, lengths=lengths), siggpde.logsignature(path, 4, lengths=lengths)]
    algebra += [torch.autograd.grad(value.sum(), path)[0] for value in algebra]
    windows = []
    for lift in ("x", "dx", "cum", "zn"):
        view = WindowView(3, ((0, 1), (1,)), 5, 3, 3, 2, lift, True, 20)
        thresholds = torch.linspace(-0.4, 0.4, 3 * view.columns).reshape(3, -1)
        windows += pool_windows(path, view, path_scales=torch.ones(2), thresholds=thresholds, lengths=lengths)
    single = siggpde.signature_kernel_diag(x.detach().float())
print(json.dumps({
    "isa": core and core.isa(),
    "warnings": [str(item.message) for item in caught if "siggpde" in str(item.message)],
    "results": [value.flatten().tolist() for value in results],
    "algebra": [value.flatten().tolist() for value in algebra],
    "windows": [value.flatten().tolist() for value in windows],
    "single": single.tolist(),
}))
"""
needs_core = pytest.mark.skipif(core is None, reason="the native core is not there")
BLOCKED = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name == "siggpde._core":
            raise ImportError("no such thing here")
sys.meta_path.insert(0, Block())
"""


@pytest.fixture(scope="module")
def here() -> dict[str, Any]:
    return numbers_from(CODE)


@pytest.mark.parametrize("isa", ["baseline", "avx2"])
def test_instruction_sets_agree(here: dict[str, Any], isa: str):
    there = numbers_from(CODE, SIGGPDE_ISA=isa)
    if there["isa"] != isa:
        pytest.skip(f"this processor has no {isa}")
    for name in ("results", "algebra", "windows", "single"):
        assert there[name] == here[name]


@pytest.mark.parametrize("blocked", [False, True])
def test_the_reference_agrees_and_without_the_core_there_is_one_warning(here: dict[str, Any], blocked: bool):
    there = numbers_from(BLOCKED + CODE) if blocked else numbers_from(CODE, SIGGPDE_BACKEND="reference")
    assert there["isa"] is None and len(there["warnings"]) == blocked
    for part in ("without its native core (no such thing here)", "pip install --force-reinstall .", "C++20 compiler"):
        assert all(part in warning for warning in there["warnings"])
    ours, theirs = (tuple(map(torch.tensor, side["results"])) for side in (here, there))
    assert worst(theirs, ours) < 1e-8
    for mine, other in zip(here["algebra"], there["algebra"], strict=True):
        torch.testing.assert_close(torch.tensor(mine).double(), torch.tensor(other).double(), rtol=0, atol=1e-12)
    assert there["single"] == pytest.approx(here["single"], rel=1e-5)


@pytest.mark.parametrize(
    ("code", "chosen", "error", "said"),
    [
        (BLOCKED, "native", "ImportError", "no such thing here"),
        ("", "fast", "ValueError", "SIGGPDE_BACKEND is 'fast'; set it to 'native', 'reference' or 'triton'"),
    ],
)
def test_a_backend_that_cannot_be_had_is_refused(code: str, chosen: str, error: str, said: str):
    tried = f"try:\n import siggpde.numerics.signature_kernel\nexcept {error} as e:\n print(json.dumps(str(e)))"
    assert said in numbers_from(f"import json\n{code}\n{tried}", SIGGPDE_BACKEND=chosen)


def test_here_is_native(here: dict[str, Any]):
    assert here["isa"] in ("baseline", "avx2", "avx512", "neon")
    assert here["warnings"] == []
    assert json.dumps(here["results"]).count("NaN") == 0


refinements = pytest.mark.parametrize("refine", [-1, 0, 2])
backends: Any = pytest.mark.parametrize("backend", [reference, native], ids=["reference", "native"])


@backends
@refinements
@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("n", [0, 3])
def test_points_have_kernel_one_and_no_gradient(backend: Any, refine: int, log: bool, n: int):
    x, settings = make("brownian", 0, 3, 1, 2)[:n].requires_grad_(), KernelSettings(None, refine)
    value = backend.diagonal(x, None, settings, log, True)
    for values, slopes, shape in (
        (*backend.diagonal_with_gradient(x.detach(), None, settings, log), x.shape),
        (*backend.diagonal_with_scale_gradient(x.detach(), None, torch.ones(2).double(), settings, log), (n, 2)),
        (value, *torch.autograd.grad(value.sum(), x), x.shape),
    ):
        assert torch.equal(values, torch.full((n,), 0.0 if log else 1.0).double())
        assert torch.equal(slopes, torch.zeros(shape).double())


@backends
@refinements
@pytest.mark.parametrize(("n", "m", "length"), [(0, 3, 4), (3, 0, 4), (0, 0, 4), (2, 3, 1)])
def test_points_and_no_pairs_are_in_the_graph_all_the_same(backend: Any, refine: int, n: int, m: int, length: int):
    x, y = make("brownian", 0, 3, length, 2)[:n].requires_grad_(), make("brownian", 1, 3, 4, 2)[:m].requires_grad_()
    value = backend.gram(Pairs(x, y=y, settings=KernelSettings(None, refine)), True)
    assert torch.equal(value, torch.ones(n, m).double())
    for gradient in torch.autograd.grad(value.sum(), (x, y)):
        assert not gradient.any()


@backends
@pytest.mark.parametrize("words", [0, (), ((),)])
def test_constant_coefficients_are_in_the_graph_all_the_same(backend: Any, words: Any):
    x = make("brownian", 0, 3, 4, 2).requires_grad_()
    value = backend.signature(x, None, words, 1)
    assert value.shape == (3, 0 if words == () else 1)
    assert not torch.autograd.grad(value.sum(), x)[0].any()


@pytest.mark.parametrize(("refine", "size"), [(0, 1000.0), (1, 3e4), (2, 3e4), (-1, 200.0)])
def test_logarithms_beyond_the_range_of_the_value(refine: int, size: float):
    """Values of k above 1e150 are rescaled on the way; log k of the line of length `size` is about 2 size."""
    x, settings = torch.linspace(0, 1, 5).double()[None, :, None] * size, KernelSettings(None, refine)
    expected = reference.diagonal_with_gradient(x, None, settings, True)
    for got, wanted in zip(native.diagonal_with_gradient(x, None, settings, True), expected, strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-5)
    if refine == -1:
        assert abs(expected[0] - 2 * size) < 5


def constants_of(module) -> dict[str, object]:
    return {name.lower(): value for name, value in vars(module).items() if name.isupper() and not name.startswith("_")}


@needs_core
def test_constants_are_those_of_the_core():
    assert {name: number for number, name in enumerate(KINDS)} == core.static_kinds
    assert constants_of(inputs) == {**core.failure_codes, "floats": inputs.FLOATS}
    longest = {
        "overflowing_segment_f64": goursat.LONGEST_SEGMENT[torch.float64],
        "overflowing_segment_f32": goursat.LONGEST_SEGMENT[torch.float32],
        "overflowing_segment_log": goursat.LONGEST_SEGMENT_OF_LOG,
    }
    assert {**constants_of(plan), **longest} == core.plan_constants


def cuda_batch(dtype: torch.dtype = torch.float64) -> torch.Tensor:
    """A batch that says it is on a GPU and has no numbers."""
    with FakeTensorMode():
        return torch.empty(2, 3, 2, dtype=dtype, device="cuda")


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr(backend, "requested_backend", "")
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    return monkeypatch


def missing(environment: pytest.MonkeyPatch, reason: str | None) -> None:
    environment.setattr(triton, "why_not_importable", lambda: reason)


def test_cuda_tensors_take_triton_and_others_do_not(environment: pytest.MonkeyPatch):
    missing(environment, None)
    assert backend.uses_triton(cuda_batch()) and backend.uses_triton(cuda_batch(torch.float32))
    assert not any(backend.uses_triton(torch.zeros(2, 3, 2, device=device)) for device in ("cpu", "meta"))
    missing(environment, "triton is not installed")  # then a tensor is refused and not moved
    with pytest.raises(RuntimeError, match=r'triton is not installed; pip install "triton>=3.5", or set SIGGPDE_'):
        backend.uses_triton(cuda_batch())
    environment.setattr(backend, "requested_backend", "reference")
    assert not backend.uses_triton(cuda_batch())
    missing(environment, None)
    environment.setattr(backend, "requested_backend", "triton")  # on the CPU it is the interpreter or nothing
    with pytest.raises(RuntimeError, match=r"only in Triton's interpreter, TRITON_INTERPRET=1"):
        backend.uses_triton(torch.zeros(2, 3, 2))
    environment.setenv("TRITON_INTERPRET", "1")
    assert backend.uses_triton(torch.zeros(2, 3, 2))


@pytest.mark.parametrize("operation", ["gram", "diag", "scales", "gradient", "signature", "extend"])
def test_every_operation_asks(environment: pytest.MonkeyPatch, operation: str):
    """Each refuses a CUDA tensor where Triton is missing, before anything is computed or moved."""
    import siggpde  # noqa: PLC0415

    missing(environment, "not here")
    x: Any = cuda_batch()
    with x.fake_mode:
        start = torch.empty(2, 2, dtype=x.dtype, device="cuda")
    calls: dict[str, Any] = {
        "gram": lambda: siggpde.signature_kernel(x),
        "diag": lambda: siggpde.signature_kernel_diag(x),
        "gradient": lambda: siggpde.signature_kernel_diag_gradient(x),
        "scales": lambda: siggpde.signature_kernel_diag_scales(x, torch.ones(2)),
        "signature": lambda: siggpde.signature(x, 2),
        "extend": lambda: siggpde.extend(start, x, [(), (0,)]),
    }
    with pytest.raises(RuntimeError, match=r"x is on cuda.*cannot be used: not here"), x.fake_mode:
        calls[operation]()


@pytest.mark.parametrize(
    ("importable", "devices", "interpreter", "reason"),
    [
        ("triton is not installed", True, "0", "triton is not installed"),
        (None, False, "0", "torch sees no CUDA device"),
        (None, True, "0", None),
        (None, False, "1", None),
    ],
)
def test_info_says_why(
    environment: pytest.MonkeyPatch, importable: str | None, devices: bool, interpreter: str, reason: str | None
):
    missing(environment, importable)
    environment.setattr(torch.cuda, "is_available", lambda: devices)
    environment.setenv("TRITON_INTERPRET", interpreter)
    assert installation()["backends"]["triton"] == {"available": reason is None, "reason": reason}


def test_importing_siggpde_does_not_import_triton():
    code = "import json, sys, siggpde, siggpde.numerics.signature_kernel; print(json.dumps('triton' in sys.modules))"
    assert numbers_from(code) is False


PASSIVE = {"OMP_WAIT_POLICY": "Passive "}


def test_few_series_leave_torch_one_thread_and_the_core_all_of_them_in_one_thread_until_the_end():
    before, seen = torch.get_num_threads(), []
    with suppress(KeyError), limited(3, rows=40):
        assert (thread_count(None), thread_count(2), torch.get_num_threads()) == (3, 2, 1)
        with limited(2):
            assert (usual_threads(), torch.get_num_threads()) == (2, 2)
        with limited(1009, rows=40):
            other = threading.Thread(target=lambda: seen.append(usual_threads()))
            other.start()
            other.join()
            assert usual_threads() == 1009 and seen[0] != 1009
        assert (usual_threads(), torch.get_num_threads()) == (3, 1)
        raise KeyError
    assert usual_threads() == torch.get_num_threads() == before


@pytest.mark.parametrize("rows", [1, FEW, FEW + 1, 10**6])
@pytest.mark.parametrize("environment", [{}, PASSIVE, {"GOMP_SPINCOUNT": "0"}, {"KMP_BLOCKTIME": "200"}])
def test_torch_has_more_threads_for_many_series_where_they_sleep(rows, environment):
    sleeps = environment in (PASSIVE, {"GOMP_SPINCOUNT": "0"})
    assert waits_passively(environment) == sleeps
    assert torch_threads(4, rows, environment) == (4 if rows > FEW and sleeps else 1)
    assert torch_threads(4, None, environment) == 4


LENGTHS = st.lists(st.integers(1, 12), min_size=1, max_size=6)


def scheme_and_bound(lengths: list[float], path_length: float, tol: float, diag: bool) -> tuple[int, float]:
    """The first scheme whose bound of the error is within the tolerance, or the last: csrc/plan.cpp in plain Python."""
    degrees = core.plan_constants["scheme_degree"]
    longest = max(lengths)
    fourth, eighth = sum(r**4 for r in lengths), sum(r**8 for r in lengths)
    mean = math.sqrt(eighth / fourth) if fourth > 0 else 0.0
    value = 0.0
    for scheme in range(core.plan_constants["first_legendre_scheme"], len(degrees)):
        m = degrees[scheme]
        powers = {2: fourth * mean**0.5, 3: fourth * mean**1.5}.get(m, eighth * longest ** (2 * m - 7))
        value = 2 * (math.factorial(m) / math.factorial(2 * m)) ** 2 / (2 * m + 1) * powers
        if longest > 1:
            value *= longest**6 * (1 if m == 2 else longest if m == 3 else 10 * longest ** (m - 4))
        if diag:
            above = path_length ** (m + 1) / math.factorial(m + 1)
            value *= min(1.0, path_length**m / math.factorial(m)) * min(1.0, above)
        if value <= tol:
            return scheme, value
    return len(degrees) - 1, value


def expected_plan(steps: list[float], tol: float, diag: bool) -> tuple[int, int]:
    """Scheme and number of pieces of a path whose segments have these lengths."""
    constants = core.plan_constants
    first, work = constants["first_legendre_scheme"], constants["cell_work"]
    if not steps or max(steps) == 0:
        return first, len(steps)
    path_length = math.sqrt(len(steps) * sum(r * r for r in steps))
    longest, allowed = max(steps), constants["longest_piece"]
    scheme, bound, pieces, best = first, 0.0, len(steps), 0.0
    if longest <= allowed:
        scheme, bound = scheme_and_bound(steps, path_length, tol, diag)
        if constants["scheme_degree"][scheme] <= 4 and bound <= tol:
            return scheme, pieces
        best = work[scheme] * len(steps) ** 2
    good = longest <= allowed and bound <= tol
    for factor in constants["cut_factors"]:
        piece = min(longest, allowed) / factor
        if piece >= longest:
            continue
        counts = [max(1, math.ceil(r / piece - 1e-15)) for r in steps]
        total = sum(counts)
        if good and work[first] * total**2 >= best:
            break
        parts = [r / c for r, c in zip(steps, counts, strict=True) for _ in range(c)]
        new, value = scheme_and_bound(parts, path_length, tol, diag)
        cost, meets = work[new] * total**2, value <= tol
        if best > 0 and (not meets or cost >= best if good else not meets and value >= bound):
            continue
        scheme, bound, pieces, best, good = new, value, total, cost, meets
    return scheme, pieces


def plans(series: list[Tensor], tol: float, diag: bool) -> list[tuple[int, int]]:
    return [expected_plan(one.diff(dim=0).norm(dim=1).tolist(), tol, diag) for one in series]


@needs_core
@given(
    lengths=LENGTHS, seed=st.integers(0, 10**6), size=st.floats(0.01, 20), tol=st.floats(-13, -2), diag=st.booleans(),
    family=st.sampled_from(sorted(FAMILIES)),
)  # fmt: skip
@modest
def test_plans_are_those_of_the_core(lengths: list[int], seed: int, size: float, tol: float, diag: bool, family: str):
    series, tol = [make(family, seed + i, 1, length, 2, size)[0] for i, length in enumerate(lengths)], 10**tol
    segments = torch.tensor(lengths) - 1
    squared = torch.zeros(len(series), max(lengths) - 1, dtype=torch.float64)
    for row, points in zip(squared, series, strict=True):
        row[: len(points) - 1] = points.diff(dim=0).square().sum(1)
    # A segment as long as a piece may be is cut or not by rounding.
    assume(bool(((squared.sqrt() - core.plan_constants["longest_piece"]).abs() > 1e-9).all()))
    request = PlanRequest(-1, tol, diag, math.inf)
    computed = make_plans(squared, segments, request, torch.full((len(series),), tol, dtype=torch.float64))
    assert list(zip(computed.scheme.tolist(), computed.steps.tolist(), strict=True)) == plans(series, tol, diag)


@pytest.mark.parametrize("refine", [0, 1, 4])
def test_finite_differences_have_two_to_the_power_of_refine_pieces_a_segment(refine: int):
    squared = torch.rand(3, 7, dtype=torch.float64)
    request = PlanRequest(refine, 1e-8, False, math.inf)
    computed = make_plans(squared, torch.full((3,), 7), request, torch.full((3,), 1e-8, dtype=torch.float64))
    assert computed.steps.tolist() == [7 * 2**refine] * 3
