"""What the fingerprint of all weights costs: every run that can be resumed computes it once.

    python benchmarks/fingerprint.py [--rounds 5] [--output fingerprint.json]

The default model, beside a copy of the same weights in memory.
"""

from whyword.models.bundled.fetch import fetch
from whyword.models.open import open_model
from whyword.runs.fingerprint import fingerprint_network

from measure import check, interleave, parse, publish

BAR = 0.3


def main() -> None:
    arguments = parse(__doc__ or "", rounds=5)
    model = open_model(fetch())
    weights = list(model.network.parameters())
    seconds = interleave(
        {
            "fingerprint": lambda: fingerprint_network(model.network),
            "copy": lambda: [weight.detach().clone() for weight in weights],
        },
        arguments.rounds,
    )
    publish(
        {
            "model": model.name,
            "megabytes": round(sum(weight.numel() * weight.element_size() for weight in weights) / 1e6),
            "seconds": {name: round(value, 4) for name, value in seconds.items()},
            "bars": [check("fingerprint, seconds", seconds["fingerprint"], BAR)],
        },
        arguments.output,
    )


if __name__ == "__main__":
    main()
