"""Situations in which Stoker proposes a command, by where they come about, and what each command does there."""

from __future__ import annotations

from tests.scenarios.plane import MODELS
from tests.scenarios.typed import Proposal, Situation

SPARK = str(MODELS / "spark.gguf")
SHOWN = "SERVE +STATE"
STARTED = "listening on"

STOPPED = [
    Situation("stoker serves status", (Proposal("stoker up --config 1", STARTED),)),
    Situation("stoker slot list", (Proposal("stoker up --config 1", STARTED),)),
    Situation("stoker keys list", (Proposal("stoker up --config 1", STARTED),)),
    Situation("stoker explain req_1", (Proposal("stoker decisions", "no requests are recorded"),)),
    Situation("stoker config check", (Proposal("stoker up --config 1", STARTED),)),
    Situation("stoker doctor", (Proposal("stoker up", STARTED),)),
    Situation("stoker doctor --config missing.toml", (
        Proposal("stoker fit 1", "gone.gguf does not exist", 1),
        Proposal("stoker serves up 1 --dry-run", "nonesuch", 1), Proposal("stoker doctor", "nonesuch", 1),
    )),
    Situation("stoker doctor --config typo.toml", (Proposal("stoker config check", "keep_loaded includes preload"),)),
    Situation("stoker slot list --state elsewhere", (Proposal("stoker up --config FILE", STARTED),)),
    Situation("stoker config show --config gone.toml", (Proposal("stoker init --path 1", "wrote"),)),
    Situation("stoker config show --config models", (Proposal("stoker init --path 1", "wrote"),)),
    Situation("stoker config schema", (
        Proposal("stoker usage", "nothing was used"), Proposal("stoker watchdog --once", "does not run", 1),
    )),
    Situation("stoker serves up a --dry-run --config embedded.toml", (
        Proposal("stoker docs embedded engine options", "Embedded engine options"),
    )),
    Situation("stoker config check --config prompt.toml", (Proposal("stoker orchestrator prompts --ship", "block"),)),
    Situation("stoker client aider --config small.toml", (
        Proposal("stoker fit", "VERDICT", adds="a --config small.toml"),
    )),
    Situation("stoker fit --config none.toml", (Proposal("stoker fit PATH/TO/MODEL.gguf", "fits"),)),
]  # fmt: skip

RUNS = [
    Situation("stoker help", (Proposal("stoker --help", "Commands"),)),
    Situation("stoker chat", (
        Proposal("stoker client NAME", "127.0.0.1", fills={"NAME": "aider"}),
        Proposal("stoker client curl", "127.0.0.1"),
    )),
    Situation("stoker client env", (Proposal("stoker client env", "OPENAI_BASE_URL"),)),
    Situation("stoker ask", (Proposal("stoker client curl", "127.0.0.1"),)),
    Situation("stoker ps", (Proposal("stoker serves status", SHOWN),)),
    Situation("stoker models", (Proposal("stoker serves status", SHOWN),)),
    Situation("stoker logs", (Proposal("stoker serves logs NAME", "scripted model"),)),
    Situation("stoker serves show", (
        Proposal("stoker serves status", SHOWN), Proposal("stoker config show", r"\[\[serve\]\]"),
    )),
    Situation("stoker check", (Proposal("stoker config check", "stoker.toml"),)),
    Situation("stoker config check", (Proposal("stoker reload", "nothing changed"),)),
    Situation("stoker init", (Proposal("stoker config check --config 1", "5 serves"),)),
    Situation("stoker load", (Proposal("stoker serves up NAME", "fast is already ready"),)),
    Situation("stoker unload", (Proposal("stoker serves down NAME", "tiny is", fills={"NAME": "tiny"}),)),
    Situation("stoker orchestrator prompts", (Proposal("stoker orchestrator prompts --ship", "block"),)),
    Situation("stoker orchestrator show nothing", (Proposal("stoker orchestrator list", "no requests are saved"),)),
    Situation("stoker run hello", (Proposal("stoker client curl", "127.0.0.1"),)),
    Situation("stoker promote main", (Proposal("stoker promote 1 SERVE", "because|no gate", 1, {"SERVE": "slow"}),)),
    Situation("stoker promote main slow", (
        Proposal("stoker promote 1 1 --force --reason TEXT", "main points to slow now"),
    )),
    Situation("stoker promote main", (Proposal("stoker promote 1 --reset", "main points to fast now"),)),
    Situation("stoker decisions --routes", (Proposal('stoker route "PROMPT"', "chat"),)),
    Situation("stoker decisions", (Proposal("stoker explain 1", "served by fast|fast"),)),
    Situation("stoker explain req_nothing", (Proposal("stoker decisions", "fast"),)),
    Situation("stoker import llama-swap performance.yaml --check", (Proposal("stoker top", "fast"),)),
    Situation("stoker results list", (Proposal("stoker eval canary SERVE --record", "canary"),)),
    Situation("stoker eval canary slow", (
        Proposal("stoker serves up 1", "slow is ready"),
    )),
    Situation("stoker eval canary fast --baseline x", (Proposal("stoker results list --kind canary", "canary +fast"),)),
    Situation("stoker results show", (Proposal("stoker results list", "canary +fast"),)),
    Situation("stoker results compare", (Proposal("stoker results list", "canary +fast"),)),
    Situation("stoker results list --serve nothing", (Proposal("stoker results list", "canary +fast"),)),
    Situation("stoker bench", (Proposal("stoker eval benchmark SERVE", until="of .*fast|c1"),)),
    Situation("stoker eval benchmark --model x", (Proposal("stoker eval benchmark SERVE", until="of .*fast|c1"),)),
    Situation("stoker profile show", (Proposal("stoker eval bootstrap", until="1 of|small"),)),
    Situation("stoker profile diff", (
        Proposal("stoker profile diff FILE", "nothing changed", 0, {"FILE": "mine.json"}),
    )),
    Situation("stoker profile diff none.json", (Proposal("stoker profile export", "version"),)),
    Situation("stoker stage org/name", (Proposal("stoker stage hf:1", "org/name", 1),)),
    Situation("stoker stage named", (Proposal("stoker stage SOURCE --as 1", "is staged"),)),
    Situation(f"stoker stage {SPARK}", (
        Proposal("stoker fit 1", "fits"), Proposal("stoker reload", "nothing changed"),
    )),
    Situation("stoker stage changed.gguf --as spark.gguf", (Proposal("stoker stage --remove 1", "spark.gguf"),)),
    Situation("stoker stage changed.gguf --as other.gguf", ()),
    Situation(f"stoker stage {SPARK} --quota 1KiB", (
        Proposal("stoker stage --list", "vault:other.gguf"),
        Proposal("stoker stage --remove NAME", "other.gguf", 0, {"NAME": "other.gguf"}),
    )),
    Situation("stoker pull", (Proposal("stoker stage SOURCE", "spark"),)),
    Situation("stoker fit fast", (Proposal("stoker serves status", SHOWN),)),
    Situation("stoker fit tiny", (Proposal("stoker serves up 1", "tiny is"),)),
    Situation("stoker eval classifier", (
        Proposal("stoker eval classifier SERVE", until="1 of|tiny", fills={"SERVE": "tiny"}),
    )),
    Situation("stoker fit changed.gguf", (
        Proposal("stoker serves experiment --model 1 --port 8100", "listening on|stoker serves experiment"),
    )),
    Situation("stoker eval bootstrap critic", (Proposal("stoker eval validator 1 --class CLASS", "chat", 2),)),
    Situation("stoker eval validator critic --class chat", (
        Proposal("stoker eval validator 1 --class 1 --cases FILE", "stoker.toml, line 1: is no case", 1),
    )),
    Situation("stoker config check --config sglang.toml", (Proposal("stoker fit {name}", "there is no serve 'a'", 2),)),
    Situation("stoker cluster status", (Proposal("stoker cluster up-example", "ray start"),)),
    Situation("stoker docs xyzzy", (Proposal("stoker docs", "http"),)),
    Situation("stoker serves drain fast", (Proposal("stoker serves undrain 1", "fast"),)),
    Situation("stoker serves drain", (Proposal("stoker serves undrain", ""),)),
    Situation("stoker swap", (Proposal("stoker slot switch NAME", "fast"),)),
    Situation("stoker serves up odd", (Proposal("stoker slot switch 1 --force", "odd is ready"),)),
    Situation("stoker serves up", ()),
    Situation("stoker serves up", (Proposal("stoker slot switch SERVE", "fast is ready"),)),
]  # fmt: skip

KEYS = [
    Situation("stoker keys add", (Proposal("stoker keys create NAME", "key 'fast' works now"),)),
    Situation("stoker keys new", (Proposal("stoker keys create NAME", "works now", 0, {"NAME": "second"}),)),
    Situation("stoker doctor --config nokeys.toml", (Proposal("stoker keys create", "works now", adds="fourth"),)),
    Situation("stoker eval canary fast --record", (
        Proposal("stoker keys create NAME --scope observe", "works now", 0, {"NAME": "fifth"}),
    )),
    Situation("stoker launch claude-code --dry-run --key-env OTHER --config stoker.toml", (
        Proposal("stoker keys create NAME", "works now", fills={"NAME": "eighth"}),
    )),
    Situation("stoker keys create fast", (Proposal("stoker keys rotate 1", "the new value of key 'fast'"),)),
    Situation("stoker keys set fast --expires", (
        Proposal("stoker keys create NAME --expires 90d", "works now", 0, {"NAME": "third"}),
    )),
    Situation("stoker keys set fast --context 32", (Proposal("stoker keys reset 11", "fast"),)),
    Situation("stoker keys limit fast", (Proposal("stoker keys set NAME --requests-per-minute 60", "fast"),)),
    Situation("stoker config show", (Proposal("stoker keys reset 1", "fast"),)),
    Situation("stoker keys edit", (Proposal("stoker keys set NAME --set SETTING=VALUE", "fast"),)),
    Situation("stoker keys set --help", (Proposal("stoker keys reset", "fast", adds="fast"),)),
    Situation("stoker keys show nobody", (Proposal("stoker keys list", "fast"),)),
    Situation("stoker keys usage", (Proposal("stoker usage --key NAME", "fast|no usage|nothing"),)),
    Situation("stoker keys delete fixed", (Proposal("stoker keys disable 1", "fixed"),)),
    Situation("stoker keys disable fixed", (Proposal("stoker keys enable 1", "fixed"),)),
    Situation("stoker keys revoke", (
        Proposal("stoker keys disable NAME", "fast"), Proposal("stoker keys delete NAME", "fast"),
    )),
]  # fmt: skip

EMPTY = [
    Situation("stoker --help", (Proposal("stoker init", "wrote", adds="--path zeroth.toml"),)),
    Situation("stoker import folder", (
        Proposal("stoker init", "wrote", adds="--path first.toml"),
        Proposal("stoker import llama.cpp DIR", "wrote", 0, {"DIR": "models"}, "--path second.toml"),
    )),
    Situation("cat first.toml", (
        Proposal("stoker config check", "first.toml", adds="--config first.toml"),
        Proposal("stoker up --config THIS_FILE", STARTED, 0, {"THIS_FILE": "first.toml"}),
    )),
    Situation("stoker import llama-swap", (
        Proposal("stoker import llama-swap config.yaml", "would write|a +", adds="--check"),
    )),
    Situation("stoker import llama-swap lite.yaml", (
        Proposal("stoker import litellm FILE", "ollama|a +", 0, {"FILE": "lite.yaml"}, "--check"),
    )),
    Situation("stoker import litellm rich.yaml --check", (
        Proposal("stoker keys create --help", "--cost-per-day"),
    )),
    Situation("stoker fit", (Proposal("stoker fit PATH/TO/MODEL.gguf", "fits"), Proposal("stoker init", "wrote"))),
    Situation("stoker init", (Proposal("stoker config check --config 1", "no problems"),)),
]  # fmt: skip


PAGE = [
    Situation("page about.js", (
        Proposal("stoker COMMAND --help", "Usage", 0, {"COMMAND": "serves"}), Proposal("stoker docs WORDS", "memory"),
    )),
    Situation("page docs.js", (Proposal("stoker docs 1", "memory", 0, {"1": "memory"}),)),
    Situation("page app.js", (Proposal("stoker serves undrain", ""),)),
    Situation("page results.js", (
        Proposal("stoker results list", ""), Proposal("stoker eval preflight SERVE", until="fast|1 of"),
        Proposal("stoker eval benchmark SERVE", until="fast|c1"),
    )),
    Situation("page routing.js", (Proposal("stoker reload", "nothing changed"),)),
    Situation("page requests.js", (Proposal("stoker client curl", "127.0.0.1"),)),
]  # fmt: skip

OF_KEYS_PAGE = [
    Situation("page sign_in.js", (
        Proposal("stoker keys create NAME --scope admin", "works now", 0, {"NAME": "sixth"}),
    )),
    Situation("page keys.js", (
        Proposal("stoker keys create NAME --tokens-per-day 100000 --expires 90d", "works now", 0, {"NAME": "seventh"}),
        Proposal("stoker keys create me --scope admin", "works now"),
    )),
    Situation("page key_limits.js", (
        Proposal("stoker keys set NAME --tokens-per-day 100000", "is changed", 0, {"NAME": "sixth"}),
    )),
    Situation("page key_actions.js", (Proposal("stoker keys disable NAME", "is disabled", 0, {"NAME": "sixth"}),)),
]  # fmt: skip

QUALITY = [
    Situation("stoker eval gate", (Proposal("stoker gate SERVE --for ALIAS", until="preflight|1 of"),)),
    Situation("stoker gate fast --gate strict", (
        Proposal("stoker gate SERVE --suites DIR", "0 of 120", 1, fills={"DIR": "suites"}, adds="--gate strict"),
    )),
    Situation("stoker promote main slow", (Proposal("stoker gate 1 --for 1", until="preflight|1 of"),)),
    Situation("stoker profile show", (Proposal("stoker eval calibrate", until="small"),)),
    Situation("stoker eval validator plain", (Proposal("stoker eval validator SERVE", until="fast|1 of"),)),
    Situation("stoker config check", (
        Proposal("stoker eval validator 1", until="1 of|slow"),
        Proposal("stoker eval validator 1 --class 1", until="1 of|slow"),
    )),
    Situation("stoker eval classifier", (Proposal("stoker eval classifier 1", until="slow|1 of"),)),
    Situation("stoker orchestrator list", (Proposal('stoker run --model 1 "PROMPT"', "tok"),)),
    Situation("stoker run", (Proposal("stoker run --resume REQUEST", "list the requests", 2),)),
    Situation("stoker orchestrator run", (Proposal('stoker run "PROMPT"', "which orchestrator", 2),)),
    Situation("page gates.js", (
        Proposal("stoker gate SERVE --gate 1", until="preflight|1 of", fills={"1": "default"}),
    )),
    Situation("stoker config schema", (Proposal("stoker eval validator", until="slow|1 of", adds="slow"),)),
    Situation("stoker eval context fast", (Proposal("stoker serves down 1", "fast"),)),
    Situation("stoker serves up crash", (Proposal("stoker serves logs 1", "out of luck"),)),
]  # fmt: skip

EXPERIMENT = (
    Proposal("stoker serves status --state 1", SHOWN),
    Proposal("stoker eval preflight --base-url 1 --model 1", until="1 of|stream"),
)
REPLACED = Proposal("stoker up --replace", STARTED)
TAKEN = Proposal("stoker up --port 1", STARTED)
TAKEN_SINCE = Proposal("stoker up --port N", STARTED)
STAGED = (
    Proposal("stoker reload", "new"),
    Proposal("stoker gate 1 --for ALIAS", until="preflight|1 of"),
    Proposal("stoker promote ALIAS 1", "main points to new now"),
    Proposal("stoker promote 1 --reset", "main points to fast now"),
)
WATCHED = (Proposal("stoker slot status", "slow"), Proposal("stoker serves status {name}", "lasting"))
LOOKED_INTO = (
    Proposal("stoker results compare BASELINE THIS", "canary"),
    Proposal("stoker serves logs SERVE", "scripted model"),
    Proposal("stoker eval canary 1 --record", "failed +http_502", 1),
)
ROUTING = (
    Proposal("stoker eval bootstrap 1 --class 1", until="small"),
    Proposal("stoker eval calibrate 11", until="small"),
    Proposal("stoker eval calibrate 1", until="small"),
)
ROLLED_BACK = Proposal("stoker results list --kind promotion", "promotion +new")
OF_A_REQUEST = Proposal("stoker explain 1", "fast")
UNGRADED = Proposal("stoker results show 1", "no answer of 12 could be graded")
NOT_INSTALLED = Proposal("stoker init --force", "wrote")
REMOVED = Proposal("stoker serves down", "slow is stopped")
VARIABLES = (Proposal("stoker import llama-swap", "a"), Proposal("stoker import litellm", "a"))
OLLAMA = (
    Proposal("stoker import ollama --force --partial", "wrote .*try.toml", 1),
    Proposal("stoker import ollama 1 --check", "odd", 1),
    Proposal("stoker import ollama --check", "odd", 1),
)
PROJECT = Proposal("stoker run --project DIR", "tok", fills={"DIR": "project"}, adds="--model plain hello")
BROKEN = Proposal("stoker profile import --replace FILE", "imported", fills={"FILE": "mine.json"})
COMPARED = Proposal("stoker results compare 1 1 --all", "c8", adds="--state measured")
CLIENTS = (
    Proposal("stoker stage SOURCE", "spark"),
    Proposal("stoker slot switch 1", "ready"),
    Proposal("stoker stage", "spark", adds=SPARK),
)

_RESUMED = (
    "tests/orchestrator/scenarios/test_orchestrating_command.py::"
    "test_a_stopped_request_ends_at_once_and_goes_on_after_its_blocks"
)
_JUDGED = (
    "tests/auto/scenarios/test_shadow.py::"
    "test_a_tier_that_answers_wrong_in_good_form_is_found_out_by_a_judge_that_was_measured"
)
_CONTAINED = (
    "tests/fleet/supervision/test_supervisor_container.py::"
    "test_what_is_logged_of_a_paused_or_changed_container_is_typed_as_proposed"
)
ELSEWHERE = {
    "stoker up --demo": "tests/scenarios/test_real_models.py::test_ctrl_c_on_the_demo_leaves_no_process_behind",
    "stoker run --resume 1": _RESUMED,
    "stoker orchestrator show 1": "tests/orchestrator/scenarios/test_orchestrating_command.py::"
    "test_a_block_that_never_passes_ends_the_command_with_1",
    "stoker promote 1 1 --evidence 1": "tests/lab/scenarios/test_gating.py::"
    "test_the_whole_model_passes_what_is_missing_is_measured_once_and_the_alias_moves_on_it",
    "stoker fit hf:1": "tests/setup/test_cli_fit_hub.py::test_a_file_that_is_not_there_leads_to_those_that_are",
    "stoker client 1": "tests/setup/test_cli_launch.py::test_what_cannot_work_is_said_with_the_next_command",
    "stoker add": "tests/setup/test_cli_add.py::test_a_model_is_fetched_whole_and_a_first_configuration_written",
    "stoker client curl --model 1": "tests/setup/test_cli_add.py::"
    "test_a_model_is_fetched_whole_and_a_first_configuration_written",
    "stoker add hf:1": "tests/setup/test_cli_add.py::test_what_a_wrong_way_proposes_is_typed",
    "stoker add hf:1 --dry-run": "tests/setup/test_cli_add.py::test_what_a_wrong_way_proposes_is_typed",
    "stoker remove 1": "tests/setup/test_cli_add.py::"
    "test_a_second_one_is_a_block_at_the_end_and_remove_undoes_it_to_the_byte",
    "stoker add MODEL": "tests/setup/test_cli_add.py::test_what_is_proposed_for_the_words_of_other_programs_is_typed",
    "stoker remove NAME": "tests/setup/test_cli_add.py::test_what_is_proposed_for_the_words_of_other_programs_is_typed",
    "stoker launch 1 --model 1": "tests/scenarios/test_agents.py::"
    "test_from_nothing_to_an_agent_that_answers_takes_two_commands",
    "stoker fit 1 --cache-type 11": "tests/setup/test_cli_fit_hub.py::"
    "test_a_short_context_leads_to_a_smaller_cache_and_models_left_out_to_their_paths",
    "stoker eval preflight 1": "tests/setup/test_cli_add.py::"
    "test_a_stoker_of_another_configuration_is_not_asked_about_the_new_model",
    "stoker stage SOURCE --as NAME": "tests/setup/test_cli_stage.py::test_another_name_is_given_as_proposed",
    "stoker stage SOURCE --as NAME.gguf": "tests/setup/test_cli_stage.py::test_another_name_is_given_as_proposed",
    "stoker docs macos": "tests/setup/test_doctor_systems.py::"
    "test_on_a_mac_python_pidfds_and_docker_are_those_of_macos",
    "stoker install launchd": "tests/setup/test_cli_install_launchd.py::test_a_change_restarts_it",
    "stoker pause": "tests/scenarios/test_pausing.py::"
    "test_a_model_is_away_while_a_program_runs_or_an_operator_wants_it_and_others_answer",
    "stoker resume": "tests/scenarios/test_pausing.py::"
    "test_a_model_is_away_while_a_program_runs_or_an_operator_wants_it_and_others_answer",
    "stoker resume 1": "tests/cli/test_cli_pause.py::test_resume_says_what_stays_paused_for_a_program",
    "stoker tools list": "tests/tools/test_cli_tools.py::"
    "test_the_tools_of_an_mcp_server_are_listed_tried_and_looked_at",
    "stoker tools list 1": "tests/tools/test_cli_tools.py::"
    "test_the_tools_of_an_mcp_server_are_listed_tried_and_looked_at",
    "stoker tools try 1 ARG": "tests/tools/test_cli_tools.py::"
    "test_one_call_shows_what_a_model_would_get_and_says_why_it_failed",
    "stoker tools try 1 1": "tests/tools/test_cli_tools.py::"
    "test_what_doctor_proposes_for_a_tool_that_does_not_answer_shows_what_is_wrong",
    "stoker launch 1 1": "tests/setup/test_web_launch.py::"
    "test_each_agent_has_the_line_that_its_command_takes_and_the_same_judgement",
    "stoker launch 11 --anyway": "tests/setup/test_cli_launch.py::test_what_cannot_work_is_said_with_the_next_command",
    "stoker cluster status 1": "tests/ray/cli/test_cli_cluster.py::"
    "test_what_a_cluster_that_is_not_known_proposes_is_typed",
    "stoker cluster status": "tests/ray/test_ray_driver.py::"
    "test_the_end_of_stoker_without_the_head_tells_which_job_goes_on",
    "stoker eval validator JUDGE --class CLASS": _JUDGED,
    "stoker profile show": _JUDGED,
    "stoker import": "tests/importing/test_import_ollama.py::test_the_search_of_other_programs_places_ends_in_time",
    "stoker install systemd": "tests/fleet/drivers/test_systemd_driver.py::"
    "test_a_unit_that_is_not_there_or_masked_or_broken_is_named_with_the_next_command",
    "stoker install systemd --user": "tests/fleet/drivers/test_systemd_driver.py::"
    "test_units_of_a_user_are_asked_for_at_the_users_systemd",
    "stoker run --file 1": "tests/orchestrator/scenarios/test_orchestrating_command.py::"
    "test_files_go_into_the_project_that_the_command_names",
    "stoker serves down %s": _CONTAINED,
    "stoker serves up %s": _CONTAINED,
    "stoker completions bash": "tests/setup/test_completion.py::test_where_no_shell_is_above_it_says_what_to_type",
    "stoker --install-completion": "tests/setup/test_completion.py::"
    "test_what_doctor_proposes_makes_tab_complete_commands_names_and_options",
    "stoker --version -v": "tests/cli/test_cli_extensions.py::"
    "test_a_command_that_cannot_be_imported_says_so_and_leaves_the_others",
}
"""The test that types it where it is proposed."""

TYPED = {
    proposal.text
    for table in (STOPPED, RUNS, KEYS, EMPTY, PAGE, OF_KEYS_PAGE, QUALITY)
    for situation in table
    for proposal in situation.proposes
} | {
    proposal.text
    for proposals in (
        EXPERIMENT, STAGED, WATCHED, LOOKED_INTO, ROUTING, VARIABLES, OLLAMA, CLIENTS,
        (REPLACED, TAKEN, TAKEN_SINCE, ROLLED_BACK, OF_A_REQUEST, BROKEN, COMPARED, UNGRADED),
        (PROJECT, NOT_INSTALLED, REMOVED),
    )
    for proposal in proposals
}  # fmt: skip
"""All that tests/scenarios/test_proposals.py types."""
