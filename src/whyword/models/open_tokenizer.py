"""Open the tokenizer of a model, and tell which of its tokens mark structure."""

import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..errors import ModelError, first_line, is_failure
from ..tokens.tokens import SEPARATOR

__all__ = ["find_special_ids", "load_tokenizer"]

_TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "vocab.json",
    "vocab.txt",
    "spiece.model",
    "sentencepiece.bpe.model",
)


def adapt_tokenizer(tokenizer: Any) -> Any:
    """Return a tokenizer of transformers, from one of the library tokenizers or from a folder, too."""
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

    if isinstance(tokenizer, str | Path):
        found = load_tokenizer(str(tokenizer), frozenset(), {})
        if found is None:
            raise ModelError(
                f"There is no tokenizer in {tokenizer}.", "Pass a folder that has one, or a tokenizer."
            )
        return found
    if isinstance(tokenizer, Tokenizer):
        return PreTrainedTokenizerFast(tokenizer_object=tokenizer)
    if not isinstance(tokenizer, PreTrainedTokenizerBase):
        raise ModelError(
            f"{type(tokenizer).__name__} ({type(tokenizer).__module__}) is not a tokenizer that texts are "
            "read by.",
            "Pass one of transformers (AutoTokenizer) or of tokenizers (Tokenizer), or none: prompts are "
            "token ids then.",
        )
    return tokenizer


def load_tokenizer(source: str, allowed: frozenset[str], options: dict[str, Any]) -> Any | None:
    """Load a tokenizer where there is one: otherwise transformers makes an empty one."""
    from transformers import AutoTokenizer
    from transformers.utils import has_file

    try:
        if "gguf_file" not in options and not any(has_file(source, file) for file in _TOKENIZER_FILES):
            return None
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Recommended: pip install sacremoses")  # works without
            return AutoTokenizer.from_pretrained(
                source, trust_remote_code="remote-code" in allowed, **options
            )
    except BaseException as error:
        if isinstance(error, OSError) and not Path(source).is_dir():
            return None  # the hub cannot be reached
        if not is_failure(error):
            raise
        if _needs_sentencepiece(source, error):
            raise ModelError(
                f"The tokenizer of {source} needs sentencepiece, which is not installed.",
                "Install it: pip install sentencepiece.",
            ) from error
        raise ModelError(
            f"The tokenizer of {source} cannot be loaded: {first_line(error)}.",
            "Install what it needs, or pass one with whyword.load(..., tokenizer=...).",
        ) from error


def _needs_sentencepiece(source: str, error: BaseException) -> bool:
    """Say whether a tokenizer cannot be loaded since sentencepiece is missing, whatever transformers says."""
    if not is_missing("sentencepiece"):
        return False
    files = [file.name for file in Path(source).iterdir()] if Path(source).is_dir() else []
    pieces = any(file.endswith((".spm", ".model")) for file in files)
    return "sentencepiece" in str(error).lower() or (pieces and "tokenizer.json" not in files)


def is_missing(package: str) -> bool:
    """Say whether a package is not installed."""
    try:
        return find_spec(package) is None
    except ValueError:  # it was blocked
        return True


def find_special_ids(tokenizer: Any | None) -> frozenset[int]:
    """Return the tokens that mark structure rather than text."""
    if tokenizer is None:
        return frozenset()
    added = tokenizer.added_tokens_decoder
    special = {*tokenizer.all_special_ids, *(id_ for id_, token in added.items() if token.special)}
    special |= {*getattr(tokenizer, "lang_code_to_id", {}).values()}  # M2M-100 keeps its codes elsewhere
    # An unknown token stands for text, unless it is the mark between texts too.
    structure = {tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id}
    if SEPARATOR.search(str(tokenizer.unk_token)):
        structure.add(tokenizer.unk_token_id)
    # None: a special token that the vocabulary does not have.
    return frozenset(special - ({tokenizer.unk_token_id} - structure) - {None})
