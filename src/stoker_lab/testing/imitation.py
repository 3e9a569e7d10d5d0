"""The scripted model server under an engine's own command line: `python -m stoker_lab.testing.imitation vllm -- ...`.

For a command named `vllm` or `sglang` on a test's PATH:

    #!/bin/sh
    exec python -m stoker_lab.testing.imitation vllm --memory-mb 64 -- "$@"

Before `--` are options of the scripted server, after it the engine's own. Of the engine's it reads the model's name and
the address. It has the endpoints for sleep only if the engine would have them.
"""

from __future__ import annotations

import argparse
import os
import sys

from stoker_lab.testing import scripted


def main(arguments: list[str]) -> int:
    """Exit codes as `scripted.main`; 2 for a command line that the engine would refuse."""
    engine, *given = arguments
    at = given.index("--") if "--" in given else len(given)
    flags, words = given[:at], given[at + 1 :]
    return scripted.main([*_read(engine, words), *flags])


def _read(engine: str, words: list[str]) -> list[str]:
    parser = argparse.ArgumentParser(prog=engine, allow_abbrev=False)
    parser.add_argument("--served-model-name", required=True)
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", required=True)
    parser.add_argument("--max-num-seqs", "--max-running-requests", dest="slots", default="4")
    parser.add_argument("--max-model-len", "--context-length", dest="context", default="4096")
    parser.add_argument("--enable-sleep-mode", "--enable-memory-saver", dest="sleeps", action="store_true")
    parser.add_argument("--enable-weights-cpu-backup", dest="keeps", action="store_true")
    parser.add_argument("--api-key", default=os.environ.get("VLLM_API_KEY") if engine == "vllm" else None)
    known, _ = parser.parse_known_args(words)
    can_sleep = known.sleeps and (engine != "vllm" or os.environ.get("VLLM_SERVER_DEV_MODE") == "1")
    flags = ["--engine", engine, "--id", known.served_model_name, "--host", known.host, "--port", known.port]
    flags += ["--slots", known.slots, "--context", known.context]
    flags += ["--can-sleep" if can_sleep else "--no-can-sleep"]
    flags += ["--wake-restores" if known.keeps or engine == "vllm" else "--no-wake-restores"]
    return flags + (["--api-key", known.api_key] if known.api_key else [])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
