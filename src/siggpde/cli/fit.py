"""`siggpde fit`."""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from siggpde.cli import options
from siggpde.cli.console import (
    Interrupted,
    WrongCall,
    check_output_file,
    import_quickly,
    print_result,
    resume_command,
    summary_table,
)
from siggpde.cli.info import estimator_summary, member_table, model_rows
from siggpde.cli.options import option, read_config
from siggpde.cli.report import SUFFIXES
from siggpde.gp import LikelihoodName, names_for
from siggpde.utils.files import PART_SUFFIX, locked

if TYPE_CHECKING:
    import numpy as np

    from siggpde.distributed.ranks import Ranks
    from siggpde.estimators import SigGPClassifier, SigGPRegressor
    from siggpde.io import SeriesData


log = logging.getLogger(__name__)

_model = partial(option, rich_help_panel="The model")
_paper = partial(option, rich_help_panel="Training, with --method paper")
_run = partial(option, rich_help_panel="The run")
_LIKELIHOOD = (
    "auto: in closed form. --method paper: robustmax (for two classes bernoulli) or softmax for classes; gaussian, "
    "student_t or poisson for numbers."
)
_REPORT = "Write a report, by default report.html: on the test series of DATA if it has some, else on left-out series."
_KEEP_SERIES = "Whether the model may contain training series; without them it has no kernel views."
_RELATED = "Related series, such as overlapping windows: leave out each family as a group, or none, or refuse them."
_CONFIG = "Options by name, at the top or in a table called fit; the command line overrides them."
_SUFFIX = ".checkpoint"
_CHECKPOINT_FILES = re.compile(rf"member-\d+\.pt({PART_SUFFIX})?")
_METHOD = "views, or paper: SigGPDE as published, which trains much longer."
_N_FEATURES = "At most N words in a view of paths (auto: 800); --method paper: N words (auto: 500)."
_CLASS_WEIGHT = "Give rare classes as much weight as common ones."
_SPECTROGRAM = "Replace channels by their spectrograms, as rate=2000,nfft=256."
_EVALUATE_EVERY = "Look at the validation series every N iterations; auto: 20 times a phase."
_VALIDATION = "The share of series that judges the hyperparameters; auto: 0.2."
_THETA = "Where the scales start: one, or one a channel, time first."
_SCALE = "Standardise channels over the training set, or in every series."
_TIME_LIMIT = "About how long the fit may take; what would take longer is left out."
_EXACT = "Of at most N training series all count, of more landmarks stand for all."
_CACHE_DIR = "--method paper: keep signatures there for later fits of the same series."


@options.command
def fit(
    data: options.Data,
    output: Annotated[Path, option("The folder to save the model in.", "MODEL")],
    read_options: options.ReadOptions,
    groups: options.Groups = None,
    groups_by_time: options.GroupsByTime = None,
    sample_weight: options.SampleWeight = None,
    facts: options.Facts = None,
    task: Annotated[options.Task, _model(options.TASK, "NAME")] = "auto",
    method: Annotated[Literal["views", "paper"], _model(_METHOD, "NAME")] = "views",
    likelihood: Annotated[LikelihoodName, _model(_LIKELIHOOD, "NAME")] = LikelihoodName.auto,
    members: Annotated[str, _model("The largest number of models that are averaged.", "N|auto")] = "auto",
    n_features: Annotated[str, _model(_N_FEATURES, "N|auto")] = "auto",
    class_weight: Annotated[Literal["balanced"] | None, _model(_CLASS_WEIGHT)] = None,
    mask: Annotated[bool, _model("Tell the model where values are missing.", name="--mask")] = False,
    max_points: Annotated[int, _model("Average longer series down to N points; 0: never.", "N", min=0)] = 1000,
    spectrogram: Annotated[str | None, _model(_SPECTROGRAM, "NAME=X,..")] = None,
    max_iter: Annotated[str, _paper("The iterations of a phase; auto: 5000.", "N|auto")] = "auto",
    batch_size: Annotated[str, _paper("The series of a minibatch; auto: 50.", "N|auto")] = "auto",
    learning_rate: Annotated[str, _paper("The rate of Nadam; auto: 0.001.", "X|auto")] = "auto",
    evaluate_every: Annotated[str, _paper(_EVALUATE_EVERY, "N|auto")] = "auto",
    validation: Annotated[str, _paper(_VALIDATION, "SHARE|auto")] = "auto",
    theta: Annotated[str, _paper(_THETA, "X[,X..]|auto")] = "auto",
    scale: Annotated[Literal["set", "series"], _paper(_SCALE)] = "set",
    dtype: Annotated[Literal["auto", "float32", "float64"], _paper("The precision of the weights.")] = "auto",
    time_limit: Annotated[float | None, _run(_TIME_LIMIT, "SECONDS")] = None,
    seed: Annotated[int, _run("Two runs with the same seed give the same model.", "N", min=0)] = 0,
    device: Annotated[str, _run("Where to compute: auto, cpu, cuda, cuda:1, ...")] = "auto",
    jobs: Annotated[int, _run("Threads; -1 is one per core.", "N")] = -1,
    resume: Annotated[bool, _run("Continue an interrupted fit of --method paper.", name="--resume")] = False,
    keep_series: Annotated[bool, _model(_KEEP_SERIES, name="--keep-series/--no-keep-series")] = True,
    related: Annotated[Literal["group", "ignore", "error"], _model(_RELATED)] = "group",
    exact: Annotated[int, _model(_EXACT, "N", min=0)] = 10_000,
    cache_dir: Annotated[Path | None, _run(_CACHE_DIR, "FOLDER")] = None,
    report: Annotated[Path | None, _run(_REPORT, "[FILE.html]")] = None,
    config: Annotated[Path | None, _run(_CONFIG, "FILE.toml", callback=read_config, is_eager=True)] = None,
    force: options.Force = False,
    as_json: options.AsJson = False,
) -> None:
    """Learn from labelled series, and save the model.

    With --method paper the folder MODEL.checkpoint keeps the state of an interrupted fit, and --resume continues it.
    """
    read_options = read_options.with_groups(groups, groups_by_time, sample_weight, facts)
    inputs = [*read_options.files(data), *([] if config is None else [config])]
    if os.environ.get("RANK", "0") == "0":  # other ranks write nothing
        check_output_file(report, force, SUFFIXES, "--report", inputs)
    if time_limit is not None and not 0 < time_limit < float("inf"):
        raise WrongCall(f"--time-limit takes seconds above 0; got {time_limit:g}")
    settings = {
        "method": method,
        "likelihood": likelihood.value,
        "members": _number_or_auto("--members", members, 1),
        "n_features": _number_or_auto("--n-features", n_features, 2),
        "class_weight": class_weight,
        "mask": mask,
        "max_points": max_points or None,
        "spectrogram": None if spectrogram is None else _fields("--spectrogram", spectrogram),
        "max_iter": _number_or_auto("--max-iter", max_iter, 1),
        "batch_size": _number_or_auto("--batch-size", batch_size, 1),
        "learning_rate": _numbers_or_auto("--learning-rate", learning_rate),
        "evaluate_every": _number_or_auto("--evaluate-every", evaluate_every, 1),
        "validation": _numbers_or_auto("--validation", validation),
        "theta": _numbers_or_auto("--theta", theta, many=True),
        "time_limit": time_limit,
        "random_state": seed,
        "device": device,
        "dtype": dtype,
        "n_jobs": jobs,
        "cache_dir": cache_dir,
        "keep_series": keep_series,
        "related": related,
        "exact": exact,
    }
    if scale == "series" and method != "paper":
        raise WrongCall("--scale series is for --method paper; leave it out")
    import_quickly("siggpde.cli.data", "siggpde.estimators.base")
    if scale == "series":
        from siggpde.estimators.paper_method import PAPER_PATH

        settings["transforms"] = replace(PAPER_PATH, scale=scale)
    from siggpde.cli.processes import connected_ranks

    with connected_ranks() as ranks:
        with ranks.together():
            if ranks.leads:
                check_model_folder(output, force, inputs)
        summary = _fit(
            options.ModelCall(output, data, read_options, force=force), task, settings, resume, report, ranks
        )
    if not ranks.leads:
        return
    rows = [("data", summary["data"]), *model_rows(summary), ("seconds", f"{summary['seconds']:.1f}")]
    rows.append(("saved in", summary["output"]))
    print_result(summary, as_json, lambda: [summary_table("siggpde fit", rows), member_table(summary)])


def _number_or_auto(option: str, text: str, minimum: int) -> int | str:
    if text == "auto":
        return text
    if not text.isdecimal() or int(text) < minimum:
        raise WrongCall(f"{option} takes a whole number from {minimum}, or auto; got {text!r}")
    return int(text)


def _numbers_or_auto(option: str, text: str, many: bool = False) -> Any:
    """Returns one number, a list of them where there may be many, or auto."""
    if text == "auto":
        return text
    try:
        return [float(number) for number in text.split(",")] if many else float(text)
    except ValueError:
        what = "numbers with commas between them" if many else "a number"
        raise WrongCall(f"{option} takes {what}, or auto; got {text!r}") from None


def _fields(option: str, text: str) -> dict[str, Any]:
    """The fields of NAME=X,NAME=X, of which numbers, true and false are values as in JSON, all else is text."""
    fields: dict[str, Any] = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if not equals:
            raise WrongCall(f"{option} takes fields such as rate=2000,nfft=256; got {part!r}")
        fields[name.strip()] = value
        with suppress(ValueError):
            fields[name.strip()] = json.loads(value)
    return fields


def _fit(
    call: options.ModelCall, task: str, settings: dict[str, Any], resume: bool, report: Path | None, ranks: Ranks
) -> dict[str, Any]:
    """Reads, fits and saves; returns a summary of the model. Every rank reads its series; rank 0 writes."""
    from siggpde.cli.data import (
        has_test_part,
        options_to_remember,
        read_series,
        require_labels,
        with_constants_as_facts,
    )
    from siggpde.cli.processes import threads_per_rank
    from siggpde.distributed.shard import all_labels
    from siggpde.io.data import errors_by_id

    data, output, read_options, force = call.data, call.model, call.read_options, call.force
    if report is not None and not ranks.alone:
        raise WrongCall("--report is for one process; write the page afterwards, with siggpde report")
    checkpoint = Checkpoint.of(output)
    with ExitStack() as locks:
        with ranks.together():
            if ranks.leads:
                locks.enter_context(checkpoint.held())
                check_model_folder(output, force)  # a fit that ended meanwhile may have written it
                _check_start(checkpoint, resume, force, settings["method"])
            series = read_series(data, read_options, "train", training=True, ranks=ranks)
        if settings["method"] != "paper":  # whose one kernel takes no facts
            series = with_constants_as_facts(series, read_options, ranks)
        with ranks.together():
            y = require_labels(data, series)
        if task == "auto":
            classes, codes = all_labels(y, ranks)
            task = ranks.broadcast(lambda: choose_task(classes[codes], settings["likelihood"]))
        log.info("%s", task)
        estimator = make_estimator(task, series, settings)
        if ranks.leads and not resume:
            checkpoint.remove()
        try:
            threads = threads_per_rank(settings["n_jobs"], ranks)
            if settings["method"] == "paper":
                estimator.set_params(checkpoint=str(checkpoint.folder), resume=resume)
            estimator.set_params(verbose=1, n_jobs=threads)
            with errors_by_id(series.ids):
                estimator.fit(series, y, ranks=ranks)
            # Settings of this run, not of the model.
            estimator.set_params(checkpoint=None, resume=False, verbose=0, n_jobs=settings["n_jobs"])
            estimator.reading_ = options_to_remember(series, read_options)
            with ranks.together():
                if ranks.leads:
                    estimator.save(output, force=force)
        except KeyboardInterrupt:
            says = "interrupted without a checkpoint; to fit again, give the same command"
            if checkpoint.exists():
                command = resume_command() if ranks.alone else "the same command with --resume"
                says = f"interrupted; the checkpoint is in {checkpoint.folder}. To go on: {command}"
            raise Interrupted(says) from None
        if ranks.leads:
            checkpoint.remove()
    if report is not None:
        from siggpde.cli.report import write_page

        if has_test_part(data, read_options):
            series = read_series(data, read_options, "test", estimator.reading_)
        write_page(estimator, series, report, call)
    return {"data": series.name, **estimator_summary(estimator), "output": os.fspath(output)}


def _check_start(checkpoint: Checkpoint, resume: bool, force: bool, method: str) -> None:
    if checkpoint.exists() and not force and not (resume and method == "paper"):
        raise WrongCall(
            f"{checkpoint.folder} holds an interrupted fit of --method paper; --resume with that method continues it, "
            "--force starts anew"
        )
    if resume and method != "paper":
        log.info("--method %s keeps no checkpoint to resume from: the fit starts anew", method)
    elif resume and not checkpoint.exists():
        log.info("there is no checkpoint %s to resume from: the fit starts anew", checkpoint.folder)


def check_model_folder(output: Path, force: bool, inputs: Sequence[Path] = ()) -> None:
    """Checks, before any work, that the model can be saved there, and that none of the `inputs` is in its folders."""
    from siggpde.persistence.folder import check_writable

    if output.name in ("", ".."):
        raise WrongCall(f"--output must name a folder for the model; got {output}")
    if os.path.lexists(output) and not output.is_dir():
        raise WrongCall(f"{output} is a file, not a model folder; choose another --output")
    if output.is_dir():
        check_writable(output, force)
    written = {output.resolve(), Checkpoint.of(output).folder.resolve()}
    for path in inputs:
        if path.is_file() and not written.isdisjoint([path.parent.absolute(), *path.resolve().parents]):
            raise WrongCall(
                f"{path} is read by this fit, but it is inside the folder of --output; choose another folder"
            )


def choose_task(y: np.ndarray, likelihood: str = "auto") -> str:
    """Returns classification for strings, bools and integers, regression for fractions; a likelihood goes first."""
    import numpy as np

    if y.dtype.kind not in "fiu":
        return "classification"
    if likelihood != "auto":
        return "regression" if likelihood in names_for("regression") else "classification"
    if y.dtype.kind == "f" and not (np.isfinite(y) & (y == np.round(y))).all():
        return "regression"
    distinct = len(np.unique(y))
    if 2 * distinct > len(y):
        raise WrongCall(
            f"the targets are integers with {distinct} different values in {len(y)} series, which looks like "
            "numbers to predict, not classes: say --task regression, or --task classification if they are classes"
        )
    return "classification"


def make_estimator(task: str, data: SeriesData, settings: dict[str, Any]) -> SigGPClassifier | SigGPRegressor:
    """Returns the estimator of a task, with the time channel and the names of the data."""
    from siggpde.estimators import SigGPClassifier, SigGPRegressor

    known = names_for("classification" if task == "classification" else "regression")
    if settings["likelihood"] not in known:
        raise WrongCall(f"--likelihood {settings['likelihood']} is not for a {task}; take one of {', '.join(known)}")
    common = {**settings, "time_channel": data.time_channel, "channel_names": list(data.channel_names)}
    if task == "classification":
        return SigGPClassifier(**common)
    if common.pop("class_weight") is not None:
        raise WrongCall("--class-weight is for classes, but the task is a regression; leave it out")
    return SigGPRegressor(**common)


@dataclass(frozen=True)
class Checkpoint:
    """The folder MODEL.checkpoint, which exists while a fit runs and after one that was interrupted."""

    folder: Path

    @staticmethod
    def of(output: Path) -> Checkpoint:
        return Checkpoint(output.with_name(output.name + _SUFFIX))

    def exists(self) -> bool:
        return any(path.suffix == ".pt" for path in self._files())

    @contextmanager
    def held(self) -> Iterator[None]:
        """Locks the folder, created before any work, against other fits of the model; it is removed if empty."""

        def refuse() -> None:
            model = self.folder.with_name(self.folder.name.removesuffix(_SUFFIX))
            raise WrongCall(
                f"another fit to {model} is running, which holds {self.folder}; wait for its end or choose "
                "another --output"
            )

        with ExitStack() as lock:
            while True:
                self.folder.mkdir(parents=True, exist_ok=True)
                with suppress(FileNotFoundError):  # a fit that ended at this moment removed the folder
                    lock.enter_context(locked(self.folder, on_wait=refuse))
                    break
            try:
                yield
            finally:
                with suppress(OSError):
                    self.folder.rmdir()

    def remove(self) -> None:
        """Removes the files of the checkpoint and no others."""
        for path in self._files():
            path.unlink(missing_ok=True)

    def _files(self) -> list[Path]:
        return [path for path in self.folder.glob("*") if _CHECKPOINT_FILES.fullmatch(path.name)]
