"""Run the network once on any inputs, for its logits alone."""

from ..models.classifier import DecoderClassifier, require_last_tokens
from ..models.model import Model
from .finite import require_finite_readout
from .hooks import reading
from .precision import keep_precision
from .readout import Inputs, Reader, Readout
from .running import in_two_lines, run_inputs
from .trace import Places
from .untouched_run import verify_reading

__all__ = ["read_out"]


def read_out(model: Model, places: Places, inputs: Inputs) -> Readout:
    """Run the network on any inputs and read its logits at a range of positions of each example.

    Nothing else is recorded. Whether there are gradients is the caller's choice.
    """
    if isinstance(model.network, DecoderClassifier) and inputs.ids is not None and inputs.ids.shape[1] > 1:
        require_last_tokens(model.network, places.pick(inputs.ids)[:, -1].tolist())
    reader = Reader(model, places, model.has_foreign_code)
    with in_two_lines(model), keep_precision(model.dtype), reading(model, reader):
        readout = reader.read(run_inputs(model, inputs))
    require_finite_readout(model, readout)
    verify_reading(model, places, inputs, readout)
    return readout
