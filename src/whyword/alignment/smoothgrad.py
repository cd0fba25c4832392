"""SmoothGrad: gradient × embedding, averaged over noisy copies of the source [Ding et al. 2019].

    score[w, i] = mean over copies of |∂ log P(w) / ∂e_i · e_i|,   e_i = embedding + Gaussian noise

for a word w of the translation, teacher-forced, and a token i of the source. The standard deviation of the
noise is 0.15 times the range of the sentence's embeddings; the seed is fixed. It takes one backward pass per
word and copy; nearly all of the time is spent in matmuls, so it cannot be made much faster.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from ..maths.proof import Identity, require_close, tolerance_of
from ..models.model import Model
from ..trace import Inputs, Places, read_out
from ..trace.hooks import capture_calls
from ..trace.running import make_inputs, run, run_inputs
from .preparing import Prepared

__all__ = ["COPIES", "NOISE", "smooth_gradients"]

COPIES = 30
NOISE = 0.15
_AT_ONCE = 1024
"""Most tokens, of source and translation, of one run."""
_WORDS = 12
"""Words per run: with fewer, less is read after each word, but there are more runs."""


def smooth_gradients(
    model: Model, prepared: Prepared, copies: int = COPIES
) -> Float[Tensor, "target_word source"]:
    """Score each source token by its effect on the log-probability of each word."""
    with torch.inference_mode(False), torch.enable_grad():
        embedded = _embed(model, prepared)
        generator = torch.Generator("cpu").manual_seed(0)
        spread = NOISE * float(embedded.max() - embedded.min())
        shape = copies, *embedded.shape[1:]
        noise = torch.randn(shape, generator=generator, dtype=torch.float32, device="cpu") * spread
        size = max(1, _AT_ONCE // (embedded.shape[1] + len(prepared.read)))
        shape = len(prepared.target_words), embedded.shape[1]
        total = torch.zeros(shape, dtype=model.compute_dtype, device="cpu")
        for own in torch.split(noise, size):
            noisy = (embedded + own.to(embedded)).detach().requires_grad_()
            for words in torch.split(torch.arange(len(total), device="cpu"), _WORDS):
                total[words] += _differentiate(model, prepared, noisy, words.tolist())
    return total / copies


def _differentiate(
    model: Model, prepared: Prepared, embedded: Float[Tensor, "copy source model"], words: Sequence[int]
) -> Float[Tensor, "word source"]:
    """Sum the absolute products over some copies, for consecutive words.

    What follows a word does not change it, so the decoder only reads up to the last of them. The gradient
    through the unembedding, which is wide, is computed once: every step has a row of its own there.
    """
    shares = prepared.target_shares[words[0] : words[-1] + 1].to(embedded)
    asked = shares.any(0).nonzero().flatten().tolist()
    if not asked:
        return torch.zeros(len(words), embedded.shape[1], dtype=model.compute_dtype, device="cpu")
    first, last = (prepared.pair.first - 1 + step for step in (asked[0], asked[-1]))
    inputs = Inputs(
        embedded=embedded,
        decoder_ids=torch.tensor([prepared.read[: last + 1]], device=model.device).expand(len(embedded), -1),
    )
    with capture_calls(model.unembedding) as calls:
        readout = read_out(model, Places((range(first, last + 1),) * len(embedded)), inputs)
    (((stream, *_), _),) = calls
    wanted = torch.tensor(prepared.read[first + 1 : last + 2], device=model.device).repeat(len(embedded))
    steps = readout.logits.log_softmax(-1).gather(1, wanted[:, None])
    (slopes,) = torch.autograd.grad(steps.sum(), stream)
    rows = []
    for place, share in enumerate(shares[:, asked[0] : asked[-1] + 1]):
        own = torch.zeros_like(slopes)
        own[:, first:] = slopes[:, first:] * share[:, None]
        (gradient,) = torch.autograd.grad(stream, embedded, own, retain_graph=place + 1 < len(words))
        rows.append((gradient * embedded.detach()).sum(-1).abs().sum(0).to(model.compute_dtype).cpu())
    return torch.stack(rows)


@torch.no_grad()
def _embed(model: Model, prepared: Prepared) -> Float[Tensor, "1 source model"]:
    """Return the encoder's input embeddings, and prove that running from them gives the same logits."""
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
        Identity.SOURCE_EMBEDDINGS,
        "encoder",
        found=found[near].to(model.compute_dtype),
        expected=own.to(model.compute_dtype),
        scale=own.abs().amax().to(model.compute_dtype),
        tolerance=tolerance_of(model.exactness),
    )
    scaled: Tensor = embedded * scales[near]
    return scaled
