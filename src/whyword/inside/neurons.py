"""The neurons of one prediction."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from ..ask.prompt import Prompt, token_text
from ..ask.question import choose
from ..attribute.methods import measure_of
from ..document.kinds import NEURONS_SCHEMA
from ..document.notes import NEURON_NOTES
from ..document.numbers import inside, misfit, read_tensor, require_index, require_length
from ..errors import InputError
from ..ledger.neuron_updates import NeuronEntries, push_forward, settle_neurons
from ..models.model import Model
from ..pipeline.one_prompt import Word, ask, compare_trace, last_places, require_decoder
from ..results.explained_prediction import ExplainedPrediction, read_prediction, shared_fields
from ..results.explanation import Explanation
from ..tokens import Tokens
from ..trace import Plan, Trace, record
from ..trace.memory_plan import Request, make_plan
from ..view.sentences import worded
from .neuron_names import Layout, NeuronName, lay_out_model, read_name
from .neuron_records import NeuronBlockRecord, NeuronsDocument

__all__ = ["Neuron", "NeuronBlock", "Neurons", "neurons"]

_TOKENS = 6
"""How many promoted and how many suppressed tokens are listed for a value vector."""


@dataclass(frozen=True, eq=False)
class NeuronBlock:
    """The neurons of one MLP at the explained position, those of all experts side by side."""

    layout: Layout
    """The order of the neurons."""
    activation: Float[Tensor, " neuron"]
    """The activations k: what the down projection read."""
    update: Float[Tensor, " neuron"]
    """What each neuron adds to the logit (difference)."""
    bias: float
    """What the biases of the down projection add."""
    gates: tuple[float, ...]
    """The factors of the experts' outputs; (1.0,) for an MLP that is not a mixture."""
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
    """The factor that multiplies its expert's output."""
    update: float
    promotes: tuple[str, ...]
    """The tokens whose logits its value vector raises most when the activation is positive."""
    suppresses: tuple[str, ...]
    """The tokens whose logits it lowers most."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Neurons(ExplainedPrediction):
    """What every MLP neuron added to one logit, or to one difference of logits."""

    schema: ClassVar[str] = NEURONS_SCHEMA
    blocks: tuple[NeuronBlock, ...]
    named: tuple[Neuron, ...]
    """Neurons that raise it most, strongest first, then those that lower it most; or those asked for."""

    def __repr__(self) -> str:
        count = sum(block.layout.neurons for block in self.blocks)
        first = f", strongest {self.named[0].name.label}" if self.named else ""
        return f"<Neurons: {count:,} in {len(self.blocks)} blocks of {self.model}{first}>"

    @property
    def explanation(self) -> Explanation:
        """The logit explanation of the same prediction; a document of neurons does not have its numbers."""
        by_head = self.ledger.by_head
        if by_head.shape[1] == 0:
            raise InputError(
                "These neurons were read from a document, which does not hold the explanation.",
                'Run explain(..., method="logit") for it.',
            )
        return Explanation(**shared_fields(self), method="logit", by_block=by_head.sum(1).float())

    def show(self, by: str | None = None, top: int | None = None) -> None:
        """Print the strongest neurons; `top`: how many that raise, and how many that lower."""
        super().show(by, top)

    @worded
    def to_dict(self) -> dict[str, Any]:
        """Return the JSON document."""
        return {
            **self._describe(),
            "measure": asdict(measure_of("logit")),
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

    @classmethod
    def _from_declared(cls, declared: NeuronsDocument) -> "Neurons":
        require_length("blocks", declared.blocks, len(declared.ledger.mlp))
        blocks, named = [], []
        for index, block in enumerate(declared.blocks):
            with inside(f"blocks[{index}]"):
                blocks.append(_read_block(index, block))
        for index, each in enumerate(declared.named):
            with inside(f"named[{index}]"):
                require_index("block", each.block, len(blocks))
                name = NeuronName(each.block, each.neuron, each.expert)
                _require_neuron(blocks[each.block].layout, name)
                numbers = each.activation, each.gate, each.update
                named.append(Neuron(name, *numbers, each.promotes, each.suppresses))
        return cls(**read_prediction(declared, None), blocks=tuple(blocks), named=tuple(named))


def _require_neuron(layout: Layout, name: NeuronName) -> None:
    try:
        layout.place(name)
    except InputError as error:
        raise misfit("neuron", error.wrong.rstrip(".")) from None


def _read_block(index: int, record: NeuronBlockRecord) -> NeuronBlock:
    layout = Layout(index, tuple((each.expert, each.neurons) for each in record.experts))
    return NeuronBlock(
        layout=layout,
        activation=read_tensor("activation", record.activation, (layout.neurons,)),
        update=read_tensor("update", record.update, (layout.neurons,)),
        bias=record.bias,
        gates=tuple(each.gate for each in record.experts),
        mlp=record.mlp,
        error=record.error,
    )


def neurons(
    model: Model,
    prompt: Prompt,
    *,
    target: Word | None = None,
    foil: Word | Sequence[Word] | None = "auto",
    top: int = 10,
    names: Sequence[str] = (),
    max_memory: int | str | None = None,
) -> Neurons:
    """Return what every MLP neuron adds to the difference between the logits of target and foil.

    `target`, `foil`, `max_memory`: see `explain`. `top`: of how many neurons that raise it most, and of how
    many that lower it most, the tokens that they promote are named. `names`: these neurons instead
    ("12.383").
    """
    layouts = lay_out_model(require_decoder(model))
    asked = [(name.block, layouts[name.block].place(name)) for name in (read_name(n, layouts) for n in names)]
    context, question = ask(model, prompt, target, foil)
    plan = make_plan(model, Request(1, len(context)), Plan(neurons=True), max_memory)
    trace = record(model, [context.ids], last_places([context]), plan)
    targets = [choose(model, context, question, trace.logits[0])]
    (compared,) = compare_trace(model, [context], trace, targets, ["logit"], [len(question.forced)])
    explanation = compared["logit"]
    entries = list(settle_neurons(model, trace, targets))[::-1]
    blocks = tuple(
        _close(layout, each, float(mlp))
        for layout, each, mlp in zip(layouts, entries, explanation.ledger.mlp, strict=True)
    )
    reader = _Reader(model, trace, context, entries, blocks)
    named = tuple(reader.name_all(asked or _rank(blocks, top)))
    return Neurons(**shared_fields(explanation), blocks=blocks, named=named)


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
    """Return block and index of the neurons that raise most, then of those that lower most."""
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
    """Describes neurons, with the tokens that they promote."""

    model: Model
    trace: Trace
    context: Tokens
    entries: Sequence[NeuronEntries]
    blocks: Sequence[NeuronBlock]

    def name_all(self, places: Sequence[tuple[int, int]]) -> list[Neuron]:
        """Describe neurons, given by block and index; those of a block are computed together."""
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
    """Describe a block in the document; numbers have 6 digits, because there are many."""
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
