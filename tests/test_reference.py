"""The engine agrees with a plain, slow reference over random shapes."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import whyword
from whyword.maths.contributions import contribute
from whyword.models.workspace import Workspace
from whyword.trace.precision import keep_precision

import reference
from families import build, prompt_of


def close(found: Tensor, expected: Tensor, scale: float = 1.0) -> None:
    """Agree to 1e-5 of what was added up: an entry may be a small difference of large parts."""
    torch.testing.assert_close(found.double(), expected.detach().double(), rtol=1e-5, atol=1e-5 * scale)


@st.composite
def cases(draw: Any) -> tuple[str, dict[str, int], list[int], int]:
    family, blocks = draw(st.sampled_from(["gpt2", "llama"])), draw(st.integers(1, 4))
    groups, shared, dim = draw(st.integers(1, 3)), draw(st.integers(1, 3)), 2 * draw(st.integers(1, 5))
    heads = groups * shared
    seed, length = draw(st.integers(0, 10_000)), draw(st.integers(1, 40))
    if family == "gpt2":
        changes = {"n_layer": blocks, "n_head": heads, "n_embd": heads * dim}
    else:
        changes = {
            "num_hidden_layers": blocks,
            "num_attention_heads": heads,
            "num_key_value_heads": groups,
            "head_dim": dim,
            "hidden_size": draw(st.sampled_from([heads * dim, heads * (dim + 3)])),
        }
    return family, changes, prompt_of(length, seed), seed


@given(cases())
def test_engine_is_the_reference(case: tuple[str, dict[str, int], list[int], int]) -> None:
    family, changes, ids, seed = case
    network = build(family, torch.float64, seed, **changes)
    with keep_precision(torch.float64):
        expected = reference.explain(network, ids, 5, 9)
    model = whyword.load(network)
    e = whyword.explain(model, ids, target=5, foil=9, method="alti-logit")
    scale = float(max(expected.by_head.abs().max(), expected.mlp.abs().max(), expected.embedding.abs()))
    close(e.by_head, expected.by_head, scale)
    close(e.by_block, expected.alti_logit, scale)
    close(e.ledger.attention_bias, expected.attention_bias, scale)
    close(e.ledger.mlp, expected.mlp, scale)
    close(torch.tensor(e.ledger.embedding), expected.embedding, scale)
    close(torch.tensor(e.ledger.norm_bias), expected.norm_bias, scale)
    close(whyword.mixing(model, ids), expected.mixing)
    logit = whyword.explain(model, ids, target=5, foil=9, method="logit")
    close(logit.by_block, expected.by_head.sum(1), scale)


def contribute_one(
    weights: Tensor, projected: Tensor, residual: Tensor, whole: Tensor, rows: int = 128
) -> Tensor:
    """Give the contributions of one example, with their zeros."""
    weigh = lambda chunk: weights[None, :, chunk, : chunk.stop]  # noqa: E731
    found = contribute(weigh, projected[None], residual[None], whole[None], rows, Workspace())
    updates = torch.randn(1, 3, len(whole), dtype=whole.dtype)
    torch.testing.assert_close(found.carry(updates), updates @ found.dense())
    return found.dense()[0]


@given(st.integers(1, 300), st.integers(1, 9), st.integers(1, 40), st.integers(1, 200), st.integers(0, 1000))
def test_tiled_contributions_are_the_plain_ones(
    length: int, heads: int, width: int, rows: int, seed: int
) -> None:
    torch.manual_seed(seed)
    weights = torch.randn(heads, length, length, dtype=torch.float64).exp().tril()
    weights /= weights.sum(-1, keepdim=True)
    projected = torch.randn(heads, length, width, dtype=torch.float64)
    residual = torch.randn(length, width, dtype=torch.float64)
    parts = torch.einsum("hij,hjm->ijm", weights, projected)
    whole = residual + parts.sum(1) + torch.randn(width, dtype=torch.float64)
    found = contribute_one(weights, projected, residual, whole, rows)
    close(found, reference._contributions(residual, whole, parts))


def test_contributions_by_hand() -> None:
    """Two positions, one head, two dimensions.

    Position 1 gets half of its attention from each: parts (½, 0) and x₁ + (0, ½) = (0, 1½), y = (½, 1½).
    ‖y‖ = 2; without the first part 1½ is left, without its own ½: closeness ½ and 1½, so ¼ and ¾.
    """
    weights = torch.tensor([[[1.0, 0.0], [0.5, 0.5]]])
    projected = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]])
    residual = torch.tensor([[2.0, 0.0], [0.0, 1.0]])
    whole = torch.tensor([[3.0, 0.0], [0.5, 1.5]])
    found = contribute_one(weights, projected, residual, whole)
    torch.testing.assert_close(found, torch.tensor([[1.0, 0.0], [0.25, 0.75]]))


def test_a_row_without_a_positive_entry_is_the_identity_row() -> None:
    """What a position gets points away from what it is: nothing is close, so it stays itself."""
    weights = torch.tensor([[[1.0, 0.0], [0.5, 0.5]]])
    projected = torch.tensor([[[-2.0, 0.0], [-2.0, 0.0]]])
    residual = torch.tensor([[1.0, 0.0], [-1.0, 0.0]])
    whole = torch.tensor([[1.0, 0.0], [5.0, 0.0]])
    found = contribute_one(weights, projected, residual, whole)
    torch.testing.assert_close(found, torch.eye(2))


@pytest.mark.parametrize("length", [127, 128, 129, 257])
def test_lengths_around_a_chunk(length: int) -> None:
    model = whyword.load(build("gpt2", torch.float64, n_positions=300))
    expected = reference.explain(build("gpt2", torch.float64, n_positions=300), prompt_of(length), 5, 9)
    found = whyword.explain(model, prompt_of(length), target=5, foil=9, method="alti-logit")
    close(found.by_block, expected.alti_logit)
