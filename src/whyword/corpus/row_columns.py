"""The columns that a run writes of every row and method.

One row of the table for each row of the file and each method. `keep` says how much is written: `scores` what
programs want (tokens, scores, words, parts, ledger), `blocks` also every block and depth, `flow` everything
that the explanation had.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from ..results.token_groups import name_parts
from .row_index import ShardRow

if TYPE_CHECKING:
    from ..results.explanation import Explanation

__all__ = ["COLUMNS", "KEPT", "Column", "carry", "list_columns", "make_failure", "make_record"]

KEPT = ("scores", "blocks", "flow")
"""How much is written, from little to all."""


@dataclass(frozen=True)
class Column:
    """One column of the table."""

    kind: str
    """text, int, float, float32, bool, or a list of these; choice(s): a word, its logit and probability."""
    about: str
    level: str = "scores"
    """The least of `KEPT` that has it."""


COLUMNS: Mapping[str, Column] = {
    "id": Column("text", "The id of the row: its own, or its number in the file."),
    "row": Column("int", "The number of the row in the file, counted from 1."),
    "method": Column("text", "The method; empty where the row could not be asked."),
    "model": Column("text", "The model's name."),
    "weights": Column("text", "The fingerprint of its weights."),
    "error": Column("text", "Why the row could not be explained; null where it was. All below is null then."),
    "text": Column("text", "The prompt as the model read it, and what was forced after it."),
    "difference": Column(
        "float", "The model's logit of the target − that of the foil; without a foil, its logit."
    ),
    "target": Column("choice", "The explained word: id, text, logit, probability, capped, rank, special."),
    "foils": Column("choices", "What it is contrasted with, in the same form."),
    "tokens": Column("[text]", "The text of every token of the context."),
    "scores": Column("[float32]", "The score of every token."),
    "words": Column("[text]", "The words; before them `start`, where the context has a start of text."),
    "word_scores": Column("[float]", "The score of every word: the sum over its tokens."),
    "parts": Column("[text]", "The parts that `by` divides the prompt into; null without it."),
    "part_scores": Column("[float]", "The score of every part."),
    "bias": Column("float", "What biases add and no token has, of methods that say."),
    "token_ids": Column("[int]", "The id of every token."),
    "token_starts": Column("[int]", "Where every token starts in `text`, in characters."),
    "token_ends": Column("[int]", "Where it ends."),
    "token_words": Column("[int]", "Index of the word that it is part of."),
    "token_special": Column("[bool]", "Whether it marks structure rather than text."),
    "token_roles": Column("[text]", "Who speaks; null where the prompt is not a chat."),
    "token_turns": Column("[int]", "Index of the chat turn; null where the prompt is not a chat."),
    "token_parts": Column("[text]", "The named part of the prompt, or span; null where it has none."),
    "start": Column("text", "How the start of text was chosen."),
    "forced": Column("int", "How many of the last tokens target and foil share."),
    "position": Column("int", "Index of the token whose next token is explained."),
    "first_attention": Column("float", "The share of attention that the first token gets."),
    "computed_in": Column("text", "The type that the network computed in."),
    "embedding": Column("float", "Ledger: what the embedding adds."),
    "attention": Column("[float]", "Ledger: what attention adds, by block."),
    "attention_bias": Column("[float]", "Ledger: what the biases of its output projections add, by block."),
    "mlp": Column("[float]", "Ledger: what MLPs add, by block."),
    "norm_bias": Column("float", "Ledger: what biases of norms add."),
    "unembedding_bias": Column("float", "Ledger: what the bias of the unembedding adds."),
    "total": Column("float", "Ledger: the sum of all entries."),
    "ledger_error": Column("float", "|total − difference| / Σ|entries|."),
    "depth": Column("int", "The depth that scores of flow are read at."),
    "heads": Column("[float32]", "What every head adds by itself: blocks × heads, row by row.", "blocks"),
    "by_block": Column(
        "[float32]", "The scores by block and token, row by row; one row without blocks.", "blocks"
    ),
    "flow": Column("[float]", "Flow by depth and token, row by row: (blocks + 1) × tokens.", "blocks"),
    "flow_bias": Column("[float]", "What biases written above each depth add.", "blocks"),
    "mixing": Column(
        "[float32]", "The explained position as a mix of tokens, by block, row by row.", "blocks"
    ),
    "by_head": Column(
        "[float32]", "What each token adds through each head: blocks × heads × tokens.", "flow"
    ),
    "route_blocks": Column(
        "[int]", "Block of each of the strongest edges between positions, from 0.", "flow"
    ),
    "route_heads": Column("[int]", "Their heads, from 0.", "flow"),
    "route_sources": Column("[int]", "Index of the token that each is read at.", "flow"),
    "route_destinations": Column("[int]", "Index of the token that it is written at.", "flow"),
    "route_amounts": Column("[float]", "What it moves, in logits.", "flow"),
}
"""Every column that a run writes; those of the file that ask nothing follow, under their own names."""


def list_columns(keep: str, carried: Mapping[str, str]) -> dict[str, Column]:
    """List the columns of a table, and those that are carried along; a name that is taken gets a prefix."""
    if keep not in KEPT:
        raise InputError(f"keep is {keep!r}.", f"What is written: {', '.join(KEPT)}.")
    most = KEPT.index(keep)
    own = {name: column for name, column in COLUMNS.items() if KEPT.index(column.level) <= most}
    return own | {rename(name): Column(kind, "Carried along.") for name, kind in carried.items()}


def rename(name: str) -> str:
    """Give a carried column a name that is not one of ours."""
    return f"input_{name}" if name in COLUMNS else name


def carry(row: ShardRow, carried: Mapping[str, str]) -> dict[str, Any]:
    """Give the carried cells of a row, as their columns hold them."""
    cells: dict[str, Any] = {}
    for name, kind in carried.items():
        value = row.values.get(name)
        if value is not None and kind == "json":
            value = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        elif value is not None and kind == "float":
            value = float(value)
        cells[rename(name)] = value
    return cells


def make_failure(row: ShardRow, method: str, reason: str) -> dict[str, Any]:
    """Make the record of a row that could not be explained."""
    return {"id": row.id, "row": row.number, "method": method, "error": " ".join(reason.split())}


def make_record(
    row: ShardRow, explained: "Explanation", keep: str, by: Any, prompt: int | None
) -> dict[str, Any]:
    """Make the record of an explanation; `by`: a unit or spans; `prompt`: tokens before an answer."""
    words, tokens, traced = explained.words(), explained.tokens, explained.traced
    divided = None if by is None else explained.divide(by, prompt)
    record: dict[str, Any] = {
        "id": row.id,
        "row": row.number,
        "method": explained.method,
        "error": None,
        "text": tokens.text,
        "difference": explained.ledger.logit,
        "target": asdict(explained.target),
        "foils": [asdict(foil) for foil in explained.foils],
        "tokens": [token.text for token in tokens],
        "scores": explained.scores.numpy(),
        "words": [word for word, _ in words],
        "word_scores": [score for _, score in words],
        "parts": None if divided is None else list(divided.names),
        "part_scores": None if divided is None else list(divided.scores),
        "bias": None if traced is None else float(traced.bias[traced.depth]),
        "depth": None if traced is None else traced.depth,
        "start": tokens.chosen,
        "forced": explained.forced,
        "position": explained.position,
        "first_attention": explained.first_attention,
        "computed_in": explained.computed_in,
        **_describe_tokens(explained),
        **_describe_ledger(explained),
    }
    if isinstance(by, Mapping):
        record["token_parts"] = name_parts(tokens, by, prompt)
    if keep != "scores":
        record |= _describe_blocks(explained)
    if keep == "flow":
        record |= _describe_edges(explained)
    return record


def _describe_tokens(explained: "Explanation") -> dict[str, Any]:
    tokens = explained.tokens
    placed = {"roles": "role", "turns": "turn", "parts": "part"}
    every = {name: [getattr(token, field) for token in tokens] for name, field in placed.items()}
    return {
        "token_ids": tokens.ids,
        "token_starts": [token.start for token in tokens],
        "token_ends": [token.end for token in tokens],
        "token_words": [token.word for token in tokens],
        "token_special": [token.special for token in tokens],
        **{
            f"token_{name}": None if all(each is None for each in cells) else cells
            for name, cells in every.items()
        },
    }


def _describe_ledger(explained: "Explanation") -> dict[str, Any]:
    ledger = explained.ledger
    return {
        "embedding": ledger.embedding,
        "attention": ledger.attention.double().numpy(),
        "attention_bias": ledger.attention_bias.double().numpy(),
        "mlp": ledger.mlp.double().numpy(),
        "norm_bias": ledger.norm_bias,
        "unembedding_bias": ledger.unembedding_bias,
        "total": ledger.total,
        "ledger_error": ledger.error,
    }


def _describe_blocks(explained: "Explanation") -> dict[str, Any]:
    traced = explained.traced
    return {
        "heads": explained.ledger.by_head.double().sum(2).float().flatten().numpy(),
        "by_block": explained.by_block.flatten().numpy(),
        "flow": None if traced is None else traced.by_depth.flatten().numpy(),
        "flow_bias": None if traced is None else traced.bias.numpy(),
        "mixing": None if explained.mixing is None else explained.mixing.flatten().numpy(),
    }


def _describe_edges(explained: "Explanation") -> dict[str, Any]:
    routes = () if explained.traced is None else explained.traced.routes
    names = {"blocks": "block", "heads": "head", "sources": "source", "destinations": "destination"}
    return {
        "by_head": explained.by_head.flatten().numpy(),
        **{f"route_{name}": [getattr(route, field) for route in routes] for name, field in names.items()},
        "route_amounts": [route.amount for route in routes],
    }
