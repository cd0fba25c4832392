"""Is a model explained exactly? Checks every identity on prompts of several lengths."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import torch

from .ask.start_of_text import Start, find_start
from .attribute import Predictions
from .attribute.flow import trace_sum
from .errors import ModelError, ProofError
from .ledger import Target
from .maths.kernel import implementation
from .maths.proof import Identity, gather_errors, tolerance_of
from .models.adapters import find_adapters
from .models.catalogue import CATALOGUE, GENERAL, find_entries, refuse
from .models.model import Model
from .models.open import name_source, open_model, read_config, read_dtype
from .models.testing.shrink import make_small
from .models.testing.tiny_families import TRANSLATORS, build, find_present
from .models.weights import device_of, is_opaque, is_plain
from .pipeline.loading import find_source, prove
from .runs.progress import report
from .trace import Places, Plan, record
from .trace.causality import probe, probe_sources

__all__ = ["Diagnosis", "diagnose", "diagnose_families", "open_to_diagnose"]

LENGTHS = (1, 2, 12, 60)
IDENTITIES = (
    Identity.RECORDED_RUN,
    Identity.WEIGHTS,
    Identity.HEADS,
    Identity.PARTS,
    Identity.STREAM,
    Identity.BETWEEN,
    Identity.FINAL_NORM,
    Identity.CAP,
    Identity.LEDGER,
)
"""The identities that are proven; the last but one only where the model caps its logits."""
FLOW_IDENTITIES = (Identity.FLOW, Identity.EDGES)
"""Those of flow, which a model may do without."""


@dataclass(frozen=True)
class Diagnosis:
    """What a model is, how it is described, and which identities hold."""

    model: str
    network: str
    """The class of the network."""
    model_type: str
    description: str
    why: str
    """Why this description applies."""
    weights: str
    """"of the checkpoint", or "random"."""
    blocks: int
    dtype: str
    kernel: str
    """What computes contributions: native or torch."""
    start: Start
    """What stands before a text."""
    tolerance: float
    errors: dict[int, dict[Identity, float]]
    """The largest error of every identity, by the length of the prompt."""
    failure: str | None
    """What failed, with both numbers; None where everything is proven."""
    hint: str | None
    """What to write in an entry."""
    fits: tuple[str, ...]
    """Catalogued descriptions that fit, where its own does not."""
    flow_failure: str | None = None
    """Why there is no flow of this model; None where it is proven, too."""
    computed_in: str = ""
    """The type that the network computes in: where it was converted, and where projections round more."""
    adapters: tuple[str, ...] = ()
    """The adapters that act."""
    projections: dict[str, int] = field(default_factory=dict)
    """How many projections have weights that are not plain, by class."""
    devices: tuple[str, ...] = ()
    """Where the blocks compute; "offloaded": weights are fetched from elsewhere when a block runs."""

    @property
    def proven(self) -> bool:
        """Whether every identity holds."""
        return self.failure is None

    @property
    def largest(self) -> float:
        """The largest of all errors."""
        return max((error for errors in self.errors.values() for error in errors.values()), default=0.0)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON document."""
        errors = {
            length: {identity.found: error for identity, error in found.items()}
            for length, found in self.errors.items()
        }
        return {"schema": "whyword.diagnosis/1", **asdict(self), "errors": errors, "proven": self.proven}


def open_to_diagnose(
    source: Any,
    *,
    random: bool = False,
    dtype: str | None = None,
    allow: Collection[str] = (),
    start: str = "auto",
) -> Model:
    """Open a model without proving it; `random`: a small one with random weights, from the config alone."""
    found = find_source(source)
    if not random:
        return replace(open_model(found, dtype=dtype, allow=allow), start=start)
    config = read_config(found, allow)
    if not config.is_encoder_decoder:
        refuse(config, "A model of this config")
    network = make_small(config).to(read_dtype(dtype or "float32"))
    return replace(open_model(network), base_name=name_source(found))


def diagnose_families(dtype: str = "float64") -> Iterator[Diagnosis]:
    """Diagnose a small model of every catalogued family."""
    names = [*find_present(), *TRANSLATORS]
    for done, name in enumerate(names):
        model = replace(open_model(build(name, read_dtype(dtype))), base_name=name)
        yield diagnose(model, "random, small")
        report("families", done + 1, len(names))


def diagnose(model: Model, weights: str = "of the checkpoint", lengths: Sequence[int] = LENGTHS) -> Diagnosis:
    """Check every identity on prompts of several lengths, and report which hold."""
    errors: dict[int, dict[Identity, float]] = {}
    failure = hint = flow_failure = None
    for length in lengths:
        if model.most_tokens is not None and length > model.most_tokens:
            continue
        with gather_errors() as found:
            try:
                prove(model, probe(model, length))
            except (ProofError, ModelError) as error:
                failure = f"{length} {'token' if length == 1 else 'tokens'}: {error.wrong}"
                hint = error.remedy
        errors[length] = dict(found)
        if failure is not None:
            break
        if flow_failure is None:
            with gather_errors() as found:
                flow_failure = _try_flow(model, probe(model, length))
            if flow_failure is None:
                errors[length] |= {identity: found[identity] for identity in FLOW_IDENTITIES}
    return Diagnosis(
        model=model.name,
        network=type(model.network).__name__,
        model_type=model.config.model_type,
        description=model.architecture.name,
        why=_say_why(model),
        weights=weights,
        blocks=len(model.blocks),
        dtype=str(model.dtype).removeprefix("torch."),
        kernel=implementation(),
        start=find_start(model),
        tolerance=tolerance_of(model.exactness),
        errors=errors,
        failure=failure,
        hint=hint,
        fits=() if failure is None else tuple(_find_fitting(model)),
        flow_failure=flow_failure,
        computed_in=model.computed_in if failure is None else str(model.dtype).removeprefix("torch."),
        adapters=tuple(map(str, find_adapters(model.network))),
        projections=_count_projections(model),
        devices=_list_devices(model),
    )


def _count_projections(model: Model) -> dict[str, int]:
    """Count projections with quantised weights by class, and by that of their weights where it is torch's."""
    kinds = Counter[str]()
    for module in model.network.modules():
        if is_opaque(module) and not is_plain(module):
            weight, kind = getattr(module, "weight", None), type(module).__name__
            kinds[f"{kind} of {type(weight).__name__}" if type(module) is torch.nn.Linear else kind] += 1
    return dict(kinds)


def _list_devices(model: Model) -> tuple[str, ...]:
    """List the devices of the blocks."""
    devices = dict.fromkeys(str(device_of(block)) for block in model.blocks)
    elsewhere = any(parameter.is_meta for block in model.blocks for parameter in block.parameters())
    return (*devices, *(["offloaded"] if elsewhere else []))


def _try_flow(model: Model, ids: list[int]) -> str | None:
    """Prove flow of the last prediction, and of the sum of all; return what is wrong, if anything is."""
    prompts, sources = [ids], None
    if model.encoder_stack is not None:
        prompts, sources = [ids[::-1]] * 2, probe_sources(ids)
    places = Places((range(len(ids)),) * len(prompts))
    try:
        trace = record(model, prompts, places, Plan(frozen=True), sources)
        best = torch.topk(trace.logits, 2).indices.tolist()
        targets = [Target(first, (second,)) for first, second in best]
        predictions = Predictions(model, prompts, trace, targets, [])
        trace_sum(predictions, [len(ids) - 1])
        trace_sum(predictions, range(len(ids)), again=False)
    except (ProofError, ModelError) as error:
        return error.wrong
    return None


def _find_fitting(model: Model) -> Iterator[str]:
    """Try every catalogued description on a short prompt."""
    entries = {entry.name: entry for entries in CATALOGUE.values() for entry in entries}
    for name, entry in entries.items():
        if (entry.encoder is None) != (model.architecture.encoder is None):
            continue
        try:
            prove(replace(model, architecture=entry), probe(model, 2))
        except (ProofError, ModelError):
            continue
        yield name


def _say_why(model: Model) -> str:
    entries, ours = find_entries(model.config.model_type), CATALOGUE.get(model.config.model_type)
    if model.architecture is GENERAL:
        return "its model type has no entry: the general description is tried"
    if entries is None or model.architecture not in entries:
        return "it was given"
    expected = [f"{name}={value}" for name, value in model.architecture.expects.items()]
    agrees = f", and its config agrees with {', '.join(expected)}" if expected else ""
    whose = "an entry" if ours is not None else "an entry that a package adds"
    return f"its model type has {whose}{agrees}"
