"""What a worker is given, does and sends back: it explains the rows of a shard, and writes them as a file.

Whoever hands out the work reads this without torch.
"""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from ..pipeline.model_source import ModelSource
from .described_model import DescribedModel, describe_model
from .row_columns import carry, list_columns
from .row_index import ShardRow
from .shard_files import encode_shard

if TYPE_CHECKING:
    from ..models.model import Model

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

    def _open(self) -> "Model":
        from ..pipeline.one_prompt import require_decoder, require_depth

        model = require_decoder(self.model.open())
        require_depth(model, self.settings.depth, self.settings.methods)
        return model

    def _explain(self, model: "Model", described: DescribedModel, rows: list[ShardRow]) -> FinishedShard:
        from .explained_rows import explain_rows

        started, settings = time.perf_counter(), self.settings
        heard = _Heard()
        logger = logging.getLogger("whyword")
        logger.addHandler(heard)
        try:
            found = dict(explain_rows(model, rows, settings))
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
