"""What the first answer costs: the command beside a script that only runs the model.

    python benchmarks/start.py [--rounds 3] [--output start.json]

Fresh processes, interleaved, medians compared: `whyword --help`; `whyword explain` on the cached default
model; the same with `--server`, which asks a `whyword serve` that is running meanwhile; and a script that
imports transformers, loads the same safetensors and runs one forward pass. Also the size of a saved report
for a prompt of 30 tokens.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from whyword.models.bundled.fetch import fetch

PROMPT = "A report about the Impressionists"
LONG = (
    "When the report about the Impressionists was finally printed, the painters who had been asked to read "
    "it found that the two chapters which everybody had praised so"
)
PLAIN = """
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained({folder!r})
network = AutoModelForCausalLM.from_pretrained({folder!r})
with torch.no_grad():
    logits = network(**tokenizer({prompt!r}, return_tensors="pt"), use_cache=False).logits
print(tokenizer.decode(logits[0, -1].argmax()))
"""
BARS = {
    "help, seconds": 0.5,
    "explain ÷ plain script": 1.5,
    "explain --server ÷ explain": 0.25,
    "report of 30 tokens, kB": 300,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    text = json.dumps(measure(arguments.rounds), indent=2, ensure_ascii=False)
    print(text)
    if arguments.output is not None:
        arguments.output.write_text(text + "\n")


def measure(rounds: int) -> dict[str, Any]:
    folder = str(fetch())
    command = [sys.executable, "-m", "whyword"]
    runs = {
        "help": [*command, "--help"],
        "plain": [sys.executable, "-c", PLAIN.format(folder=folder, prompt=PROMPT)],
        "explain": [*command, "explain", PROMPT, "--target", "has", "--foil", "have"],
    }
    runs["explain --server"] = [*runs["explain"], "--server"]
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    with running_server(command):
        for count in range(rounds + 1):
            for name, run in runs.items():
                start = time.perf_counter()
                subprocess.run(run, check=True, capture_output=True)
                if count > 0:  # the first round warms the disk cache
                    seconds[name].append(time.perf_counter() - start)
    medians = {name: statistics.median(times) for name, times in seconds.items()}
    values = {
        "help, seconds": medians["help"],
        "explain ÷ plain script": medians["explain"] / medians["plain"],
        "explain --server ÷ explain": medians["explain --server"] / medians["explain"],
        "report of 30 tokens, kB": report_size() / 1000,
    }
    return {
        "seconds": medians,
        "bars": [
            {"what": what, "value": value, "bar": BARS[what], "met": value <= BARS[what]}
            for what, value in values.items()
        ],
    }


@contextmanager
def running_server(command: list[str]) -> Iterator[None]:
    """Run a server of the default model."""
    run = [*command, "serve", "--port", "0"]
    with subprocess.Popen(run, stderr=subprocess.PIPE, text=True, env=os.environ) as process:
        assert process.stderr is not None
        while "asks it from another terminal" not in (line := process.stderr.readline()):
            assert line, "the server did not start"
        try:
            yield
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate()


def report_size() -> int:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.html"
        command = [sys.executable, "-m", "whyword", "explain", LONG, "--top", "1", "-o", str(path), "--json"]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        tokens = len(json.loads(done.stdout)["tokens"])
        assert tokens == 31, tokens  # with the start of text
        return path.stat().st_size


if __name__ == "__main__":
    main()
