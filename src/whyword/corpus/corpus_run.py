"""Explain every row of a file, and write what other programs read.

A run is a folder: settings.json, a file for every finished shard, and a journal that has a line for each. It
can be killed at any time; started again, it goes on with the shards that have no line.
"""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from ..attribute.methods import DEFAULT_METHOD, find_methods
from ..errors import InputError
from ..pipeline.model_source import find_model, other_weights, share_source
from ..results.token_groups import UNITS
from ..runs.engine import Engine, Job, Workers, choose_engine
from ..runs.memory_size import read_size
from ..runs.progress import report
from ..runs.single_writer import write_file_alone
from ..runs.whole_files import write_file
from .described_model import DescribedModel
from .row_columns import KEPT
from .row_index import Index, index_rows, read_shard, require_sound
from .row_sources import open_source
from .run_journal import ShardJournal, ShardLine, is_begun, name_journal, open_shards, read_part
from .shard_files import name_shard, require_form
from .shard_work import ShardSettings, ShardWork
from .summary import write_summary

if TYPE_CHECKING:
    from ..models.model import Model
    from .opened_run import OpenedRun

__all__ = ["BAD_ROWS", "SHARD_ROWS", "run"]

SHARD_ROWS = 512
"""Rows of a shard: what is computed again after a kill, at most, for each worker."""
_MEMORY = "2GB"
BAD_ROWS = ("refuse", "write")
_logger = logging.getLogger("whyword")


def run(
    model: "Model | str | Path | None",
    source: str | Path,
    out: str | Path,
    *,
    methods: str | Sequence[str] = DEFAULT_METHOD,
    depth: int | None = None,
    by: str | None = None,
    keep: str = "flow",
    format: str = "parquet",
    limit: int | None = None,
    shard: str | None = None,
    shard_rows: int = SHARD_ROWS,
    bad_rows: str = "refuse",
    batch_size: int | None = None,
    max_memory: int | str = _MEMORY,
    engine: str = "local",
    workers: int = 1,
    threads: int = 1,
    address: str | None = None,
    resources: Mapping[str, float] | None = None,
    dtype: str | None = None,
    allow: Collection[str] = (),
    start: str = "auto",
) -> "OpenedRun":
    """Explain every row of a file, and return the run, read lazily; a run that was stopped is resumed.

    `model`: a loaded model, or a name or path that workers open themselves; None: the default model.
    `source`: JSONL, CSV, Parquet, or a Hugging Face dataset on disk, with columns prompt or messages, and
    target, foil, answer, parts, id where they are given; others are carried along. `by`: what scores are
    added up by beside words. `keep`: scores, blocks or flow (everything). `shard`: "2/8" does the second of
    eight shares of the work, for jobs that share a folder. `bad_rows`: rows that cannot be asked are refused
    before work starts, or written with their reason. `max_memory`: what a batch may take beyond the forward
    pass. `engine`: local (in `workers` processes) or ray, at `address` (None: started here), with `resources`
    for each worker, such as {"num_gpus": 1}. `threads`: of each worker; results are the same bytes for the
    same number of them.
    """
    from .opened_run import open_run

    names = find_methods([methods] if isinstance(methods, str) else methods)
    _require_choice("by", by, [unit for unit in UNITS if unit != "word"], none=True)
    _require_choice("bad_rows", bad_rows, BAD_ROWS)
    _require_choice("keep", keep, KEPT)
    if batch_size is not None and batch_size < 1:
        raise InputError(f"batch_size is {batch_size}.", "Pass the number of prompts per batch, at least 1.")
    settings = ShardSettings(
        tuple(names), depth, by, keep, batch_size, read_size(max_memory), require_form(format)
    )
    part, folder = read_part(shard), Path(out)
    crew = Workers(workers, threads, address, dict(resources or {}))
    chosen = choose_engine(engine, crew)
    index = index_rows(open_source(source), shard_rows, limit)
    if bad_rows == "refuse":
        require_sound(index)
    found = find_model(model, crew, dtype=dtype, allow=allow, start=start)
    journal = folder / name_journal(part)
    _make_folder(folder)
    with write_file_alone(journal), chosen.working():
        # alone it is loaded once, for both of what follows
        found = replace(found, source=found.open()) if chosen.alone else share_source(found)
        begin = partial(_begin, folder, index, settings, crew)
        work = ShardWork(found, index.carried, settings)
        begun = chosen.alone or is_begun(folder)
        if begun:  # other weights or settings are refused before any work
            model_now = chosen.call(work.describe)
            begin(model_now)
            work = replace(work, model=replace(found, weights=model_now.weights))
        _work(chosen, index, work, open_shards(folder, journal, index.shards), part, None if begun else begin)
        shards = open_shards(folder, journal, index.shards)
        if len(shards.done) == index.shards:
            write_summary(folder)
    return open_run(folder)


def _require_choice(name: str, given: str | None, known: Sequence[str], *, none: bool = False) -> None:
    if given not in known and not (none and given is None):
        raise InputError(f"{name} is {given!r}.", f"It is one of {', '.join(known)}.")


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"{folder} cannot be used: {error.strerror}.", "Name a folder where you may write: --out DIR."
        ) from None


def _begin(
    folder: Path, index: Index, settings: ShardSettings, workers: Workers, about: DescribedModel
) -> None:
    """Write the settings of a new run, or compare them with those of the run that is there."""
    from .run_journal import begin_run

    begin_run(
        folder,
        {
            "model": about.name,
            "weights": about.weights,
            "dtype": about.dtype,
            "device": about.device,
            "start": about.start,
            "blocks": about.blocks,
            "heads": about.heads,
            "methods": list(settings.methods),
            "depth": settings.depth,
            "by": settings.by,
            "keep": settings.keep,
            "format": settings.form,
            "batch size": settings.batch_size,
            "max memory": settings.max_memory,
            "threads": workers.threads,
            "file": index.content,
            "rows": index.rows,
            "shard rows": index.size,
            "shards": index.shards,
            "carried": dict(index.carried),
            "versions": {name: version(name) for name in ("whyword", "torch", "transformers")},
        },
    )


def _work(
    engine: Engine,
    index: Index,
    work: ShardWork,
    shards: ShardJournal,
    part: tuple[int, int],
    begin: Callable[[DescribedModel], None] | None,
) -> None:
    """Explain the shards of this share that are not finished, and write each as it comes.

    `begin` writes the settings of a new run, which the first shard tells: to describe a model beforehand, one
    more process would load it, while workers wait. None: they are written.
    """
    share, shares = part
    own = [number for number in range(index.shards) if number % shares == share]
    waiting = [number for number in own if number not in shards.done]
    weights = work.model.weights
    if begin is not None and not waiting:
        begin(engine.call(work.describe))
    sizes = {number: min(index.size, index.rows - number * index.size) for number in own}
    total, done = sum(sizes.values()), sum(sizes[number] for number in own if number not in waiting)
    if done:
        _logger.info("%s: %s rows are done, resuming.", shards.folder, f"{done:,}")
    report("rows", done, total)
    results = engine.map(Job(partial(read_shard, index), work.begin), waiting)
    with closing(results):
        for number, finished in results:
            if begin is not None:
                begin(finished.model)
                begin = None
            weights = weights or finished.model.weights
            if finished.model.weights != weights:
                raise other_weights(finished.model.name, finished.model.weights, weights)
            for line in finished.said:
                _logger.warning("Shard %d: %s", number, line)
            name = name_shard(number, work.settings.form)
            write_file(shards.folder / name, finished.content)
            shards.append(
                ShardLine(
                    number, name, finished.rows, finished.failed, len(finished.content), finished.seconds
                )
            )
            done += finished.rows
            report("rows", done, total)
