"""Why this word and not that one: exact explanations of a language model's predictions.

text ─tokenize▶ Tokens ─record▶ Trace ─settle▶ Ledger ─attribute▶ Attribution
"""

from typing import TYPE_CHECKING

from .errors import InputError, ModelError, ProofError, WhywordError
from .lazy import look_up_in, name_moved_modules

if TYPE_CHECKING:
    from .alignment.aligner import align
    from .alignment.alignment import Alignment
    from .ask.filled_prompt import FilledPrompt, fill
    from .ask.prompt import tokenize
    from .corpus.corpus_run import run
    from .corpus.opened_run import open_run
    from .evaluation import evaluate
    from .inside.neurons import Neurons, neurons
    from .ledger import Ledger
    from .models import Model
    from .pipeline.compared_by_part import compare_parts
    from .pipeline.loading import load
    from .pipeline.many_prompts import compare_batch, explain_batch
    from .pipeline.one_continuation import explain_continuation
    from .pipeline.one_prompt import compare, explain, mixing, predict
    from .pipeline.one_translation import explain_translation
    from .results.account import Account, account
    from .results.comparison import Comparison
    from .results.continuation import Continuation
    from .results.explanation import Explanation
    from .results.prediction import Prediction
    from .results.prompt_parts import PromptParts
    from .results.reading_back import read
    from .results.translation import Translation
    from .results.two_explanations import Difference, difference
    from .runs.progress import show_progress
    from .tokens import Tokens

__version__ = "0.1.0"

__all__ = [
    "Account",
    "Alignment",
    "Comparison",
    "Continuation",
    "Difference",
    "Explanation",
    "FilledPrompt",
    "InputError",
    "Ledger",
    "Model",
    "ModelError",
    "Neurons",
    "Prediction",
    "PromptParts",
    "ProofError",
    "Tokens",
    "Translation",
    "WhywordError",
    "account",
    "align",
    "compare",
    "compare_batch",
    "compare_parts",
    "difference",
    "evaluate",
    "explain",
    "explain_batch",
    "explain_continuation",
    "explain_translation",
    "fill",
    "load",
    "mixing",
    "neurons",
    "open_run",
    "predict",
    "read",
    "run",
    "show_progress",
    "tokenize",
]

name_moved_modules()
__getattr__ = look_up_in(
    __name__,
    {
        "Account": "results.account",
        "Alignment": "alignment.alignment",
        "Comparison": "results.comparison",
        "Continuation": "results.continuation",
        "Difference": "results.two_explanations",
        "Explanation": "results.explanation",
        "FilledPrompt": "ask.filled_prompt",
        "Ledger": "ledger",
        "Model": "models",
        "Neurons": "inside.neurons",
        "Prediction": "results.prediction",
        "PromptParts": "results.prompt_parts",
        "Tokens": "tokens",
        "Translation": "results.translation",
        "account": "results.account",
        "align": "alignment.aligner",
        "compare": "pipeline.one_prompt",
        "compare_batch": "pipeline.many_prompts",
        "compare_parts": "pipeline.compared_by_part",
        "difference": "results.two_explanations",
        "evaluate": "evaluation",
        "explain": "pipeline.one_prompt",
        "explain_batch": "pipeline.many_prompts",
        "explain_continuation": "pipeline.one_continuation",
        "explain_translation": "pipeline.one_translation",
        "fill": "ask.filled_prompt",
        "load": "pipeline.loading",
        "mixing": "pipeline.one_prompt",
        "neurons": "inside.neurons",
        "open_run": "corpus.opened_run",
        "predict": "pipeline.one_prompt",
        "read": "results.reading_back",
        "run": "corpus.corpus_run",
        "show_progress": "runs.progress",
        "tokenize": "ask.prompt",
    },
)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
