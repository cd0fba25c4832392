"""The neurons of one prediction."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor

from ..ask.prompt import Prompt, token_text
from ..ask.question import choose
from ..document.kinds import NEURON_NOTES, NEURONS_SCHEMA
from ..errors import InputError
from ..ledger import Ledger
from ..ledger.neuron_updates import NeuronEntries, push_forward, settle_neurons
from ..models.model import Model
from ..pipeline.one_prompt import Word, ask, compare_trace, last_places, require_model
from ..results.explanation import Explanation, Shown
from ..tokens import Tokens
from ..trace import Plan, Trace, record
from ..trace.memory_plan import Request, make_plan
from ..view.sentences import worded
from .neuron_names import Layout, NeuronName, lay_out_model, read_name

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["Neuron", "NeuronBlock", "Neurons", "neurons"]

_TOKENS = 6
"""Tokens that are named for a value vector, at each end."""


@dataclass(frozen=True, eq=False)
class NeuronBlock:
    """The neurons of one MLP at the explained position, those of all experts side by side."""

    layout: Layout
    """Which neuron lies where."""
    activation: Float[Tensor, " neuron"]
    """k: what the down projection read."""
    update: Float[Tensor, " neuron"]
    """What each neuron adds to the logit (difference)."""
    bias: float
    """What the biases of the down projection add."""
    gates: tuple[float, ...]
    """What the outputs of the experts are multiplied by; (1.0,) of an MLP that is no mixture."""
    mlp: float
    """The ledger's entry of this MLP."""
    error: float
    """|Σ update + bias − mlp| / (Σ|update| + |bias|)."""


@dataclass(frozen=True)
class Neuron:
    """One neuron at the explained position."""

    name: NeuronName
    activation: float
    gate: float
    """What its expert's output is multiplied by."""
    update: float
    promotes: tuple[str, ...]
    """The tokens whose logits its value vector raises most where the activation is positive."""
    suppresses: tuple[str, ...]
    """Those that it lowers most."""


@dataclass(frozen=True, eq=False, repr=False)
class Neurons(Shown):
    """What every MLP neuron added to one logit, or to one difference of logits."""

    explanation: Explanation
    """The logit explanation of the same prediction: tokens, target, foils, ledger."""
    blocks: tuple[NeuronBlock, ...]
    named: tuple[Neuron, ...]
    """Those that raise most, from the strongest, then those that lower most; or those that were asked for."""

    def __repr__(self) -> str:
        count = sum(block.layout.neurons for block in self.blocks)
        first = f", strongest {self.named[0].name.label}" if self.named else ""
        return f"<Neurons: {count:,} in {len(self.blocks)} blocks of {self.explanation.model}{first}>"

    @property
    def ledger(self) -> Ledger:
        """The ledger of the prediction."""
        return self.explanation.ledger

    @property
    def tokens(self) -> Tokens:
        """The context."""
        return self.explanation.tokens

    def show(self, by: str = "neuron", top: int | None = None) -> None:
        """Print the strongest neurons; `top`: only so many that raise, and so many that lower."""
        from rich.console import Console

        from ..view.unit_tables import print_neurons

        if by != "neuron":
            raise InputError(f"by is {by!r}.", "Neurons are shown by neuron; heads with explain(...).show.")
        print_neurons(self.to_dict(), Console(), top)

    def to_dataframe(self) -> "DataFrame":
        """Give a data frame (pandas) with one row per neuron."""
        from ..view.unit_tables import make_unit_frame

        return make_unit_frame(self.to_dict())

    @worded
    def to_dict(self) -> dict[str, Any]:
        """Give the JSON document."""
        left_out = ("by_head", "by_block", "mixing", "scores", "schema", "method", "notes", "wording")
        known = {key: value for key, value in self.explanation.to_dict().items() if key not in left_out}
        return {
            "schema": NEURONS_SCHEMA,
            **known,
            "blocks": [_describe(block) for block in self.blocks],
            "named": [
                {
                    "label": neuron.name.label,
                    "block": neuron.name.block,
                    "expert": neuron.name.expert,
                    "neuron": neuron.name.neuron,
                    "activation": neuron.activation,
                    "gate": neuron.gate,
                    "update": neuron.update,
                    "promotes": list(neuron.promotes),
                    "suppresses": list(neuron.suppresses),
                }
                for neuron in self.named
            ],
            "notes": dict(NEURON_NOTES),
        }


def neurons(
    model: Model,
    prompt: Prompt,
    *,
    target: Word | None = None,
    foil: Word | Sequence[Word] | None = None,
    top: int = 10,
    names: Sequence[str] = (),
) -> Neurons:
    """Give what every MLP neuron adds to the next token's logit, or to its difference to the foil's.

    `target`, `foil`: see `explain`. `top`: of how many neurons that raise it most, and of how many that lower
    it most, the tokens that they promote are named. `names`: these neurons instead ("12.383").
    """
    layouts = lay_out_model(require_model(model))
    asked = [(name.block, layouts[name.block].place(name)) for name in (read_name(n, layouts) for n in names)]
    context, question = ask(model, prompt, target, foil)
    plan = replace(make_plan(model, Request(1, len(context)), Plan(), None), neurons=True)
    trace = record(model, [context.ids], last_places([context]), plan)
    targets = [choose(question, trace.logits[0])]
    (compared,) = compare_trace(model, [context], trace, targets, ["logit"], [len(question.forced)])
    explanation = compared["logit"]
    entries = list(settle_neurons(model, trace, targets))[::-1]
    blocks = tuple(
        _close(layout, each, float(mlp))
        for layout, each, mlp in zip(layouts, entries, explanation.ledger.mlp, strict=True)
    )
    reader = _Reader(model, trace, context, entries, blocks)
    return Neurons(explanation, blocks, tuple(reader.name_all(asked or _rank(blocks, top))))


def _close(layout: Layout, entries: NeuronEntries, mlp: float) -> NeuronBlock:
    """Add up the entries of a block and compare them with the ledger's."""
    update, bias = entries.update[0].double().cpu(), float(entries.bias[0])
    size = float(update.abs().sum()) + abs(bias)
    return NeuronBlock(
        layout=layout,
        activation=entries.activation[0].float().cpu(),
        update=update.float(),
        bias=bias,
        gates=tuple(float(group.gate[0]) for group in entries.groups),
        mlp=mlp,
        error=abs(float(update.sum()) + bias - mlp) / max(size, torch.finfo(torch.float64).tiny),
    )


def _rank(blocks: Sequence[NeuronBlock], top: int) -> list[tuple[int, int]]:
    """Give block and place of the neurons that raise most, then of those that lower most."""
    candidates = []
    for index, block in enumerate(blocks):
        count = min(top, block.layout.neurons)
        for sign in (1, -1):
            best = (sign * block.update).topk(count)
            candidates += [
                (sign * float(value), index, int(place))
                for value, place in zip(best.values, best.indices, strict=True)
                if value > 0
            ]
    raising = sorted((each for each in candidates if each[0] > 0), reverse=True)[:top]
    lowering = sorted(each for each in candidates if each[0] < 0)[:top]
    return [(index, place) for _, index, place in [*raising, *lowering]]


@dataclass(frozen=True)
class _Reader:
    """Names neurons, and the tokens that they promote."""

    model: Model
    trace: Trace
    context: Tokens
    entries: Sequence[NeuronEntries]
    blocks: Sequence[NeuronBlock]

    def name_all(self, places: Sequence[tuple[int, int]]) -> list[Neuron]:
        """Say what is known of some neurons, given by block and place; those of a block together."""
        found: dict[tuple[int, int], Neuron] = {}
        for block in {block for block, _ in places}:
            own = [place for index, place in places if index == block]
            values = torch.stack([self._value_of(block, place) for place in own])
            for place, promoted in zip(own, push_forward(self.model, self.trace, block, values), strict=True):
                found[block, place] = self._name(block, place, promoted)
        return [found[each] for each in places]

    def _value_of(self, block: int, place: int) -> Float[Tensor, " model"]:
        group, inside = self.blocks[block].layout.group_of(place)
        return self.entries[block].groups[group].values[inside]

    def _name(self, block: int, place: int, promoted: Float[Tensor, " vocab"]) -> Neuron:
        own = self.blocks[block]
        group, _ = own.layout.group_of(place)
        return Neuron(
            name=own.layout.name(place),
            activation=float(own.activation[place]),
            gate=own.gates[group],
            update=float(own.update[place]),
            promotes=self._spell(promoted),
            suppresses=self._spell(-promoted),
        )

    def _spell(self, logits: Float[Tensor, " vocab"]) -> tuple[str, ...]:
        ids = logits.topk(min(_TOKENS, logits.shape[0])).indices.tolist()
        return tuple(token_text(self.model, id_, self.context) for id_ in ids)


def _describe(block: NeuronBlock) -> dict[str, Any]:
    """Describe a block in the document; numbers with 6 digits, of which there are many."""
    return {
        "experts": [
            {"expert": expert, "neurons": size, "gate": gate}
            for (expert, size), gate in zip(block.layout.groups, block.gates, strict=True)
        ],
        "bias": block.bias,
        "mlp": block.mlp,
        "error": block.error,
        "activation": [float(f"{number:.6g}") for number in block.activation.tolist()],
        "update": [float(f"{number:.6g}") for number in block.update.tolist()],
    }
