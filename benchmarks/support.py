"""At which share does a source support a sentence? Answers with and without the document that holds them.

Every example of builtin-sources-4 is answered twice, in a sentence: with all documents, and without the one
that holds the answer. The threshold that tells most of them apart is printed, with how often it is right.
"""

import argparse
from dataclasses import replace

import whyword
from whyword.data import Example, read_datasets

THRESHOLDS = [place / 100 for place in range(1, 60)]


def cut_document(example: Example) -> Example:
    """Leave out the document that holds the answer."""
    ((start, end),) = example.word
    first = example.prefix.rfind("Document", 0, start)
    gone = end + 2 - first
    kept = tuple(
        (one, two) if two <= first else (one - gone, two - gone)
        for one, two in example.parts
        if (one, two) != (start, end)
    )
    return replace(example, prefix=example.prefix[:first] + example.prefix[end + 2 :], parts=kept)


def measure_share(model: whyword.Model, example: Example, foil: str | None) -> float:
    before = example.prefix.rindex("Answer:") + len("Answer:")
    prompt, answer = example.prefix[:before], f"{example.prefix[before + 1 :]} {example.target}."
    spans = {f"documents[{place}]": span for place, span in enumerate(example.parts)}
    continuation = whyword.explain_continuation(model, prompt, answer, foil=foil, method="flow")
    (row,) = continuation.by(columns=spans).rows
    return row.share


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--examples", type=int, default=24)
    parser.add_argument("--model", default=None)
    options = parser.parse_args()
    model = whyword.load(options.model)
    (dataset,) = read_datasets(["builtin-sources-4"])
    for foil in ("auto", None):
        held = [measure_share(model, each, foil) for each in dataset.examples[: options.examples]]
        lacked = [
            measure_share(model, cut_document(each), foil) for each in dataset.examples[: options.examples]
        ]
        right = {
            threshold: sum(share >= threshold for share in held) + sum(share < threshold for share in lacked)
            for threshold in THRESHOLDS
        }
        best = max(THRESHOLDS, key=lambda threshold: right[threshold])
        print(f"foil {foil}: with it   {' '.join(f'{share:.2f}' for share in sorted(held))}")
        print(f"foil {foil}: without   {' '.join(f'{share:.2f}' for share in sorted(lacked))}")
        print(f"foil {foil}: at {best:.2f} right {right[best]} of {len(held) + len(lacked)}", flush=True)


if __name__ == "__main__":
    main()
