"""The full account: every logit except biases on some token."""

from pathlib import Path

import pytest
import torch

import whyword

from families import prompt_of


def test_every_logit_but_biases_is_on_a_token(distinct: whyword.Model) -> None:
    e = whyword.explain(distinct, prompt_of(9), target=7, foil=3, method="alti-logit")
    found = whyword.account(e)
    size = float(found.scores.abs().sum()) + abs(found.biases)
    assert abs(float(found.scores.double().sum()) + found.biases - e.ledger.logit) <= 1e-5 * size
    torch.testing.assert_close(found.attention, e.scores)
    torch.testing.assert_close(found.mlp.sum(1).double(), e.ledger.mlp, atol=1e-5, rtol=1e-5)
    assert found.embedding.tolist() == [0] * 8 + [pytest.approx(e.ledger.embedding)]


def test_mlps_are_divided_by_the_mixing_of_the_explained_position(distinct: whyword.Model) -> None:
    """Rows after every block, against the whole matrices; the last block's row is computed by itself."""
    e = whyword.explain(distinct, prompt_of(9), target=7, foil=3, method="alti-logit")
    expected = whyword.mixing(distinct, prompt_of(9))[:, -1]
    assert e.mixing is not None
    torch.testing.assert_close(e.mixing, expected, atol=2e-6, rtol=1e-5)
    torch.testing.assert_close(
        whyword.account(e).mlp, e.ledger.mlp.float()[:, None] * expected, atol=1e-5, rtol=1e-4
    )


def test_the_same_in_batches_and_none_in_continuations(llama: whyword.Model) -> None:
    prompts = [prompt_of(9), prompt_of(4, seed=1), prompt_of(1, seed=2)]
    for prompt, e in zip(
        prompts, whyword.explain_batch(llama, prompts, targets=7, foils=3, method="alti-logit"), strict=True
    ):
        alone = whyword.explain(llama, prompt, target=7, foil=3, method="alti-logit")
        assert e.mixing is not None
        torch.testing.assert_close(e.mixing, alone.mixing, atol=1e-6, rtol=1e-5)
    continuation = whyword.explain_continuation(
        llama, prompt_of(5), prompt_of(3, seed=4), method="alti-logit"
    )
    assert all(e.mixing is None for e in (*continuation, continuation.sum()))


def test_what_cannot_be_accounted_for(llama: whyword.Model) -> None:
    e = whyword.explain(llama, prompt_of(5), target=7, method="logit")
    with pytest.raises(whyword.InputError, match=r'\(logit\) has no mixing.*\n.*method="alti-logit"'):
        whyword.account(e)


def test_a_document_accounts_for_as_much(llama: whyword.Model, tmp_path: Path) -> None:
    e = whyword.explain(llama, prompt_of(5), target=7, method="alti-logit")
    e.save(tmp_path / "e.json")
    again = whyword.read(tmp_path / "e.json")
    assert isinstance(again, whyword.Explanation)
    torch.testing.assert_close(whyword.account(again).scores, whyword.account(e).scores, rtol=0, atol=0)
