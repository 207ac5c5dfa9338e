"""Checkpoints, from which a fit goes on with bitwise the same steps: a line that says what the file is, one with the
SHA-256 of the rest, and the rest as `torch.save` writes it; a damaged file is an error."""

import hashlib
import io
import time
from pathlib import Path
from typing import Any

import torch

from siggpde.gp.features import OrthogonalSignatureFeatures
from siggpde.gp.kernel import SignatureKernel
from siggpde.gp.model import AnyGP
from siggpde.gp.phases import Phase
from siggpde.gp.trainer import History, Trainer
from siggpde.gp.variational import VariationalGaussian
from siggpde.utils.files import atomic_write

_FORMAT = 5
_MAGIC = b"siggpde checkpoint, SHA-256 of what follows:\n"
_DIGEST = 64


def describe(model: AnyGP) -> tuple[Any, ...]:
    """What a model is, apart from everything that training changes."""
    kernel, features, likelihood = model.kernel, model.features, model.likelihood
    learned = [name for part in (kernel, likelihood) for name, p in part.named_parameters() if p.requires_grad]
    try:
        given = likelihood.settings()
    except ValueError:  # one that cannot be saved by its settings
        given = {"name": str(likelihood)}
    learnable = {*likelihood.calibrated, *(name.removeprefix("log_") for name in learned)}
    fixed = {key: value for key, value in given.items() if key not in learnable}
    q = model.variational.covariance, str(model.dtype)
    return _settings_of(kernel), _settings_of(features), (type(likelihood).__name__, fixed, learned), q


def _settings_of(part: Any) -> tuple[Any, ...]:
    if isinstance(part, SignatureKernel):
        return part.channels, part.words, part.normalized, part.tol
    if isinstance(part, OrthogonalSignatureFeatures):
        return part.order, part.rank, len(part.words) if part.order == "energy" else part.words
    return type(part).__name__, part.extra_repr()


class Checkpoint:
    """A file that a fit is saved to, with the `fingerprint` of data and settings that a resumed fit must share."""

    def __init__(self, path: Path, seconds: float, fingerprint: str) -> None:
        self.path, self.seconds, self.fingerprint = path, seconds, fingerprint
        self.saved = time.perf_counter()

    def save(self, trainer: Trainer, phase: Phase[Any] | None) -> None:
        """Writes the state of the fit and of the running `phase` (None when all are done), whole or not at all."""
        model = trainer.model
        state = {
            "format": _FORMAT,
            "fingerprint": self.fingerprint,
            "words": [list(word) for word in getattr(model.features, "words", ())],
            "model": model.state_dict(),
            "phase": trainer.phase,
            "iteration": trainer.iteration,
            "phase_state": {} if phase is None else dict(vars(phase.state)),
            "minibatches": trainer.minibatches.state_dict(),
            "history": trainer.history.to_dict(),
            "seconds": trainer.seconds,
            "reference": trainer.cache.reference,
            "pool": [list(word) for word in trainer.cache.pool],
        }
        write_whole(self.path, state)
        self.saved = time.perf_counter()


def write_whole(path: Path, state: dict[str, Any]) -> None:
    """Writes a state so that the file is either the old one or the whole new one, whatever happens meanwhile."""
    path.parent.mkdir(parents=True, exist_ok=True)
    buffer = io.BytesIO()  # torch would hide the error of a failed write
    torch.save(state, buffer)
    content = buffer.getbuffer()
    head = _MAGIC + hashlib.sha256(content).hexdigest().encode() + b"\n"
    with atomic_write(path, lambda: len(head) + len(content)) as file:
        file.write(head)
        file.write(content)


def read_checkpoint(path: Path, fingerprint: str) -> dict[str, Any] | None:
    """Reads a checkpoint of this fit to the CPU, without executing anything; None where there is no file."""
    reason, state = "", None
    try:
        with open(path, "rb") as file:
            begin, written, content = file.read(len(_MAGIC)), file.read(_DIGEST + 1), file.read()
        if begin != _MAGIC:
            zipped = begin.startswith(b"PK")  # as torch.save begins
            reason = "it has no hash: is it of an earlier version?" if zipped else "it does not begin like one"
        elif written != hashlib.sha256(content).hexdigest().encode() + b"\n":
            reason = "it is not as it was written: its SHA-256 differs"
        else:
            state = torch.load(io.BytesIO(content), weights_only=True, map_location="cpu")
    except FileNotFoundError:
        return None
    except Exception as error:
        reason = type(error).__name__
    if reason:
        fix = "delete it to compute anew what it kept, or start without resume"
        raise ValueError(f"{path} is not a readable checkpoint ({reason}); {fix}")
    if not isinstance(state, dict) or state.get("format") != _FORMAT:
        given = state.get("format") if isinstance(state, dict) else type(state).__name__
        raise ValueError(f"{path}: format {given!r} is not the one of this version, {_FORMAT}; start without resume")
    if state["fingerprint"] != fingerprint:
        raise ValueError(
            f"{path} was made with other series, targets or settings; give the same ones, or start without resume"
        )
    return state


def restore(trainer: Trainer, state: dict[str, Any]) -> None:
    """Puts the state of a checkpoint, but for that of its phase, into a trainer made with the same arguments."""
    model, values = trainer.model, state["model"]
    if isinstance(model.features, OrthogonalSignatureFeatures):
        model.features.choose([tuple(word) for word in state["words"]])
        model.features.rotate(values.get("features.basis"))
    old = model.variational
    size = values["variational.mean"].shape[1]
    model.variational = VariationalGaussian(old.latents, size, old.covariance, model.dtype, model.device)
    model.load_state_dict(values)
    trainer.phase, trainer.iteration = state["phase"], state["iteration"]
    trainer.minibatches.load_state_dict(state["minibatches"])
    trainer.history.__dict__.update(History.from_dict(state["history"]).__dict__)
    trainer.earlier_seconds = state["seconds"]
