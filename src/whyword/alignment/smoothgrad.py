"""SmoothGrad: gradient × embedding, averaged over noisy copies of the source [Ding et al. 2019].

    score[w, i] = mean over copies of |∂ log P(w) / ∂e_i · e_i|,   e_i = embedding + Gaussian noise

of a word w of the translation, teacher-forced, and a token i of the source. The noise has 0.15 times the
range of the sentence's embeddings as its standard deviation; the same draw every time. One backward pass per
word.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from ..models.model import Model
from ..proof import require_close, tolerance_of
from ..trace.readout import Inputs
from ..trace.running import make_inputs, run, run_inputs
from .preparing import Prepared

__all__ = ["COPIES", "NOISE", "smooth_gradients"]

COPIES = 30
NOISE = 0.15
_AT_ONCE = 2048
"""Tokens, of source and translation, that are run at once."""


def smooth_gradients(
    model: Model, prepared: Prepared, copies: int = COPIES
) -> Float[Tensor, "target_word source"]:
    """Measure what each token of the source does to the log-probability of each word."""
    with torch.inference_mode(False), torch.enable_grad():
        embedded = _embed(model, prepared)
        generator = torch.Generator().manual_seed(0)
        spread = NOISE * float(embedded.max() - embedded.min())
        noise = torch.randn(copies, *embedded.shape[1:], generator=generator) * spread
        size = max(1, _AT_ONCE // (embedded.shape[1] + len(prepared.read)))
        parts = [
            _differentiate(model, prepared, (embedded + own.to(embedded)).detach())
            for own in torch.split(noise, size)
        ]
    return torch.stack(parts).sum(0) / copies


def _differentiate(
    model: Model, prepared: Prepared, embedded: Float[Tensor, "copy source model"]
) -> Float[Tensor, "target_word source"]:
    """Sum the absolute products over some copies."""
    embedded.requires_grad_()
    first = prepared.pair.first
    prompts = torch.tensor([list(prepared.read[:-1])] * len(embedded), device=model.device)
    logits = run_inputs(model, Inputs(embedded=embedded, decoder_ids=prompts))[:, first - 1 :]
    wanted = torch.tensor(prepared.read[first:], device=model.device)
    probabilities = logits.to(model.compute_dtype).log_softmax(-1)
    steps = probabilities[:, torch.arange(len(wanted)), wanted]
    words = steps @ prepared.target_shares.T.to(steps)
    rows = []
    for place in range(words.shape[1]):
        (gradient,) = torch.autograd.grad(
            words[:, place].sum(), embedded, retain_graph=place + 1 < words.shape[1]
        )
        rows.append((gradient * embedded.detach()).sum(-1).abs().sum(0).to(model.compute_dtype).cpu())
    return torch.stack(rows)


@torch.no_grad()
def _embed(model: Model, prepared: Prepared) -> Float[Tensor, "1 source model"]:
    """Give what the encoder makes of the source's tokens first, and prove that it goes on from there."""
    assert model.encoder_stack is not None
    source, prompt = prepared.pair.source.ids, list(prepared.read)
    inputs = make_inputs(model, [prompt], [source])
    own = run(model, [prompt], [source])
    embedded = model.network.get_input_embeddings()(inputs.ids)
    scales: Sequence[float] = (1.0, float(getattr(model.encoder_stack.module, "embed_scale", 1.0)))
    found = [
        run_inputs(model, Inputs(embedded=embedded * scale, decoder_ids=inputs.decoder_ids))
        for scale in dict.fromkeys(scales)
    ]
    near = min(range(len(found)), key=lambda index: float((found[index] - own).abs().max()))
    require_close(
        "logits of the source's embeddings",
        "encoder",
        found=found[near].to(model.compute_dtype),
        expected=own.to(model.compute_dtype),
        scale=own.abs().amax().to(model.compute_dtype),
        tolerance=tolerance_of(model.dtype),
    )
    scaled: Tensor = embedded * scales[near]
    return scaled
