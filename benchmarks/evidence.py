"""How the evidence rules agree with the published columns: `python benchmarks/evidence.py FOLDER`.

Prints the tables of docs/data.md, then every row in which they differ. SVA has no columns to compare with:
there the number of the noun that was found is compared with that of the verb.
"""

import sys
from collections import Counter
from pathlib import Path

from whyword.data import Dataset, read_datasets
from whyword.data.dataset_names import PUBLISHED, expand_names
from whyword.data.evidence_columns import Agreement, annotate
from whyword.data.evidence_rules import PHENOMENA
from whyword.data.file_layouts import find_file, read_table
from whyword.data.parses import list_pipelines, open_pipeline

NUMBERS = {"NN": "singular", "NNP": "singular", "NNS": "plural", "NNPS": "plural"}


def main(folder: str) -> None:
    found: dict[str, Agreement] = {}
    for name in expand_names(["blimp", "ipsv", "rpsv", "ioi"]):
        table = read_table(find_file(PUBLISHED[name], Path(folder)))
        found[name] = annotate(table, name)[1]
    print(f"spaCy pipeline {list_pipelines()[0]} {open_pipeline().meta['version']}\n")
    print("| dataset | `target` agrees | | `target_phrase` agrees | |\n|---|---|---|---|---|")
    for name, agreement in found.items():
        cells = []
        for column in agreement.comparisons:
            cells += [f"{column.rows - len(column.disagreements)} of {column.rows}", f"{column.share:.1%}"]
        print(f"| {name} | {' | '.join([*cells, '', ''][:4])} |")
    print(
        "\n| dataset | rows | found | number fits the verb's | contradicts it | not shown |\n"
        + "|---" * 6
        + "|"
    )
    for dataset in read_datasets(["sva"], folder):
        counts = compare_numbers(dataset)
        there = sum(counts.values()) - counts["nothing"]
        shares = " | ".join(
            f"{counts[kind]} ({counts[kind] / there:.1%})" for kind in ("fits", "not", "unknown")
        )
        print(f"| {dataset.name} | {len(dataset)} | {there} | {shares} |")
    print()
    for name, agreement in found.items():
        for column in agreement.comparisons:
            for other in column.disagreements:
                said = f"{other.prefix} | {other.published} | {other.found}"
                print(f"{name} {column.column} {other.row}: {said}")


def compare_numbers(dataset: Dataset) -> Counter[str]:
    """Count nouns that were found by whether they have the number of the verb ("includes" is singular)."""
    rule = PHENOMENA[dataset.phenomenon]
    counts: Counter[str] = Counter()
    documents = open_pipeline().pipe(map(rule.text, dataset.examples))
    for example, document in zip(dataset.examples, documents, strict=True):
        token = rule.find(document, example)
        verb = "singular" if example.target.endswith("s") else "plural"
        number = None if token is None else NUMBERS.get(token.tag_)
        kind = "unknown" if number is None else "fits" if number == verb else "not"
        counts["nothing" if token is None else kind] += 1
    return counts


if __name__ == "__main__":
    main(sys.argv[1])
