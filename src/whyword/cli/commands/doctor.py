"""whyword doctor: is a model explained exactly?"""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...errors import InputError
from ...tokens.tokens import AS_GIVEN
from ..reporting import Allow, Debug, Dtype, Json, StartToken, print_json, reporting, show_progress
from ..sources import quiet_transformers

if TYPE_CHECKING:
    from ...ask.start_of_text import Start
    from ...doctor import Diagnosis
    from ...sweep.one_type import Outcome

__all__ = ["doctor"]


@reporting
def doctor(
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="MODEL",
            help="Hub name, folder or .gguf file; with --sweep a model type (llama, or several: llama,gpt2).",
            show_default="SmolLM2-135M-Instruct",
        ),
    ] = None,
    random: Annotated[
        bool,
        typer.Option(
            "--random",
            help="Check a small model with random weights, from the config alone: for large models.",
        ),
    ] = False,
    all_: Annotated[
        bool, typer.Option("--all", help="Check a small model of every catalogued family instead.")
    ] = False,
    sweep: Annotated[
        bool,
        typer.Option(
            "--sweep",
            help="Check small networks of every causal model type of the installed transformers: all public "
            "functions against untouched runs. Takes minutes.",
        ),
    ] = False,
    seeds: Annotated[
        int | None,
        typer.Option(
            "--seeds",
            metavar="N",
            help="With --sweep: how many networks of each type, with other configs.",
            show_default="3",
        ),
    ] = None,
    start: StartToken = "auto",
    dtype: Dtype = None,
    allow: Allow = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Say what a model is, how it is described, and prove every identity on prompts of several lengths."""
    if all_ and (model is not None or random or sweep):
        raise InputError("--all was given with a model.", "It checks every family: leave the others out.")
    if sweep and (random or dtype is not None):
        raise InputError(
            "--sweep was given with --random or --dtype.",
            "It makes its own networks, in float64: leave them out.",
        )
    if seeds is not None and not sweep:
        raise InputError("--seeds was given without --sweep.", "Add --sweep, or leave it out.")
    quiet_transformers()
    if sweep:
        proven = _sweep(model, seeds, json)
    elif all_:
        proven = _check_families(dtype, json)
    else:
        diagnosis = _check_model(model, random, dtype, allow or [], start)
        proven = diagnosis.proven
        if json:
            print_json(diagnosis.to_dict())
        else:
            _print(diagnosis)
    if not proven:
        raise typer.Exit(1)


def _check_model(
    name: str | None, random: bool, dtype: str | None, allow: list[str], start: str
) -> "Diagnosis":
    from ...doctor import diagnose, open_to_diagnose

    with show_progress(f"Checking {name or 'the default model'} …"):
        model = open_to_diagnose(name, random=random, dtype=dtype, allow=allow, start=start)
        return diagnose(model, "random, sizes shrunk" if random else "of the checkpoint")


def _check_families(dtype: str | None, json: bool) -> bool:
    from ...doctor import diagnose_families

    with show_progress("Checking families …"):
        found = list(diagnose_families(dtype or "float64"))
    if json:
        print_json([each.to_dict() for each in found])
    else:
        _print_families(found)
    return all(each.proven for each in found)


def _sweep(types: str | None, seeds: int | None, json: bool) -> bool:
    from dataclasses import asdict

    from transformers import __version__

    from ...sweep.all_types import SEEDS, sweep_types

    chosen = None if types is None else [each.strip() for each in types.split(",")]
    with show_progress("Checking …"):
        found = list(sweep_types(chosen, SEEDS if seeds is None else seeds))
    if json:
        report = {"schema": "whyword.sweep/1", "transformers": __version__, "seeds": seeds or SEEDS}
        print_json({**report, "types": [asdict(each) for each in found]})
    else:
        _print_sweep(found)
    return not any(each.outcome in ("wrong", "traceback") for each in found)


def _print_sweep(found: "list[Outcome]") -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text
    from transformers import __version__

    from ...sweep.one_type import OUTCOMES

    styles = {"explained": "green", "refused": "", "wrong": "bold red", "traceback": "bold red"}
    table = Table(box=None, pad_edge=False)
    table.add_column("model type", no_wrap=True)
    table.add_column("outcome", no_wrap=True)
    table.add_column("described as, or why not", overflow="fold")
    for each in found:
        refuses = f"; not {', '.join(each.refused)}" if each.refused else ""
        told = f"{each.description}{refuses}" if each.outcome == "explained" else each.reason or ""
        table.add_row(each.model_type, Text(each.outcome, style=styles[each.outcome]), Text(told))
    console = Console(highlight=False)
    console.print(table)
    counts = ", ".join(f"{sum(each.outcome == name for each in found)} {name}" for name in OUTCOMES)
    console.print(f"\n{len(found)} model types of transformers {__version__}: {counts}", soft_wrap=True)


def _print(diagnosis: "Diagnosis") -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from ...doctor import FLOW_IDENTITIES, IDENTITIES

    console = Console(highlight=False)
    console.print(Text(f"{diagnosis.model}: {diagnosis.network}, model type {diagnosis.model_type}"))
    console.print(
        Text(f"{diagnosis.blocks} blocks, {diagnosis.dtype}, weights {diagnosis.weights}", style="dim")
    )
    console.print(Text(f"described as {diagnosis.description}: {diagnosis.why}"))
    for line in _say_what_is_special(diagnosis):
        console.print(Text(line), soft_wrap=True)
    console.print(Text(f"start of text: {_say_start(diagnosis.start)}"), soft_wrap=True)
    console.print(Text(f"contributions by the {diagnosis.kernel} kernel", style="dim"))
    console.print()
    table = Table(box=None, pad_edge=False)
    table.add_column("relative error, by tokens")
    for length in diagnosis.errors:
        table.add_column(str(length), justify="right")
    for identity in (*IDENTITIES, *FLOW_IDENTITIES):
        cells = [_write(errors.get(identity), diagnosis.tolerance) for errors in diagnosis.errors.values()]
        table.add_row(Text(identity.statement), *cells)
    console.print(table)
    console.print()
    if diagnosis.proven:
        console.print(f"[bold green]proven[/]: no error above {diagnosis.tolerance:.0e}", soft_wrap=True)
        if diagnosis.flow_failure is not None:
            text = Text.assemble(("without flow", "bold yellow"), f": {diagnosis.flow_failure}")
            console.print(text, soft_wrap=True)
            console.print("Use another method: logit and alti-logit need no flow.", soft_wrap=True)
        return
    console.print(Text.assemble(("not proven", "bold red"), f": {diagnosis.failure}"), soft_wrap=True)
    console.print(Text(diagnosis.hint or ""), soft_wrap=True)
    if diagnosis.fits:
        console.print(Text(f"Catalogued descriptions that fit: {', '.join(diagnosis.fits)}."), soft_wrap=True)


def _say_start(start: "Start") -> str:
    """Say what stands before a text, and why."""
    if start.chosen == "tokenizer":
        return f"{start.text}, which its tokenizer adds" if start.text else "as its tokenizer adds"
    if start.chosen == "given":
        return f"{start.text or 'none'}, as given"
    if start.chosen == AS_GIVEN:
        return "none is put before token ids and sources of translations"
    found, ranked = start.likelihoods, sorted(start.likelihoods.items(), key=lambda each: -each[1])
    listed = ", ".join(f"{name} {value:.2f}" for name, value in ranked)
    chosen = f"{start.text}, after which" if start.text else "none was found:"
    return f"{chosen} plain sentences have {listed} nats per token" if found else "none was found"


def _say_what_is_special(diagnosis: "Diagnosis") -> list[str]:
    """Name adapters, quantised projections and devices, where there are some."""
    quantised = ", ".join(f"{count} {kind}" for kind, count in diagnosis.projections.items())
    lines = [
        ("adapters", ", ".join(diagnosis.adapters)),
        ("quantised projections", quantised),
        ("computed in", diagnosis.computed_in if diagnosis.computed_in != diagnosis.dtype else ""),
        ("devices", ", ".join(diagnosis.devices) if diagnosis.devices != ("cpu",) else ""),
    ]
    return [f"{name}: {said}" for name, said in lines if said]


def _write(error: float | None, tolerance: float) -> Any:
    from rich.text import Text

    if error is None:
        return Text("–", style="dim")
    return Text(f"{error:.0e}", style="" if error <= tolerance else "bold red")


def _print_families(found: "list[Diagnosis]") -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text
    from transformers import __version__

    from ...models.testing.tiny_families import FAMILIES

    table = Table(box=None, pad_edge=False)
    for heading in ("family", "model type", "described as", "error", "ledger", "flow"):
        table.add_column(heading, no_wrap=True)
    for each in found:
        state = Text("proven", style="green") if each.proven else Text(each.failure or "", style="bold red")
        error = f"{each.largest:.0e}" if each.errors else ""
        flow = Text("") if not each.proven else Text("proven", style="green")
        if each.flow_failure is not None:
            flow = Text("refused", style="bold yellow")
        table.add_row(each.model, each.model_type, each.description, error, state, flow)
    console = Console(highlight=False)
    console.print(table)
    proven = sum(each.proven for each in found)
    for each in found:
        if each.flow_failure is not None:
            console.print(Text(f"{each.model} without flow: {each.flow_failure}"), soft_wrap=True)
    traced = sum(each.proven and each.flow_failure is None for each in found)
    console.print(
        f"\n{proven} of {len(found)} proven, {traced} with flow, in {found[0].dtype} with transformers "
        f"{__version__}",
        soft_wrap=True,
    )
    absent = [name for name in FAMILIES if name not in {each.model for each in found}]
    console.print(f"absent from this version: {', '.join(absent) or 'none'}", soft_wrap=True)
