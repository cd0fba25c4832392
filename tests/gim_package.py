"""What the public package gim-explain gives for two tiny models: `python tests/gim_package.py` prints it.

    python -m pip install --no-deps --target FOLDER gim-explain==0.1.4
    PYTHONPATH=src:FOLDER python tests/gim_package.py > tests/golden/gim.json

The package modifies nn.LayerNorm, nn.RMSNorm, torch.softmax and torch's attention function. transformers has
norms of its own, and softmax inside torch's attention is out of reach of Python; so each norm is replaced by
torch's, and torch's attention by the same written out, before the package is asked. It explains one logit
against a baseline token, whose embedding is set to zero here.
"""

import copy
import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from whyword.models.testing.tiny_families import build
from whyword.trace.precision import keep_precision

CASES = [
    (family, ids, 5, 9)
    for family in ("gpt2", "llama")
    for ids in ([7, 33], [12, 8, 60, 71, 12, 9, 44], [44, 23, 61, 17, 3, 90, 41, 17, 5, 28, 77, 60])
]
"""Family, token ids, target and foil."""
BASELINE = 0


def explain(family: str, ids: list[int], target: int, foil: int) -> list[float]:
    """Ask the package for both logits, and subtract."""
    import gim

    network = copy.deepcopy(build(family, torch.float64))
    for parent in list(network.modules()):
        for name, child in list(parent.named_children()):
            if type(child).__name__.endswith("RMSNorm"):
                setattr(parent, name, _use_torch_norm(child))
    with torch.no_grad():
        network.get_input_embeddings().weight[BASELINE] = 0.0
    with _attention_in_steps(), keep_precision(torch.float64):
        one, other = (
            gim.explain(network, torch.tensor([ids]), target_token_id=id_, baseline_token_id=BASELINE)
            for id_ in (target, foil)
        )
    return [float(number) for number in one - other]


def _use_torch_norm(norm: Any) -> nn.Module:
    made = nn.RMSNorm(norm.weight.shape, eps=norm.variance_epsilon, dtype=torch.float64)
    made.weight = norm.weight
    return made


@contextmanager
def _attention_in_steps() -> Iterator[None]:
    own = nn.functional.scaled_dot_product_attention
    nn.functional.scaled_dot_product_attention = _attend
    try:
        yield
    finally:
        nn.functional.scaled_dot_product_attention = own


def _attend(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, **options: Any
) -> Tensor:
    groups = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    scores = query @ key.mT * (options.get("scale") or 1 / math.sqrt(query.shape[-1]))
    seen = torch.ones(scores.shape[-2:]).tril().bool() if attn_mask is None else attn_mask
    return torch.softmax(scores.masked_fill(~seen, -1e9), dim=-1) @ value


if __name__ == "__main__":
    cases = [
        {"family": family, "ids": ids, "target": target, "foil": foil}
        | {"scores": explain(family, ids, target, foil)}
        for family, ids, target, foil in CASES
    ]
    lines = ",\n".join(json.dumps(case) for case in cases)
    print(f'{{"package": "gim-explain 0.1.4", "cases": [\n{lines}\n]}}')
