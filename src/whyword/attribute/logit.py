"""Logit explanation: updates by the position they come from [eq. 9].

attribution[l, s] = Σ_h update[l, h, s]
"""

from .recorded_predictions import Attributions, Predictions

__all__ = ["attribute_logit"]


def attribute_logit(predictions: Predictions) -> Attributions:
    """Sum updates over heads. Assumes that each residual stream keeps its token's identity."""
    return [ledger.by_head.sum(1) for ledger in predictions.ledgers]
