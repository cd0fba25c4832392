"""What a worker does: it explains the rows of a shard, in batches cut from this shard alone.

So a shard is the same whatever worker explains it, and after whatever stops. A row that cannot be explained
has its reason in its place.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ..attribute import plan_methods
from ..errors import InputError, WhywordError, first_line
from ..models.model import Model
from ..pipeline.many_prompts import Asked, compare_together, cut_prompts, run_prompts
from ..pipeline.model_source import ModelSource
from ..pipeline.one_continuation import explain_continuation
from ..pipeline.one_prompt import ask, require_decoder, require_depth
from ..results.explanation import Explanation
from ..runs.batches import is_out_of_memory
from .described_model import DescribedModel, describe_model
from .row_columns import carry, list_columns, make_failure, make_record
from .row_index import ShardRow
from .row_questions import RowQuestion, read_question
from .shard_files import encode_shard

__all__ = ["FinishedShard", "ShardSettings", "ShardWork"]


@dataclass(frozen=True)
class ShardSettings:
    """How the rows of a shard are explained, and what is written of them."""

    methods: tuple[str, ...]
    depth: int | None
    by: str | None
    """What scores are added up by, beside words."""
    keep: str
    batch_size: int | None
    max_memory: int
    """Bytes that a batch may take beyond the forward pass: not what is free, so that batches are the same."""
    form: str


@dataclass(frozen=True)
class FinishedShard:
    """What a worker sends back."""

    content: bytes
    """The file."""
    rows: int
    failed: int
    """Rows that could not be explained."""
    seconds: float
    model: DescribedModel
    """What explained it."""
    said: tuple[str, ...] = ()
    """What the worker warned of: a batch that ran out of memory."""


@dataclass(frozen=True)
class ShardWork:
    """What every worker is given."""

    model: ModelSource
    carried: Mapping[str, str]
    """Columns that are carried along, and what they hold."""
    settings: ShardSettings

    def begin(self) -> Callable[[list[ShardRow]], FinishedShard]:
        """Load the model, and return what explains a shard."""
        model = self._open()
        return partial(self._explain, model, describe_model(model))

    def describe(self) -> DescribedModel:
        """Load the model, and describe it: what cannot be asked of it is refused at once."""
        return describe_model(self._open())

    def _open(self) -> Model:
        model = require_decoder(self.model.open())
        require_depth(model, self.settings.depth, self.settings.methods)
        return model

    def _explain(self, model: Model, described: DescribedModel, rows: list[ShardRow]) -> FinishedShard:
        started, settings = time.perf_counter(), self.settings
        heard = _Heard()
        logger = logging.getLogger("whyword")
        logger.addHandler(heard)
        try:
            found = dict(_explain_rows(model, rows, settings))
        finally:
            logger.removeHandler(heard)
        records = []
        for row in rows:
            shared = {"model": described.name, "weights": described.weights, **carry(row, self.carried)}
            records += [{**shared, **record} for record in found[row.number]]
        columns = list_columns(settings.keep, self.carried)
        return FinishedShard(
            encode_shard(records, columns, settings.form),
            len(rows),
            sum(found[row.number][0]["error"] is not None for row in rows),
            time.perf_counter() - started,
            described,
            tuple(heard.said),
        )


class _Heard(logging.Handler):
    """Keeps what is warned of, for the process that runs the whole."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())


Records = list[dict[str, Any]]


def _explain_rows(
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
