"""Explain many prompts in few runs of the network, and write one line per word into a CSV file.

    python examples/batch_to_csv.py prompts.txt words.csv

The file of prompts has one per line. Every prediction is explained against its best rival.
"""

import argparse
import csv
from pathlib import Path

import whyword


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("prompts", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--model", help="a hub name, a folder or a .gguf file (default: a small real model)")
    options = parser.parse_args()

    model = whyword.load(options.model)
    prompts = options.prompts.read_text(encoding="utf-8").splitlines()
    with options.output.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(["prompt", "target", "foil", "word", "logits"])
        explanations = whyword.explain_batch(model, prompts, foils="auto")
        for prompt, explanation in zip(prompts, explanations, strict=True):
            target, foil = explanation.target.text, explanation.foil.text
            for word, score in explanation.words():
                table.writerow([prompt, target, foil, word, f"{score:.4f}"])
    print(f"{len(prompts)} predictions explained in {options.output}.")


if __name__ == "__main__":
    main()
