"""A decoder with a head that classifies a text: its class logits are read like those of words.

The head is one matrix that reads the last position, as an unembedding does. It is applied at every position
here, so that all that is proven and explained of a language model holds for it, too; that the classifier's
own logits are those of the last position is compared when it is loaded.
"""

from collections.abc import Iterable
from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers.modeling_outputs import CausalLMOutput

from ..errors import InputError, ModelError

__all__ = ["DecoderClassifier", "as_language_model", "require_last_tokens"]

_HEAD = "score"
"""What transformers calls the head of every decoder that classifies."""


class DecoderClassifier(nn.Module):
    """A classifier as a language model whose vocabulary is its classes."""

    def __init__(self, classifier: Any) -> None:
        super().__init__()
        self.classifier = classifier
        self.config = classifier.config
        self.generation_config = None
        self.training = classifier.training

    @property
    def dtype(self) -> torch.dtype:
        """The type of the weights."""
        return cast(torch.dtype, self.classifier.dtype)

    @property
    def device(self) -> torch.device:
        """Where it is."""
        return cast(torch.device, self.classifier.device)

    @property
    def base_model(self) -> nn.Module:
        """The decoder without its head."""
        return cast(nn.Module, self.classifier.base_model)

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the classes."""
        named = self.config.id2label or {}
        return tuple(str(named.get(index, f"LABEL_{index}")) for index in range(self.config.num_labels))

    def get_decoder(self) -> nn.Module:
        """Return the module that holds the blocks."""
        decoder = self.classifier.get_decoder()
        return cast(nn.Module, self.classifier.base_model if decoder is self.classifier else decoder)

    def get_input_embeddings(self) -> nn.Module:
        """Return the token embedding."""
        return cast(nn.Module, self.classifier.get_input_embeddings())

    def get_output_embeddings(self) -> nn.Module:
        """Return the head."""
        return cast(nn.Module, getattr(self.classifier, _HEAD))

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        **options: Any,
    ) -> CausalLMOutput:
        """Return the logits of all classes at every position."""
        found = self.base_model(
            input_ids=input_ids, attention_mask=attention_mask, inputs_embeds=inputs_embeds, **options
        )
        return CausalLMOutput(logits=self.get_output_embeddings()(found.last_hidden_state))


def require_last_tokens(network: DecoderClassifier, last: Iterable[int]) -> None:
    """Refuse texts that end in padding: the classifier reads the last token before it.

    `last`: the last token of every text that has several.
    """
    padding = network.config.get_text_config().pad_token_id
    if padding is not None and padding in last:
        raise InputError(
            f"The text ends in token {padding}, the classifier's padding: it reads the one before.",
            "Leave it out, or set config.pad_token_id to a token that no text ends in.",
        )


def as_language_model(network: Any) -> Any:
    """Return a network as it is, or a classifier of a decoder as a language model over its classes."""
    head = getattr(network, _HEAD, None)
    if not isinstance(head, nn.Module) or getattr(network, "lm_head", None) is not None:
        return network
    if getattr(network.config, "is_encoder_decoder", False) or not hasattr(network.config, "num_labels"):
        return network
    if not type(network).__name__.endswith("ForSequenceClassification"):
        raise ModelError(
            f"{type(network).__name__} labels every token, not a text.",
            "Load a model that predicts tokens, or an AutoModelForSequenceClassification of a decoder.",
        )
    return DecoderClassifier(network)
