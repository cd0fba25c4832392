"""The words around the numbers in lines of text: in the terminal, in pictures and in LaTeX."""

import unicodedata

from ..document.kinds import Document, is_comparison, is_continuation, is_translation, read_measure
from .answer_sentences import START, count_start, name_strongest, warn_of_sink, word_texts
from .quoting import Sentence
from .sentences import ask

__all__ = [
    "after",
    "caution",
    "chances",
    "contrast",
    "explain_scores",
    "forced_text",
    "headline",
    "label",
    "ledger_entries",
    "prediction",
    "proof",
    "say_flow",
    "say_hidden",
    "say_sink",
    "say_strongest",
    "share_legend",
    "signed",
    "small_print",
    "token_labels",
    "word_labels",
    "write_sentence",
]

_VISIBLE = {" ": "␣", "\n": "⏎", "\r": "␍", "\t": "⇥"}
_UNPRINTABLE = {"Cc", "Cs", "Co", "Cn", "Zl", "Zp"}


def label(text: str) -> str:
    """Return a token's text as it is shown: one line, spaces at its edges left out, nothing invisible.

    Control characters are spelled out: a terminal would obey them.
    """
    shown = text.strip(" ") or text
    if not shown.strip():
        return "".join(_VISIBLE.get(character, "␣") for character in shown) or "∅"
    return "".join(_show(character) for character in shown)


def _show(character: str) -> str:
    if character in "\n\r\t":
        return _VISIBLE[character]
    if unicodedata.category(character) in _UNPRINTABLE:
        return f"\\u{ord(character):04x}"
    return character


def write_sentence(sentence: Sentence) -> str:
    """Write a sentence as one line: every second part is quoted, as it is shown."""
    return "".join(f"“{label(part)}”" if place % 2 else part for place, part in enumerate(sentence))


def word_labels(document: Document) -> list[str]:
    """Return the text of every word, in order, as it is shown."""
    return [label(text) for text in word_texts(document)]


def token_labels(document: Document) -> list[str]:
    """Give the text of every token, in order, as it is shown; the start of text is named so."""
    first = count_start(document)
    return [START] * first + [label(token["text"]) for token in document["tokens"][first:]]


def headline(document: Document) -> str:
    """Ask the question that a document answers."""
    return write_sentence(ask(document))


def prediction(document: Document) -> str:
    """Return the probabilities and logits of target and foils, and their difference."""
    choices = [document["target"], *document["foils"]]
    parts = [
        f"P({label(choice['text'])}) = {_percent(choice['probability'])}, logit {_logit(choice)}"
        for choice in choices
    ]
    difference = f"difference {document['ledger']['logit']:+.3f}"
    return " · ".join([*parts, *([difference] if document["foils"] else [])])


def chances(document: Document) -> str:
    """Give the probabilities of target and foils, their ranks where known, and the difference."""
    choices = [document["target"], *document["foils"]]
    parts = [
        f"P({label(choice['text'])}) = {_percent(choice['probability'])}{_rank(choice)}" for choice in choices
    ]
    what = "logit difference" if document["foils"] else "logit"
    return " · ".join([*parts, f"{what} {document['ledger']['logit']:+.2f}"])


def _rank(choice: Document) -> str:
    return f" (no. {choice['rank']:,})" if choice.get("rank") else ""


def contrast(document: Document) -> str | None:
    """Name the token of a translation that is contrasted with a foil, with their probabilities."""
    for choice, foil, ledger in zip(document["choices"], document["foils"], document["ledgers"], strict=True):
        if foil is not None:
            return (
                f"“{label(choice['text'])}” and not “{label(foil['text'])}”: "
                f"P = {_percent(choice['probability'])} and {_percent(foil['probability'])}, "
                f"difference {ledger['logit']:+.3f}"
            )
    return None


def share_legend(document: Document) -> str | None:
    """Say what the shares beside the rows of a translation are, and which are flagged."""
    if document["source_shares"] is None or "chosen" in document:  # by depth there are none
        return None
    below = f"{100 * document['threshold']:g} %"
    return f"right: the source's share · ⚑ below {below}: possibly hallucinated"


def forced_text(document: Document) -> str:
    """Return what target and foils begin with, which was forced before the token that is explained."""
    forced = document["tokens"][len(document["tokens"]) - document["forced"] :]
    return "".join(token["text"] for token in forced).strip()


def after(document: Document, by: str = "block") -> str:
    """Name the model and the method; heads are shown before any method is applied."""
    if is_comparison(document):
        return f"{document['model']}, {len(document['methods'])} methods"
    if "block" in document:
        return f"{document['model']}, {document['method']}, decoder block {document['block']}"
    if by == "head":
        return f"{document['model']}, updates before mixing"
    place = _place(document["flow"]) if "flow" in document else ""
    return f"{document['model']}, {document['method']}{place}"


def _place(flow: Document) -> str:
    """Say where in the network flow is read."""
    depth, blocks = flow["depth"], len(flow["by_depth"]) - 1
    return f" read after block {depth} of {blocks}" if depth else " read at the embeddings, before block 1"


def ledger_entries(document: Document) -> list[tuple[str, float]]:
    """Return the entries of the ledger, summed over blocks; those that are nothing in this model left out."""
    ledger = document["ledger"]
    entries = [
        ("embedding", ledger["embedding"]),
        ("attention", sum(ledger["attention"])),
        ("attention bias", sum(ledger["attention_bias"])),
        ("MLPs", sum(ledger["mlp"])),
        ("norm bias", ledger["norm_bias"]),
        ("unembedding bias", ledger["unembedding_bias"]),
    ]
    return [
        (name, value) for name, value in entries if value != 0 or name in ("embedding", "attention", "MLPs")
    ]


def proof(document: Document) -> str:
    """Add up the ledger in one line, with the model's own number and the error."""
    if is_continuation(document) or is_translation(document):
        ledgers = document.get("ledgers") or [part["ledger"] for part in document["explanations"]]
        worst = max(ledger["error"] for ledger in ledgers)
        return f"every ledger adds up to the model's own logit: largest error {worst:.0e}"
    ledger = document["ledger"]
    entries = ", ".join(f"{name} {value:+.3f}" for name, value in ledger_entries(document))
    total = f"{ledger['total']:+.3f}"
    own = "model" if total == f"{ledger['logit']:+.3f}" else f"model {ledger['logit']:+.3f}"
    return f"{entries} = {total} = {own}, error {ledger['error']:.0e}"


def say_flow(document: Document) -> list[str]:
    """Add up words, start and biases at the depth that is read, where a method traces all of the logit."""
    if "flow" not in document or is_comparison(document):
        return []
    flow, first, scores = document["flow"], count_start(document), document["scores"]
    entries = [("words", sum(scores[first:]))] + ([(START, sum(scores[:first]))] if first else [])
    entries.append(("biases", flow["bias"][flow["depth"]]))
    listed = ", ".join(f"{name} {value:+.3f}" for name, value in entries)
    return [f"{listed} = {sum(value for _, value in entries):+.3f} = model"]


def say_strongest(document: Document) -> list[str]:
    """Name the strongest words, where a method traces all of the logit (difference)."""
    traced = "flow" in document and not is_comparison(document)
    answer = name_strongest(document) if traced else None
    return [] if answer is None else [write_sentence(answer)]


def caution(document: Document, by: str = "block") -> str:
    """Say in one line what is exact, what is heuristic, and what the tokens add up to."""
    if is_comparison(document):
        measures = [read_measure(each) for each in document["methods"]]
        own = "a unit and colours of its own in each row"
        return f"exact: the ledger · {own}{_blind([each.contrastive for each in measures])}"
    first = document["explanations"][0] if is_continuation(document) else document
    measure = read_measure(first)
    if not measure.adds_up and by != "head":
        return f"exact: the ledger · scores do not add up to it{_blind([measure.contrastive])}"
    heuristic = "position = token" if by == "head" else measure.heuristic or "the method"
    if by in ("depth", "routes"):
        conserved = "every depth adds up to all of it" if by == "depth" else "edges in and out of every node"
        return f"exact: {conserved} · heuristic: {heuristic}"
    whole = by != "head" and measure.sum_of == "difference"
    every = "tokens, start and biases" if count_start(first) else "tokens and biases"
    total = f"{every} add up" if whole else "tokens add up to attention's part"
    return f"exact: {total} · heuristic: {heuristic}"


def _blind(contrastive: list[bool]) -> str:
    """Say that scores do not depend on the target, where none of some methods' does, or only some do."""
    if all(contrastive):
        return ""
    some = "shares and chance: " if any(contrastive) else ""
    return f" · {some}the same for every target and foil"


def _logit(choice: Document) -> str:
    """Write a logit, and the capped value beside it where the model caps its logits."""
    capped = choice.get("capped")
    return f"{choice['logit']:.2f}" + ("" if capped is None else f" (capped {capped:.2f})")


def explain_scores(document: Document, unit: str, by: str = "block") -> list[str]:
    """Say what scores are that do not add up to the logit (difference), and what depths and routes are."""
    if is_comparison(document):
        return []
    if by == "depth" and is_translation(document):
        name, flow = document.get("chosen_name"), document["joint_flow"]
        which = "it" if name is None else f"“{name}”"
        decoder, encoder = (len(flow[side][0]) - 1 for side in ("bias", "encoder_bias"))
        return [
            f"where all of {which} is: decoder {decoder} after its last block … 0 before its first, "
            f"encoder {encoder} … 0 below it"
        ]
    if by == "depth":
        last = len(document["ledger"]["mlp"])
        return [f"where all of it is: depth {last} after the last block … 0 before block 1"]
    if by == "routes":
        return ["what attention heads move from one position to another"]
    measure = read_measure(document["explanations"][0] if is_continuation(document) else document)
    return [] if measure.adds_up else [f"score: {measure.summary}; in {unit}"]


def small_print(document: Document, unit: str, by: str = "block") -> list[str]:
    """Say what must stand beside numbers that do not add up to the logit (difference), or are of flow."""
    said = explain_scores(document, unit, by)
    more = [*said, caution(document, by)] if said or is_comparison(document) else []
    return [*more, *say_sink(document)]


def say_sink(document: Document) -> list[str]:
    """Say that the first token is an attention sink, where that matters."""
    sink = None if is_translation(document) else warn_of_sink(document)
    return [] if sink is None else [write_sentence(sink)]


def say_hidden(count: int, what: str, *, summed: bool) -> str:
    """Say how many rows are not shown, and that the sum is of all of them; nothing where all are shown."""
    if count == 0:
        return ""
    shown = f"1 more {what} is not shown" if count == 1 else f"{count} more {what}s are not shown"
    return f"… {shown}{'; sums are of all' if summed else ''}."


def signed(value: float, size: int | None = None) -> str:
    """Write a number with its sign, none where nothing but zeros is shown; `size`: in so many characters."""
    shown = f"{value:+.2f}"
    if size is not None and len(shown) > size:
        shown = f"{value:+.1f}" if len(f"{value:+.1f}") <= size else f"{value:+.0f}"
    return " 0.00" if shown in ("+0.00", "-0.00") else shown


def _percent(probability: float) -> str:
    percent = 100 * probability
    return f"{percent:.1f} %" if percent >= 0.1 else f"{percent:.1g} %"
