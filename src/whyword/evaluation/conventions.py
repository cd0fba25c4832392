"""How examples become questions to the model, and scores become ranks: our conventions and the paper's.

Both explain the first token of target and foil, and skip examples whose first tokens are the same.

|                    | ours                                      | paper                                 |
|--------------------|-------------------------------------------|---------------------------------------|
| evidence           | the word that decides                     | as published: for some sets a phrase  |
| ranked             | all tokens but special ones (BOS)         | all tokens                            |
| embedding's update | left out                                  | added at the last token               |
| equal scores       | expectation over random orders            | dense ranks                           |
| random column      | its expected value                        | scores drawn once                     |
| start of text      | found by the model's own likelihood       | what the tokenizer adds               |
| rows               | all                                       | the first 200 of each SVA set         |
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from ..ask.prompt import continue_prompt, read_prompt
from ..attribute.methods import measure_of
from ..data import EVIDENCE_KINDS, Dataset, Example, Skipped, choose_evidence, locate_tokens
from ..errors import InputError
from ..models.model import Model
from ..pipeline.many_prompts import compare_batch
from ..results.comparison import Comparison
from ..tokens import Tokens
from .method_names import read_name
from .metrics import expect_reciprocal_rank, rank_densely

__all__ = ["CONVENTIONS", "Conventions", "Prepared", "find_conventions", "prepare"]

OTHERWISE = "the model's first choice is another token"
"""Why an example that ranks parts is not used: where the model answers something else, no part is right."""


@dataclass(frozen=True)
class Prepared:
    """An example as the model reads it."""

    example: Example
    context: Tokens
    target: int
    foil: int
    evidence: tuple[int, ...]
    """Indices of the tokens that decide; of units, where there are any."""
    units: tuple[tuple[int, ...], ...] = ()
    """Tokens of every document or turn, where these are ranked instead of tokens."""


@dataclass(frozen=True)
class Conventions:
    """Everything that the two protocols differ in."""

    name: str
    evidence: str
    """Which words are evidence: see `data.EVIDENCE_KINDS`."""
    rank: Callable[[Sequence[float], Sequence[int]], float]
    """Returns the reciprocal rank of the evidence."""
    leave_out: Callable[[Tokens], tuple[int, ...]]
    """Returns the tokens that are not ranked."""
    total: Callable[[Comparison, str], list[float]]
    """Returns the scores of a method, by the name that evaluations give it."""
    drawn: bool
    """Whether the scores of the random column are drawn; otherwise it holds the expected value."""
    most_rows: Mapping[str, int]
    """How many rows are used, by group; other groups are used whole."""


def prepare(model: Model, dataset: Dataset, conventions: Conventions) -> tuple[list[Prepared], list[Skipped]]:
    """Turn the examples of a dataset into questions to a model; list those that cannot be used."""
    used: list[Prepared] = []
    skipped = list(dataset.skipped)
    for example in dataset.examples:
        made = _prepare(model, example, conventions)
        if isinstance(made, Prepared):
            used.append(made)
        else:
            skipped.append(Skipped(example.dataset, example.row, made))
    wrong = _find_wrong(model, [each for each in used if each.units])
    skipped += [Skipped(dataset.name, row, OTHERWISE) for row in sorted(wrong)]
    return [each for each in used if each.example.row not in wrong], skipped


def _find_wrong(model: Model, asked: Sequence[Prepared]) -> set[int]:
    """Find the rows of examples to which the model's first choice is not the answer."""
    compared = compare_batch(
        model,
        [each.context for each in asked],
        targets=[each.target for each in asked],
        foils=[each.foil for each in asked],
        methods=["logit"],
    )
    return {each.example.row for each, found in zip(asked, compared, strict=True) if found.target.rank != 1}


def find_conventions(name: str, evidence: str | None = None) -> Conventions:
    """Find conventions by name; `evidence` overrides theirs."""
    if name not in CONVENTIONS:
        raise InputError(f"There are no conventions {name!r}.", f"There are: {', '.join(CONVENTIONS)}.")
    if evidence is None:
        return CONVENTIONS[name]
    if evidence not in EVIDENCE_KINDS:
        raise InputError(f"There is no evidence {evidence!r}.", f"There is: {', '.join(EVIDENCE_KINDS)}.")
    return replace(CONVENTIONS[name], evidence=evidence)


def _prepare(model: Model, example: Example, conventions: Conventions) -> Prepared | str:
    """Prepare an example, or return the reason why it cannot be used."""
    try:
        tokens = read_prompt(model, example.prefix)
    except InputError:
        return "the prefix is longer than the model's positions" if example.prefix else "the prefix is empty"
    evidence = locate_tokens(tokens, choose_evidence(example, conventions.evidence))
    if not evidence:
        return "no evidence in the prefix"
    target, foil = (continue_prompt(model, tokens, word)[0] for word in (example.target, example.foil))
    if target == foil:
        return "target and foil begin with the same token"
    if not example.parts:
        return Prepared(example, tokens, target, foil, evidence)
    units = tuple(locate_tokens(tokens, [span]) for span in example.parts)
    right = tuple(place for place, unit in enumerate(units) if set(unit) & set(evidence))
    return Prepared(example, tokens, target, foil, right, units)


def _special(tokens: Tokens) -> tuple[int, ...]:
    return tuple(index for index, token in enumerate(tokens) if token.special)


def _scores(comparison: Comparison, name: str) -> list[float]:
    named = read_name(name)
    if named.depth is None:
        return comparison.by_block[named.method].sum(0).tolist()
    assert comparison.traced is not None
    return comparison.traced.by_depth[named.depth].tolist()


def _scores_with_embedding(comparison: Comparison, name: str) -> list[float]:
    scores = _scores(comparison, name)
    measure = measure_of(read_name(name).method)
    if measure.adds_up and measure.sum_of == "attention":
        scores[-1] += comparison.ledger.embedding
    return scores


CONVENTIONS: Mapping[str, Conventions] = {
    "ours": Conventions(
        name="ours",
        evidence="word",
        rank=expect_reciprocal_rank,
        leave_out=_special,
        total=_scores,
        drawn=False,
        most_rows={},
    ),
    "paper": Conventions(
        name="paper",
        evidence="paper",
        rank=rank_densely,
        leave_out=lambda tokens: (),
        total=_scores_with_embedding,
        drawn=True,
        most_rows={"SVA": 200},
    ),
}
