"""Whoever hands out the work of a run to others needs neither torch nor a model."""

import subprocess
import sys
from pathlib import Path

import whyword

from run_folders import PROMPTS, read_shards, write_rows

PROGRAM = (
    "import sys\nfrom whyword.cli import main\n"
    "try:\n    main()\nexcept SystemExit as ended:\n    assert not ended.code, ended.code\n"
    "print('imported', sorted({'torch', 'transformers'} & set(sys.modules)))\n"
)


def test_who_hands_out_the_work_needs_no_torch(tiny_folder: Path, tmp_path: Path) -> None:
    rows = [{"prompt": PROMPTS[number % 4] + " the" * (number % 5)} for number in range(24)]
    source = write_rows(tmp_path / "rows.jsonl", rows)
    options = ["--methods", "flow,logit", "--shard-rows", "4", "--start", "tokenizer", "--workers", "2"]
    command = ["run", str(source), "--out", str(tmp_path / "out"), "-m", str(tiny_folder), *options]
    done = subprocess.run([sys.executable, "-c", PROGRAM, *command], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "imported []"
    whole = tmp_path / "whole"
    whyword.run(str(tiny_folder), source, whole, methods=["flow", "logit"], shard_rows=4, start="tokenizer")
    assert read_shards(tmp_path / "out") == read_shards(whole)
