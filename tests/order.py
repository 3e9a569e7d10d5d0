"""The order of the files of tests: those that take longest begin first."""

from __future__ import annotations

LONGEST = (
    "scenarios/test_orchestrating.py",
    "fleet/drivers/test_docker_real.py",
    "scenarios/test_compose_example.py",
    "measure/preflight/test_checks_ember.py",
    "scenarios/test_orchestrating_leaving.py",
    "fleet/drivers/test_systemd_driver.py",
    "scenarios/test_moving_in.py",
    "fleet/drivers/test_ray_crashes.py",
    "scenarios/test_real_models.py",
    "orchestrate/checks/test_names.py",
    "scenarios/test_measuring.py",
    "request/translate/properties/test_translation_round_trip.py",
    "scenarios/test_loading.py",
    "request/translate/properties/test_translation_fuzz.py",
    "cli/test_cli_stage.py",
    "edge/test_edge_ec2.py",
    "scenarios/test_orchestrating_rules.py",
    "request/translate/properties/test_translation_folding.py",
    "fleet/drivers/test_ray_driver.py",
    "scenarios/test_access.py",
    "scenarios/test_operations.py",
    "fleet/drivers/test_ray_ranks.py",
    "scenarios/test_lifecycle_stop.py",
    "scenarios/test_companion.py",
    "scenarios/test_measuring_soak.py",
    "bench_smoke/test_bench_orchestrating.py",
    "scenarios/test_gating.py",
    "fleet/supervision/test_supervisor_engines.py",
    "measure/preflight/test_assistant.py",
    "scenarios/test_lifecycle_swap.py",
    "request/translate/properties/test_translation_invariants.py",
    "scenarios/test_edges.py",
    "scenarios/test_web_page.py",
    "scenarios/test_measuring_models.py",
    "fleet/conversations/test_conversation_llama.py",
    "scenarios/test_also.py",
    "scenarios/test_command_line.py",
    "scenarios/test_cluster.py",
    "fleet/supervision/test_supervisor_container.py",
    "request/translate/properties/test_translation_linear.py",
    "bench_smoke/test_bench_translation.py",
    "request/lease/test_replica_invariants.py",
    "request/lease/test_fairness_invariants.py",
)
"""Those above about three seconds. Processes that share the files take the next one when they are through with one:
one of these at the end would leave the others idle. `pytest --durations=50` says what has become slow.
"""

_PLACES = {f"tests/{name}": at for at, name in enumerate(LONGEST)}


def place(node_id: str) -> int:
    """Where the file of a test stands; all that are not among the longest stand at one place, after them."""
    return _PLACES.get(node_id.partition("::")[0], len(LONGEST))
