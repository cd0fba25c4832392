"""Plain tables: one record per token (CSV, data frame)."""

import csv
from collections.abc import Iterator, Mapping, Sequence
from io import StringIO
from typing import TYPE_CHECKING, Any

from ..document.kinds import SCHEMA, Document, is_comparison, is_continuation, is_translation, read_measure
from ..errors import InputError
from .route_list import list_depth_records

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["frame_of", "list_records", "list_tidy_records", "make_frame", "make_wide_frame", "render_csv"]


def list_records(document: Document) -> list[dict[str, Any]]:
    """List what is known of every context token: the token, its score, and its score by block (from 1).

    Of a continuation: the same for every token that was explained, named in `step` and `target`. Of a
    comparison: without blocks, for every `method`. Of a translation: the same as of a continuation, for every
    token of source and prefix that a step could see.
    """
    if is_translation(document):
        return list(_list_translation(document))
    if is_continuation(document):
        return [
            {"step": step, "target": part["target"]["text"], **record}
            for step, part in enumerate(document["explanations"], 1)
            for record in list_records(part)
        ]
    if is_comparison(document):
        return [
            {"method": each["method"], **record}
            for each in document["methods"]
            for record in list_records({**document, **each, "schema": SCHEMA, "by_block": ()})
        ]
    measure = read_measure(document)
    blocks = document["by_block"] if measure.by_block else ()
    return [
        {"position": position, **token, "score": document["scores"][position], "unit": measure.unit}
        | {f"block_{block}": values[position] for block, values in enumerate(blocks, 1)}
        for position, token in enumerate(document["tokens"])
    ]


def _list_translation(document: Document) -> Iterator[dict[str, Any]]:
    source, target = document["source"]["tokens"], document["target"]["tokens"]
    columns = [("source", place, token) for place, token in enumerate(source)]
    columns += [("prefix", place, token) for place, token in enumerate(target[:-1])]
    for step, (choice, scores) in enumerate(zip(document["choices"], document["scores"], strict=True)):
        for index, (side, position, token) in enumerate(columns):
            if scores[index] is not None:
                yield {
                    "step": step + 1,
                    "target": choice["text"],
                    "side": side,
                    "position": position,
                    **token,
                    "score": scores[index],
                } | {
                    f"block_{block}": rows[step][index] for block, rows in enumerate(document["by_block"], 1)
                }


def render_csv(document: Document) -> str:
    """Render the records as CSV."""
    records = list_records(document)
    text = StringIO()
    writer = csv.DictWriter(text, fieldnames=list(records[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue()


def list_tidy_records(document: Document) -> list[dict[str, Any]]:
    """List one record for each token and block, or depth where the method has flow.

    Methods with neither have one record for each token. Of a continuation, translation or comparison: the
    same, for every `step` or `method`.
    """
    if is_continuation(document):
        return [
            {"step": step, "target": part["target"]["text"], **record}
            for step, part in enumerate(document["explanations"], 1)
            for record in list_tidy_records(part)
        ]
    if document.get("flow") and document["schema"] == SCHEMA:
        unit = read_measure(document).unit
        return [_name_token(record) | {"unit": unit} for record in list_depth_records(document)]
    tidy = []
    for record in list_records(document):
        blocks = {name: value for name, value in record.items() if name.startswith("block_")}
        rest = {name: value for name, value in record.items() if name not in blocks}
        if not blocks:
            tidy.append(_name_token(rest))
        for name, value in blocks.items():
            block = int(name.removeprefix("block_"))
            tidy.append(_name_token({**rest, "score": value}, block=block))
    return tidy


def _name_token(record: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """Name the columns of a record as a table of scores does: its token and word, then the rest."""
    named = {"token" if name == "text" else name: value for name, value in record.items()}
    score = {"score": named.pop("score")}
    return {**named, **more, **score}


def make_wide_frame(document: Document) -> "DataFrame":
    """Return a data frame with one row for each token and a column for each block (needs pandas)."""
    return frame_of(list_records(document))


def make_frame(document: Document) -> "DataFrame":
    """Return a tidy data frame: one row for each token and block or depth (needs pandas, an extra)."""
    return frame_of(list_tidy_records(document))


def frame_of(records: Sequence[Mapping[str, Any]]) -> "DataFrame":
    """Return any records as a data frame."""
    try:
        import pandas
    except ImportError:
        raise InputError(
            "A data frame needs pandas, which is not installed.", "Install it: pip install pandas."
        ) from None
    frame: DataFrame = pandas.DataFrame.from_records(records)
    return frame
