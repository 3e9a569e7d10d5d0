"""Tests that the default run leaves out, and why each takes long: `scripts/test --slow` runs them, and so does CI.

They drive real parts (engines, containers, browsers, proxies), or run benches, or try many examples. What they hold of
Stoker's own rules, a test of the default run holds with a scripted part, or CI finds.
"""

from __future__ import annotations

REAL_ENGINE = "a real llama.cpp"
CONTAINERS = "a real Docker engine"
BROWSER = "a real browser"
PROXIES = "real nginx and Caddy, or a stand-in for EC2"
CRASHES = "Stoker is killed at every step"
EXAMPLES = "many examples or many starts of Stoker"

SLOW = {
    "tests/bench_smoke/": EXAMPLES,
    "tests/setup/test_cli_doctor_gpu.py::test_started": REAL_ENGINE,
    "tests/setup/test_web_add.py::test_a_model_is_added_checked_and_answers": REAL_ENGINE,
    "tests/setup/test_web_add.py::test_a_model_is_chosen_cancelled_taken_up_in_a_second_tab_and_used": BROWSER,
    "tests/setup/test_web_measure.py::test_a_preflight_is_begun_on_the_page_of_a_serve": BROWSER,
    "tests/setup/test_web_settings.py::test_a_setting_is_found_corrected_and_written": BROWSER,
    "tests/cli/test_cli_interrupted.py": EXAMPLES,
    "tests/lab/cli/test_cli_sweep.py": EXAMPLES,
    "tests/docs/test_guides.py": EXAMPLES,
    "tests/edge/test_edge_ec2.py": PROXIES,
    "tests/edge/test_edge_failures.py": PROXIES,
    "tests/edge/test_edge_ingress.py": PROXIES,
    "tests/fleet/conversations/test_conversation_llama.py": REAL_ENGINE,
    "tests/fleet/drivers/test_container_driver.py": CONTAINERS,
    "tests/fleet/drivers/test_docker_real.py": CONTAINERS,
    "tests/fleet/drivers/test_systemd_driver.py": EXAMPLES,
    "tests/engines/test_llama_options.py": REAL_ENGINE,
    "tests/fleet/supervision/test_supervisor_container.py": CONTAINERS,
    "tests/fleet/supervision/test_supervisor_engines.py": EXAMPLES,
    "tests/fleet/supervision/test_supervisor_identity.py": EXAMPLES,
    "tests/lab/preflight/test_assistant.py": EXAMPLES,
    "tests/orchestrator/checks/test_names.py::test_no_false_alarm_on_sources_cut_into_blocks": EXAMPLES,
    "tests/release/": EXAMPLES,
    "tests/request/translate/properties/test_translation_fuzz.py": EXAMPLES,
    "tests/request/translate/properties/test_translation_round_trip.py::test_there_and_back_is_the_identity": EXAMPLES,
    "tests/scenarios/test_browser.py": BROWSER,
    "tests/scenarios/test_compose_example.py": CONTAINERS,
    "tests/edge/scenarios/test_edges.py": PROXIES,
    "tests/scenarios/test_freed_memory.py": "hundreds of megabytes are sent",
    "tests/lab/scenarios/test_gating.py": REAL_ENGINE,
    "tests/lab/scenarios/test_gating_guarded.py": EXAMPLES,
    "tests/lab/scenarios/test_measuring_models.py": REAL_ENGINE,
    "tests/importing/scenarios/test_moving_in.py": REAL_ENGINE,
    "tests/orchestrator/scenarios/test_orchestrating.py::test_a_crash": CRASHES,
    "tests/scenarios/test_prometheus.py": "a real Prometheus",
    "tests/scenarios/test_public_proxies.py": PROXIES,
    "tests/scenarios/test_real_models.py": REAL_ENGINE,
    "tests/scenarios/test_replacing.py": EXAMPLES,
    "tests/auto/scenarios/test_routing.py::test_traffic_follows": REAL_ENGINE,
    "tests/scenarios/test_speech.py": "real engines for speech",
    "tests/auto/scenarios/test_web_routing.py": BROWSER,
    "tests/lab/scenarios/test_web_results.py": BROWSER,
    "tests/scenarios/test_web_": BROWSER,
    "tests/setup/test_web_devices.py": BROWSER,
}
"""The beginning of a test's id, and what takes long. `pytest --durations=50` says what has become slow."""

HEAVY = {
    "tests/auto/scenarios/test_routing_demotion.py::test_a_model_that_is_well": REAL_ENGINE,
    "tests/fleet/drivers/test_docker_real.py::test_a_broken_compose_file": CONTAINERS,
    "tests/fleet/drivers/test_docker_real.py::test_a_changed_compose_file": CONTAINERS,
    "tests/scenarios/test_compose_example.py::test_a_stop_lets_a_stream_end": CONTAINERS,
    "tests/bench_smoke/test_bench_translation.py": EXAMPLES,
    "tests/edge/test_edge_load.py": PROXIES,
    "tests/ray/test_ray_crashes.py": CRASHES,
    "tests/ray/test_ray_ranks.py": CRASHES,
    "tests/lab/preflight/test_checks_ember.py": REAL_ENGINE,
    "tests/lab/suites/test_suites_ember.py": REAL_ENGINE,
    "tests/auto/scenarios/test_companion.py": EXAMPLES,
    "tests/lab/scenarios/test_measuring_soak.py": EXAMPLES,
    "tests/orchestrator/scenarios/test_orchestrating_leaving.py": CRASHES,
}
"""What CI leaves out, too, to stay below fifteen minutes: `scripts/test --all` runs it."""

_BEGINNINGS = tuple(SLOW)
_HEAVIEST = tuple(HEAVY)


def is_slow(node_id: str) -> bool:
    return node_id.startswith(_BEGINNINGS)


def is_heavy(node_id: str) -> bool:
    return node_id.startswith(_HEAVIEST)
