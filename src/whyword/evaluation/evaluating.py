"""Run methods over datasets and record, example by example, how they agree with evidence."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ..ask.start_of_text import find_start
from ..attribute.methods import DEFAULT_METHOD, METHODS, PUBLISHED, measure_of
from ..data import Dataset, Span, add_evidence, read_datasets
from ..errors import InputError
from ..ledger import Target
from ..models.model import Model
from ..pipeline.many_prompts import compare_batch
from ..pipeline.model_source import ModelSource, choose_source
from ..pipeline.one_prompt import require_decoder
from ..results.comparison import Comparison
from ..runs.engine import Engine, Job, Workers, choose_engine, put_in_order
from ..runs.fingerprint import fingerprint_network
from ..runs.progress import report
from ..runs.single_writer import write_folder_alone
from .conventions import Conventions, Prepared, find_conventions, prepare
from .faithfulness import measure_faithfulness
from .method_names import find_names, read_name, require_depths
from .records import Journal, Record, open_journal
from .report import CHANCE, Report, read_report, write_skipped
from .swaps import Swaps, measure_swaps, name_place, require_swaps
from .tables import save_tables

__all__ = ["evaluate", "list_evaluated"]

FOR_SOURCES = ("flow", "logit", "alti-logit", "erasure", "gradient-x-input", "attention")
"""The methods by which documents and turns are compared, where none are named."""
_WINDOW = 128
"""How many examples are explained together. A resumed run cuts the same windows, so that batches, and with
them the last digits, are the same; finished examples are not written again."""


@dataclass(frozen=True)
class Settings:
    """The settings of a run; two runs with the same settings give the same table."""

    methods: tuple[str, ...]
    conventions: Conventions
    limit: int | None
    """How many rows of each dataset are used; None: all."""
    faithfulness: float | None
    """The share of tokens erased to measure faithfulness; None: it is not measured."""
    batch_size: int | None
    seed: int
    swaps: Swaps | None = None
    """What is swapped to measure agreement with interventions; None: it is not measured."""


def evaluate(
    model: Model,
    datasets: Sequence[str],
    out: str | Path,
    *,
    data: str | Path | None = None,
    methods: str | Sequence[str] | None = None,
    conventions: str = "ours",
    evidence: str | None = None,
    limit: int | None = None,
    faithfulness: float | None = 0.2,
    pipeline: str | None = None,
    batch_size: int | None = None,
    seed: int = 0,
    start: str | None = None,
    swaps: int | None = None,
    swap_depths: Sequence[int | None] = (None,),
    engine: str = "local",
    workers: int | Workers = 1,
    source: ModelSource | None = None,
) -> Report:
    """Measure how well explanations agree with evidence, and write tables into the folder `out`.

    `datasets`: names or groups ("blimp", "sva", "ioi", "builtin"); `data`: the folder with their files,
    "builtin", or None for the hub. `methods`: names ("flow@9": flow at depth 9), "paper" (those of its
    table), "sources" (those that documents and turns are compared by) or "all"; None: sources where all
    datasets have documents or turns, otherwise flow and those of the paper's table, and with the paper's
    conventions only these. `conventions`: "ours" or "paper";
    `evidence`: "word", "phrase" or "paper", to override that of the conventions. `limit`: rows of each
    dataset. `faithfulness`: the share of tokens erased to measure it, or None; of documents and turns, one is
    erased. `pipeline`: the spaCy pipeline that finds evidence where files have none. `start`: what stands
    before every text (see `load`); None: what the model was loaded with, and with the paper's conventions
    what the tokenizer adds. `swaps`: for how many other words each token is swapped to measure agreement with
    interventions; `swap_depths`: where, None for the token itself, a number for the residual stream at that
    depth. `engine`, `workers`: where examples are explained (see `run`); `source`: where other processes find
    the model, None: it is sent. A run that was stopped is resumed.
    """
    require_decoder(model)
    rules = find_conventions(conventions, evidence)
    swapping = None if swaps is None else Swaps(swaps, tuple(swap_depths), seed)
    found = read_datasets(datasets, data)
    chosen = methods or ("sources" if all(dataset.ranks_parts for dataset in found) else None)
    listed = list_evaluated(chosen, rules.name)
    settings = Settings(listed, rules, limit, faithfulness, batch_size, seed, swapping)
    _require_fitting(model, settings, found)
    read = [_complete(dataset, settings, pipeline) for dataset in found]
    folder, own = Path(out), "tokenizer" if rules.name == "paper" else None
    model = model.starting_with(start or own or model.start)
    working = choose_engine(engine, workers)
    with write_folder_alone(folder), working.working():
        journal = open_journal(folder, describe(model, read, settings))
        used, skipped = [], []
        for dataset in read:
            prepared, unused = prepare(model, dataset, settings.conventions)
            used.append(prepared)
            skipped += unused
        write_skipped(folder, skipped)
        _run(working, choose_source(working, model, source), used, settings, journal)
        made = read_report(folder)
        save_tables(folder, [made])
    return made


def _require_fitting(model: Model, settings: Settings, datasets: Sequence[Dataset]) -> None:
    """Refuse depths that the model has not, and swapped words where documents are ranked."""
    require_depths(model, settings.methods)
    ranked = [dataset.name for dataset in datasets if dataset.ranks_parts]
    if ranked and settings.swaps is not None:
        raise InputError(
            f"swaps is {settings.swaps.count}, but {ranked[0]} ranks documents or turns.",
            "Words are swapped one by one: leave it out, or evaluate other datasets.",
        )
    if settings.swaps is not None:
        require_swaps(model, settings.swaps)


def list_evaluated(methods: str | Sequence[str] | None, conventions: str = "ours") -> tuple[str, ...]:
    """Turn a set, a name or names into names of methods; random is a column of every table.

    None: the default method first, then those of the paper's table; with its conventions these alone.
    """
    if methods is None:
        return PUBLISHED if conventions == "paper" else (DEFAULT_METHOD, *PUBLISHED)
    if methods == "paper":
        return PUBLISHED  # random is a column of every table
    if methods == "sources":
        return FOR_SOURCES
    names = METHODS if methods == "all" else [methods] if isinstance(methods, str) else methods
    found = tuple(name for name in find_names(names) if name != CHANCE)
    if not found:
        raise InputError("The only method is random.", "It is in every table: name another method.")
    return found


def describe(model: Model, datasets: Sequence[Dataset], settings: Settings) -> dict[str, Any]:
    """Describe a run: the settings that must agree when it is resumed or compared."""
    return {
        "model": model.name,
        "weights": fingerprint_network(model.network)[:12],
        "dtype": str(model.dtype).removeprefix("torch."),
        "start": find_start(model).text,
        "datasets": {
            dataset.name: {
                "title": dataset.title,
                "group": dataset.group,
                "hash": dataset.hash[:12],
                "rows": len(dataset) + len(dataset.skipped),
                "ranked": "parts" if dataset.ranks_parts else "tokens",
            }
            for dataset in datasets
        },
        "methods": list(settings.methods),
        "conventions": settings.conventions.name,
        "evidence": settings.conventions.evidence,
        "limit": settings.limit,
        "faithfulness": settings.faithfulness,
        "seed": settings.seed,
        "swaps": None if settings.swaps is None else settings.swaps.count,
        "swapped at": [name_place(depth) for depth in settings.swaps.depths] if settings.swaps else [],
        "versions": {name: version(name) for name in ("whyword", "torch", "transformers")},
    }


def _complete(dataset: Dataset, settings: Settings, pipeline: str | None) -> Dataset:
    """Cut a dataset to the requested rows, and find evidence where the file has none."""
    limits = [settings.limit, settings.conventions.most_rows.get(dataset.group)]
    limit = min((each for each in limits if each is not None), default=None)
    if limit is not None and limit < 1:
        raise InputError(f"limit is {limit}.", "Pass the number of rows of each dataset, at least 1.")
    cut = dataset if limit is None else dataset.first(limit)
    return cut if dataset.has_evidence else add_evidence(cut, pipeline)


def _run(
    engine: Engine,
    source: ModelSource,
    used: Sequence[Sequence[Prepared]],
    settings: Settings,
    journal: Journal,
) -> None:
    """Explain all unfinished examples, in windows that are written in their order whoever explains them."""
    cut = (range(0, len(examples), _WINDOW) for examples in used)
    windows = [
        examples[start : start + _WINDOW]
        for examples, starts in zip(used, cut, strict=True)
        for start in starts
    ]
    waiting = [
        number
        for number, window in enumerate(windows)
        if not {(each.example.dataset, each.example.row) for each in window} <= journal.done
    ]
    total, left = sum(map(len, windows)), sum(len(windows[number]) for number in waiting)
    job = Job(windows.__getitem__, partial(_begin, source, settings))
    for number, records in put_in_order(waiting, engine.map(job, waiting)):
        journal.append(records)
        left -= len(windows[number])
        report("examples", total - left, total)


def _begin(source: ModelSource, settings: Settings) -> Callable[[Sequence[Prepared]], list[Record]]:
    """Make a worker ready."""
    return partial(_explain, source.open(), settings=settings)


def _explain(model: Model, window: Sequence[Prepared], settings: Settings) -> list[Record]:
    """Explain examples by all methods."""
    methods = [*dict.fromkeys(read_name(name).method for name in settings.methods)]
    compared = compare_batch(
        model,
        [each.context for each in window],
        targets=[each.target for each in window],
        foils=[each.foil for each in window],
        methods=methods,
        parts=_name_parts(window) if any(METHODS[name].erases for name in methods) else None,
        batch_size=settings.batch_size,
    )
    records = [_record(each, comparison, settings) for each, comparison in zip(window, compared, strict=True)]
    if settings.swaps is not None:
        swapped = measure_swaps(model, window, records, settings.swaps)
        records = [replace(record, swaps=each) for record, each in zip(records, swapped, strict=True)]
    if settings.faithfulness is None:
        return records
    measured = measure_faithfulness(
        model,
        [each.context.ids for each in window],
        [Target(each.target, (each.foil,)) for each in window],
        records,
        settings.faithfulness,
        [each.units for each in window],
    )
    return [replace(record, faithfulness=each) for record, each in zip(records, measured, strict=True)]


def _name_parts(window: Sequence[Prepared]) -> list[dict[str, Span]] | None:
    """Name the parts that are ranked, so that erasure erases them; None where tokens are."""
    if not window[0].units:
        return None
    return [{str(place): span for place, span in enumerate(each.example.parts)} for each in window]


def _add_units(rows: Sequence[Sequence[float]], units: Sequence[Sequence[int]]) -> list[list[float]]:
    """Add up the scores of every unit, row by row."""
    return [[sum(row[token] for token in unit) for unit in units] for row in rows]


def _record(prepared: Prepared, comparison: Comparison, settings: Settings) -> Record:
    """Keep what tables and figures need of an example."""
    conventions, traced = settings.conventions, comparison.traced
    left_out = () if prepared.units else conventions.leave_out(prepared.context)
    tokens = len(prepared.units or prepared.context)
    kept = [index for index in range(tokens) if index not in left_out]
    evidence = [kept.index(index) for index in prepared.evidence]
    every = prepared.units or [(index,) for index in range(tokens)]
    ranked = [every[index] for index in kept]

    def rank(rows: Any) -> tuple[float, ...]:
        return tuple(conventions.rank(row, evidence) for row in _add_units(rows.tolist(), ranked))

    return Record(
        dataset=prepared.example.dataset,
        row=prepared.example.row,
        tokens=tokens,
        evidence=prepared.evidence,
        left_out=left_out,
        difference=comparison.ledger.logit,
        attention=tuple(comparison.ledger.attention.tolist()),
        mlp=tuple(comparison.ledger.mlp.tolist()),
        scores={
            name: tuple(_add_units([conventions.total(comparison, name)], every)[0])
            for name in settings.methods
        },
        rank_by_block={
            method: rank(by_block)
            for method, by_block in comparison.by_block.items()
            if measure_of(method).by_block
        },
        rank_by_depth={
            method: rank(traced.by_depth)
            for method in comparison
            if METHODS[method].frozen and traced is not None
        },
    )
