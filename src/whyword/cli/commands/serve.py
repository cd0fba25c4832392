"""whyword serve: a page to look at predictions."""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from ...errors import InputError
from ...serve.access import LOCAL, LOOPBACK, Access, Limits
from ..interruption import name_command, when_stopped
from ..reporting import Allow, Debug, Dtype, ModelNames, StartToken, reporting, tell

__all__ = ["serve"]


@reporting
def serve(
    model: ModelNames = None,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, metavar="N", help="The port; 0: any that is free.")
    ] = 8000,
    host: Annotated[
        str,
        typer.Option(
            "--host", metavar="ADDRESS", help="The address to listen on; any but the default lets others in."
        ),
    ] = LOOPBACK,
    allow_host: Annotated[
        list[str] | None,
        typer.Option("--allow-host", metavar="NAME", help="Another name that this server is reached by."),
    ] = None,
    max_tokens: Annotated[
        int, typer.Option("--max-tokens", min=1, metavar="N", help="The longest prompt that is answered.")
    ] = LOCAL.limits.tokens,
    run: Annotated[
        Path | None,
        typer.Option("--run", metavar="DIR", help="Browse a run that whyword run wrote; no model is loaded."),
    ] = None,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    start: StartToken = "auto",
    dtype: Dtype = None,
    allow: Allow = None,
    debug: Debug = False,
) -> None:
    """Look at predictions on a page: choose a word and another, and see where the difference comes from."""
    try:
        from ...serve.hosting import host as run_server
        from ...serve.hosting import is_loopback, make_access, open_socket
    except ImportError as error:
        raise InputError(
            f"The page needs FastAPI and uvicorn, which are not installed ({error.name}).",
            "Install them: pip install '.[serve]' in a checkout of whyword.",
        ) from None
    from rich.markup import escape

    from ...serve.announcement import announce
    from ..sources import open_models

    if run is not None:
        _serve_run(run, (host, port), allow_host or (), open_page=open_page, model=model)
        return
    opened = open_socket(host, port)  # before models are loaded: a port that is taken is told at once
    loaded = list(open_models(model, dtype=dtype, allow=allow or (), start=start))
    access = make_access(host, allow_host or (), Access(limits=Limits(tokens=max_tokens)))
    address = _spell_address(host, opened.getsockname()[1])

    names = [each.name for each in loaded]
    announced = ExitStack()

    def say_ready() -> None:
        announced.enter_context(announce(address, names))
        tell(f"{escape(', '.join(names))}: open [bold]{address}[/] (Ctrl+C stops)")
        tell("`whyword explain … --server` asks it from another terminal.")
        if not is_loopback(host):
            tell(
                f"[bold]Listening on {host}:[/] whoever reaches this machine can use the models, without a "
                "password or encryption. Leave --host out to keep it to this machine."
            )
        if open_page:
            typer.launch(address)

    stopped = lambda: f"the server keeps nothing. Start it again with: {name_command()}"  # noqa: E731
    with announced, when_stopped(stopped):
        run_server(loaded, access, opened, say_ready)


def _serve_run(
    folder: Path,
    place: tuple[str, int],
    names: Sequence[str],
    *,
    open_page: bool,
    model: Sequence[str] | None,
) -> None:
    """Serve the page over a run."""
    from rich.markup import escape

    from ...corpus.opened_run import open_run
    from ...serve.hosting import make_access, open_socket
    from ...serve.run_routes import host_run

    if model:
        raise InputError(
            "--run was given with --model.", "A run has its model's answers: leave one of them out."
        )
    found, opened = open_run(folder), open_socket(*place)
    address = _spell_address(place[0], opened.getsockname()[1])

    def say_ready() -> None:
        tell(f"{escape(str(folder))}, {len(found):,} rows: open [bold]{address}[/] (Ctrl+C stops)")
        if open_page:
            typer.launch(address)

    with when_stopped(lambda: f"the server keeps nothing. Start it again with: {name_command()}"):
        host_run(found, make_access(place[0], names), opened, say_ready)


def _spell_address(host: str, port: int) -> str:
    reached = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{reached}]:{port}" if ":" in reached else f"http://{reached}:{port}"
