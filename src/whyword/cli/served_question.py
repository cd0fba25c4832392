"""What `whyword explain` asks of a running server: the same question, as requests to its JSON routes."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import __version__
from ..errors import InputError
from .asked_question import OWN_ANSWER, AskedQuestion
from .reporting import show_progress, tell
from .sources import Source, read_ids

if TYPE_CHECKING:
    from ..serve.connection import Server

__all__ = ["ask_server", "find_server", "require_servable"]


def require_servable(**given: Any) -> None:
    """Refuse options that are the server's to choose, by name, before anything is asked."""
    for option, value in given.items():
        if value:
            spelt = f"--{option.replace('_', '-')}"
            whole = f"whyword serve {spelt} {value[0] if isinstance(value, list) else value}"
            remedy = "a server takes what is free" if option == "max_memory" else f"start it with: {whole}"
            raise InputError(
                f"{spelt} was given with --server, whose models are loaded already.",
                f"Leave one of them out; {remedy}.",
            )


def find_server(address: str, models: Sequence[str] | None) -> "Server":
    """Reach the server at an address, or ("") the newest of this user's that has the models."""
    from ..serve.announcement import list_announcements
    from ..serve.connection import reach_server

    names = list(models or ())
    if address:
        server = reach_server(address)
        for name in names:
            _find_model(server.models, name)
    else:
        running = list_announcements()
        fitting = [each for each in running if all(_match(each.models, name) for name in names)]
        if not fitting:
            raise _tell_none(names, [name for each in running for name in each.models])
        server = reach_server(fitting[0].address)
    if server.version != __version__:
        raise InputError(
            f"{server.address} is whyword {server.version}, and this command {__version__}.",
            "Start the server again, or leave --server out.",
        )
    return server


def ask_server(
    server: "Server", asked: AskedQuestion, models: Sequence[str] | None, extra: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    """Ask a server about every model by every method, and give its documents.

    `extra`: what only some questions have: `account`, whether it is asked for; `versus`, the other prompt of
    a difference; `versus_model`, whether the last model is compared with the first.
    """
    from rich.markup import escape

    chosen = [_find_model(server.models, name) for name in models or server.models[:1]]
    tell(f"Asking the running server {escape(server.address)} ({escape(', '.join(chosen))}).")
    differing: dict[str, Any] = {"versus_model": chosen.pop()} if extra["versus_model"] else {}
    if extra["versus"] is not None:
        differing["versus"] = _write_prompt(extra["versus"])
    for model in chosen:
        for method in asked.methods:
            route, question = _write_question(asked, method)
            if differing:
                route, question = "difference", {**question, **differing}
            elif extra["account"]:
                question["account"] = True
            with show_progress(f"{server.address} explains with {model} …"):
                document = server.ask(route, {**question, "model": model})
            yield document


def _write_prompt(source: Source) -> Any:
    """Write a prompt as the server takes it."""
    if source.ids:
        return read_ids(source.text)
    if source.turns:
        return list(source.turns)
    if source.documents:
        named = [{"name": name, "text": text} for name, text in source.documents.items()]
        asked = {"question": source.question, "template": source.text or None}
        given = {name: value for name, value in asked.items() if value is not None}
        return {"documents": named, **given, "chat": source.chat}
    if source.chat:
        return [{"role": "user", "content": source.text}]
    return source.text


def _write_question(asked: AskedQuestion, method: str) -> tuple[str, dict[str, Any]]:
    """Give the route for a question by one method, and the body of the request."""
    foil = asked.foil
    if isinstance(foil, list) and len(foil) == 1:
        (foil,) = foil
    common = {
        "prompt": _write_prompt(asked.source),
        "foil": foil,
        "method": method,
        "depth": asked.depth,
    }
    if asked.new_tokens is None and asked.said is None:
        parts = {} if asked.parts is None else {"by": asked.parts}
        return "explain", {**common, "target": asked.target, **parts}
    continued = {**common, "continuation": asked.said, "new_tokens": asked.new_tokens or OWN_ANSWER}
    return ("continue", continued) if asked.parts is None else ("support", {**continued, "by": asked.parts})


def _match(served: Sequence[str], name: str) -> str | None:
    """Find a model by the name that was typed; a folder by its last part."""
    short = Path(name).name.lower()
    exact = [each for each in served if each == name]
    return next(iter([*exact, *(each for each in served if each.lower() == short)]), None)


def _find_model(served: Sequence[str], name: str) -> str:
    found = _match(served, name)
    if found is None:
        raise InputError(f"The server has no model {name!r}.", f"Models: {', '.join(served)}.")
    return found


def _tell_none(wanted: Sequence[str], running: Sequence[str]) -> InputError:
    """Tell that no server fits, and how to start one."""
    models = "".join(f" -m {name}" for name in wanted)
    remedy = f"Start one in another terminal (whyword serve{models}), or leave --server out."
    if not running:
        return InputError("No `whyword serve` of yours is running.", remedy)
    return InputError(
        f"No running `whyword serve` has {', '.join(wanted)}; there is {', '.join(running)}.", remedy
    )
