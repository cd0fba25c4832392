"""whyword beside the tools that people use: cost, memory, exactness, agreement with evidence, lines of code.

    python benchmarks/peers.py [NAMES …] [--only costs rows documents] [--methods …] [--at-once 2]
                               [--lengths 32 128 512 2048] [--rounds 3] [--data FOLDER] [--rows 24]
    python benchmarks/peers.py --write docs/compared.md

Every tool has an environment of its own, made at first and kept in the cache (WHYWORD_CACHE), and runs there
in processes of its own: the driver `compared/with_NAME.py` is what its user would write. All read the same
networks, token ids, target and foil. Cost is CPU time of one thread as a multiple of a plain forward pass in
the same process, in turns with it. Two processes run at once, each on a core of its own (`--at-once 1`: one
after the other). Answers are kept in `compared/results.json`, tool by tool, so that one of them can be asked
again; a run of everything begins a new file. `--write` alone makes the page, its plot and README's sentence
on cost from that file. SVA has no evidence columns: spaCy and an English pipeline find its subjects.
"""

import argparse
import datetime
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import Any, NamedTuple

from filelock import FileLock

from compared.answers import NETWORKS
from compared.claim import renew_claim
from compared.environments import PACKAGES, find_python
from compared.page import write_page
from whyword.models.bundled.cache import find_cache

HERE = Path(__file__).parent / "compared"
RESULTS = HERE / "results.json"
TOOLS = ("whyword", *PACKAGES)
KINDS = ("costs", "rows", "documents")
CITING = ("whyword", "context-cite")
"""Those that are asked about documents."""
LONGEST_FIRST = ("captum", "inseq", "context-cite", "whyword")
"""Tools whose questions take longest, so that two cores end at about the same time."""
LONGEST_PROCESS = 1500
"""Seconds after which a process is stopped: calls have limits of their own."""
VERSIONS = ["torch", "transformers", "whyword", "gim-explain"]


class Task(NamedTuple):
    """What one process is asked."""

    name: str
    kind: str
    network: str
    asked: dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help=f"of {', '.join(TOOLS)}; default: all")
    parser.add_argument("--only", nargs="*", choices=KINDS, default=KINDS)
    parser.add_argument("--methods", nargs="*", default=[])
    parser.add_argument("--networks", nargs="*", choices=NETWORKS, default=NETWORKS)
    parser.add_argument("--lengths", type=int, nargs="*", default=[32, 128, 512, 2048])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--data", type=Path, default=Path(__file__).parents[2] / "shared" / "data")
    parser.add_argument("--rows", type=int, default=24, help="of BLiMP, SVA and IOI each")
    parser.add_argument("--slow-rows", type=int, default=4, help="of each, for methods of many passes")
    parser.add_argument("--documents", type=int, default=9, help="questions about three documents")
    parser.add_argument("--memory", type=float, default=9, help="GB that a process may have")
    parser.add_argument("--at-once", type=int, default=min(2, len(list_cores())), help="processes at a time")
    parser.add_argument("--write", type=Path, help="write the page to this file, its plot beside it")
    arguments = parser.parse_args()
    if not (arguments.write and not arguments.names and arguments.only == KINDS and RESULTS.is_file()):
        ask(arguments)
    if arguments.write is not None:
        results = json.loads(RESULTS.read_text())
        write_page(results, arguments.write)
        renew_claim(results, Path(__file__).parents[1] / "README.md")


def ask(arguments: argparse.Namespace) -> None:
    """Ask every tool, and keep what each answered."""
    from compared.ranking import rank_rows

    chosen = (arguments.names, arguments.methods, arguments.only == KINDS, arguments.networks == NETWORKS)
    if chosen == ([], [], True, True):
        RESULTS.unlink(missing_ok=True)
    for name in arguments.names or TOOLS:
        prepare_environment(name)
    tasks, rows = list_tasks(arguments)
    cores: Queue[int] = Queue()
    for core in list_cores()[: arguments.at_once]:
        cores.put(core)

    def follow(task: Task) -> None:
        core = cores.get()
        start = time.monotonic()
        limits = {"core": core, "memory": arguments.memory, "methods": arguments.methods}
        found = run(task.name, {**task.asked, **limits})
        cores.put(core)
        if task.kind == "costs":
            found = {task.network: {**found, "at_once": arguments.at_once}}
        keep(task.name, task.kind, rank_rows(rows, found) if task.kind == "rows" else found)
        about = f"{task.name}: {task.kind}, {task.network}"
        print(f"{about}: {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)

    with ThreadPoolExecutor(arguments.at_once) as pool:
        list(pool.map(follow, tasks))


def list_tasks(arguments: argparse.Namespace) -> tuple[list[Task], list[Any]]:
    """List what is asked, those that take longest first; and the rows, as they are ranked."""
    from compared.questions import find_network, make_documents, make_prompts, make_rows

    names = sorted(
        arguments.names or TOOLS,
        key=lambda name: LONGEST_FIRST.index(name) if name in LONGEST_FIRST else len(LONGEST_FIRST),
    )
    asked: list[tuple[str, str, dict[str, Any]]] = []
    rows: list[Any] = []
    if "costs" in arguments.only:
        for network in arguments.networks:
            prompts = make_prompts(find_network(network), arguments.lengths, arguments.rounds)
            asked.append(("costs", network, {"lengths": prompts, "rows": []}))
    if "rows" in arguments.only and any(name != "context-cite" for name in names):
        rows = make_rows(arguments.data, arguments.rows, arguments.slow_rows)
        asked.append(("rows", NETWORKS[0], {"lengths": [], "rows": [row.question for row in rows]}))
    if "documents" in arguments.only and any(name in CITING for name in names):
        documents = make_documents(find_network(NETWORKS[0]), arguments.documents)
        asked.append(("documents", NETWORKS[0], {"lengths": [], "rows": [], "documents": documents}))
    tasks = [
        Task(name, kind, network, {"network": str(find_network(network)), **question})
        for name in names
        for kind, network, question in asked
        if (name in CITING if kind == "documents" else name != "context-cite")
    ]
    return tasks, rows


def prepare_environment(name: str) -> None:
    """Make an environment before anything is timed; one that cannot be made is an answer of its tool."""
    try:
        find_python(name)
    except (subprocess.SubprocessError, OSError) as error:
        print(f"{name}: {error}", file=sys.stderr)


def list_cores() -> list[int]:
    """List the cores that this process may use."""
    return sorted(os.sched_getaffinity(0))


def run(name: str, asked: dict[str, Any]) -> dict[str, Any]:
    """Run the driver of a tool in its environment; a failure is an answer, too."""
    question = {"packages": [*VERSIONS, *PACKAGES], **asked}
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    if name == "whyword" and "PYTHONPATH" in os.environ:
        environment["PYTHONPATH"] = os.environ["PYTHONPATH"]
    environment |= {
        "OMP_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_OFFLINE": "1",
        "TQDM_DISABLE": "1",
    }
    try:
        done = subprocess.run(
            [str(find_python(name)), str(HERE / "protocol.py"), f"with_{name.replace('-', '_')}"],
            input=json.dumps(question),
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            env=environment,
            timeout=LONGEST_PROCESS,
        )
    except subprocess.CalledProcessError as error:
        return {"failed": f"its process ended with code {error.returncode}", "methods": {}}
    except (subprocess.SubprocessError, OSError) as error:
        return {"failed": type(error).__name__, "methods": {}}
    answered: dict[str, Any] = json.loads(done.stdout)
    return answered


def keep(name: str, kind: str, found: dict[str, Any]) -> None:
    """Put an answer into the file of results, in place of an older one of the same kind and method."""
    with FileLock(find_cache().parent / "peers" / "results.lock"):
        results = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}
        known = results.setdefault(name, {})
        dated = {"date": datetime.date.today().isoformat(), **found}
        known[kind] = _join(known.get(kind, {}), dated)
        RESULTS.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")


def _join(old: Any, new: Any) -> Any:
    """Replace what is new, and leave the methods that were not asked again."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    kept = {} if "failed" in old and "failed" not in new else old
    kept = {key: value for key, value in kept.items() if key != "failed"}
    joined = {
        key: _join(old.get(key), value) if key in ("methods", *NETWORKS) else value
        for key, value in new.items()
    }
    return {**kept, **joined}


if __name__ == "__main__":
    main()
