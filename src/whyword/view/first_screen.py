"""The first screen: the question, a sentence that answers it, the prompt, and bars that add up."""

from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.text import Text

from ..document.kinds import Document, read_measure
from .answer_sentences import count_start, decide, group_words, name_quantity, name_strongest, word_texts
from .bars import Bar, draw_bars, measure_names, write_number
from .quoting import Sentence, join, tell_apart
from .terminal_colour import paint_ground
from .verdict import give_verdict, list_parts
from .wording import after, chances, explain_scores, label, ledger_entries

__all__ = ["name_views", "render_first_screen"]

_WIDEST = 20
"""Cells of the longest word that is shown whole."""
_BARS = 20
"""Words that have a bar of their own unless a number is given; the others are added up."""
_LINES = 6
"""Lines of the prompt that are shown; of a longer one, what is around the strongest words."""
_AROUND = 6
"""Tokens that are shown on either side of a strong word in a long prompt."""


def render_first_screen(document: Document, width: int, top: int | None, *, numbers: bool) -> Iterator[Text]:
    """Render what answers the question: from the sentence to the bars."""
    yield Text(chances(document))
    yield Text(after(document), style="dim")
    unit = read_measure(document).unit
    yield from (Text(line, style="dim") for line in explain_scores(document, unit))
    yield Text("")
    yield _write(_answer(document))
    yield Text("")
    yield _tint_prompt(document, width)
    yield Text("")
    yield from _draw_bars(_list_bars(document, top), document, width, numbers=numbers)


def name_views(document: Document) -> str:
    """Name the other views of a document, as they are asked for."""
    if document.get("flow"):
        return "More: --by depth|head|token, --routes 9, -o e.html, --method logit --by block"
    rows = "block|head|token" if read_measure(document).by_block else "head|token"
    return f"More: --by {rows}, -o e.html, --method flow --by depth"


def _answer(document: Document) -> Sentence:
    """Give the sentences that answer, in the order in which a reader needs them."""
    if document.get("flow"):
        return give_verdict(document)
    measure = read_measure(document)
    decided = decide(document) if measure.adds_up else None
    return join(name_strongest(document) or [], " " if decided else "", decided or [])


def _write(sentence: Sentence) -> Text:
    """Write a sentence with its quoted words in bold."""
    text = Text()
    for place, part in enumerate(sentence):
        text.append(f"“{label(part)}”" if place % 2 else part, style="bold" if place % 2 else "")
    return text


# ------------------------------------------------------------ the prompt


def _tint_prompt(document: Document, width: int) -> Text:
    """Write the prompt on the colours of its tokens' scores; of a long one, what is around strong words."""
    pieces, largest = _cut_prompt(document), max(map(abs, document["scores"])) or 1.0
    shown = set(range(len(pieces)))
    if sum(cell_len(text) for text, _ in pieces) > _LINES * width:
        ranked = sorted(shown, key=lambda place: -abs(pieces[place][1]))
        shown = set(range(len(pieces) - 1 - 2 * _AROUND, len(pieces)))
        for place in ranked:
            wider = shown | set(range(max(0, place - _AROUND), min(len(pieces), place + _AROUND + 1)))
            if sum(cell_len(pieces[each][0]) for each in wider if each >= 0) > (_LINES - 1) * width:
                break
            shown = wider
    text, before = Text(), -1
    for place in sorted(place for place in shown if place >= 0):
        piece, score = pieces[place]
        if place != before + 1:
            text.append(" …" if piece.startswith(" ") else " … ", style="dim")
        bare = piece.lstrip(" ")
        text.append(piece[: len(piece) - len(bare)])
        text.append(bare, style=paint_ground(score, largest) or "")
        before = place
    return text.append(" ").append(f"▸{label(document['target']['text'])}", style="bold")


def _cut_prompt(document: Document) -> list[tuple[str, float]]:
    """Cut the text where tokens end; the start, which is not in the text, is left out."""
    text, reached, pieces = document["text"], 0, list[tuple[str, float]]()
    for token, score in zip(document["tokens"], document["scores"], strict=True):
        if token["end"] > reached and not (token["special"] and token["start"] == token["end"]):
            pieces.append((_show(text[reached : token["end"]]), score))
            reached = token["end"]
        elif pieces and token["end"] > token["start"]:
            pieces[-1] = (pieces[-1][0], pieces[-1][1] + score)
    return pieces


def _show(text: str) -> str:
    """Show a piece of text on one line, with its spaces and nothing invisible."""
    before = len(text) - len(text.lstrip(" "))
    return text if not text.strip(" ") else " " * before + label(text.strip(" ")) + " " * (text[-1:] == " ")


# ------------------------------------------------------------ the bars


def _list_bars(document: Document, top: int | None) -> list[Bar]:
    """List words in order, the weak ones of many added up; then what is not a word."""
    texts = [label(text) for text in word_texts(document)]
    scores = [sum(document["scores"][place] for place in places) for places in group_words(document)]
    begun = count_start(document) > 0
    names = tell_apart(texts[begun:])
    words = list(zip(names, scores[begun:], strict=True))
    most = top or _BARS
    ranked = sorted(range(len(words)), key=lambda place: -abs(words[place][1]))
    chosen = sorted(ranked[:most] if len(words) > most + 1 else ranked)
    bars = [Bar("start", scores[0], apart=True)] if begun else []
    bars += [Bar(*words[place]) for place in chosen]
    hidden = [words[place][1] for place in range(len(words)) if place not in set(chosen)]
    if hidden:
        bars.append(Bar(f"{len(hidden)} more words", sum(hidden), apart=True))
    return [*bars, *_list_others(document)]


def _list_others(document: Document) -> Iterator[Bar]:
    """List what is on no word: biases; of a method that explains attention's part, the other entries."""
    measure = read_measure(document)
    if document.get("flow"):
        if any(document["flow"]["bias"]):
            yield Bar("bias", list_parts(document).bias, apart=True)
    elif measure.adds_up:
        others = [entry for entry in ledger_entries(document) if entry[0] != "attention"]
        yield from (Bar(name, value, apart=True) for name, value in others)


def _draw_bars(bars: Sequence[Bar], document: Document, width: int, *, numbers: bool) -> Iterator[Text]:
    """Draw one bar for each line on both sides of zero, and what they add up to."""
    measure, names = read_measure(document), measure_names(bars, _WIDEST)
    lines = draw_bars(bars, width, _WIDEST, numbers=numbers, adds_up=measure.adds_up)
    for before, bar, line in zip([None, *bars], bars, lines, strict=False):
        if before is not None and not _is_rest(bar) and (before.apart != bar.apart or _is_rest(before)):
            yield Text("")
        yield line
    if measure.adds_up:
        shown = write_number(document["ledger"]["logit"])
        yield Text(" " * (names + 2) + "─" * 7, style="dim")
        total = Text(_name_total(document), no_wrap=True, overflow="ellipsis")
        total.append(shown.rjust(max(7, names + 9 - cell_len(total.plain))))
        total.stylize("bold")
        yield total.append(f"  {_explain_total(document)}", style="dim")


def _is_rest(bar: Bar) -> bool:
    return bar.name.endswith(" more words")


def _name_total(document: Document) -> str:
    return name_quantity(document["foils"]).removeprefix("logit ") or "logit"


def _explain_total(document: Document) -> str:
    """Say what is added up."""
    target, *foils = (f"“{label(each['text'])}”" for each in (document["target"], *document["foils"]))
    if not foils:
        return f"the logit of {target}"
    return f"logit of {target} − {'logit of ' if len(foils) == 1 else 'mean of '}{', '.join(foils)}"
