"""Tokens of a continuation are explained by flow when they are asked for; a sum costs no more than one."""

import pickle
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import nn

import whyword
from whyword.errors import InputError
from whyword.ledger import settle
from whyword.models.open import open_model
from whyword.models.testing.tiny_families import build
from whyword.pipeline import one_continuation
from whyword.runs.progress import listen
from whyword.trace.frozen_run import FrozenRun

import toy_tokenizers

IDS = [5, 17, 33, 8, 60, 71, 12, 9, 44, 23]
EXACT = 1e-9


@pytest.fixture(scope="module")
def model() -> whyword.Model:
    return open_model(build("gpt-oss", torch.float64))


@pytest.fixture(scope="module")
def continuation(model: whyword.Model) -> whyword.Continuation:
    return whyword.explain_continuation(model, IDS[:3], IDS[3:9], method="flow", depth=2)


@contextmanager
def counting(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Count how often a direction goes down."""
    pulls, own = [0], FrozenRun.descend

    def descend(self: FrozenRun, *given: Any) -> Any:
        pulls[0] += 1
        return own(self, *given)

    with monkeypatch.context() as patch:
        patch.setattr(FrozenRun, "descend", descend)
        yield pulls


def test_a_token_is_what_it_is_alone(model: whyword.Model, continuation: whyword.Continuation) -> None:
    alone = whyword.explain(model, IDS[:5], target=IDS[5], method="flow", depth=2)
    assert torch.allclose(continuation[2].flow, alone.flow)
    assert torch.allclose(continuation[2].scores, alone.scores)
    assert continuation[2].routes()[0].amount == pytest.approx(alone.routes()[0].amount)


def test_a_sum_is_the_sum_of_its_tokens(continuation: whyword.Continuation) -> None:
    for whole, some in (
        (continuation.sum(), range(6)),
        (continuation.sum(tokens=(1, 4)), range(1, 4)),
        (continuation[1:5].sum(tokens=(1, 3)), range(2, 4)),
    ):
        parts = [continuation[token] for token in some]
        seen = whole.flow.shape[1]
        padded = [nn.functional.pad(part.flow, (0, seen - part.flow.shape[1])) for part in parts]
        assert torch.allclose(whole.flow, torch.stack(padded).sum(0), atol=EXACT)
        assert torch.allclose(whole.bias, torch.stack([part.bias for part in parts]).sum(0), atol=EXACT)
        assert whole.ledger.logit == pytest.approx(sum(part.ledger.logit for part in parts))
        assert torch.allclose(whole.scores, whole.flow[2].float())
        assert whole.target.text == "".join(part.target.text for part in parts)


def test_an_edge_of_a_sum_is_the_sum_of_edges(model: whyword.Model) -> None:
    continuation = whyword.explain_continuation(model, IDS[:1], IDS[1:4], method="flow")
    amounts: dict[tuple[int, ...], float] = {}
    for part in continuation:
        routes = part.routes(256)
        assert len(routes) < 256  # all there are
        for route in routes:
            place = (route.block, route.head, route.source, route.destination)
            amounts[place] = amounts.get(place, 0.0) + route.amount
    for route in continuation.sum().routes(40):
        place = (route.block, route.head, route.source, route.destination)
        assert route.amount == pytest.approx(amounts[place], abs=EXACT)


def test_a_sum_costs_one_pull_back_and_a_token_one_more(monkeypatch: pytest.MonkeyPatch) -> None:
    model = open_model(build("llama", torch.float64))
    with counting(monkeypatch) as pulls:
        continuation = whyword.explain_continuation(model, IDS[:3], IDS[3:9], method="flow")
        assert (pulls[0], len(continuation), repr(continuation).count("6 tokens")) == (0, 6, 1)
        continuation.sum()
        continuation.sum(tokens=(2, 5))
        assert pulls[0] == 2
        _ = continuation[3], continuation[-3], continuation[2:][1]
        assert pulls[0] == 2 + 1
        continuation.to_dict()
        continuation.to_dict()
        assert pulls[0] == 2 + 6


def test_progress_of_tokens_that_are_explained_is_shown() -> None:
    seen: list[tuple[str, int, int | None]] = []
    model = open_model(build("llama", torch.float64))
    continuation = whyword.explain_continuation(model, IDS[:3], IDS[3:7], method="flow")
    with listen(lambda *reported: seen.append(reported)):
        continuation.complete()
    assert seen == [("tokens", done, 4) for done in (1, 2, 3, 4)]


def test_a_complete_continuation_holds_no_run() -> None:
    model = open_model(build("llama", torch.float64))
    live = whyword.explain_continuation(model, IDS[:3], IDS[3:7], method="flow")
    recorded: Any = live.explanations
    trace = recorded.passes[0].predictions.trace
    kept = [weakref.ref(each) for each in (trace.frozen._stacks[False].entered[0], trace.decoder.stream_in)]
    whole, complete = live.sum(), live.complete()
    del live, recorded, trace
    assert [each() for each in kept] == [None, None]
    assert torch.allclose(complete.sum().flow, whole.flow)
    with pytest.raises(InputError, match="routes of this sum are not known"):
        complete.sum().routes()


def test_ledgers_are_settled_when_one_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def count(model: Any, trace: Any, targets: Any) -> Any:
        calls.append(len(targets))
        return settle(model, trace, targets)

    monkeypatch.setattr(one_continuation, "settle", count)
    model = open_model(build("llama", torch.float64))
    continuation = whyword.explain_continuation(model, IDS[:3], IDS[3:9], method="flow")
    whole, one = continuation.sum(), continuation[2]
    assert calls == []
    copied = pickle.loads(pickle.dumps(whole))
    assert copied.ledger.total == pytest.approx(float(whole.flow[0].sum() + whole.bias[0]), abs=1e-9)
    alone = whyword.explain(model, IDS[:5], target=IDS[5], foil=one.foil.id)
    assert torch.allclose(one.ledger.by_head, alone.ledger.by_head, atol=1e-9)
    assert (whole.ledger.total, calls) == (copied.ledger.total, [6])


def test_what_is_saved_is_what_is_shown(continuation: whyword.Continuation, tmp_path: Any) -> None:
    continuation.save(tmp_path / "continuation.json")
    again = whyword.read(tmp_path / "continuation.json")
    assert torch.equal(again[2].flow, continuation[2].flow)
    assert again[2].routes() == continuation[2].routes()
    assert torch.allclose(again.sum(tokens=(1, 4)).flow, continuation.sum(tokens=(1, 4)).flow)


def test_a_sum_across_a_threshold_of_the_model_is_one_of_several_passes(
    model: whyword.Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    window = int(model.config.sliding_window)
    ids = [(7 * place) % 90 for place in range(window + 3)]
    crossing = whyword.explain_continuation(model, ids[: window - 2], ids[window - 2 :], method="flow")
    recorded: Any = crossing.explanations
    with counting(monkeypatch) as pulls:
        whole = crossing.sum()
    assert 1 < pulls[0] == len(recorded.passes)
    assert torch.allclose(whole.flow.sum(1) + whole.bias, torch.tensor(whole.ledger.logit).double())


@pytest.mark.parametrize("method", ["flow", "logit", "alti-logit", "gradient-x-input"])
def test_ranges_of_characters_by_every_method(method: str) -> None:
    tokenizer = toy_tokenizers.make("byte-level")
    model = open_model(build("llama", torch.float32, vocab_size=len(tokenizer)), tokenizer=tokenizer)
    continuation = whyword.explain_continuation(
        model, "A report about the", " Impressionists has won", method=method, foil=None
    )
    text = continuation.text
    place = text.index("has")
    some = continuation.sum(chars=(place, place + 3))
    assert "has" in some.target.text
    assert "won" not in some.target.text
    whole = continuation.sum(chars=(0, len(text)))
    assert whole.target.text == text
    assert torch.allclose(whole.scores, continuation.sum(tokens=(0, len(continuation))).scores)


@pytest.mark.parametrize(
    ("asked", "wrong"),
    [
        ({"tokens": (3, 3)}, r"tokens is \(3, 3\), but the continuation has 6 tokens"),
        ({"tokens": (-1, 3)}, "tokens is"),
        ({"tokens": (0, 7)}, "tokens is"),
        ({"chars": (0, 999)}, "chars is"),
        ({"tokens": (0, 1), "chars": (0, 1)}, "both"),
    ],
)
def test_a_range_must_be_one_of_the_continuation(
    continuation: whyword.Continuation, asked: dict[str, Any], wrong: str
) -> None:
    with pytest.raises(InputError, match=wrong):
        continuation.sum(**asked)
