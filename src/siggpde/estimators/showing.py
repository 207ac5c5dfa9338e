"""Fitted estimators to look at: the report, and a short card in notebooks."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any


class Showing:
    """Reports and cards, for the base of the estimators, which has the rest."""

    if TYPE_CHECKING:

        def _check_fitted(self) -> None: ...

    def report(
        self,
        X: Any,
        y: Any = None,
        path: str | os.PathLike[str] = "report.html",
        *,
        groups: Any = None,
        ids: Sequence[Any] | None = None,
        title: str | None = None,
        target: str | None = None,
        explained: int = 2,
        random_state: Any = None,
        force: bool = False,
    ) -> str:
        """Writes a page about the model and the series X, one HTML file that needs nothing else, and returns its path.

        With y (n_cases,) it says how good the predictions are; `groups` (n_cases,) are then judged one by one, and
        drawn as wholes for confidence intervals. If X and y are those of `fit`, left-out series are judged. `explained`
        series of each kind, the most uncertain, surprising and novel, are drawn with an explanation, which takes about
        500 predictions for every series; 0 leaves them out. `ids` (n_cases,) name the series, `title` the page and
        `target` what y is. `random_state` decides what is drawn where there is too much; the page is the same for the
        same seed. An older report at `path` is replaced, another file only with `force`.
        """
        from siggpde.estimators.settings import seed_of  # noqa: PLC0415 - predictions need none
        from siggpde.report.gather import write_report  # noqa: PLC0415

        self._check_fitted()
        return write_report(
            self,
            X,
            y,
            path,
            groups=groups,
            ids=ids,
            title=title,
            target=target,
            explained=explained,
            seed=seed_of(random_state),
            force=force,
        )

    @property
    def _repr_html_(self) -> Any:
        """What notebooks call; a property, as scikit-learn's is."""
        return self._html

    def _html(self) -> str | None:
        """What notebooks show: scikit-learn's diagram before `fit`, after it a card of what was fitted on what."""
        if not hasattr(self, "committee_"):
            before = getattr(super(), "_repr_html_", None)
            return None if before is None else before()
        if _display() != "diagram":
            return None
        from siggpde.report.page import notebook_card  # noqa: PLC0415 - for notebooks only

        return notebook_card(self)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        """The same, for notebooks that ask for several forms at once."""
        shown = {"text/plain": repr(self)}
        html = self._html() if _display() == "diagram" else None
        return shown if html is None else {**shown, "text/html": html}


def _display() -> str:
    """How scikit-learn is set to display estimators."""
    from sklearn import get_config  # noqa: PLC0415 - takes long to import

    return str(get_config()["display"])
