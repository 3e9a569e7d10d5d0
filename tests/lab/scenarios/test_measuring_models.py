"""Canaries and the context search with the shipped models on a real llama.cpp."""

from __future__ import annotations

import json
import signal
import subprocess

import pytest
from tests.scenarios.plane import MODELS, STOKER, Plane, llama, poll, running

pytestmark = pytest.mark.llama


def run(plane: Plane, *words: str) -> tuple[int, str, str]:
    done = plane.run(*words, timeout=50)
    return done.returncode, done.stdout, done.stderr


def test_a_model_is_itself_again_with_other_flags_and_another_model_is_not() -> None:
    with running(llama("m", "ember")) as plane:
        assert plane.admin("switch", serve="m")[0] == 200
        code, out, err = run(plane, "eval", "canary", "m", "--record", "--json")
        assert code == 0, err
        recorded = json.loads(out)
        assert recorded["numbers"] == {"canary.n": 16, "canary.passed": 16, "steady": 16, "right": 10}

        plane.write(plane.config.read_text().replace("parallel = 2", "parallel = 1"))
        assert plane.admin("reload")[0] == 200
        assert plane.admin("switch", serve="m")[0] == 200
        code, out, err = run(plane, "eval", "canary", "m", "--json")
        assert code == 0, err
        again = json.loads(out)
        assert again["subject"]["fingerprint"]["identity"] == recorded["subject"]["fingerprint"]["identity"] != ""
        assert again["subject"]["fingerprint"]["execution"] != recorded["subject"]["fingerprint"]["execution"]
        assert again["numbers"]["agreement"] == 1.0

        plane.write(plane.config.read_text().replace("ember.gguf", "spark.gguf"))
        assert plane.admin("reload")[0] == 200
        assert plane.admin("switch", serve="m")[0] == 200
        code, _, err = run(plane, "eval", "canary", "m", "--baseline", recorded["id"])
        assert (code, "another model (model: sha256:" in err) == (1, True)


def test_the_largest_context_is_found_with_engines_of_their_own() -> None:
    with running(llama("m", "spark")) as plane:
        assert plane.admin("switch", serve="m")[0] == 200
        words = ("eval", "context", "m", "--from", "512", "--to", "3072", "--concurrency", "3", "--json")
        code, _, err = run(plane, *words)
        assert (code, "stoker serves down m" in err) == (2, True)
        assert plane.admin("unload", serve="m")[0] == 200
        code, out, err = run(plane, *words)
        assert code == 0, err
        found = json.loads(out)
        assert found["numbers"] == {"context": 2048, "kv_tokens": 3 * 2048, "concurrency": 3.0}
        assert "context-2304" in {finding["name"] for finding in found["findings"]}
        assert plane.processes() == {}
        broken = plane.directory / "broken.gguf"
        broken.write_bytes((MODELS / "spark.gguf").read_bytes().replace(b"output_norm.weight", b"output_n0rm.weight"))
        plane.write(plane.config.read_text().replace(str(MODELS / "spark.gguf"), str(broken)))
        code, out, _ = run(plane, "eval", "context", "m", "--from", "512", "--to", "512")
        assert code == 1
        assert "did not start: stoker embedded engine: llama.cpp could not serve" in out
        assert "no candidate works" in out


@pytest.mark.heavy
def test_a_sweep_that_is_broken_off_gives_the_slot_back_and_goes_on() -> None:
    with running(llama("spark", "spark"), llama("ember", "ember")) as plane:
        assert plane.admin("switch", serve="ember")[0] == 200
        words = ("eval", "sweep", "spark", "--seconds", "0.5", "--output-tokens", "16", "--json")
        command = [str(STOKER), *words, "--vary", "kv_cache_type=f16,q7_9", "--vary", "parallel=1,4"]
        sweep = subprocess.Popen(
            [*command, "--config", str(plane.config)], env=plane.environment, cwd=plane.directory, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        try:
            poll(lambda: len(list((plane.state / "results").glob("*-sweep-*.json"))) == 1, "it began")
            (path,) = (plane.state / "results").glob("*-sweep-*.json")
            poll(lambda: b'"measured"' in path.read_bytes(), "one is on disk before the next one is over")
            assert plane.serve("ember")["state"] == "stopped"
            sweep.send_signal(signal.SIGINT)
            _, told = sweep.communicate(timeout=50)
        finally:
            sweep.kill()
        assert (sweep.returncode, f"--resume {path}" in told) == (130, True), told
        assert plane.serve("ember")["state"] == "ready"
        assert not [one for one in plane.processes().values() if "spark.gguf" in one], "nothing of a variant is left"
        code, out, told = run(plane, *words, "--resume", str(path))
        found = json.loads(out)
        assert (code, [row["failure"] or row["outcome"] for row in found["rows"]]) == (
            0, ["measured", "measured", "unsupported", "unsupported"],
        ), told  # fmt: skip
        assert "1 of 4" not in told
        assert found["best"]["kv_cache_type"] == "f16"
        assert plane.serve("ember")["state"] == "ready"
