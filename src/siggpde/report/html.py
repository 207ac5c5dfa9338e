"""Small pieces of HTML: everything that is not markup of ours is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def text(value: Any) -> Markup:
    """A value as HTML: escaped, unless it is markup.

    Examples:
        >>> text("<b>") + text(Markup("<b>"))
        '&lt;b&gt;<b>'
    """
    return value if isinstance(value, Markup) else Markup(escape(str(value), quote=True))


def join(parts: Iterable[Any], between: str = "") -> Markup:
    """Pieces one after another."""
    return Markup(between.join(text(part) for part in parts))


def tag(name: str, /, *content: Any, **attributes: Any) -> Markup:
    """An element; attributes whose name is a word of Python end in an underscore.

    Examples:
        >>> tag("p", "a < b", class_="note")
        '<p class="note">a &lt; b</p>'
    """
    return Markup(f"<{name}{_attributes(attributes)}>{join(content)}</{name}>")


def empty_tag(name: str, /, **attributes: Any) -> Markup:
    """An element without content, such as an image."""
    return Markup(f"<{name}{_attributes(attributes)}>")


def paragraph(*content: Any, **attributes: Any) -> Markup:
    return tag("p", *content, **attributes)


def caption(title: Any, *content: Any) -> Markup:
    """Bold words, and what follows them."""
    return join([tag("b", title), *content])


def bullets(items: Iterable[Any]) -> Markup:
    return tag("ul", *(tag("li", item) for item in items))


def table(
    header: Sequence[Any], rows: Iterable[Sequence[Any]], *, numbers: Sequence[int] = (), title: Any = None
) -> Markup:
    """A table that scrolls by itself where it is wider than the page; the columns `numbers` hold numbers."""
    head = tag("tr", *(_cell("th", cell, index in numbers, scope="col") for index, cell in enumerate(header)))
    body = [tag("tr", *(_cell("td", cell, index in numbers) for index, cell in enumerate(row))) for row in rows]
    above = "" if title is None else tag("caption", title)
    whole = tag("table", above, tag("thead", head), tag("tbody", *body))
    return tag("div", whole, class_="table", tabindex="0", role="region", aria_label="table")


def facts(rows: Iterable[tuple[Any, Any]]) -> Markup:
    """Names and values."""
    return tag("dl", *(tag("div", tag("dt", name), tag("dd", value)) for name, value in rows))


def _cell(name: str, content: Any, number: bool, /, **attributes: Any) -> Markup:
    return tag(name, content, class_="n" if number else None, **attributes)


def _attributes(attributes: dict[str, Any]) -> str:
    return "".join(
        f' {name.rstrip("_").replace("_", "-")}="{text(value)}"'
        for name, value in attributes.items()
        if value is not None
    )
