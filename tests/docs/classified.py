"""Where the commands of the pages that test_guides.py does not run are run, or why they are not.

By the command as the page shows it. Each one also has to be accepted by the real command line if it calls `stoker`.
"""

from __future__ import annotations

SHARE = "tests/release/test_share.py::test_the_files_of_share_are_what_the_program_says"
RELEASE = "tests/release/test_wheel.py::test_a_release_is_built_twice_alike_and_its_wheel_works_in_empty_environments"
REPLAYED = (
    "tests/lab/scenarios/test_measuring.py::test_our_own_traffic_is_exported_and_replayed_and_two_results_are_compared"
)
VALIDATED = (
    "tests/lab/scenarios/test_measuring_validators.py::"
    "test_a_validator_is_measured_once_and_the_configuration_check_knows"
)

ADDED = "tests/setup/test_cli_add.py::test_from_nothing_to_an_answer_and_back"
LAUNCHED = "tests/scenarios/test_agents.py::test_an_agent_is_launched_with_nothing_of_its_own_changed"
MCP_TOOLS = "tests/tools/test_cli_tools.py::test_the_tools_of_an_mcp_server_are_listed_tried_and_looked_at"
PAUSED = (
    "tests/scenarios/test_pausing.py::"
    "test_a_model_is_away_while_a_program_runs_or_an_operator_wants_it_and_others_answer"
)
IN_A_BOX = "tests/boxes/scenarios/test_boxes.py::test_a_serve_is_loaded_there_used_from_here_and_let_go"
ELSEWHERE = {
    "stoker slot list": IN_A_BOX,
    'stoker pause gpu0 --reason "rendering"': PAUSED,
    "stoker resume gpu0": PAUSED,
    "scripts/release bump 0.2.0": "tests/release/test_changelog.py::"
    "test_bump_sets_the_version_everywhere_and_refuses_before_it_writes",
    "scripts/release build": RELEASE,
    "scripts/release check": RELEASE,
    "stoker up --demo": "tests/scenarios/test_real_models.py::test_ctrl_c_on_the_demo_leaves_no_process_behind",
    "stoker completions bash > ~/.local/share/bash-completion/completions/stoker": SHARE,
    "stoker completions zsh > ~/.zfunc/_stoker": SHARE,
    "stoker completions fish > ~/.config/fish/completions/stoker.fish": SHARE,
    "scripts/demo": "tests/scenarios/test_real_models.py::"
    "test_every_command_that_the_demo_prints_works_in_a_bare_shell",
    "scripts/ray-playground": "tests/ray/scenarios/test_cluster.py::"
    "test_a_real_node_that_dies_costs_the_answers_it_had_begun_and_a_sibling_goes_on",
    "scripts/ray-playground kill alpha": "tests/ray/test_ray_playground.py::"
    "test_a_node_is_ended_by_its_name_and_only_while_it_is_the_one_that_was_started",
    "stoker cluster status": "tests/ray/cli/test_cli_cluster.py::test_status_shows_nodes_gpus_labels_and_our_jobs",
    "docker compose run --rm --no-deps stoker stoker config check": "tests/scenarios/test_compose_example.py::"
    "test_commands_run_inside_the_container",
    "docker compose up -d": "tests/scenarios/test_compose_example.py::"
    "test_the_model_answers_through_the_published_port",
    "docker compose exec stoker stoker serves status": "tests/scenarios/test_compose_example.py::"
    "test_commands_run_inside_the_container",
    "stoker eval classifier": "tests/auto/cli/test_cli_classifier.py::test_one_that_wins_is_on_with_both_tables",
    "stoker import hf": "tests/importing/scenarios/test_moving_in.py::"
    "test_two_commands_lead_from_the_models_of_another_program_to_a_first_answer",
    "stoker import litellm config.yaml": "tests/importing/scenarios/test_moving_in.py::"
    "test_two_commands_lead_from_litellms_configuration_to_a_first_answer",
    "stoker import llama-swap config.yaml": "tests/importing/scenarios/test_moving_in.py::"
    "test_two_commands_lead_from_the_models_of_another_program_to_a_first_answer",
    "stoker import llama.cpp ~/models.ini --cwd ~": "tests/importing/scenarios/test_moving_in.py::"
    "test_two_commands_lead_from_the_models_of_another_program_to_a_first_answer",
    "stoker import lmstudio": "tests/importing/scenarios/test_moving_in.py::"
    "test_two_commands_lead_from_the_models_of_another_program_to_a_first_answer",
    "stoker import ollama": "tests/importing/scenarios/test_moving_in.py::"
    "test_two_commands_lead_from_the_models_of_another_program_to_a_first_answer",
    "stoker route-sync": "tests/edge/scenarios/test_edges.py::test_an_ingress_follows_a_stoker_that_runs_on_the_worker",
    "stoker stage http://models.lan/big-00001-of-00002.gguf --quota 200GiB": "tests/setup/test_cli_stage.py::"
    "test_over_http_with_a_signed_address_nothing_of_the_signature_is_kept_or_said",
    "stoker up --replace": "tests/scenarios/test_replacing.py::"
    "test_restarts_under_streams_refuse_no_connection_and_cut_no_stream",
    "stoker install launchd --start": "tests/setup/test_cli_install_launchd.py::test_it_is_written_started_and_removed",
    "sudo stoker install systemd --profile spark --start": "tests/setup/test_cli_install.py::"
    "test_profile_is_what_runs_after_the_next_start",
    "stoker eval preflight --base-url http://127.0.0.1:9713 --only needle,over-context": "tests/lab/scenarios/"
    "test_measuring_preflight.py::test_preflight_through_the_front_door_passes_and_is_kept",
    "stoker eval benchmark ember --concurrency 1,2,4 --prompt-tokens 300 --output-tokens 64 --seconds 4 "
    "--html ember.html": "tests/lab/scenarios/test_measuring.py",
    "stoker eval canary ember --record": "tests/lab/scenarios/test_measuring_models.py::"
    "test_a_model_is_itself_again_with_other_flags_and_another_model_is_not",
    "stoker eval canary ember": "tests/lab/scenarios/test_measuring_models.py::"
    "test_a_model_is_itself_again_with_other_flags_and_another_model_is_not",
    'stoker run --policy block_by_block "Give me a JSON object with name Ada and age 36."': "tests/scenarios/"
    "test_real_models.py::test_the_demos_orchestrator_answers_the_command_that_the_demo_prints",
    'stoker run "Who are you?"': "tests/scenarios/test_real_models.py::"
    "test_the_demos_orchestrator_answers_the_command_that_the_demo_prints",
    "stoker gate ember --for coder": "tests/lab/scenarios/test_gating.py::"
    "test_the_whole_model_passes_what_is_missing_is_measured_once_and_the_alias_moves_on_it",
    'stoker route "What is 3 plus 4?"': "tests/auto/cli/test_cli_route.py::"
    "test_the_plan_is_told_with_class_order_and_why",
    'stoker route "Plan the migration of our billing system to Kubernetes"': "tests/auto/cli/test_cli_route.py::"
    "test_the_plan_is_told_with_class_order_and_why",
    "stoker eval bootstrap": "tests/auto/scenarios/test_routing.py::"
    "test_traffic_follows_what_was_measured_and_a_broken_build_is_found_out",
    "stoker explain --failed": "tests/scenarios/test_cannot_load.py::"
    "test_explain_still_knows_after_a_restart_what_a_request_waited_for_and_why_a_load_failed",
    "stoker decisions --trace --limit 1000 > trace.jsonl": REPLAYED,
    "stoker eval benchmark fast --replay trace.jsonl --speed 2": REPLAYED,
    "stoker eval validator judge --class review": "tests/auto/scenarios/test_shadow.py::"
    "test_a_tier_that_answers_wrong_in_good_form_is_found_out_by_a_judge_that_was_measured",
    "stoker eval validator pair": VALIDATED,
    "stoker eval validator small": VALIDATED,
    "stoker gate hosted --gate default --unknown-ok": "tests/lab/scenarios/test_gating.py::"
    "test_the_gate_of_a_serve_that_others_run_can_be_finished",
    "stoker results list --limit 5": "tests/lab/cli/test_cli_results.py::"
    "test_results_are_listed_newest_first_and_chosen",
    "stoker results show 3f2a": "tests/lab/cli/test_cli_results.py::test_one_is_shown_by_a_part_of_its_id",
    "stoker results compare 8ed1 abfe": "tests/lab/cli/test_cli_results.py::"
    "test_two_are_compared_and_what_differs_is_named",
    "stoker profile show": "tests/auto/cli/test_cli_profile.py::test_what_was_measured_is_shown_by_tier_and_class",
    "stoker profile diff": "tests/auto/cli/test_cli_profile.py::"
    "test_what_changed_since_the_last_write_is_told_and_exits_with_1",
    "stoker profile export > profile.json": "tests/auto/cli/test_cli_profile.py::"
    "test_what_is_exported_can_be_imported_elsewhere",
    "stoker tools list tickets": MCP_TOOLS,
    """stoker tools try tickets get_ticket '{"id": 7}'""": MCP_TOOLS,
    "stoker tools list": "tests/tools/test_cli_tools.py::test_tools_are_listed",
    """curl http://127.0.0.1:8000/api/web_search -d '{"query": "height of the Eiffel tower", "max_results": 3}'""": (
        "tests/tools/test_ollama_web.py::test_a_search_is_answered_by_the_configured_service"
    ),
    """curl http://127.0.0.1:8000/api/web_fetch -d '{"url": "https://example.com/"}'""": (
        "tests/tools/test_ollama_web.py::test_a_page_comes_with_its_links"
    ),
    'stoker tools try web "height of the Eiffel tower"': "tests/tools/test_cli_tools.py::"
    "test_one_call_shows_what_a_model_would_get_and_says_why_it_failed",
    "stoker profile import profile.json": "tests/auto/cli/test_cli_profile.py::"
    "test_what_is_exported_can_be_imported_elsewhere",
    "stoker add hf:unsloth/Qwen3-8B-GGUF": ADDED,
    "stoker remove qwen3-8b": ADDED,
    "stoker remove qwen3-8b --weights": ADDED,
    "stoker launch claude-code": LAUNCHED,
    'stoker launch codex --model coder -- exec "fix the tests"': LAUNCHED,
}
"""The test that runs the command, or the function behind it, in its own surroundings."""

INSTALLS = "sets up this environment, in which the test already runs"
DOWNLOADS = "downloads gigabytes"
SITE = "installs the generator; .github/workflows/docs.yml runs it, and tests/docs/test_site.py tests its parts"
COMPOSE = "needs the images of the example, which download gigabytes; test_compose_example.py runs it with a stand-in"
COMPILES = (
    "compiles for minutes; tests/release/test_compiled.py::test_a_compiled_wheel_works_in_an_empty_environment does it"
)
REGISTRY = "needs a package registry; tests/release/test_wheel.py installs the wheel"
IMAGE = "needs an image of a registry; tests/release/test_containers.py builds and runs them as far as it can"
HELM = "needs a cluster; tests/release/test_helm.py renders the chart"
DEBIAN = "changes the machine; tests/release/test_deb.py does it in a Debian of its own"
PROMETHEUS = "needs Prometheus; tests/scenarios/test_prometheus.py runs it where it is installed"
PUBLISHED = "needs the files of a published release"
SPEECH = "needs the engines of the guide; tests/scenarios/test_speech.py asks the same by the SDK"

NOT_RUN = {
    "scripts/setup run": INSTALLS,
    "scripts/setup dev": INSTALLS,
    ". .venv/bin/activate": INSTALLS,
    "scripts/check": "runs beside the tests: scripts/test",
    "scripts/core": "a job of .github/workflows/ci.yml",
    "scripts/as-macos tests/fleet": "a job of .github/workflows/ci.yml runs it on more",
    "scripts/test": "runs this test",
    "scripts/compile": COMPILES,
    "scripts/test --compiled": COMPILES,
    "build/compiled/bin/python -m bench.cost_guard": COMPILES,
    "STOKER_COMPILE=1 pip wheel --no-deps .": COMPILES,
    "scripts/release compile": COMPILES,
    ".venv/bin/python -m pytest -q tests/request/lease": "runs as a part of the tests",
    "scripts/docs-site --serve": SITE,
    "scripts/docs-site --check": SITE,
    "python3 -m venv ~/vllm": DOWNLOADS,
    "~/vllm/bin/pip install vllm": DOWNLOADS,
    "~/vllm/bin/hf download Qwen/Qwen3-8B": DOWNLOADS,
    "docker pull vllm/vllm-openai:latest": DOWNLOADS,
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
    "pip install --upgrade stoker": REGISTRY,
    "pip install 'stoker[mcp]'": REGISTRY,
    "uv tool upgrade stoker": REGISTRY,
    'uv tool install "stoker[llama]"': REGISTRY,
    'uv tool install --offline --no-index --find-links wheels "stoker[llama]"': REGISTRY,
    'pip download --dest wheels "stoker[llama]"': REGISTRY,
    "scripts/release deb": DEBIAN,
    "scripts/release notes": "prints a section of the changelog, as tests/release/test_changelog.py reads it",
    "docker build -f deploy/containers/Dockerfile --target cpu -t stoker:cpu .": IMAGE,
    "docker build -f deploy/containers/llama.cpp.Dockerfile --build-arg VARIANT=server-cuda -t stoker:cuda .": IMAGE,
    "docker run --rm --network host stoker:cpu stoker up --demo": IMAGE,
    "docker run -d --name stoker --restart unless-stopped -p 127.0.0.1:8000:8000 --read-only --tmpfs /tmp "
    '--cap-drop ALL --security-opt no-new-privileges -v "$PWD/config:/etc/stoker:ro" -v "$HOME/models:/models:ro" '
    "-v stoker-state:/var/lib/stoker -e STOKER_KEY --stop-timeout 45 stoker:cpu": IMAGE,
    "docker exec stoker stoker serves status": IMAGE,
    "docker build -f deploy/containers/Dockerfile --target gateway "
    "-t registry.example.com/stoker:0.1.0-gateway .": IMAGE,
    "docker push registry.example.com/stoker:0.1.0-gateway": HELM,
    "kubectl create secret generic stoker-keys --from-literal=STOKER_KEY=sk-$(openssl rand -hex 32)": HELM,
    "helm install stoker deploy/helm/stoker --set image.repository=registry.example.com/stoker -f values.yaml": HELM,
    "kubectl port-forward service/stoker 8000": HELM,
    "sudo apt install ./stoker_0.1.0-1~trixie_amd64.deb": DEBIAN,
    "sudo editor /etc/stoker/stoker.toml": DEBIAN,
    "sudo stoker config check": DEBIAN,
    "sudo systemctl enable --now stoker": DEBIAN,
    "sha256sum --check --ignore-missing SHA256SUMS": PUBLISHED,
    "gh attestation verify stoker-0.1.0-py3-none-any.whl --repo OWNER/REPOSITORY": PUBLISHED,
    "stoker keys create prometheus --scope observe": PROMETHEUS,
    "cd deploy/prometheus": PROMETHEUS,
    "promtool check config prometheus.yml": PROMETHEUS,
    "prometheus --config.file=prometheus.yml": PROMETHEUS,
    "sudo systemctl restart stoker": "needs a service of the machine; tests/scenarios/test_replacing.py restarts one",
}
"""The reason why no test runs the command."""
