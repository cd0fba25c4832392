"""A real server on a free port of this machine, for as long as a test needs it."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from transformers import LlamaConfig, LlamaForCausalLM

import whyword
from whyword.serve.access import LOCAL, LOOPBACK, Access
from whyword.serve.hosting import make_server, open_socket

import toy_tokenizers

__all__ = ["make_toy", "serving"]


@contextmanager
def serving(models: Sequence[whyword.Model], access: Access = LOCAL) -> Iterator[str]:
    """Serve models in a thread, and give the address."""
    ready = threading.Event()
    server = make_server(models, access, ready.set)
    opened = open_socket(LOOPBACK, 0)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [opened]}, daemon=True)
    thread.start()
    assert ready.wait(60)
    try:
        yield f"http://{LOOPBACK}:{opened.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(60)
        assert not thread.is_alive()


def make_toy(name: str = "toy", blocks: int = 2) -> whyword.Model:
    """Make a random model with a small real tokenizer and room for long prompts."""
    tokenizer = toy_tokenizers.make("byte-level")
    torch.manual_seed(blocks)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=blocks,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=4096,
    )
    network = LlamaForCausalLM(config)
    network.config._name_or_path = name
    return whyword.load(network.eval(), tokenizer=tokenizer, start="tokenizer")
