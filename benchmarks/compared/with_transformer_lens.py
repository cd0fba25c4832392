"""TransformerLens: direct logit attribution from its cache, of every head by the position that it reads."""

import torch
from transformer_lens.model_bridge import TransformerBridge


def load(folder):
    bridge = TransformerBridge.boot_transformers(folder, dtype=torch.float32)
    bridge.enable_compatibility_mode()  # folds the norms into the weights: without it nothing adds up
    return bridge


@torch.no_grad()
def direct_logit_attribution(bridge, ids, target, foil):
    _, cache = bridge.run_with_cache(torch.tensor([ids]))
    parts, labels = cache.get_full_resid_decomposition(expand_neurons=False, pos_slice=-1, return_labels=True)
    attributed = cache.logit_attrs(parts, target, foil, pos_slice=-1)[:, 0]
    of_heads = torch.tensor(["H" in label for label in labels])
    scores = torch.zeros(len(ids))
    for layer in range(bridge.cfg.n_layers):
        pattern, values = cache["pattern", layer][0, :, -1], cache["v", layer][0]
        values = values.repeat_interleave(pattern.shape[0] // values.shape[1], dim=1)
        written = torch.einsum("hs,shd,hde->se", pattern, values, bridge.W_O[layer])
        scores += cache.logit_attrs(written, target, foil, pos_slice=-1, has_batch_dim=False)
    return scores, attributed[~of_heads].sum()


METHODS = {"direct logit attribution": direct_logit_attribution}
