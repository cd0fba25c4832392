"""What fingerprints of networks cover, so that a run is never resumed with what another network gives."""

import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers.models.mistral import modeling_mistral

import whyword
from whyword.runs.fingerprint import fingerprint_network

from families import build, prompt_of

STRENGTH, SEEN, SCALE = {"strength": 1.0}, [], [1.0]


class Settings:
    """What a hook reads, and where it notes what it has done."""

    factor = 1.0

    def __init__(self) -> None:
        self.strength, self.calls, self.seen = 1.0, 0, []

    def note(self, output: Tensor) -> None:
        self.calls += 1
        self.seen.append(output)


SETTINGS, HELD = Settings(), SimpleNamespace(strength=1.0)


def scale(output: Tensor) -> Tensor:
    """Read a global variable on behalf of a hook."""
    return output * SCALE[0]


def steer(_module: nn.Module, _args: Any, output: Tensor) -> Tensor:
    """Steer by all that may hold a strength, and note what was seen."""
    SETTINGS.note(output)
    SEEN.append(output)
    changed = scale(output.clone())
    changed[:, -1] *= STRENGTH["strength"] * SETTINGS.strength * Settings.factor * HELD.strength
    return changed


def activate(given: Tensor) -> Tensor:
    return nn.functional.silu(given) * SCALE[0]


class Own(nn.Module):
    """A module of somebody's own, which also keeps what it has seen."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner, self.strengths, self.vector = inner, [1.0], torch.ones(1)
        self.options, self._hidden, self.last, self.seen = {"strength": 1.0}, 1.0, None, []

    def forward(self, given: Tensor) -> Tensor:
        self.last = given
        self.seen.append(given)
        found: Tensor = self.inner(given) * self.strengths[0] * self.vector * self._hidden
        return found * self.options["strength"]


def make_network() -> Any:
    network = build("mistral", torch.float32)
    blocks = network.model.layers
    blocks[1].mlp = Own(blocks[1].mlp)
    blocks[0].mlp.register_forward_hook(steer)
    blocks[0].mlp.act_fn = nn.Identity()
    blocks[0].mlp.act_fn.function = activate
    return network


@pytest.fixture
def network() -> Iterator[Any]:
    hooks = nn.modules.module._global_forward_hooks
    yield make_network()
    hooks.clear()
    STRENGTH["strength"] = SCALE[0] = SETTINGS.strength = Settings.factor = HELD.strength = 1.0


def _patch_file(patch: pytest.MonkeyPatch) -> None:
    own = modeling_mistral.apply_rotary_pos_emb
    patch.setattr(
        modeling_mistral, "apply_rotary_pos_emb", lambda query, *rest, **more: own(query * 1.5, *rest, **more)
    )


def _patch_class(patch: pytest.MonkeyPatch) -> None:
    own = modeling_mistral.MistralRMSNorm.forward
    patch.setattr(modeling_mistral.MistralRMSNorm, "forward", lambda self, given: own(self, given) * 2)


def _hook_everywhere(_network: Any, _patch: pytest.MonkeyPatch) -> None:
    nn.modules.module.register_module_forward_hook(lambda _module, _args, output: output)


CHANGES: dict[str, Callable[[Any, pytest.MonkeyPatch], object]] = {
    "a number of the config": lambda network, _: setattr(network.config, "sliding_window", 2),
    "a number in the config": lambda network, _: network.config.rope_parameters.update(rope_theta=5.0),
    "a list of a module": lambda network, _: network.model.layers[1].mlp.strengths.append(2.0),
    "a dict of a module": lambda network, _: network.model.layers[1].mlp.options.update(strength=2.0),
    "a tensor of a module": lambda network, _: network.model.layers[1].mlp.vector.mul_(2),
    "a hidden number": lambda network, _: setattr(network.model.layers[1].mlp, "_hidden", 2.0),
    "a global dict": lambda *_: STRENGTH.update(strength=2.0),
    "a global object": lambda *_: setattr(SETTINGS, "strength", 2.0),
    "a global class": lambda *_: setattr(Settings, "factor", 2.0),
    "a global namespace": lambda *_: setattr(HELD, "strength", 2.0),
    "what functions read": lambda *_: SCALE.__setitem__(0, 2.0),
    "a function of a modelling file": lambda _, patch: _patch_file(patch),
    "a function of a class": lambda _, patch: _patch_class(patch),
    "a method that a hook calls": lambda _, patch: patch.setattr(Settings, "note", lambda *_: None),
    "a function of torch": lambda _, patch: patch.setattr(nn.functional, "silu", lambda given, **_: given),
    "a hook of all modules": _hook_everywhere,
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_fingerprint_covers(change: str, network: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    before = fingerprint_network(network)
    with monkeypatch.context() as patch:
        CHANGES[change](network, patch)
        assert fingerprint_network(network) != before


def test_a_run_changes_no_fingerprint(network: Any) -> None:
    """What is noted on the way, and where things are in memory, is no difference."""
    before = fingerprint_network(network)
    assert fingerprint_network(pickle.loads(pickle.dumps(network))) == before
    whyword.explain(whyword.load(network), prompt_of(12, 3), target=5, foil=9, method="logit")
    assert SEEN
    assert SETTINGS.seen
    assert network.model.layers[1].mlp.seen
    assert fingerprint_network(network) == before


def test_processes_find_the_same_fingerprint(network: Any) -> None:
    """Sets and dicts are in another order there."""
    code = "import test_fingerprints as own; print(own.fingerprint_network(own.make_network()))"
    options: dict[str, Any] = {
        "capture_output": True,
        "text": True,
        "check": True,
        "cwd": Path(__file__).parent,
    }
    found = subprocess.run([sys.executable, "-c", code], **options).stdout.split()[-1]
    assert found == fingerprint_network(network)
