"""Which method points at the word that decides? Compare some on minimal pairs with known evidence.

    python examples/compare_methods.py --dataset builtin-aga --limit 20

The mean reciprocal rank is 1 where the evidence always has the largest score. "random" is the chance level.
"""

import argparse

import whyword

METHODS = ["flow", "alti-logit", "logit", "erasure", "random"]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dataset", default="builtin-aga", help="see `whyword datasets`")
    parser.add_argument("--limit", type=int, default=20, help="how many examples")
    parser.add_argument("--model", help="a hub name, a folder or a .gguf file (default: a small real model)")
    parser.add_argument("--output", default="run", help="the folder of the run; the same command resumes it")
    options = parser.parse_args()

    model = whyword.load(options.model)
    with whyword.show_progress():
        report = whyword.evaluate(
            model, [options.dataset], options.output, methods=METHODS, limit=options.limit, faithfulness=None
        )
    for row in report.rows:
        print(f"{row.name}: {row.used} examples")
        for method, cell in row.cells["MRR"].items():
            print(f"  {method:15} {cell.mean:.2f}")


if __name__ == "__main__":
    main()
