"""From scores to links: shares of both sides, recall, null, confidence, agreeing heads, two directions."""

from math import exp, log, sqrt
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import toy_translators
import whyword
from whyword.alignment.agreeing_heads import combine
from whyword.alignment.confidence import estimate_confidence
from whyword.alignment.linking import (
    LINKING,
    Linking,
    climb_recall,
    find_mutual,
    link_words,
    share_both_sides,
)
from whyword.alignment.preparing import prepare
from whyword.alignment.token_scores import MEASURES, record_prepared
from whyword.alignment.words import read_sentence

GERMAN, ENGLISH = "Die Bank am Fluss ist alt .", "The bank of the river is old ."
MUTUAL = Linking("mutual", recall=0.0, null=0.0)


@pytest.fixture(scope="module")
def m2m(tmp_path_factory: pytest.TempPathFactory) -> whyword.Model:
    tokenizer = toy_translators.make_m2m_100(tmp_path_factory.mktemp("m2m"))
    tokenizer.tgt_lang = "en"
    return toy_translators.load_tiny(tokenizer)


@st.composite
def grids(draw: st.DrawFn) -> torch.Tensor:
    rows, columns = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    values = st.lists(st.floats(-2, 2, width=32), min_size=columns, max_size=columns)
    return torch.tensor(draw(st.lists(values, min_size=rows, max_size=rows)), dtype=torch.float64)


def share_plainly(scores: torch.Tensor) -> list[list[float]]:
    kept = [[max(0.0, value) for value in row] for row in scores.tolist()]
    columns = [sum(column) for column in zip(*kept, strict=True)]
    return [
        [
            sqrt(value / sum(row) * value / columns[place]) if value > 0 else 0.0
            for place, value in enumerate(row)
        ]
        for row in kept
    ]


def link_plainly(shares: list[list[float]], linking: Linking) -> set[tuple[int, int]]:
    """Choose links by the words of the module, one pair of words after the other."""
    turned = [list(column) for column in zip(*shares, strict=True)]
    places = [(source, target) for target in range(len(shares)) for source in range(len(shares[0]))]
    mutual = {
        (source, target)
        for source, target in places
        if shares[target].index(max(shares[target])) == source
        and turned[source].index(max(turned[source])) == target
        and shares[target][source] > 0
    }
    more = {
        (source, target)
        for source, target in places
        if shares[target][source] > 1 - linking.recall
        and (all(source != own for own, _ in mutual) or all(target != other for _, other in mutual))
    }
    return {(source, target) for source, target in mutual | more if shares[target][source] >= linking.null}


@given(scores=grids(), recall=st.floats(0, 1), null=st.floats(0, 0.5))
def test_links_are_what_the_definition_says(scores: torch.Tensor, recall: float, null: float) -> None:
    shares = share_both_sides(scores)
    torch.testing.assert_close(shares, torch.tensor(share_plainly(scores), dtype=torch.float64))
    written = torch.ones(scores.shape[0], dtype=torch.bool), torch.ones(scores.shape[1], dtype=torch.bool)
    linking = Linking("mutual", recall, null)
    assert {*link_words(scores, shares, written, linking)} == link_plainly(shares.tolist(), linking)
    few, many = (link_words(scores, shares, written, Linking("mutual", each, 0.0)) for each in (0.0, recall))
    assert {*few} <= {*many}  # recall only adds links
    best = link_words(scores, shares, written, Linking("best"))
    assert best == tuple(sorted((int(row.argmax()), place) for place, row in enumerate(scores)))


def test_links_by_hand() -> None:
    scores = torch.tensor([[9.0, 0.0, 0.0], [5.0, 0.0, 0.0], [0.0, 1.0, 1.0], [0.0, 0.0, 2.0]])
    every = torch.ones(4, dtype=torch.bool), torch.ones(3, dtype=torch.bool)
    shares = share_both_sides(scores)
    assert link_words(scores, shares, every, MUTUAL) == ((0, 0), (1, 2), (2, 3))
    # Two words for one: √(5/14) = 0.60 of the second is on a word that has its best elsewhere.
    assert link_words(scores, shares, every, Linking("mutual", 0.5, 0.0)) == ((0, 0), (0, 1), (1, 2), (2, 3))
    unwritten = torch.tensor([True, True, False, True]), torch.tensor([True, True, False])
    assert link_words(scores, shares, unwritten, MUTUAL) == ((0, 0),)
    assert link_words(scores, shares, unwritten, Linking("best")) == ((0, 0), (0, 1), (0, 3))
    assert link_words(scores, shares, unwritten, Linking("mutual", 0.0, 0.9)) == ()
    none = torch.zeros(4, dtype=torch.bool), torch.ones(3, dtype=torch.bool)
    assert link_words(scores, shares, none, LINKING) == ()
    nothing = -scores.abs()
    assert link_words(nothing, share_both_sides(nothing), every, Linking("mutual", 1.0, 0.0)) == ()


def test_confidence_grows_with_evidence_and_for_each_others_best() -> None:
    evidence = torch.tensor([[0.9, 0.1], [0.3, 0.4]], dtype=torch.float64)
    assert find_mutual(evidence).tolist() == [[True, False], [False, True]]
    found = estimate_confidence(evidence, [(0, 0), (0, 1), (1, 1)])
    plain = [
        1 / (1 + exp(-(0.92 + 1.87 * log(share / (1 - share)) + 0.97 * mutual)))
        for share, mutual in ((0.9, 1), (0.3, 0), (0.4, 1))
    ]
    assert found == pytest.approx(plain)
    assert estimate_confidence(evidence, []) == ()


def test_heads_that_agree_with_updates_are_read_one_step_later(m2m: whyword.Model) -> None:
    """Against the definition, head by head and word by word, on attention as the network returns it."""
    prepared = prepare(m2m, GERMAN, ENGLISH)
    assert prepared is not None
    recorded = record_prepared(m2m, [prepared], ["logit"])
    steps, size = prepared.target_shares.shape[1], len(prepared.pair.source)
    updates = MEASURES["logit"].measure(recorded).sum(1)[:steps, :size]
    network = m2m.network
    network.set_attn_implementation("eager")
    with torch.no_grad():
        returned = network(
            input_ids=torch.tensor([prepared.pair.source.ids]),
            decoder_input_ids=torch.tensor([prepared.read]),
            output_attentions=True,
        ).cross_attentions
    network.set_attn_implementation("sdpa")
    first = prepared.pair.first
    words, own = prepared.target_shares, prepared.source_shares
    produced = share_both_sides(words @ updates.clamp(min=0) @ own.T)
    written = torch.ones(len(words), dtype=torch.bool), torch.ones(len(own), dtype=torch.bool)
    links = link_words(produced, produced, written, MUTUAL)
    heads, agreements = [], []
    for weights in returned:
        for head in weights[0]:
            grid = words @ head[first : first + steps].to(words) @ own.T  # the steps that read the words
            heads.append(grid)
            agreements.append(sum(float(grid[t, s] / grid[t].sum()) for s, t in links) / len(links))
    kept = [each if each > max(agreements) / 2 else 0.0 for each in agreements]
    attention = sum(weight * head for weight, head in zip(kept, heads, strict=True))
    assert isinstance(attention, torch.Tensor)
    expected = (produced + share_both_sides(attention)) / 2
    found = whyword.align(m2m, GERMAN, ENGLISH)
    torch.testing.assert_close(found.scores, expected.float(), rtol=1e-3, atol=1e-4)
    assert found.scores.min() >= 0
    assert found.scores.max() <= 1


def test_a_head_that_looks_elsewhere_does_not_count() -> None:
    updates = torch.eye(4, dtype=torch.float64)
    shares = torch.eye(4, dtype=torch.float64), torch.eye(4, dtype=torch.float64)
    good, wrong = torch.eye(4, dtype=torch.float64), torch.eye(4, dtype=torch.float64).roll(1, 0)
    both = combine(updates, [torch.stack([good, wrong], dim=1)], shares)
    torch.testing.assert_close(both, torch.eye(4, dtype=torch.float64))
    none = combine(-updates, [torch.stack([good, wrong], dim=1)], shares)  # no update helps: all heads
    torch.testing.assert_close(none, share_both_sides((good + wrong) / 2) / 2)


def test_scores_of_both_directions_are_symmetrised(m2m: whyword.Model) -> None:
    forward, backward = whyword.align(m2m, GERMAN, ENGLISH), whyword.align(m2m, ENGLISH, GERMAN)
    both = whyword.align(m2m, GERMAN, ENGLISH, reverse=m2m)
    torch.testing.assert_close(both.scores, (forward.scores + backward.scores.T) / 2)
    every = torch.ones(8, dtype=torch.bool), torch.ones(7, dtype=torch.bool)
    assert both.links == link_words(both.scores, both.scores, every, LINKING)
    turned = {link[::-1] for link in backward.links}
    for way, expected in (("union", turned | {*forward.links}), ("intersection", turned & {*forward.links})):
        assert {*whyword.align(m2m, GERMAN, ENGLISH, reverse=m2m, symmetrise=way).links} == expected


def test_a_second_direction_helps_where_the_first_is_unsure() -> None:
    """Two noisy views of a known alignment: the sum of their evidence finds more of it than either."""
    generator = torch.Generator().manual_seed(0)
    every = torch.ones(12, dtype=torch.bool), torch.ones(12, dtype=torch.bool)
    right = {"one": 0, "other": 0, "both": 0}
    for _ in range(50):
        truth = torch.eye(12, dtype=torch.float64)[torch.randperm(12, generator=generator)]
        views = [
            share_both_sides(truth + 0.9 * torch.rand(12, 12, dtype=torch.float64, generator=generator) ** 2)
            for _ in range(2)
        ]
        for name, view in zip(right, [*views, (views[0] + views[1]) / 2], strict=True):
            links = link_words(view, view, every, MUTUAL)
            right[name] += sum(int(truth[target, source] == 1) for source, target in links)
    assert right["both"] > max(right["one"], right["other"])


@pytest.mark.parametrize(
    ("text", "words_by", "words"),
    [
        ("我昨天读了3本书。", "characters", ["我", "昨", "天", "读", "了", "3", "本", "书", "。"]),
        (["昨天", "Bill"], "characters", ["昨", "天", "Bill"]),
        ("He went.", "characters", ["He", "went."]),
        ("He went.", "spaces", ["He", "went."]),
        ("我昨天 读了", "spaces", ["我昨天", "读了"]),
    ],
)
def test_where_words_end(text: str | list[str], words_by: str, words: list[str]) -> None:
    sentence = read_sentence(text, "source", words_by)
    assert sentence.words is not None
    assert [sentence.text[start:end] for start, end in sentence.words] == words


@pytest.mark.real
def test_real_words_of_several_characters(opus: whyword.Model) -> None:
    found = whyword.align(opus, "我昨天读了书。", "I read books yesterday .", words="characters")
    linked = {(found.source[source], found.target[target]) for source, target in found.links}
    assert {("我", "I"), ("读", "read"), ("书", "books"), ("天", "yesterday")} <= linked


def test_documents_keep_confidences(m2m: whyword.Model, tmp_path: Path) -> None:
    found = whyword.align(m2m, GERMAN, ENGLISH)
    found.save(tmp_path / "a.json")
    assert whyword.read(tmp_path / "a.json").confidence == found.confidence
    wrong = {**found.to_dict(), "confidence": [0.5]}
    with pytest.raises(whyword.InputError, match=r"confidence has 1 numbers, but there are \d+ links"):
        whyword.Alignment.from_dict(wrong)
    assert whyword.align(m2m, GERMAN, ENGLISH, method="logit").confidence is None


def test_climbing_recall_gives_the_links_of_every_recall() -> None:
    """Each link once, with the recall from which on it is made; against `link_words` at many recalls."""
    for seed in range(20):
        evidence = torch.rand(5, 7, generator=torch.Generator().manual_seed(seed))
        evidence[seed % 5] *= 0.1
        evidence[:, seed % 7] = 0
        ladder = climb_recall(evidence, 0.2)
        written = torch.ones(5, dtype=torch.bool), torch.ones(7, dtype=torch.bool)
        for recall in (0.0, 0.3, 0.6, 0.85, 1.0):
            linked = link_words(evidence, evidence, written, Linking(recall=recall, null=0.2))
            assert linked == tuple(link for link, least in ladder if least == 0 or least < recall)
    assert climb_recall(torch.zeros(0, 0), 0.2) == []
