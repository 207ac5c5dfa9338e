"""The end of the page: warnings in plain words, the model card, and how to reproduce all this."""

from __future__ import annotations

import re
from typing import Any

from siggpde.report.content import Content
from siggpde.report.html import Markup, bullets, facts, join, paragraph, table, tag

_ESCAPED = re.compile(r"\\(.)")


def warnings_section(content: Content) -> Markup:
    """The warnings, or that there are none."""
    if not content.warnings:
        return paragraph("Nothing stands out: enough series, no class that is rare, no series unlike all others.")
    return join(paragraph(each, class_="warn") for each in content.warnings)


def card_section(content: Content) -> Markup:
    """The card that is saved with the model."""
    return join(
        [
            paragraph("The card is saved with the model as README.md."),
            tag("div", card_as_html(content.card), class_="card"),
        ]
    )


def origin_section(content: Content) -> Markup:
    """Commands, versions, seeds and hashes."""
    parts: list[Any] = []
    for title, command in content.commands:
        parts += [tag("h3", title), tag("pre", tag("code", command))]
    parts.append(facts(content.origin))
    parts.append(
        paragraph(
            "The same data, settings, seed and versions give the same model and the same page. A hash is one of the "
            "series as the model reads them: if it differs, the data differ."
        )
    )
    parts.append(
        paragraph(
            "The signature kernel is that of Salvi and others, ",
            tag("a", "arXiv:2006.14794", href="https://arxiv.org/abs/2006.14794"),
            '; method="paper" is SigGPDE, Lemercier and others, ',
            tag("a", "arXiv:2105.04211", href="https://arxiv.org/abs/2105.04211"),
            ".",
        )
    )
    return join(parts)


def card_as_html(card: str) -> Markup:
    """The card, of the Markdown that `siggpde.persistence.model_card` writes: headings, tables, lists, code, text."""
    parts: list[Any] = []
    lines = card.splitlines()
    place = 0
    while place < len(lines):
        line = lines[place]
        fence = re.match(r"(`{3,})", line)
        if fence:
            end = next(i for i in range(place + 1, len(lines)) if lines[i] == fence[1])
            parts.append(tag("pre", tag("code", "\n".join(lines[place + 1 : end]))))
            place = end + 1
            continue
        heading = re.match(r"(#+) (.*)", line)
        if heading:
            parts.append(tag("h3" if len(heading[1]) == 1 else "h4", _plain(heading[2])))
        elif line.startswith("|"):
            block = _while(lines, place, "|")
            parts.append(_card_table(block))
            place += len(block)
            continue
        elif line.startswith("- "):
            block = _while(lines, place, "- ")
            parts.append(bullets(_plain(item[2:]) for item in block))
            place += len(block)
            continue
        elif line:
            parts.append(paragraph(_plain(line)))
        place += 1
    return join(parts)


def _while(lines: list[str], start: int, mark: str) -> list[str]:
    """The lines from `start` on that begin with a mark."""
    end = next((i for i in range(start, len(lines)) if not lines[i].startswith(mark)), len(lines))
    return lines[start:end]


def _card_table(block: list[str]) -> Markup:
    rows = [[_plain(cell.strip()) for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in block]
    numbers = [index for index, cell in enumerate(rows[1]) if cell.endswith(":")]
    return table(rows[0], rows[2:], numbers=numbers)


def _plain(text: str) -> str:
    """Without the backslashes of Markdown."""
    return _ESCAPED.sub(r"\1", text)
