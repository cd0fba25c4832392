"""What parts of a prompt cost: one explanation with and without them, and an answer by its documents.

The second is compared with as many backward passes as the answer has sentences: one per row of the table.
"""

import whyword
from whyword.data import read_datasets

from measure import check, choose_clock, interleave, parse, publish

ANSWER_TOKENS = 100
WITH_PARTS, BY_DOCUMENTS = 1.02, 1.5


def write_answer(texts: list[str], model: whyword.Model, prompt: whyword.FilledPrompt) -> str:
    """Repeat what the documents say, up to some tokens."""
    sentences = " ".join(texts).replace(". ", ".\n").split("\n")
    answer, place = sentences[0], 1
    while len(whyword.tokenize(model, answer)) < ANSWER_TOKENS:
        answer += f" {sentences[place % len(sentences)]}"
        place += 1
    return answer


def main() -> None:
    options = parse(__doc__, rounds=5)
    model, clock = whyword.load(), choose_clock()
    (dataset,) = read_datasets(["builtin-sources-8"])
    example = dataset.examples[0]
    texts = [example.prefix[start:end] for start, end in example.parts]
    prompt = whyword.fill(
        "Context:\n{documents}\n\nQuestion: {question}\nAnswer:",
        documents=texts,
        question=example.columns["question"],
    )
    alone = interleave(
        {
            "explain": lambda: whyword.explain(model, prompt, target=example.target),
            "explain, by part": lambda: whyword.explain(model, prompt, target=example.target).by("part"),
        },
        options.rounds,
        clock,
    )
    answer = write_answer(texts, model, prompt)
    continuation = whyword.explain_continuation(model, prompt, answer, foil=None)
    rows, last = len(continuation.by()), len(continuation)
    answered = interleave(
        {
            "one backward pass": lambda: continuation.sum(tokens=(last - 1, last)),
            "answer by documents": lambda: continuation.by(),
        },
        options.rounds,
        clock,
    )
    publish(
        {
            "prompt tokens": len(whyword.tokenize(model, prompt.text)),
            "answer tokens": last,
            "sentences": rows,
            "seconds": {name: round(seconds, 3) for name, seconds in {**alone, **answered}.items()},
            "checks": [
                check(
                    "explain with parts ÷ without", alone["explain, by part"] / alone["explain"], WITH_PARTS
                ),
                check(
                    "answer by documents ÷ one backward pass per sentence",
                    answered["answer by documents"] / (rows * answered["one backward pass"]),
                    BY_DOCUMENTS,
                ),
            ],
        },
        options.output,
    )


if __name__ == "__main__":
    main()
