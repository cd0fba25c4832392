"""What runs in a peer's own process: the same questions to every tool, timed beside a plain forward pass.

    python protocol.py DRIVER < questions.json > answers.json

A driver (with_NAME.py) is what a user of that tool writes: `load(folder)`, and `METHODS`, functions of what
was loaded, token ids, target and foil, which return one score for each token and, where the tool tells it,
what belongs to no token. Nothing here imports whyword, so that every environment can run it.
"""

import contextlib
import ctypes
import gc
import importlib
import json
import os
import signal
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

LONGEST_CALL = 50
"""CPU seconds after which a call is given up."""
LONGEST_EXPECTED = 30
"""CPU seconds of a call, by what the next shorter prompt took, beyond which it is not begun."""
ENOUGH = 16
"""CPU seconds after which no further round is begun."""
CHEAP = 5
"""CPU seconds up to which memory is read from a second call, without what the first one made and keeps."""
NEW_TOKENS = 16
"""How long an answer about documents may be."""


def main() -> None:
    asked = json.load(sys.stdin)
    told = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what tools print is not an answer
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    torch.set_num_threads(1)
    if asked.get("core") is not None:
        os.sched_setaffinity(0, {asked["core"]})
    if asked.get("memory"):
        limit_memory(asked["memory"])
    answered = answer(sys.argv[1], asked)
    json.dump({**answered, "cpu_seconds": round(time.process_time())}, told)
    told.flush()


def answer(driver: str, asked: dict[str, Any]) -> dict[str, Any]:
    """Answer questions about one network by every method of a driver."""
    found: dict[str, Any] = {"versions": name_versions(asked["packages"]), "methods": {}}
    try:
        module = importlib.import_module(driver)
        loaded = module.load(asked["network"])
        plain = load_plain(asked["network"])
    except Exception as error:
        return {**found, "failed": describe(error)}
    slow = getattr(module, "SLOW", ())
    for name, run in module.METHODS.items():
        if (asked["methods"] and name not in asked["methods"]) or not (asked["lengths"] or asked["rows"]):
            continue
        explain = lambda question, run=run: read_answer(  # noqa: E731
            run(loaded, question["ids"], question["target"], question["foil"])
        )
        costs: list[dict[str, Any]] = []
        for question in asked["lengths"]:
            costs.append(measure(explain, plain, question, costs, name in slow))
        rows = [score(explain, row) if row["few"] or name not in slow else None for row in asked["rows"]]
        found["methods"][name] = {"costs": costs, "rows": rows}
        print(driver, name, [each.get("multiple", each) for each in costs], file=sys.stderr)
    for name, run in getattr(module, "CITING", {}).items() if asked.get("documents") else ():
        cited = [cite(run, loaded, plain, each, asked["network"]) for each in asked["documents"]]
        found["methods"][name] = {"questions": cited}
    return found


def cite(run: Any, loaded: Any, plain: Any, asked: dict[str, Any], folder: str) -> dict[str, Any]:
    """Ask which document an answer is taken from; the unit is a forward pass over the same prompt."""
    from transformers import AutoTokenizer

    ids = read_question(AutoTokenizer.from_pretrained(folder), asked)

    @torch.no_grad()
    def forward(_: Any) -> Any:
        return plain(input_ids=ids, use_cache=False, logits_to_keep=1).logits

    forward(None)
    unit, _ = clock(forward, None)
    try:
        seconds, (readings, answered) = clock(
            lambda _: run(loaded, asked["documents"], asked["question"], asked["answer"], NEW_TOKENS), None
        )
    except Exception as error:
        return {"failed": describe(error)}
    scores = {name: [float(score) for score in each] for name, each in readings.items()}
    return {
        "tokens": ids.shape[1],
        "multiple": seconds / unit,
        "answered": asked["answer"] in answered,  # otherwise no document is the right one
        "right": {name: each.index(max(each)) == asked["right"] for name, each in scores.items()},
        "scores": scores,
    }


def read_question(tokenizer: Any, asked: dict[str, Any]) -> torch.Tensor:
    """Return the token ids of a question about documents, as every tool writes it."""
    text = "Context:\n" + "\n\n".join(asked["documents"]) + f"\n\nQuestion: {asked['question']}"
    turns = [{"role": "user", "content": text}]
    written = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    return torch.tensor([tokenizer(written, add_special_tokens=False).input_ids])


def load_plain(folder: str) -> Any:
    """Load the network as transformers loads it."""
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


def read_answer(given: Any) -> tuple[list[float], float]:
    """Read the scores of a driver, and what belongs to no token."""
    scores, rest = given if isinstance(given, tuple) else (given, 0.0)
    return [float(score) for score in scores], float(rest)


def measure(
    explain: Callable[..., Any],
    plain: Any,
    question: dict[str, Any],
    shorter: list[dict[str, Any]],
    slow: bool = False,
) -> dict[str, Any]:
    """Measure CPU time in turns with the forward pass, extra peak memory, and the error of the sum.

    The first call of both gives scores and memory, and is timed for slow methods alone, of many passes in a
    call. A call that takes too long has a lower bound instead; one that would, by what the next shorter
    prompt took, is not begun.
    """
    ids = torch.tensor([question["ids"]])

    @torch.no_grad()
    def forward(_: Any = None) -> Any:
        return plain(input_ids=ids, use_cache=False, logits_to_keep=1).logits[0, -1]

    unit, held, logits = watch(forward, None)
    if unit < CHEAP:  # the first one is slower
        unit, _ = clock(forward, None)
    difference = float(logits[question["target"]] - logits[question["foil"]])
    about = {"tokens": len(question["ids"]), "difference": difference}
    last = shorter[-1] if shorter else {}
    expected = unit * last.get("multiple", last.get("least", last.get("known", 0)))
    if expected > LONGEST_EXPECTED:
        return {**about, "expected": expected, "known": expected / unit}
    try:
        first, most, (scores, rest) = watch(explain, question, LONGEST_CALL)
    except TimeoutError:
        return {**about, "least": LONGEST_CALL / unit}
    except Exception as error:
        return {**about, "failed": describe(error)}
    if len(scores) != len(question["ids"]):
        return {**about, "failed": f"{len(scores)} scores of {len(question['ids'])} tokens"}
    if first < CHEAP and not slow:
        held, most = watch(forward, None)[1], watch(explain, question)[1]
    times, spent = [(unit, first)] if slow else [], 0.0
    while not slow and len(times) < question["rounds"] and (not times or spent < ENOUGH):
        times.append((clock(forward, None)[0], clock(explain, question)[0]))
        spent += sum(times[-1])
    return {
        **about,
        "forward": statistics.median(each[0] for each in times),
        "multiple": statistics.median(each[1] / each[0] for each in times),
        "rounds": len(times),
        "extra_gb": most - held,
        "sum": sum(scores),
        "rest": rest,
    }


def score(explain: Callable[..., Any], row: dict[str, Any]) -> dict[str, Any]:
    """Give the scores of one row of a dataset, or why there are none."""
    try:
        with limited(LONGEST_CALL):
            scores, _ = explain(row)
    except Exception as error:
        return {"failed": describe(error)}
    if len(scores) != len(row["ids"]):
        return {"failed": f"{len(scores)} scores of {len(row['ids'])} tokens"}
    return {"scores": scores}


def clock(run: Callable[[Any], Any], question: Any) -> tuple[float, Any]:
    """Give the CPU seconds of a call, and what it returned."""
    start = time.process_time()
    returned = run(question)
    return time.process_time() - start, returned


def watch(run: Callable[[Any], Any], question: Any, longest: float = 0) -> tuple[float, float, Any]:
    """Give CPU seconds, the most memory of the process meanwhile in GB (Linux), and what was returned.

    `longest`: after how many CPU seconds it is given up; 0: never.
    """
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # what the allocator keeps of earlier runs would hide this one's
    Path("/proc/self/clear_refs").write_text("5")
    with limited(longest):  # not before: an error that is raised while memory is tidied gets lost
        seconds, returned = clock(run, question)
    return seconds, int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 1e6, returned


def limit_memory(gigabytes: float) -> None:
    """Refuse more memory to this process (Linux), before the machine runs out of it."""
    import resource

    resource.setrlimit(resource.RLIMIT_DATA, (int(gigabytes * 1e9),) * 2)


def read_memory_limit() -> float:
    """Give the gigabytes that this process may have (Linux)."""
    import resource

    return resource.getrlimit(resource.RLIMIT_DATA)[0] / 1e9


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Stop what takes more CPU time than that; 0: nothing."""

    def stop(*_: Any) -> None:
        raise TimeoutError(f"given up after {seconds} s of CPU time")

    previous = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds, 1)  # and every second: an error may get lost in a callback
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous)


def describe(error: Exception) -> str:
    """Describe an error in a line."""
    if isinstance(error, MemoryError) or "can't allocate memory" in str(error):
        return f"> {read_memory_limit():g} GB"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0][:200] if lines else 'no message'}"


def name_versions(packages: list[str]) -> dict[str, str]:
    """Name the versions of some packages."""
    found = {}
    for package in packages:
        with contextlib.suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


if __name__ == "__main__":
    main()
