"""What is refused, and in which words."""

from collections.abc import Callable
from typing import Any

import pytest


def assert_refused(
    message: str, function: Callable[..., Any], /, *arguments: Any, error: type[Exception] = ValueError, **settings: Any
) -> None:
    """A call of the function raises the error, with a message in which the regular expression is."""
    with pytest.raises(error, match=message):
        function(*arguments, **settings)
