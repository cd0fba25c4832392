"""The rows of a shard, explained in batches that are cut from this shard alone.

So a shard is the same whatever worker explains it, and after whatever stops. A row that cannot be explained
has its reason in its place.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from ..attribute import plan_methods
from ..errors import InputError, WhywordError, first_line
from ..models.model import Model
from ..pipeline.many_prompts import Asked, compare_together, cut_prompts, run_prompts
from ..pipeline.one_continuation import explain_continuation
from ..pipeline.one_prompt import ask
from ..results.explanation import Explanation
from ..runs.batches import is_out_of_memory
from .row_columns import make_failure, make_record
from .row_index import ShardRow
from .row_questions import RowQuestion, read_question
from .shard_work import ShardSettings

__all__ = ["explain_rows"]

Records = list[dict[str, Any]]


def explain_rows(
    model: Model, rows: Sequence[ShardRow], settings: ShardSettings
) -> Iterator[tuple[int, Records]]:
    """Explain rows in batches of similar length; yield the records of each, by its number."""
    asked: list[Asked] = []
    by_number = {row.number: row for row in rows}
    questions: dict[int, RowQuestion] = {}
    for row in rows:
        if row.wrong is not None:
            yield row.number, [make_failure(row, "", row.wrong)]
            continue
        question = questions[row.number] = read_question(row.values)
        try:
            if question.answer is not None:
                yield row.number, _explain_answer(model, row, question, settings)
                continue
            asked.append(Asked(row.number - 1, *ask(model, question.prompt, question.target, question.foil)))
        except Exception as error:
            yield row.number, [make_failure(row, "", _give_reason(error))]
    plan = plan_methods(model, settings.methods)
    batches = cut_prompts(model, asked, plan, settings.batch_size, settings.max_memory)
    for results in run_prompts(batches, lambda batch: _compare(model, batch, settings)):
        for number, compared in results:
            row = by_number[number + 1]
            if isinstance(compared, str):
                yield row.number, [make_failure(row, "", compared)]
                continue
            try:
                parts = _choose_parts(questions[row.number], settings.by, compared[0])
                made = [make_record(row, each, settings.keep, parts, None) for each in compared]
            except InputError as error:  # spans outside the text
                made = [make_failure(row, "", _give_reason(error))]
            yield row.number, made


def _compare(
    model: Model, batch: Sequence[Asked], settings: ShardSettings
) -> list[tuple[int, list[Explanation] | str]]:
    """Explain a batch; where it fails, one by one, so that a bad row takes no other with it."""
    try:
        compared = compare_together(model, batch, settings.methods, settings.depth, settings.max_memory)
    except Exception as error:
        if len(batch) > 1 and is_out_of_memory(error):
            raise  # it is halved
        if len(batch) == 1:
            return [(batch[0].number, _give_reason(error))]
        return [result for each in batch for result in _compare(model, [each], settings)]
    return [
        (
            number,
            _give_reason(found)
            if isinstance(found, InputError)
            else [found[method] for method in settings.methods],
        )
        for number, found in compared
    ]


def _explain_answer(model: Model, row: ShardRow, question: RowQuestion, settings: ShardSettings) -> Records:
    """Explain an answer as a whole: the sum over its tokens."""
    records = []
    foil = question.foil[0] if isinstance(question.foil, list) else question.foil
    for method in settings.methods:
        continued = explain_continuation(
            model,
            question.prompt,
            question.answer,
            foil=foil,
            method=method,
            depth=settings.depth if method == "flow" else None,
            max_memory=settings.max_memory,
        )
        total = continued.sum()
        prompt = len(total.tokens) - len(continued) + 1
        parts = _choose_parts(question, settings.by, total)
        records.append(make_record(row, total, settings.keep, parts, prompt))
    return records


def _choose_parts(question: RowQuestion, by: str | None, explained: Explanation) -> Any:
    """Choose what scores are added up by: spans of the row, the unit that is asked for, or named parts."""
    if question.spans is not None:
        return question.spans
    has = {"part": "part", "turn": "turn"}
    if by in has:
        return by if any(getattr(token, has[by]) is not None for token in explained.tokens) else None
    if by is None and any(token.part is not None for token in explained.tokens):
        return "part"
    return by


def _give_reason(error: BaseException) -> str:
    if isinstance(error, WhywordError):
        return error.wrong.removesuffix(".")
    return f"{type(error).__name__}: {first_line(error)}"
