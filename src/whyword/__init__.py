"""Why this word and not that one: exact explanations of a language model's predictions.

text ─tokenize▶ Tokens ─record▶ Trace ─settle▶ Ledger ─attribute▶ Attribution
"""

from typing import TYPE_CHECKING

from .errors import InputError, ModelError, ProofError, WhywordError
from .lazy import look_up_in

if TYPE_CHECKING:
    from .accounting import Account, account
    from .alignment.aligner import align
    from .alignment.result import Alignment
    from .batch import compare_batch, explain_batch
    from .comparison import Comparison
    from .evaluation import evaluate
    from .explanation import Continuation, Explanation
    from .inside.single import Neurons, neurons
    from .ledger import Ledger
    from .loading import load
    from .models import Model
    from .pipeline import compare, explain, explain_continuation, mixing, predict
    from .progress import show_progress
    from .prompt import tokenize
    from .saved import read
    from .tokens import Tokens
    from .translate import explain_translation
    from .translation import Translation

__version__ = "0.1.0"

__all__ = [
    "Account",
    "Alignment",
    "Comparison",
    "Continuation",
    "Explanation",
    "InputError",
    "Ledger",
    "Model",
    "ModelError",
    "Neurons",
    "ProofError",
    "Tokens",
    "Translation",
    "WhywordError",
    "account",
    "align",
    "compare",
    "compare_batch",
    "evaluate",
    "explain",
    "explain_batch",
    "explain_continuation",
    "explain_translation",
    "load",
    "mixing",
    "neurons",
    "predict",
    "read",
    "show_progress",
    "tokenize",
]

__getattr__ = look_up_in(
    __name__,
    {
        "Account": "accounting",
        "Alignment": "alignment.result",
        "Comparison": "comparison",
        "Continuation": "explanation",
        "Explanation": "explanation",
        "Ledger": "ledger",
        "Model": "models",
        "Neurons": "inside.single",
        "Tokens": "tokens",
        "Translation": "translation",
        "account": "accounting",
        "align": "alignment.aligner",
        "compare": "pipeline",
        "compare_batch": "batch",
        "evaluate": "evaluation",
        "explain": "pipeline",
        "explain_batch": "batch",
        "explain_continuation": "pipeline",
        "explain_translation": "translate",
        "load": "loading",
        "mixing": "pipeline",
        "neurons": "inside.single",
        "predict": "pipeline",
        "read": "saved",
        "show_progress": "progress",
        "tokenize": "prompt",
    },
)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
