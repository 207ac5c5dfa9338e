"""The tables of `siggpde explain`: what predictions rest on, over all classes and class by class."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from siggpde.cli.console import column_table

_SIDE_BY_SIDE = 4  # classes; more have a table of what tells each apart
_SURE = 0.9
_VIEWS = 8

_PARTS = (
    ("channels", "Channels", "channel"),
    ("regions", "Time regions", "when"),
    ("scales", "Window scales", "scale"),
)


def importance_tables(values: dict[str, Any]) -> list[Table]:
    """Of the plain values of `Importances`, with the names of the model and of the data."""
    classes = values["classes"]
    title = f"{values['model']} on {values['series']} series of {values['data']}"
    beside = classes if len(classes) <= _SIDE_BY_SIDE else []
    if len(classes) == 2:  # the other one is its mirror image, but for the sizes of the classes
        beside = classes[1:]
    tables = []
    for part, name, column in _PARTS:
        if values[part]:
            heading = f"{title}: {name.lower()}" if not tables else name
            tables.append(_table(heading, column, values[part], beside, part))
    words = f"{'Words' if tables else title + ': words'}, the first of {values['all_words']}"
    tables.append(column_table(words, ["word", "share"], [(each["name"], _percent(each)) for each in values["words"]]))
    if len(classes) > _SIDE_BY_SIDE:
        tables.append(_strongest(classes))
    else:
        tables += [_words_of(each) for each in beside]
    if values["views"]:
        views = [(each["name"], _percent(each)) for each in values["views"][:_VIEWS]]
        more = len(values["views"]) - len(views)
        rest = f", the first {len(views)} of {len(views) + more}" if more > 0 else ""
        tables.append(column_table(f"The views of the series{rest}", ["view", "share"], views))
    return tables


def footnote(values: dict[str, Any]) -> str:
    """What the columns mean."""
    one = values["classes"][0]["label"] is None if values["classes"] else True
    what = (
        "what it adds to the number, in the larger half of the numbers less the smaller half"
        if one
        else "what it adds to the logit of the class, in its series less the others"
    )
    return (
        f"effect ± standard deviation: {what}; a question mark where its sign is less than 90 % sure. "
        "A word such as x–y: x moves, then y; words that move together are one"
    )


def _table(heading: str, column: str, overall: list[dict[str, Any]], classes: list[dict[str, Any]], part: str) -> Table:
    found = [{each["name"]: each for each in own[part]} for own in classes]
    header = [column, "share", *("effect" if own["label"] is None else f"{own['label']}" for own in classes)]
    rows = [
        (each["name"], _percent(each), *(_effect(own[each["name"]]) if each["name"] in own else "" for own in found))
        for each in overall
    ]
    return column_table(heading, header, rows)


def _words_of(one: dict[str, Any]) -> Table:
    heading = "What the number rests on" if one["label"] is None else f"What tells {one['label']} apart"
    return column_table(
        f"{heading}: words", ["word", "effect"], [(each["name"], _effect(each)) for each in one["words"]]
    )


def _strongest(classes: list[dict[str, Any]]) -> Table:
    """The strongest channel, region, scale and word of every class."""
    rows = []
    for own in classes:
        cells = [f"{own['label']}", f"{own['series']}"]
        for part in ("channels", "regions", "scales", "words"):
            best = max(own[part], key=lambda each: each["effect"], default=None)
            cells.append("" if best is None else f"{best['name']}\n{_effect(best)}")
        rows.append(cells)
    header = ["class", "series", "channel", "when", "scale", "word"]
    return column_table("What speaks most for each class", header, rows, text_columns=6)


def _effect(each: dict[str, Any]) -> str:
    doubt = "" if each["probability"] >= _SURE else " ?"
    return f"{each['effect']:+.2g} ± {each['std']:.2g}{doubt}"


def _percent(each: dict[str, Any]) -> str:
    return f"{100 * each['share']:.1f} %"
