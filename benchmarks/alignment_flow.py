"""Whether flow through the encoder, or similarity of encoder states, aligns words better than direct updates.

Flow needs a backward pass for every word, so it is measured on short pairs: those with at most so many words.
Even lines (2, 4, …) are for choosing, odd ones are reported; mutual links, negative scores cut to 0.

    python benchmarks/alignment_flow.py [--folder ../shared/models/opus-mt-zh-en]
                                        [--data ../shared/data/alignment/zh-en] [--pairs 12]
"""

from collections.abc import Sequence
from pathlib import Path

import torch
import transformers
from torch import Tensor

import whyword
from whyword.alignment.aer import Score, find_interval, score_links
from whyword.alignment.linking import Linking, link_words, share_both_sides
from whyword.alignment.links import Links, read_links
from whyword.alignment.method_choice import choose_settings
from whyword.alignment.parallel_files import read_words
from whyword.alignment.preparing import Prepared, prepare
from whyword.alignment.word_scores import measure_words
from whyword.alignment.words import read_sentence, share_tokens
from whyword.ask.sentence_pair import pair_up

from measure import parse, publish

MUTUAL = Linking("mutual", recall=0.0, null=0.0)
WordPair = tuple[Sequence[str], Sequence[str]]


def main() -> None:
    """Measure and publish."""
    options = parse(
        __doc__,
        rounds=1,
        folder=Path("../shared/models/opus-mt-zh-en"),
        data=Path("../shared/data/alignment/zh-en"),
        pairs=[12],
    )
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    model = whyword.load(options.folder, dtype="float32")
    words = read_words(options.data / "test.zh", options.data / "test.en")
    gold = read_links(options.data / "alignment.talp").sentences
    short = [index for index, (_, target) in enumerate(words) if len(target) <= options.pairs[0]]
    measured: dict[str, dict[int, Tensor]] = {}
    for index in short:
        for name, evidence in score_pair(model, words[index]).items():
            measured.setdefault(name, {})[index] = evidence
    rates = {name: rate(evidence, gold) for name, evidence in measured.items()}
    publish({"model": model.name, "pairs": len(short), "choices": rates}, options.output)


def score_pair(model: whyword.Model, pair: WordPair) -> dict[str, Tensor]:
    """Give the evidence of one pair by every choice."""
    prepared = prepare(model, *pair)
    assert prepared is not None
    settings = [choose_settings(model, method, None, "output") for method in ("logit", "combined")]
    updates, combined = (measure_words(model, [prepared], [each])[each][0] for each in settings)
    share = share_both_sides
    found = {"updates": share(updates.clamp(min=0)), "combined": combined}
    whole = flow_of(model, prepared)
    found["flow through decoder and encoder"] = share(whole)
    found["updates + flow"] = (found["updates"] + share(whole)) / 2
    found["combined + flow"] = (combined + share(whole)) / 2
    similar = compare_states(model, pair, prepared)
    found["similarity of encoder states"] = share(similar)
    found["combined + similarity"] = (combined + share(similar)) / 2
    return found


def flow_of(model: whyword.Model, prepared: Prepared) -> Tensor:
    """Score words by flow to every word of the translation, from those of the source alone."""
    pair = prepared.pair
    translation = pair.target.ids[pair.first : len(prepared.read)]
    found = whyword.explain_translation(model, pair.source.text, translation, method="flow")
    steps, size = prepared.target_shares.shape[1], len(pair.source)
    tokens = found.scores[:steps, :size].to(prepared.target_shares).clamp(min=0)
    return prepared.target_shares @ tokens @ prepared.source_shares.T


@torch.no_grad()
def compare_states(model: whyword.Model, pair: WordPair, prepared: Prepared) -> Tensor:
    """Score words by the cosine of what the encoder makes of both texts, positive ones alone.

    The encoder reads the translation too, which models of one direction were not trained for.
    """
    own = model.network.get_encoder()(input_ids=torch.tensor([prepared.pair.source.ids])).last_hidden_state[0]
    sentence = read_sentence(pair[1], "translation", "auto")
    read = pair_up(model, sentence.text, sentence.text).source
    other = model.network.get_encoder()(input_ids=torch.tensor([read.ids])).last_hidden_state[0]
    shares = share_tokens(sentence, read)[1].to(other)
    vectors = prepared.source_shares.to(own) @ own, shares @ other
    sources, targets = (each / each.norm(dim=1, keepdim=True).clamp(min=1e-9) for each in vectors)
    return (targets @ sources.T).clamp(min=0)


def rate(evidence: dict[int, Tensor], gold: Sequence[Links]) -> dict[str, object]:
    """Give error rates of mutual links in percent: on even lines, and on odd lines with an interval."""
    scores = {}
    for index, each in evidence.items():
        every = tuple(torch.ones(size, dtype=torch.bool) for size in each.shape)
        scores[index] = score_links([(link_words(each, each, (every[0], every[1]), MUTUAL), gold[index])])
    nothing = Score(0, 0, 0, 0)
    even, odd = ([own for index, own in scores.items() if index % 2 == start] for start in (1, 0))
    total = sum(odd, nothing)
    return {
        "even": round(100 * sum(even, nothing).aer, 1),
        "odd": round(100 * total.aer, 1),
        "95 %": [round(100 * each, 1) for each in find_interval(odd)],
        "precision": round(100 * total.precision, 1),
        "recall": round(100 * total.recall, 1),
    }


if __name__ == "__main__":
    main()
