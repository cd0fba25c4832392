"""Refuse a run with NaN or inf in it."""

from ..errors import ModelError
from ..models.model import Model
from .readout import Readout
from .trace import Trace

__all__ = ["require_finite", "require_finite_readout", "require_finite_weights"]


def require_finite(model: Model, trace: Trace) -> None:
    """Refuse a run with NaN or inf in it, and say where it first appeared."""
    if trace.logits.sum().isfinite():  # all are, if their sum is: four times as fast as to look at each
        return
    if trace.logits.isfinite().all() and trace.unembedded.isfinite().all():
        return
    require_finite_weights(model)
    streams = enumerate(trace.decoder.stream_out)
    bad = next((f"block {index + 1}" for index, stream in streams if not stream.isfinite().all()), None)
    raise ModelError(
        f"{model.name} ({model.dtype}) gave NaN or inf for this prompt, first in {bad or 'the unembedding'}.",
        "Load it with dtype='float32': activations of some models overflow in half precision.",
    )


def require_finite_readout(model: Model, readout: Readout) -> None:
    """Refuse logits with NaN or inf in them, of a run that was not recorded."""
    if readout.logits.detach().sum().isfinite() or readout.logits.isfinite().all():
        return
    require_finite_weights(model)
    raise ModelError(
        f"{model.name} ({model.dtype}) gave NaN or inf for this prompt with some of its tokens erased.",
        "Load it with dtype='float32', or delete tokens instead of hiding them (erasure-deletion).",
    )


def require_finite_weights(model: Model) -> None:
    """Refuse weights with NaN or inf in them."""
    for name, parameter in model.network.named_parameters():
        if not parameter.isfinite().all():
            raise ModelError(
                f"The weights of {model.name} are not finite: {name} holds NaN or inf.",
                "Load a checkpoint without NaN or inf; nothing can be explained with this one.",
            )
