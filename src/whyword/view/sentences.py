"""The sentences that a document carries under `wording`, for every page that draws it.

A sentence is a string, or a list in which every second string is text of a prompt: a page quotes it, and
marks what cannot be seen. All is derived from the rest of the document: reading a document back ignores it.
"""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, ParamSpec

from ..attribute.methods import METHODS
from ..document.kinds import (
    ALIGNMENT_SCHEMA,
    CONTINUATION_SCHEMA,
    KINDS,
    SURVEY_SCHEMA,
    TRANSLATION_SCHEMA,
    Document,
    read_measure,
)
from ..lazy import find_at
from .answer_sentences import count_start, decide, name_quantity, name_strongest, warn_of_sink
from .quoting import Sentence, capitalise, join, quote, write_exponent, write_plain, write_signed
from .verdict import find_reading_depth, give_verdict

__all__ = [
    "add_wording",
    "ask",
    "ask_about",
    "describe",
    "describe_alignment",
    "describe_comparison",
    "describe_continuation",
    "describe_explanation",
    "describe_neurons",
    "describe_survey",
    "describe_translation",
    "name_alignment",
    "prefer",
    "read_colours",
    "worded",
]

_Arguments = ParamSpec("_Arguments")
Wording = dict[str, Any]
"""Sentences by what they say; a list of them, or of wordings, where a document has several parts."""

_BLIND = "They are the same for every target and foil."


def add_wording(document: Document) -> dict[str, Any]:
    """Return a document with its sentences, and those of its parts."""
    said = dict(document)
    if document.get("schema") == CONTINUATION_SCHEMA:
        said["explanations"] = [add_wording(part) for part in document["explanations"]]
    return {**said, "wording": describe(document)}


def worded(make: Callable[_Arguments, dict[str, Any]]) -> Callable[_Arguments, dict[str, Any]]:
    """Make a function that gives a document give its sentences too."""

    @wraps(make)
    def make_worded(*arguments: _Arguments.args, **named: _Arguments.kwargs) -> dict[str, Any]:
        return add_wording(make(*arguments, **named))

    return make_worded


def describe(document: Document) -> Wording:
    """Say in words what a document shows; nothing of kinds that are not known."""
    homes = [kind.wording for kind in KINDS if kind.schema == document.get("schema") and kind.wording]
    return {name: said for home in homes for name, said in find_at(home)(document).items() if said}


def ask(document: Document) -> Sentence:
    """Ask the question that a document answers."""
    schema = document["schema"]
    if schema == SURVEY_SCHEMA:
        return [f"Which {document['part']} decide?"]
    if schema == ALIGNMENT_SCHEMA:
        source, target = (" ".join(document[side]) for side in ("source", "target"))
        return join("Which words of ", quote(source), " does ", quote(target), " come from?")
    if schema == TRANSLATION_SCHEMA:
        return join(
            "Why ", quote(document["target"]["text"]), " for ", quote(document["source"]["text"]), "?"
        )
    if schema == CONTINUATION_SCHEMA:
        return join("Why ", quote(document["text"]), "?")
    return ask_about(document["target"], document["foils"])


def name_alignment(document: Document) -> str:
    """Name the model, the method and where it was read."""
    return f"{document['model']}, {', '.join([document['method'], *_read_where(document)])}"


# ------------------------------------------------------------ by kind of document


def describe_explanation(document: Document) -> Wording:
    """Say in words what an explanation shows."""
    measure, quantity = read_measure(document), name_quantity(document["foils"])
    return {
        **_describe_prediction(document),
        "subtitle": measure.summary,
        **(
            {"answer": give_verdict(document)}
            if document.get("flow")
            else {
                "decision": decide(document) if measure.adds_up else None,
                "answer": name_strongest(document),
            }
        ),
        "sink": warn_of_sink(document),
        "coverage": _cover_logit(document),
        "legend": read_colours(quantity if measure.adds_up else None, measure.unit),
        "heads": "What every head adds before mixing, summed over tokens. Blocks and heads count from 1.",
        "head_legend": read_colours(quantity, "logits"),
        "head_rows": _read_heads(document["method"]),
        "account": _close_account(document["account"]) if "account" in document else None,
        **(_describe_flow(document) if document.get("flow") else {}),
    }


def describe_continuation(document: Document) -> Wording:
    """Say in words what a continuation shows."""
    return {
        "question": ask(document),
        "subtitle": read_measure(document["explanations"][0]).summary,
        "sink": warn_of_sink(document),
        "lead": "One row per generated token, over the tokens it could see. Choose one to see its blocks.",
    }


def describe_comparison(document: Document) -> Wording:
    """Say in words what a comparison shows."""
    measures = [read_measure(each) for each in document["methods"]]
    lead = "Each row has its own unit and its own colour scale: compare ranks, not sizes."
    if not all(measure.contrastive for measure in measures):
        lead += " Grey rows are not contrastive: they are the same for every target and foil."
    return {
        **_describe_prediction(document),
        "subtitle": f"{len(measures)} methods",
        "sink": warn_of_sink(document),
        "lead": lead,
        "scores": [
            f"{capitalise(measure.summary)}.{'' if measure.contrastive else f' {_BLIND}'}"
            for measure in measures
        ],
    }


def describe_neurons(document: Document) -> Wording:
    """Say in words what the neurons of a prediction shows."""
    count = sum(len(block["update"]) for block in document["blocks"])
    reverses = any(neuron["activation"] * neuron["gate"] < 0 for neuron in document["named"])
    return {
        **_describe_prediction(document),
        "subtitle": f"{count:,} MLP neurons",
        "reversed": "Reversed: the activation is negative, so here the neuron lowers what its value vector "
        "promotes and raises what it suppresses."
        if reverses
        else None,
    }


def describe_survey(document: Document) -> Wording:
    """Say in words what a survey shows."""
    data = ", ".join(name for name, _ in document["data"])
    return {"question": ask(document), "subtitle": f"mean over {document['examples']} examples of {data}"}


def describe_translation(document: Document) -> Wording:
    """Say in words what a translation shows."""
    below = f"{100 * document['threshold']:g} %"
    lead = "One row per word of the translation, over the words of the source and those already written."
    if document["source_shares"] is not None:
        flagged = len(document["flagged"])
        count = "1 token is" if flagged == 1 else f"{flagged or 'no'} tokens are"
        lead += f" Share: how much of the step came from the source (heuristic); {count} below {below}"
        lead += ", ⚑ possibly hallucinated." if flagged else "."
    steps = zip(document["choices"], document["foils"], document["ledgers"], strict=True)
    return {
        "question": ask(document),
        "subtitle": read_measure(document).summary,
        "lead": lead,
        "depths": "Where the logit of the chosen word is: down the decoder, where the source has what blocks "
        "above read of it, then down the encoder. Every row, with what biases add above it, adds up to it.",
        "share": "share of the source",
        "low_share": f"below {below}: possibly hallucinated",
        "steps": [_describe_step(choice, [] if foil is None else [foil], own) for choice, foil, own in steps],
    }


def describe_alignment(document: Document) -> Wording:
    """Say in words what an alignment shows."""
    marks = "● marks a link"
    if document.get("gold"):
        marks += ", a green frame a human (gold) link, a dashed one a possible link"
    lead = f"One row per word of the translation, one column per word of the source; {marks}."
    return {
        "question": ask(document),
        "subtitle": ", ".join(_read_where(document)),
        "lead": lead if document["source"] and document["target"] else "There is nothing to align.",
        "legend": ["", "", "share of the largest score in its row"],
    }


# ------------------------------------------------------------ what is said


def _describe_prediction(document: Document) -> Wording:
    target, foils = document["target"], document["foils"]
    return {**_describe_step(target, foils, document["ledger"]), "preference": prefer(target, foils)}


def _describe_step(target: Document, foils: Sequence[Document], ledger: Document) -> Wording:
    """Say what every prediction has: its question, what is explained of it, and the proof."""
    quantity = name_quantity(foils)
    total, logit = (write_plain(ledger[name], 6) for name in ("total", "logit"))
    absolute, relative = abs(ledger["total"] - ledger["logit"]), ledger["error"]
    return {
        "question": ask_about(target, foils),
        "quantity": quantity,
        "proof": f"Total {total}, the model’s own {quantity} {logit}: absolute error "
        f"{write_exponent(absolute)}, relative to all entries {write_exponent(relative)}.",
    }


def ask_about(target: Document, foils: Sequence[Document]) -> Sentence:
    """Ask why it is the target and not the foils."""
    asked = join("Why ", quote(target["text"]))
    for place, foil in enumerate(foils):
        asked = join(asked, " or " if place else " and not ", quote(foil["text"]))
    return join(asked, "?")


def prefer(target: Document, foils: Sequence[Document]) -> Sentence | None:
    """Name the foil that the model itself prefers, where there is one."""
    best = max(foils, key=lambda foil: float(foil["logit"]), default=target)
    if best["logit"] <= target["logit"]:
        return None
    return join("(the model itself prefers ", quote(best["text"]), ")")


def _cover_logit(document: Document) -> str:
    """Say how much of the logit the scores of all tokens make up."""
    measure, ledger = read_measure(document), document["ledger"]
    whole = f"the {name_quantity(document['foils'])} of {write_signed(ledger['logit'], 3)}"
    if not measure.adds_up:
        blind = "" if measure.contrastive else f" {_BLIND}"
        return f"Scores in {measure.unit}: {measure.summary}. They do not add up to {whole}.{blind}"
    if measure.sum_of == "difference":
        first, scores = count_start(document), document["scores"]
        flow, depth = document.get("flow"), find_reading_depth(document) if document.get("flow") else 0
        biases = ledger["logit"] - sum(scores) if flow is None else flow["bias"][depth]
        parts = [f"Words ({write_signed(float(sum(scores[first:])), 3)})"]
        parts += [f"start ({write_signed(float(sum(scores[:first])), 3)})"] if first else []
        return f"{', '.join(parts)} and biases ({write_signed(float(biases), 3)}) add up to {whole}."
    sums = f"add up to {write_signed(sum(document['scores']), 3)}, attention’s part of {whole}"
    rest = "The other entries are not traced to tokens."
    return f"The scores of all tokens {sums}. {rest}"


def read_colours(quantity: str | None, unit: str) -> list[str]:
    """Name both ends of a colour scale, and what its numbers are; `quantity`: what they add up to."""
    if quantity is None:
        return ["", "", f"in {unit}"]
    return ["lowers", "raises", f"the {quantity}"]


def _describe_flow(document: Document) -> Wording:
    """Say how to read the map of depths and the graph of routes."""
    flow, quantity = document["flow"], name_quantity(document["foils"])
    whole, last = write_signed(document["ledger"]["logit"], 2), len(flow["by_depth"]) - 1
    biases = ", with what biases add above it," if any(flow["bias"]) else ""
    return {
        "depths": f"Where the {quantity} is: depth 0 is before block 1, {last} after the last block. "
        f"Every row{biases} adds up to {whole}. The scores are read in the outlined row.",
        "routes": "What attention heads move from one position to another, block by block from the bottom "
        "up. Pale columns are what is at a position. Widths are amounts; red raises, blue lowers.",
    }


def _read_heads(method: str) -> str:
    traced = f"; {method} then traces what it read back to the tokens mixed into them"
    return f"A head reads positions{traced if method in METHODS and METHODS[method].keeps_mixing else ''}."


def _close_account(account: Document) -> str:
    numbers = sum(account["scores"]), account["biases"], account["logit"]
    tokens, biases, logit = (write_signed(number, 3) for number in numbers)
    return f"{capitalise(account['note'])}. All tokens ({tokens}) and biases ({biases}) add up to {logit}."


def _read_where(document: Document) -> list[str]:
    """Say where an alignment was read: in which decoder block, at which step."""
    where = "all decoder blocks" if document["block"] is None else f"decoder block {document['block']}"
    parts = [] if document["method"] == "smoothgrad" else [where]
    return [*parts, *(["where words are read"] if document["step"] == "input" else [])]
