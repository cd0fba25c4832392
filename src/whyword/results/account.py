"""The full account: MLPs and the embedding too, on input tokens (heuristic).

Attention's updates are where the method traced them. What an MLP writes is made from the stream at the
explained position, which after that block's attention is a mix of input tokens: its entry is divided as that
mix is. The embedding's entry belongs to the token itself. Only biases stay on no token.
"""

from dataclasses import dataclass
from typing import Any

from jaxtyping import Float
from torch import Tensor

from ..errors import InputError
from ..tokens import Tokens
from ..view.sentences import worded
from .explanation import Explanation

__all__ = ["Account", "account", "describe_fully"]


@dataclass(frozen=True, eq=False)
class Account:
    """Every logit of a prediction except biases, on some token."""

    tokens: Tokens
    attention: Float[Tensor, " token"]
    """The explanation's scores."""
    mlp: Float[Tensor, "block token"]
    """Each MLP's entry, divided by the mixing row of the explained position (heuristic)."""
    embedding: Float[Tensor, " token"]
    """The embedding's entry, at the explained position."""
    biases: float
    """What is on no token: biases of projections, norms and the unembedding."""
    logit: float
    """The model's own logit, or difference: the sum of all tokens, and biases."""

    @property
    def scores(self) -> Float[Tensor, " token"]:
        """One number per token: attention, MLPs and embedding together."""
        return self.attention + self.mlp.sum(0) + self.embedding

    def to_dict(self) -> dict[str, Any]:
        """Return what is added to the explanation's document."""
        numbers = {"attention": self.attention, "mlp": self.mlp.sum(0), "embedding": self.embedding}
        return {
            **{name: [float(f"{value:.9g}") for value in row.tolist()] for name, row in numbers.items()},
            "scores": [float(f"{value:.9g}") for value in self.scores.tolist()],
            "biases": self.biases,
            "logit": self.logit,
            "note": "heuristic: MLPs are divided by the mixing of the explained position",
        }


def account(explanation: Explanation) -> Account:
    """Put every logit of an alti-logit explanation, except biases, on some token (heuristic)."""
    if explanation.mixing is None:
        raise InputError(
            f"This explanation ({explanation.method}) has no mixing of the explained position.",
            'Explain a single token with explain(..., method="alti-logit").',
        )
    ledger = explanation.ledger
    embedding = explanation.scores.new_zeros(len(explanation.tokens))
    embedding[explanation.position] = ledger.embedding
    return Account(
        tokens=explanation.tokens,
        attention=explanation.scores,
        mlp=ledger.mlp.float()[:, None] * explanation.mixing,
        embedding=embedding,
        biases=float(ledger.attention_bias.sum()) + ledger.norm_bias + ledger.unembedding_bias,
        logit=ledger.logit,
    )


@worded
def describe_fully(explanation: Explanation) -> dict[str, Any]:
    """Return an explanation's document with its full account."""
    return {**explanation.to_dict(), "account": account(explanation).to_dict()}
