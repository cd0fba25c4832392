"""Explain one prediction: print it, and save a report that opens in any browser.

python examples/explain_prediction.py "The keys to the cabinet" --target are --foil is
"""

import argparse

import whyword


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("prompt")
    parser.add_argument("--target", help="the word to explain (default: the model's first choice)")
    parser.add_argument(
        "--foil", default="auto", help="the word to compare it with (default: its best rival)"
    )
    parser.add_argument("--model", help="a hub name, a folder or a .gguf file (default: a small real model)")
    parser.add_argument("--output", default="report.html")
    options = parser.parse_args()

    model = whyword.load(options.model)
    explanation = whyword.explain(model, options.prompt, target=options.target, foil=options.foil)
    explanation.show()
    explanation.save(options.output)

    words = explanation.words()[min(1, explanation.tokens.start) :]  # the start of text is not a word
    strongest, score = max(words, key=lambda word: abs(word[1]))
    print(f"The strongest word is {strongest!r} ({score:+.2f} logits). The report is {options.output}.")


if __name__ == "__main__":
    main()
