"""Inseq: `attribute` of the target against the foil, method by method."""

import inseq
from transformers import AutoModelForCausalLM, AutoTokenizer


def load(folder):
    # Attention weights are only returned by the eager implementation.
    network = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager")
    return inseq.load_model(network, "input_x_gradient", tokenizer=AutoTokenizer.from_pretrained(folder))


def explain(model, ids, target, foil, method, **options):
    prompt, chosen, other = (model.tokenizer.decode(part) for part in (ids, [target], [foil]))
    explained = model.attribute(
        prompt,
        prompt + chosen,
        method=method,
        attributed_fn="contrast_logits_diff",
        contrast_targets=prompt + other,
        attr_pos_start=len(ids),
        show_progress=False,
        **options,
    )
    return explained.sequence_attributions[0].target_attributions


def input_x_gradient(model, ids, target, foil):
    return explain(model, ids, target, foil, "input_x_gradient")[: len(ids), 0].sum(-1)


def integrated_gradients(model, ids, target, foil):
    found = explain(model, ids, target, foil, "integrated_gradients", n_steps=50, internal_batch_size=1)
    return found[: len(ids), 0].sum(-1)


def occlusion(model, ids, target, foil):
    return explain(model, ids, target, foil, "occlusion")[: len(ids), 0]


def attention(model, ids, target, foil):
    return explain(model, ids, target, foil, "attention")[: len(ids), 0].mean((-1, -2))


METHODS = {
    "input × gradient": input_x_gradient,
    "attention": attention,
    "integrated gradients": integrated_gradients,
    "occlusion": occlusion,
}
SLOW = {"integrated gradients", "occlusion"}
