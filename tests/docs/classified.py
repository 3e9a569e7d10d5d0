"""Where the commands of the pages that test_guides.py does not run are run, or why they are not.

By the command as the page shows it. Each one also has to be accepted by the real command line if it calls `stoker`.
"""

from __future__ import annotations

ELSEWHERE = {
    "scripts/demo": "tests/scenarios/test_real_models.py::"
    "test_every_command_that_the_demo_prints_works_in_a_bare_shell",
    "scripts/ray-playground": "tests/scenarios/test_cluster.py::"
    "test_a_real_node_that_dies_costs_the_answers_it_had_begun_and_a_sibling_goes_on",
    "stoker cluster status": "tests/cli/test_cli_cluster.py::test_status_shows_nodes_gpus_labels_and_our_jobs",
    "docker compose run --rm --no-deps stoker stoker config check": "tests/scenarios/test_compose_example.py::"
    "test_commands_run_inside_the_container",
    "docker compose up -d": "tests/scenarios/test_compose_example.py::"
    "test_the_model_answers_through_the_published_port",
    "docker compose exec stoker stoker serves status": "tests/scenarios/test_compose_example.py::"
    "test_commands_run_inside_the_container",
    "stoker eval benchmark --through gpu --preset users --seconds 5 --repeats 1": "tests/edge/test_edge_failures.py",
    "stoker eval classifier": "tests/cli/test_cli_classifier.py::test_one_that_wins_is_on_with_both_tables",
    "stoker import hf": "tests/scenarios/test_moving_in.py::"
    "test_two_commands_lead_from_the_models_of_another_program_to_a_first_answer",
    "stoker import litellm config.yaml": "tests/scenarios/test_moving_in.py::"
    "test_two_commands_lead_from_litellms_configuration_to_a_first_answer",
    "stoker import llama-swap config.yaml": "tests/scenarios/test_moving_in.py::"
    "test_two_commands_lead_from_the_models_of_another_program_to_a_first_answer",
    "stoker import llama.cpp ~/models.ini --cwd ~": "tests/scenarios/test_moving_in.py::"
    "test_two_commands_lead_from_the_models_of_another_program_to_a_first_answer",
    "stoker import lmstudio": "tests/scenarios/test_moving_in.py::"
    "test_two_commands_lead_from_the_models_of_another_program_to_a_first_answer",
    "stoker import ollama": "tests/scenarios/test_moving_in.py::"
    "test_two_commands_lead_from_the_models_of_another_program_to_a_first_answer",
    "stoker route-sync": "tests/scenarios/test_edges.py::test_an_ingress_follows_a_stoker_that_runs_on_the_worker",
    "stoker stage http://models.lan/big-00001-of-00002.gguf --quota 200GiB": "tests/cli/test_cli_stage.py::"
    "test_over_http_with_a_signed_address_nothing_of_the_signature_is_kept_or_said",
    "stoker up --replace": "tests/scenarios/test_replacing.py::"
    "test_restarts_under_streams_refuse_no_connection_and_cut_no_stream",
    "sudo stoker install systemd --profile spark --start": "tests/cli/test_cli_install.py::"
    "test_profile_is_what_runs_after_the_next_start",
}
"""The test that runs the command, or the function behind it, in its own surroundings."""

INSTALLS = "sets up this environment, in which the test already runs"
DOWNLOADS = "downloads gigabytes"
COMPOSE = "needs the images of the example, which download gigabytes; test_compose_example.py runs it with a stand-in"
SPEECH = "needs the engines of the guide; tests/scenarios/test_speech.py asks the same by the SDK"

NOT_RUN = {
    "scripts/setup run": INSTALLS,
    "scripts/setup dev": INSTALLS,
    "scripts/setup run && . .venv/bin/activate": INSTALLS,
    ". .venv/bin/activate": INSTALLS,
    "scripts/check": "runs before the tests: scripts/test",
    "scripts/test": "runs this test",
    ".venv/bin/python -m pytest -q tests/request/lease": "runs as a part of the tests",
    "python3 -m venv ~/vllm": DOWNLOADS,
    "~/vllm/bin/pip install vllm": DOWNLOADS,
    "~/vllm/bin/hf download Qwen/Qwen3-8B": DOWNLOADS,
    "docker pull vllm/vllm-openai:latest": DOWNLOADS,
    'pkill -9 -f "$PWD/.venv/bin/stoker up"': "tests/scenarios/test_cluster.py kills Stoker by its process id",
    "cd examples/compose": COMPOSE,
    "docker compose build": COMPOSE,
    "docker compose ps": COMPOSE,
    ". ./.env": COMPOSE,
    'curl http://127.0.0.1:8000/v1/chat/completions -H "authorization: Bearer $STOKER_KEY" -H '
    "'content-type: application/json' -d '"
    '{"model": "qwen", "messages": [{"role": "user", "content": "Who are you?"}]}\'': COMPOSE,
    "docker compose exec stoker stoker top": COMPOSE,
    "docker compose exec stoker stoker reload": COMPOSE,
    "docker compose exec stoker stoker client claude-code": COMPOSE,
    'eval "$(docker compose exec -T stoker stoker client env)"': COMPOSE,
    "git pull": "fetches another version of Stoker",
    "docker compose up -d --build stoker": COMPOSE,
    "curl -s http://127.0.0.1:8000/v1/audio/speech -H 'content-type: application/json' -o speech.wav -d "
    '\'{"model": "tts-1", "input": "go forward ten meters", "voice": "en-us", "response_format": "wav"}\'': SPEECH,
    "curl -s http://127.0.0.1:8000/v1/audio/transcriptions -F model=whisper-1 -F file=@speech.wav": SPEECH,
    "pip install --upgrade stoker": "needs a package registry",
    "sudo systemctl restart stoker": "needs a service of the machine; tests/scenarios/test_replacing.py restarts one",
}
"""The reason why no test runs the command."""
