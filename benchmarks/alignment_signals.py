"""What a recorded run of a translation model holds about the words of a pair, for benchmarks of alignment."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

import whyword
from whyword.alignment.linking import find_mutual, share_both_sides
from whyword.alignment.preparing import Prepared
from whyword.alignment.token_scores import Recorded, record_prepared
from whyword.alignment.word_scores import cut
from whyword.ledger.entries import enter_stack
from whyword.ledger.parts import AttentionPart, replay


@dataclass(frozen=True)
class Signals:
    """What a run holds about the words of one pair, by step, block, head and source token."""

    updates: Tensor
    """Where words are produced."""
    mean: Tensor
    """Updates of the mean row of U, heads summed."""
    expected: Tensor
    """Updates of the row of U that the model expects, heads summed: the log-probability is without them."""
    attention: Tensor
    """From the step that produces the first word to the one that consumes the last."""
    targets: Tensor
    sources: Tensor
    """Shares of tokens that words have."""

    def to_words(self, tokens: Tensor) -> Tensor:
        """Sum over the tokens of words."""
        return self.targets @ tokens @ self.sources.T

    @property
    def produced(self) -> Tensor:
        """Words scored by updates, negative ones of tokens cut to 0."""
        return self.to_words(self.updates.sum((1, 2)).clamp(min=0))

    @property
    def heads(self) -> Tensor:
        """Attention of every head where words are consumed."""
        return self.to_words(self.attention[1:].flatten(1, 2).transpose(0, 1))

    def weigh(self, weight: Callable[[Tensor], Tensor]) -> Tensor:
        """Sum heads by what `weight` makes of their agreement with the mutual links of the updates."""
        targets, sources = find_mutual(share_both_sides(self.produced)).nonzero(as_tuple=True)
        heads = self.heads
        shares = heads / heads.sum(2, keepdim=True).clamp(min=1e-30)
        return torch.einsum("h,hts->ts", weight(shares[:, targets, sources].mean(1)), heads)


def read_signals(model: whyword.Model, prepared: Sequence[Prepared]) -> list[Signals]:
    """Record all pairs, and keep what can be scored by."""
    found: dict[int, Signals] = {}
    rows = model.unembedding_rows(torch.arange(model.vocabulary)).to(model.compute_dtype)
    mean = rows.mean(0)
    for batch in cut(prepared):
        recorded = record_prepared(model, [prepared[index] for index in batch], ["logit"])
        updates, centre = (
            recorded.entries.cross_by_head,
            pull_back(recorded, mean.expand(len(recorded.targets), -1)),
        )
        expected = pull_back(recorded, recorded.trace.logits.softmax(-1) @ rows)
        attention = torch.stack(recorded.trace.decoder.cross_attention.weights, dim=1)
        each = recorded.trace.places.each
        assert updates is not None
        for place, index in enumerate(batch):
            pair, start = prepared[index], place * each
            steps, size = pair.target_shares.shape[1], len(pair.pair.source)
            found[index] = Signals(
                updates[start : start + steps, ..., :size].double(),
                centre[start : start + steps, ..., :size].double(),
                expected[start : start + steps, ..., :size].double(),
                attention[start : start + steps + 1, ..., :size].double(),
                pair.target_shares.double(),
                pair.source_shares.double(),
            )
    return [found[index] for index in range(len(prepared))]


def pull_back(recorded: Recorded, directions: Tensor) -> Tensor:
    """Give the updates of cross-attention along any directions, by position, block and source."""
    model, trace = recorded.model, recorded.trace
    parts = replay(model, model.decoder_stack, trace.decoder)
    direction, _ = enter_stack(model, trace, directions)
    read: list[Tensor] = []
    for block in reversed(range(len(model.blocks))):
        for part in reversed(parts):
            direction, written, _ = part.pull_back(block, direction)
            if isinstance(part, AttentionPart) and part.trace.cross:
                read.insert(0, part.read(block, written))
    return recorded.cross.update(read).sum(2)
