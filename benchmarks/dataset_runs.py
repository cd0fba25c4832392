"""What a run over a file costs: Ray with two workers, two plain processes, one process; memory; the files.

    python benchmarks/dataset_runs.py --data FOLDER [--rows 2000] [--many 2000 200000] [--output runs.json]

Prefixes of BLiMP (`one_prefix_prefix` of the .csv files in the folder, drawn with a fixed seed) with their
good and bad words, on the default model, by flow and logit, every worker with one thread: seconds of whole
commands, from the shell to the last file; two plain processes have half of the file each. `--many`: rows for
a tiny random model, explained by logit on Ray; of each the peak memory of the process that was started (not
of its workers). The share of the files is that of encoding and writing shards in a run of one process.
"""

import argparse
import csv
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM

import whyword
from whyword.corpus import corpus_run, shard_work

BARS = {"ray ÷ two processes": 1.10, "share of the files": 0.03, "memory, many rows ÷ few": 1.1}
LEAST = 1.6


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--many", type=int, nargs="*", default=[2000, 200_000])
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        rows = read(arguments.data, arguments.rows)
        report = compare_engines(folder, rows)
        report["share of the files"], report["bytes per row"] = measure_files(folder, rows)
        memory = {count: measure_memory(folder, rows, count) for count in arguments.many}
    report["driver memory, MB"] = memory
    values = {
        "ray ÷ two processes": report["seconds"]["ray"] / report["seconds"]["two processes"],
        "share of the files": report["share of the files"],
    }
    if len(memory) > 1:
        values["memory, many rows ÷ few"] = max(memory.values()) / memory[arguments.many[0]]
    report["bars"] = [
        {"what": what, "value": round(value, 3), "bar": BARS[what], "met": value <= BARS[what]}
        for what, value in values.items()
    ]
    speedup = report["seconds"]["one process"] / report["seconds"]["ray"]
    report["bars"].append(
        {"what": "one process ÷ ray", "value": round(speedup, 3), "bar": LEAST, "met": speedup >= LEAST}
    )
    text = json.dumps(report, indent=2, ensure_ascii=False)
    print(text)
    if arguments.output is not None:
        arguments.output.write_text(text + "\n")


def read(folder: Path, count: int) -> list[dict[str, str]]:
    rows = []
    for path in sorted(folder.glob("*.csv")):
        with path.open(encoding="utf-8") as file:
            for row in csv.DictReader(file):
                good, bad = row["one_prefix_word_good"], row["one_prefix_word_bad"]
                if not good.startswith(bad) and not bad.startswith(good):
                    rows.append({"prompt": row["one_prefix_prefix"], "target": good, "foil": bad})
    return random.Random(0).choices(rows, k=count)


def write(path: Path, rows: list[dict[str, str]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def compare_engines(folder: Path, rows: list[dict[str, str]]) -> dict[str, Any]:
    """Give the seconds of whole commands."""
    whole, half = write(folder / "whole.jsonl", rows), len(rows) // 2
    halves = [write(folder / f"half-{n}.jsonl", part) for n, part in enumerate((rows[:half], rows[half:]))]
    seconds = {
        "one process": clock([command(whole, folder / "one")]),
        "two processes": clock([command(path, folder / path.stem) for path in halves]),
        "ray": clock([command(whole, folder / "ray", "--engine", "ray", "--workers", "2")]),
    }
    same = [
        (folder / "one" / path.name).read_bytes() == path.read_bytes()
        for path in sorted((folder / "ray").glob("rows-*"))
    ]
    rate = {name: len(rows) / taken for name, taken in seconds.items()}
    return {"rows": len(rows), "seconds": seconds, "rows per second": rate, "same bytes": all(same)}


def command(source: Path, out: Path, *options: str) -> list[str]:
    run = [sys.executable, "-m", "whyword", "run", str(source), "--out", str(out), "--methods", "flow,logit"]
    return [*run, *options]


def clock(commands: list[list[str]]) -> float:
    start = time.perf_counter()
    running = [subprocess.Popen(each, stdout=subprocess.DEVNULL) for each in commands]
    for process in running:
        if process.wait() != 0:
            raise SystemExit(f"failed: {process.args}")
    return time.perf_counter() - start


def measure_files(folder: Path, rows: list[dict[str, str]]) -> tuple[float, float]:
    """Give the share of a run that encoding and writing shards takes, and the bytes of a row."""
    spent = 0.0

    def timed(function: Any) -> Any:
        def call(*arguments: Any) -> Any:
            nonlocal spent
            start = time.perf_counter()
            result = function(*arguments)
            spent += time.perf_counter() - start
            return result

        return call

    shard_work.encode_shard = timed(shard_work.encode_shard)
    corpus_run.write_file = timed(corpus_run.write_file)
    model = whyword.load()
    start = time.perf_counter()
    source = write(folder / "files.jsonl", rows)
    run = whyword.run(model, source, folder / "files", methods=["flow", "logit"])
    return spent / (time.perf_counter() - start), run.summary()["bytes"] / len(run)


def measure_memory(folder: Path, rows: list[dict[str, str]], count: int) -> float:
    """Give the peak memory of the driver of a run on Ray, in MB."""
    model = folder / "tiny"
    if not model.exists():
        tokenizer = whyword.load().tokenizer
        sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
        LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), **sizes)).to(torch.float32).save_pretrained(
            model
        )
        tokenizer.save_pretrained(model)
    source = folder / f"many-{count}.jsonl"
    with source.open("w", encoding="utf-8") as file:
        for number in range(count):
            file.write(json.dumps({"id": number, **rows[number % len(rows)]}) + "\n")
    options = ("-m", str(model), "--start", "none", "--keep", "scores", "--engine", "ray", "--workers", "2")
    run = [
        sys.executable,
        "-m",
        "whyword",
        "run",
        str(source),
        "--out",
        str(folder / f"many-{count}"),
        *options,
    ]
    process = subprocess.Popen([*run, "--methods", "logit"], stdout=subprocess.DEVNULL)
    status, most = Path(f"/proc/{process.pid}/status"), 0
    while process.poll() is None:  # ru_maxrss of a child begins with that of the process that started it
        found = [line for line in status.read_text().splitlines() if line.startswith("VmHWM")]
        most = max(most, *(int(line.split()[1]) for line in found), 0)
        time.sleep(0.05)
    if process.returncode:
        raise SystemExit(f"failed: {run}")
    return most / 1000


if __name__ == "__main__":
    main()
