"""The request for a difference: one prompt against another, or one model against another."""

from typing import Annotated, Any

from pydantic import Field

from ..ask.foil_names import AUTO, RUNNER_UP
from ..attribute.methods import METHODS
from ..document.kinds import Document
from ..errors import InputError
from ..models.model import Model
from ..pipeline.one_prompt import explain
from ..results.explanation import Explanation
from ..results.two_explanations import difference
from ..tokens import Tokens
from .access import Limits
from .posted_prompts import Choosing, Text, TokenIds, Turns
from .requests import DEPTH, name_method

__all__ = ["Differing"]


class Differing(Choosing):
    """What another prompt, or another model, changes."""

    versus: Text | Turns | TokenIds | None = Field(
        None, description="The other prompt; default: the same one."
    )
    versus_model: str | None = Field(None, description="The other model; default: the same one.")
    method: str = name_method(METHODS)
    depth: Annotated[int, Field(ge=0, strict=True)] | None = DEPTH

    def answer(self, model: Model, limits: Limits) -> Document:
        """Return the difference of two prompts."""
        return self.explain_second(self.explain_first(model, limits), model, limits)

    def explain_first(self, model: Model, limits: Limits) -> Explanation:
        """Explain what is changed."""
        if self.versus is None and self.versus_model is None:
            raise InputError("There is nothing to compare with.", "Give another prompt, or another model.")
        prompt = self.read(model, limits)
        return self._explain(model, prompt, self.target, self.foil)

    def explain_second(self, first: Explanation, model: Model, limits: Limits) -> Document:
        """Explain what it is changed into, about the same words, and return the difference."""
        words: dict[str, Any] = {"target": self.target, "foil": self.foil}
        if self.target is None or self.foil in (AUTO, RUNNER_UP):  # the first model chose them
            same = self.versus_model in (None, self.model)
            target, *foils = [each.id if same else each.text for each in (first.target, *first.foils)]
            words = {"target": target, "foil": foils or None}
        other = self.model_copy(update={**words, "prompt": self.versus or self.prompt})
        found = self._explain(model, other.read(model, limits), **words)
        return difference(first, found).to_dict()

    def _explain(self, model: Model, prompt: Tokens, target: Any, foil: Any) -> Explanation:
        return explain(model, prompt, target=target, foil=foil, method=self.method, depth=self.depth)
