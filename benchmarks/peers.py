"""whyword beside the tools that people use: cost, memory, exactness, agreement with evidence, lines of code.

    python benchmarks/peers.py [NAMES …] [--only costs rows documents] [--methods …] [--rounds 5]
                               [--lengths 32 128 512 2048] [--data FOLDER] [--rows 30]
    python benchmarks/peers.py --write docs/compared.md

Every tool has an environment of its own, made at first and kept in the cache (WHYWORD_CACHE), and runs there
in a process of its own, one after the other: the driver `compared/with_NAME.py` is what its user would write.
All read the same networks, token ids, target and foil. Cost is CPU time of one thread as a multiple of a
plain forward pass in the same process, in turns with it. Answers are kept in `compared/results.json`, tool by
tool, so that one of them can be asked again; `--write` alone makes the page, its plot and README's sentence
on cost from that file.
"""

import argparse
import datetime
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

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
VERSIONS = ["torch", "transformers", "whyword", "gim-explain"]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help=f"of {', '.join(TOOLS)}; default: all")
    parser.add_argument("--only", nargs="*", choices=KINDS, default=KINDS)
    parser.add_argument("--methods", nargs="*", default=[])
    parser.add_argument("--networks", nargs="*", choices=NETWORKS, default=NETWORKS)
    parser.add_argument("--lengths", type=int, nargs="*", default=[32, 128, 512, 2048])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--data", type=Path, default=Path(__file__).parents[2] / "shared" / "data")
    parser.add_argument("--rows", type=int, default=30, help="of BLiMP, SVA and IOI each")
    parser.add_argument("--documents", type=int, default=12, help="questions about three documents")
    parser.add_argument("--write", type=Path, help="write the page to this file, its plot beside it")
    arguments = parser.parse_args()
    if not (arguments.write and not arguments.names and arguments.only == KINDS and RESULTS.is_file()):
        for name in arguments.names or TOOLS:
            ask(name, arguments)
    if arguments.write is not None:
        results = json.loads(RESULTS.read_text())
        write_page(results, arguments.write)
        renew_claim(results, Path(__file__).parents[1] / "README.md")


def ask(name: str, arguments: argparse.Namespace) -> None:
    """Ask one tool, and keep what it answered."""
    from compared.questions import find_network, make_documents, make_prompts, make_rows
    from compared.ranking import rank_rows

    if name != "context-cite":
        if "costs" in arguments.only:
            for network in arguments.networks:
                folder = find_network(network)
                prompts = make_prompts(folder, arguments.lengths, arguments.rounds)
                found = run(name, folder, {"lengths": prompts, "rows": []}, arguments.methods)
                keep(name, "costs", {network: found})
        if "rows" in arguments.only:
            rows = make_rows(arguments.data, arguments.rows)
            asked = {"lengths": [], "rows": [row.question for row in rows]}
            found = run(name, find_network(NETWORKS[0]), asked, arguments.methods)
            keep(name, "rows", rank_rows(rows, found))
    if name in CITING and "documents" in arguments.only:
        asked = {"lengths": [], "rows": [], "documents": make_documents(arguments.documents)}
        keep(name, "documents", run(name, find_network(NETWORKS[0]), asked, []))


def run(name: str, network: Path, asked: dict[str, Any], methods: list[str]) -> dict[str, Any]:
    """Run the driver of a tool in its environment; a failure is an answer, too."""
    question = {"network": str(network), "methods": methods, "packages": [*VERSIONS, *PACKAGES], **asked}
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
        )
    except (subprocess.SubprocessError, OSError) as error:
        return {"failed": f"{type(error).__name__}: {error}", "methods": {}}
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
    print(f"{name}: {kind}", file=sys.stderr)


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
