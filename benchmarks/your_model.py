"""What it costs to explain models as people have them, beside their own forward passes.

    python benchmarks/your_model.py [--rounds 5] [--tokens 128] [--output your_model.json] [--cpu]

On the default model: LoRA on all projections beside the same weights merged; 4-bit weights (bitsandbytes);
weights on disk (accelerate) with four blocks in memory. All take turns in one process. Memory is that of a
process of its own.
"""

import copy
import gc
import tempfile
from collections.abc import Callable
from typing import Any

import psutil
import torch

import whyword
from whyword.models.bundled.fetch import fetch

from measure import check, choose_clock, interleave, parse, publish

BARS = {
    "LoRA ÷ merged, flow": 1.15,
    "LoRA ÷ merged, logit": 1.15,
    "LoRA ÷ merged, alti-logit": 1.15,
    "4-bit, logit ÷ forward": 1.6,
    "4-bit, flow ÷ forward + backward": 1.0,
    "disk, logit ÷ two forward": 1.3,
    "disk, flow ÷ two forward": 1.3,
    "4-bit, extra memory in blocks of float32, logit": 1.0,
}


def main() -> None:
    arguments = parse(__doc__, rounds=5, tokens=[128])
    (tokens,) = arguments.tokens
    values: dict[str, float] = {}
    seconds: dict[str, dict[str, float]] = {}
    ids = [1 + 7 * place % 40_000 for place in range(tokens)]
    for name, measure in (
        ("LoRA", _measure_adapters),
        ("4-bit", _measure_four_bits),
        ("disk", _measure_disk),
    ):
        seconds[name], found = measure(ids, arguments.rounds)
        values |= found
        gc.collect()
    report = {
        "model": "SmolLM2-135M-Instruct",
        "tokens": tokens,
        "rounds": arguments.rounds,
        "seconds": seconds,
        "bars": [check(what, value, BARS[what]) for what, value in values.items()],
    }
    publish(report, arguments.output)


Measured = tuple[dict[str, float], dict[str, float]]


def _measure_adapters(ids: list[int], rounds: int) -> Measured:
    """LoRA on all projections, unmerged, beside the same weights merged."""
    import peft

    config = peft.LoraConfig(r=8, target_modules="all-linear", init_lora_weights=False)
    adapted = peft.get_peft_model(_load(), config)
    merged = copy.deepcopy(adapted).merge_and_unload()
    models = {"adapted": whyword.load(adapted), "merged": whyword.load(merged)}
    runs = {
        f"{name}, {method}": _explain(model, ids, method)
        for method in ("flow", "logit", "alti-logit")
        for name, model in models.items()
    }
    runs |= {f"{name}, forward": _run(model.network, ids) for name, model in models.items()}
    seconds = interleave(runs, rounds, choose_clock())
    ratios = {
        f"LoRA ÷ merged, {method}": seconds[f"adapted, {method}"] / seconds[f"merged, {method}"]
        for method in ("flow", "logit", "alti-logit")
    }
    print("forward of the adapted model ÷ merged", seconds["adapted, forward"] / seconds["merged, forward"])
    return seconds, ratios


def _measure_four_bits(ids: list[int], rounds: int) -> Measured:
    """4-bit weights; the backward pass is that of the network in training, by its own kernels."""
    from transformers import BitsAndBytesConfig

    config = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_dtype=torch.float32)
    trained = _load(quantization_config=config)
    model = whyword.load(_load(quantization_config=config))
    runs = {
        "forward": _run(model.network, ids),
        "forward + backward": _differentiate(trained, ids),
        "logit": _explain(model, ids, "logit"),
        "flow": _explain(model, ids, "flow"),
    }
    seconds = interleave(runs, rounds, choose_clock())
    block = sum(4 * _count(module) for module in model.blocks[0].modules())
    memory = _measure_memory(model, ids) - _measure_memory(whyword.load(_load()), ids)
    return seconds, {
        "4-bit, logit ÷ forward": seconds["logit"] / seconds["forward"],
        "4-bit, flow ÷ forward + backward": seconds["flow"] / seconds["forward + backward"],
        "4-bit, extra memory in blocks of float32, logit": memory / block,
    }


def _measure_disk(ids: list[int], rounds: int) -> Measured:
    """All but four blocks on disk."""
    places: dict[str, str] = dict.fromkeys(
        ("model.embed_tokens", "model.norm", "model.rotary_emb", "lm_head"), "cpu"
    )
    places |= {f"model.layers.{index}": "cpu" if index < 4 else "disk" for index in range(30)}
    with tempfile.TemporaryDirectory() as folder:
        model = whyword.load(_load(device_map=places, offload_folder=folder))
        forward = _run(model.network, ids)

        def twice() -> None:
            forward()
            forward()

        runs = {
            "two forward": twice,
            "logit": _explain(model, ids, "logit"),
            "flow": _explain(model, ids, "flow"),
        }
        seconds = interleave(runs, rounds, choose_clock())
    return seconds, {
        f"disk, {name} ÷ two forward": seconds[name] / seconds["two forward"] for name in ("logit", "flow")
    }


def _load(**options: Any) -> Any:
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(fetch(), dtype=torch.float32, **options).eval()


def _explain(model: whyword.Model, ids: list[int], method: str) -> Callable[[], Any]:
    return lambda: whyword.explain(model, ids, target=100, foil=200, method=method)


def _run(network: Any, ids: list[int]) -> Callable[[], Any]:
    given = torch.tensor([ids])

    @torch.no_grad()
    def run() -> None:
        network(input_ids=given, use_cache=False, logits_to_keep=1)

    return run


def _differentiate(network: Any, ids: list[int]) -> Callable[[], Any]:
    given = torch.tensor([ids])
    network.train()  # the kernels for inference have no gradient

    def run() -> None:
        embedded = network.get_input_embeddings()(given).detach().requires_grad_()
        logits = network(inputs_embeds=embedded, use_cache=False, logits_to_keep=1).logits
        logits[0, -1, 100].backward()

    return run


def _count(module: torch.nn.Module) -> int:
    """Count the weights of a projection, whatever they are stored in."""
    read, written = getattr(module, "in_features", 0), getattr(module, "out_features", 0)
    return read * written if isinstance(read, int) and isinstance(written, int) else 0


def _measure_memory(model: whyword.Model, ids: list[int]) -> float:
    """Give the most memory that an explanation by the logit method takes beyond what there was, in bytes."""
    import threading

    process, most, done = psutil.Process(), [0], threading.Event()
    _explain(model, ids, "logit")()
    gc.collect()
    before = process.memory_info().rss

    def watch() -> None:
        while not done.wait(0.001):
            most[0] = max(most[0], process.memory_info().rss - before)

    watcher = threading.Thread(target=watch)
    watcher.start()
    _explain(model, ids, "logit")()
    done.set()
    watcher.join()
    return float(most[0])


if __name__ == "__main__":
    main()
