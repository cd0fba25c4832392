"""What neurons over a dataset cost beside plain explanations of the same prompts, on the default model.

    python benchmarks/neurons.py [--rounds 3] [--output neurons.json]

1,000 short prompts of the built-in suite (determiner–noun agreement), each with its good and its bad word:
the mean update of every neuron, of every head, and `explain_batch(method="logit")`, which take turns.
"""

from collections.abc import Callable
from typing import Any

import whyword
from whyword.data.builtin_suite import make_builtin
from whyword.inside.split import read_split
from whyword.inside.survey import survey
from whyword.pipeline.one_prompt import ask

from measure import check, interleave, parse, publish

PROMPTS = 1000
SUITE = "builtin-dnaa"
BARS = {"neurons ÷ explain_batch": 1.4, "heads ÷ explain_batch": 1.4}


def main() -> None:
    arguments = parse(__doc__, rounds=3, prompts=[PROMPTS])
    (count,) = arguments.prompts
    medians = interleave(make_runs(count), arguments.rounds)
    plain = medians["explain_batch, logit"]
    values = {f"{part} ÷ explain_batch": medians[part] / plain for part in ("neurons", "heads")}
    report = {
        "model": "SmolLM2-135M-Instruct",
        "prompts": count,
        "rounds": arguments.rounds,
        "seconds": medians,
        "bars": [check(what, value, BARS[what]) for what, value in values.items()],
    }
    publish(report, arguments.output)


def make_runs(count: int) -> dict[str, Callable[[], Any]]:
    model = whyword.load()
    dataset, split = make_builtin(SUITE, count), read_split("this,that|these,those")
    usable = [each for each in dataset.examples if _differ(model, each)]
    prompts, good, bad = ([getattr(each, name) for each in usable] for name in ("prefix", "target", "foil"))

    def explain() -> None:
        assert all(whyword.explain_batch(model, prompts, targets=good, foils=bad, method="logit"))

    return {
        "explain_batch, logit": explain,
        "neurons": lambda: survey(model, [dataset], split=split),
        "heads": lambda: survey(model, [dataset], part="heads"),
    }


def _differ(model: whyword.Model, example: Any) -> bool:
    """Whether an example can be asked: of its words, neither begins the other."""
    try:
        ask(model, example.prefix, example.target, example.foil)
    except whyword.InputError:
        return False
    return True


if __name__ == "__main__":
    main()
