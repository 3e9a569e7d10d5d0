"""Every problem in one go, each with its line, its key, what is wrong, and the nearest right word."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from stoker.config.effective import show
from stoker.domain.access import Settings

Problems = Callable[[str], list[str]]

GOOD = '[slots.gpu0]\n[[serve]]\nname = "fast"\nmodel = "x.gguf"\nslot = "gpu0"\n'
"""Five lines; what a test appends begins at line 6 and belongs to serve[fast]."""

TWELVE = """\
[front_door]
prot = 8000                              # 1
host = "0.0.0.0"                         # 2
body_limit = 32                          # 3

[slots.gpu0]
baseline = "nobody"                      # 4

[[serve]]
name = "fast"
engine = "vlm"                           # 5
contxt = 4096                            # 6
slot = "gpu1"                            # 7
model = "x.gguf"
aliases = [
  "small",
  "auto",                                # 8
]

[[serve]]
name = "slow"
extends = "fats"                         # 9
port = 70000                             # 10
cmd = "run --model {modle}"              # 11

[[tier]]                                 # 12
name = "cloud"
"""


def test_a_file_with_twelve_mistakes_reports_all_twelve_with_their_lines(problems: Problems) -> None:
    marked = [line for line, text in enumerate(TWELVE.splitlines(), 1) if "# " in text]
    assert len(marked) == 12
    wanted = [
        "key 'front_door.prot': unknown key; did you mean 'port'?",
        "key 'front_door.host': '0.0.0.0' can be reached from other machines, and there are no keys",
        "key 'front_door.body_limit': 32 has no unit; write text with a unit: \"32MiB\"",
        "key 'slots.gpu0.baseline': there is no serve 'nobody' in slot 'gpu0'",
        "key 'serve[fast].engine': 'vlm' is not accepted; use llama.cpp, vllm,",
        "key 'serve[fast].contxt': unknown key; did you mean 'context'?",
        "key 'serve[fast].slot': there is no slot 'gpu1'; did you mean 'gpu0'?",
        "key 'serve[fast].aliases[#2]': 'auto' is reserved",
        "key 'serve[slow].extends': there is no serve 'fats'; did you mean 'fast'?",
        "key 'serve[slow].port': is too large: at most 65535",
        "key 'serve[slow].cmd': {modle} is not filled in; did you mean '{model}'?",
        "key 'tier[cloud]': tier 'cloud' has no `serve` and no `base_url`; give one of the two",
    ]
    found = problems(TWELVE)
    assert [int(problem.partition(":")[0]) for problem in found] == marked
    for problem, start in zip(found, wanted, strict=True):
        assert problem.partition(": ")[2].startswith(start)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # kinds of value
        ("front_door = 1", "1: key 'front_door': must be a table, not a whole number"),
        ("[front_door]\nport = '80'", "2: key 'front_door.port': must be a whole number, not text"),
        ("[front_door]\nport = true", "2: key 'front_door.port': must be a whole number, not true or false"),
        ("[front_door]\nport = 0", "2: key 'front_door.port': is too small: at least 1"),
        ("[front_door]\nhost = 5", "2: key 'front_door.host': must be text in quotes, not a whole number"),
        ("[front_door]\nhost = ''", "2: key 'front_door.host': is empty"),
        ('[front_door]\nhost = "a\\nb"', "2: key 'front_door.host': contains a line break"),
        ("[front_door]\nkeys = 'x'", "2: key 'front_door.keys': must be a list in brackets, not text"),
        ("[front_door]\nprefixes = ['/v1']", "2: key 'front_door.prefixes[#1]': /v1 is one of Stoker's own paths"),
        ("[front_door]\nprefixes = ['a/../b']", "2: key 'front_door.prefixes[#1]': is not a path prefix"),
        ("[front_door]\nprefixes = ['/a/../b']", "2: key 'front_door.prefixes[#1]': is not a path prefix"),
        ("[front_door]\nallowed_origins = ['*']", "2: key 'front_door.allowed_origins[#1]': is not an http or https"),
        ("[front_door]\nallowed_origins = ['http://a/b']", "2: key 'front_door.allowed_origins[#1]': is not an origin"),
        ("[front_door]\ntrusted_proxies = ['box']", "2: key 'front_door.trusted_proxies[#1]': is not an IP address or"),
        ("[front_door]\ntrusted_proxies = ['10.0.0.1/8']",
         "2: key 'front_door.trusted_proxies[#1]': is not a network; write 10.0.0.0/8, or the address"),
        ("[front_door]\ntrusted_proxies = ['10.0.0.0/33']",
         "2: key 'front_door.trusted_proxies[#1]': is not an IP address or network; write one like"),
        ("[front_door]\nhost = '::'\nauth = 'keys'\ntrusted_proxies = ['*']",
         "4: key 'front_door.trusted_proxies[#1]': trusts everybody who reaches ::"),
        ("[front_door]\nhost = '0.0.0.0'\nauth = 'keys'\ntrusted_proxies = ['0.0.0.0/0.0.0.0']",
         "4: key 'front_door.trusted_proxies[#1]': trusts everybody who reaches 0.0.0.0"),
        ("[front_door]\nhost = '::'\nauth = 'keys'\ntrusted_proxies = ['::/0']",
         "4: key 'front_door.trusted_proxies[#1]': trusts everybody who reaches ::"),
        ("[front_door]\nkeep_alive = '0s'", "2: key 'front_door.keep_alive': must be longer than 0"),
        ("[front_door]\nbody_limit = '0B'", "2: key 'front_door.body_limit': must be larger than 0"),
        ("[front_door]\ncommit_after = 2020-01-01", "2: key 'front_door.commit_after': is not a duration; write text"),
        ("[front_door]\nauth = 'non'", "2: key 'front_door.auth': 'non' is not accepted; use keys or none; did you"),
        ("[swap]\nlinger = 'atuo'", "2: key 'swap.linger': 'atuo' is not a duration; write text with a unit"),
        ("[swap]\npatience = nan", "2: key 'swap.patience': must be a number"),
        ("[swap]\npatience = -1", "2: key 'swap.patience': is too small: at least 0"),
        ("[serve]\nname = 'x'", "1: key 'serve': must be an array of tables, not a table: write [[serve]] with"),
        ("serve = [1]", "1: key 'serve[#1]': must be a table, not a whole number"),
        ("[slots]\ng = 1", "2: key 'slots.g': must be a table, not a whole number"),
        ("[slots.'a/b']", "1: key 'slots.a/b': is not a valid name"),
        ("[slots.g]\ndevices = 0", "2: key 'slots.g.devices': must be a list like [0, 1]"),
        ("[slots.g]\ndevices = [0, '0']", "2: key 'slots.g.devices': names a device twice"),
        ("[slots.g]\ndevices = [true]", "2: key 'slots.g.devices': contains something that is not a device"),
        # keys that are somewhere else, or later
        ("port = 1", "1: key 'port': unknown key; known here: alias, app, boxes, capture, clusters, compat, "),
        ("[warm]\nmemory = 'all'", "2: key 'warm.memory': 'all' is not a size"),
        ("[media]\nhosts = ['https://a']", "2: key 'media.hosts[#1]': is not a host name; write one like"),
        ("[media]\nhosts = ['a.*']", "2: key 'media.hosts[#1]': is not a host name; write one like"),
        ("[media]\nmax_images = 65", "2: key 'media.max_images': is too large: at most 64"),
        ("[media]\nmost = 65", "2: key 'media.max_images': is too large: at most 64"),
        ("[media]\nmax_images = 2\nmost = 3", "3: key 'media.most': is the old name of `max_images`, which is given"),
        ("[watchdog]\nrestarts = 0", "2: key 'watchdog.restarts': is too small: at least 1"),
        ("patience = 1", "1: key 'patience': unknown key; did you mean 'swap.patience'?"),
        ("[swap]\nbody_limit = '1B'", "2: key 'swap.body_limit': unknown key; did you mean 'front_door.body_limit'?"),
        ("[slots.g.swap]\npatiens = 1", "2: key 'slots.g.swap.patiens': unknown key; did you mean 'patience'?"),
        ("[router]", "1: key 'router': there is no [[tier]] to choose from; add one, or remove this section"),
        ("[gate.default]", "1: key 'gate.default': gate 'default' has no `conditions`"),
        ("[gate.a]\nconditions = ['ttft < soon']", "2: key 'gate.a.conditions[#1]': 'soon' is not a number with"),
        (
            "[[serve]]\nname = 'a'\nmodel = 'm'\nvariant = [{ name = 'a:high' }]\n[alias.coder]\nserve = 'a:high'",
            "6: key 'alias.coder.serve': 'a:high' is a variant of serve 'a', and an alias of one serve points to a "
            "whole serve; write serves = [\"a:high\"]",
        ),
        ("[alias.coder]\nserve = 'x'", "2: key 'alias.coder.serve': there is no serve 'x'"),
        ("[alias.coder]", "1: key 'alias.coder': alias 'coder' has no `serve`"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_the_one_problem(problems: Problems, text: str, expected: str) -> None:
    [problem] = problems(text)
    assert problem.startswith(expected)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('driver = "systemd"', "serve 'fast' runs as a systemd unit and needs a fixed `port`: set one"),
        ('driver = "ray"', "'ray' is not written here: give the serve a slot with a `cluster`"),
        ('driver = "proces"', "'proces' is not accepted; use process, compose, systemd or external; did you"),
        ('engine = "lama.cpp"', "'lama.cpp' is not accepted; use llama.cpp, vllm,"),
        ('container = "x"', "serve 'fast' needs the `port` at which its container answers on this machine"),
        ('up = "docker"', "has no effect with driver process"),
        ('unit = "x.service"', 'is for driver = "systemd"'),
        ('fallback = "x"', "there is no serve 'x'"),
        ('fallback_on = ["busy"]', "has no effect without `fallback`"),
        ('fallback_on = ["down"]', "'down' is not accepted; use memory, unavailable or busy"),
        ('request = { set = { model = "x" } }', "'model' is what the client asks for, and no parameter of a serve"),
        ("request = { default = { stream = true } }", "'stream' is what the client asks for"),
        ('request = { drop = ["messages"] }', "'messages' is what the client asks for"),
        ('request = { drop = ["a b"] }', "is not the name of a field: use letters"),
        ("request = { set.x = 2026-01-01 }", "'x' has a date or time, which JSON does not have"),
        ("request = { set.x.y = [nan] }", "'x' has a number that JSON does not have"),
        (f"request = {{ set.x{'.y' * 70} = 1 }}", "'x' is nested too deep"),
        ("request = { set.x = [9223372036854775808] }", "'x' has a number that is too large"),
        ('fallback = "fast"', "a cycle: fast falls back to fast"),
        ("sampling = { temperatur = 1 }", "did you mean 'temperature'?"),
        ("sleep_level = 1", "is for the engines vllm and sglang"),
        ("sleep_level = 4", "is too large: at most 3"),
        ("memory_fraction = 1.5", "is too large: at most 1"),
        ("memory_fraction = 0.0", "is too small: more than 0"),
        ('source = "ftp:x"', "is not a source that weights can be fetched from"),
        ('sha256 = { "a" = "12" }', "is not a SHA-256 digest"),
        ("n_cpu_moe = -1", 'is not a whole number of layers, or "auto"'),
        ('n_cpu_moe = "auto"\ndriver = "systemd"\nport = 9', '"auto" is chosen when Stoker starts a process'),
        ('speculative = "auto"\ndriver = "systemd"\nport = 9', 'give `"mtp"`, or a draft model'),
        ('adapters = ["vault:../a"]', "must name a file under the vault"),
        ('rendezvous = "host"', "is not a rendezvous address"),
        ('warm = "hot"', "'hot' is not accepted; use auto, pin or never"),
        ('dialects = ["chat", "mesages"]', "'mesages' is not accepted; use chat, completions,"),
        ('status = "reject"', "'reject' is not accepted; use production,"),
        ('served_name = "a b "', "is not a valid model name"),
        ("metadata = { a = [] }", "must be text, a number, true or false, not a list"),
        ('aliases = ["auto:code"]', "'auto:code' is reserved"),
        ('extends = "fast"', "a cycle: fast extends fast"),
        ("port = 8000", "serve 'fast' needs port 8000, which the front door has"),
        ('model = "vault:../x"', "vault:NAME must name a file under the vault"),
        ('model = "vault:"', "vault:NAME must name a file under the vault"),
        ('cmd = "run {model}"', "contains no {port}, and the serve has no `port`"),
        ("cmd = \"run 'open\"", "has an open quote"),
        ("cmd = []", "is empty"),
        ("cmd = [1]", "must be text, or a list of texts"),
        ('health = "health"', "is not a path; write one like"),
        ("max_active = 0", "is too small: at least 1"),
        ("canary = 1", "must be true or false, without quotes, not a whole number"),
        ('idle_unload = "0x"', "the unit 'x' is not known"),
        ("env = { A = 1 }", "must be text in quotes, not a whole number"),
        ('env = { A = "env:B" }', "`env:` and `file:` are not supported in `env`"),
        ('env = { "A=B" = "1" }', "is not a name for an environment variable"),
        ('requires = { fils = [] }', "unknown key; did you mean 'files'?"),
        ('driver = "external"', "serve 'fast' is external and has no `base_url`"),
        ('base_url = "http://u:p@h/v1"', "contains a user name or a password"),
        ('base_url = "h:80"', "is not an http or https address"),
        ('base_url = "http://h:99999/v1"', "is not an http or https address"),
        ('base_url = "http://h/v1?x=1"', "must not have a '?' or '#' part"),
    ],
)  # fmt: skip
def test_a_serve_has_one_mistake_and_gets_one_problem(problems: Problems, line: str, expected: str) -> None:
    key = line.partition(" ")[0]
    text = GOOD
    if key == "model":
        text = text.replace('model = "x.gguf"\n', "")
    if key == "driver":
        text = text.replace('slot = "gpu0"\n', "")
    number = len(text.splitlines()) + 1
    [problem] = problems(text + line + "\n")
    assert problem.startswith(f"{number}: key 'serve[fast].{key}")
    assert expected in problem


@pytest.mark.parametrize(
    ("lines", "key", "expected"),
    [
        ('fallback = "x"\nfallback_on = []\n[[serve]]\nname = "x"\nmodel = "y"', "fallback_on", "is empty, so the"),
        ('container = "x"\nport = 9\nup = "run {prot}"', "up", "{prot} is not filled in; did you mean '{port}'?"),
        ('container = "x"\nport = 9\nthreads = 2', "threads", "has no effect for serve 'fast': its container has"),
        ('container = "x"\nbase_url = "http://a/v1"\ndriver = "compose"\nport = 9', "base_url", "is for external"),
        ('engine = "vllm"\nkeep_conversations = true', "keep_conversations", "is for the engine llama.cpp"),
        ("keep_conversations = true\nrequest = { set = { id_slot = 0 } }", "request.set.id_slot", "contradicts"),
        (
            "keep_conversations = true\nrequest = { default = { id_slot = 0 } }",
            "request.default.id_slot",
            "contradicts",
        ),
        (
            'keep_conversations = true\nvariant = [{ name = "h", set = { id_slot = 1 } }]',
            "variant[h].set.id_slot",
            "contradicts `keep_conversations`, which chooses the slot of the engine for each conversation; remove one",
        ),
        ('engine = "sglang"\nserved_name = "a:b"', "served_name", "SGLang refuses the served name 'a:b'"),
        ('cmd = "run {port}"\ndtype = "f16"', "dtype", "has no effect for serve 'fast', which has a `cmd`"),
        ("embedded = true\nsleep_level = 3", "sleep_level", "3 is for NVIDIA GPUs; the embedded engine uses none"),
        ('cmd = "run {port}"\nsleep_level = 1\nengine = "vllm"', "sleep_level", "is for the engines vllm and sglang"),
    ],
)
def test_keys_that_do_not_go_together_are_one_problem(problems: Problems, lines: str, key: str, expected: str) -> None:
    text = GOOD.replace('slot = "gpu0"\n', "") if "driver" in lines else GOOD
    [problem] = problems(text + lines + "\n")
    assert problem.partition(": ")[2].startswith(f"key 'serve[fast].{key}': {expected}")


@pytest.mark.parametrize(
    "lines",
    [
        "",
        'cmd = "run {port}"\n',
        'cmd = "run {port}"\nengine = "openai"\n',
        'driver = "systemd"\nport = 9\n',
        'container = "fast"\nport = 9\nup = "docker compose up -d"\n',
    ],
)
def test_the_driver_suspends_any_engine_whoever_starts_it(problems: Problems, lines: str) -> None:
    assert problems(f"{GOOD}{lines}sleep_level = 3\n") == []


def test_how_an_engine_in_a_container_sleeps_by_itself_is_not_known(problems: Problems) -> None:
    [problem] = problems(f'{GOOD}container = "fast"\nport = 9\nsleep_level = 1\n')
    assert problem.endswith("a container has its own command; 3 is for any engine on NVIDIA GPUs")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[[serve]]\nmodel = 'x'", ["1: key 'serve[#1]': `name` is missing; every [[serve]] needs one"]),
        ("[[serve]]\nname = 'a b'\nmodel = 'x'", ["2: key 'serve[a b].name': is not a valid name: use letters"]),
        (
            GOOD + "[alias.x]\nserves = ['fast', 'fest', 'fast']\nserve = 'fast'\ngate = 'g'\n[gate.g]\n"
            "conditions = ['canary']",
            [
                "7: key 'alias.x.serves[#2]': there is no serve 'fest'; did you mean 'fast'?",
                "7: key 'alias.x.serves[#3]': 'fast' is there twice; remove it",
                "8: key 'alias.x.serve': does not go together with `serves`: remove one of the two",
                "9: key 'alias.x.gate': does not go together with `serves`: an alias of several",
            ],
        ),
        (
            GOOD + "[alias]\nx = { serves = [] }\ny = { serve = 'fast', pick = 'loaded' }\nz = { pick = 'best' }",
            [
                "7: key 'alias.x.serves': is empty; name at least one serve",
                "8: key 'alias.y.pick': has no effect without `serves`",
                "9: key 'alias.z.pick': 'best' is not accepted; use first or loaded",
                "9: key 'alias.z': alias 'z' has no `serve`; name the serve that it points to",
            ],
        ),
        (
            GOOD + "aliases = ['a b', ' a', 'a ', 'a\tb', '\u00a0', '']\n[alias.' x']\nserve = 'fast'",
            [
                *(
                    f"6: key 'serve[fast].aliases[#{at}]': is not a valid model name: use 1 to 200"
                    for at in range(2, 7)
                ),
                "7: key 'alias. x': is not a valid model name",
            ],
        ),
        (
            GOOD + "[[serve.variant]]\nset = { top_k = 1 }",
            ["6: key 'serve[fast].variant[#1]': `name` is missing; every [[serve.variant]] needs one"],
        ),
        (
            GOOD + "[[serve.variant]]\nname = 'fast'",
            ["7: key 'serve[fast].variant[fast].name': 'fast' already means serve 'fast' (line 3)"],
        ),
        (
            GOOD + "[[serve.variant]]\nname = 'x*'\n[[serve.variant]]\nname = 'auto:y'\nset = { model = 'z' }",
            [
                "7: key 'serve[fast].variant[x*].name': is a pattern; only `aliases` may have the wildcards",
                "9: key 'serve[fast].variant[auto:y].name': 'auto:y' is reserved for routing",
                "10: key 'serve[fast].variant[auto:y].set': 'model' is what the client asks for",
            ],
        ),
        (
            GOOD + "[[serve.variant]]\nname = 'x'\n[[serve.variant]]\nname = 'x'",
            ["9: key 'serve[fast].variant[x].name': 'x' already means variant 'x' of serve 'fast' (line 7)"],
        ),
        (
            "[[serve]]\nname = 'a'\nabstract = true\n[[serve.variant]]\nname = 'x'",
            ["4: key 'serve[a].variant': an abstract serve cannot be requested"],
        ),
        ("[[serve]]\nname = 'a'", ["1: key 'serve[a]': serve 'a' has no `model`: give the path"]),
        (
            "[[serve]]\nname = 'a'\nengine = 'openai'\nmodel = 'x'",
            ["3: key 'serve[a].engine': engine openai has no command of its own: give serve 'a' a `cmd`"],
        ),
        (
            "[[serve]]\nname = 'a'\nengine = 'openai'\ncmd = 'run {model} {port}'",
            ["4: key 'serve[a].cmd': uses {model}, but serve 'a' has no `model`"],
        ),
        (
            "[[serve]]\nname = 'a'\nbase_url = 'http://h/v1'\nslot = 'x'\nenv = { A = '1' }",
            ["4: key 'serve[a].slot': has no effect for serve 'a'", "5: key 'serve[a].env': has no effect"],
        ),
        (
            "[[serve]]\nname = 'a'\ndriver = 'process'\nbase_url = 'http://h/v1'",
            ["4: key 'serve[a].base_url': is for external serves, and driver is \"process\""],
        ),
        (
            "[[serve]]\nname = 'a'\nabstract = true\naliases = ['b']",
            ["4: key 'serve[a].aliases': an abstract serve cannot be requested"],
        ),
        (
            "[[serve]]\nname = 'a'\nextends = 'b'\n[[serve]]\nname = 'b'\nextends = 'c'\n"
            "[[serve]]\nname = 'c'\nextends = 'b'\n",
            ["9: key 'serve[c].extends': a cycle: b extends c extends b; remove one `extends`"],
        ),
        (
            "[[serve]]\nname = 'a'\nabstract = true\nslot = 'g'\n[[serve]]\nname = 'b'\nextends = 'a'\nmodel = 'x'",
            ["4: key 'serve[a].slot': there is no slot 'g'; add a section [slots.g]"],
        ),
    ],
)
def test_what_a_serve_lacks_or_must_not_have(problems: Problems, text: str, expected: list[str]) -> None:
    found = problems(text)
    assert len(found) == len(expected), found
    for problem, start in zip(found, expected, strict=True):
        assert problem.startswith(start)


@pytest.mark.parametrize(
    "text",
    [
        "[[serve]]\nname = 'a'\ndriver = 'compose'",
        "[[serve]]\nname = 'a'\nengine = 'vllm'",
        "[[serve]]\nname = 'a'\nengine = 'openai'\ncmd = 5",
        "[[serve]]\nname = 'a'\nextends = 'nobody'",
        "[[serve]]\nname = 'a'\ncmd = 'run {prot}'",
        "[[serve]]\nname = 'a b'\nmodel = 'x'\n"
        "[front_door]\nkeys = [{ name = 'k', value = 'file:k', models = ['a b'] }]",
        "[slots.g]\nmemory = 5\n[[serve]]\nname = 'a'\nmodel = 'x'\nslot = 'g'\nkeep_loaded = true\n"
        "[[serve]]\nname = 'b'\nmodel = 'x'\nslot = 'g'\nkeep_loaded = true",
        "[front_door]\nhost = '0.0.0.0'\nauth = 'nobody'",
    ],
)
def test_one_mistake_is_one_problem_not_a_shower_of_them(problems: Problems, tmp_path: Path, text: str) -> None:
    """What follows from a problem already named is not a finding of its own."""
    (tmp_path / "k").write_text("secret-of-16-more")
    assert len(problems(text)) == 1


def test_a_wrong_parent_value_is_reported_once_in_the_parent(problems: Problems) -> None:
    children = "".join(f"[[serve]]\nname = 'c{n}'\nextends = 'p'\nmodel = 'x'\n" for n in range(3))
    [problem] = problems("[[serve]]\nname = 'p'\nabstract = true\nqueue = -1\n" + children)
    assert problem.startswith("4: key 'serve[p].queue': is too small: at least 0")


class TestNames:
    """One namespace: serve names, aliases, variants, tiers."""

    @pytest.mark.parametrize(
        ("first", "second", "place"),
        [
            ("name = 'a'", "name = 'a'", "serve[a].name"),
            ("name = 'a'\naliases = ['m']", "name = 'b'\naliases = ['x', 'm']", "serve[b].aliases[#2]"),
            ("name = 'a'\naliases = ['b']", "name = 'b'", "serve[b].name"),
        ],
    )
    def test_two_serves_cannot_share_one(self, problems: Problems, first: str, second: str, place: str) -> None:
        text = f"[[serve]]\nmodel = 'x'\n{first}\n[[serve]]\nmodel = 'x'\n{second}\n"
        theirs = 2 + len(first.splitlines())
        mine = len(text.splitlines())
        [problem] = problems(text)
        assert problem.startswith(f"{mine}: key '{place}': ")
        assert f"already means serve 'a' (line {theirs})" in problem

    @pytest.mark.parametrize(
        ("first", "second", "names"),
        [
            ("name = 'a'\nserved_name = 'm'", "name = 'b'", {"a": ("a", "m"), "b": ("b",)}),
            ("name = 'a'", "name = 'b'\nserved_name = 'a'", {"a": ("a",), "b": ("b",)}),
            ("name = 'a'\nserved_name = 'm'", "name = 'b'\nserved_name = 'm'", {"a": ("a",), "b": ("b",)}),
            ("name = 'a'\nserved_name = 'm'", "name = 'b'\naliases = ['m']", {"a": ("a",), "b": ("b", "m")}),
            ("name = 'a'\nserved_name = 'm'", "name = 'b'\nvariant = [{name = 'm'}]", {"a": ("a",), "b": ("b", "m")}),
            ("name = 'a'\nserved_name = 'm'", "name = 'b'\n[alias.m]\nserve = 'b'", {"a": ("a",), "b": ("b",)}),
            ("name = 'a'\nserved_name = 'auto'", "name = 'b'", {"a": ("a",), "b": ("b",)}),
        ],
    )
    def test_a_served_name_is_one_for_clients_only_if_nothing_else_has_it(
        self, loaded: Callable[[str], Settings], first: str, second: str, names: dict[str, tuple[str, ...]]
    ) -> None:
        settings = loaded(f"[[serve]]\nmodel = 'x'\n{first}\n[[serve]]\nmodel = 'x'\n{second}\n")
        assert {serve.name: serve.names() for serve in settings.serves} == names


class TestPatterns:
    """Aliases with wildcards."""

    SERVES = "[[serve]]\nname = 'a'\nmodel = 'x'\naliases = ['m', 'gpt-*mini']\n"

    def test_they_are_loaded_shown_and_are_no_names(self, loaded: Callable[[str], Settings]) -> None:
        settings = loaded(self.SERVES)
        [serve] = settings.serves
        assert (serve.aliases, serve.alias_patterns) == (("m",), ("gpt-*mini",))
        assert serve.names() == ("a", "m")
        [shown] = cast("list[dict[str, object]]", show(settings)["serve"])
        assert shown["aliases"] == ["m", "gpt-*mini"]

    def test_two_serves_cannot_share_one(self, problems: Problems) -> None:
        [problem] = problems(self.SERVES + "[[serve]]\nname = 'b'\nmodel = 'x'\naliases = ['gpt-*mini']\n")
        assert "already means serve 'a'" in problem

    def test_workers_and_default_models_may_be_names_that_one_matches(
        self, problems: Problems, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("K", "a key of 16 or more")
        key = "[front_door]\nkeys = [{ name = 'k', value = 'env:K', %s }]\n"
        assert not problems(self.SERVES + "[orchestrator.pair]\nworker = 'gpt-5-mini'\n")
        assert not problems(self.SERVES + key % "default_model = 'gpt-5-mini'")
        assert not problems(self.SERVES + key % "models = ['gpt-*mini']")
        [problem] = problems(self.SERVES + key % "models = ['gpt-5-mini']")
        assert "the list takes the pattern itself, or the serve's name" in problem


class TestDoor:
    """Nobody is let in by accident."""

    def test_an_open_host_wants_keys_or_an_explicit_none(self, problems: Problems) -> None:
        for host in ("0.0.0.0", "::", "192.168.1.2", "gpu-box"):
            assert len(problems(f"[front_door]\nhost = '{host}'")) == 1
            assert problems(f"[front_door]\nhost = '{host}'\nauth = 'none'") == []
        for host in ("127.0.0.1", "127.1.2.3", "::1", "localhost"):
            assert problems(f"[front_door]\nhost = '{host}'") == []

    def test_keys_may_be_demanded_before_there_is_one(self, problems: Problems) -> None:
        """They are made with `stoker keys create`."""
        assert problems("[front_door]\nhost = '0.0.0.0'\nauth = 'keys'") == []

    def test_a_key_that_can_be_guessed_is_refused_with_what_to_type(
        self, problems: Problems, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        (tmp_path / "short.key").write_text("fifteen-letters\n")
        monkeypatch.setenv("LONG", "sixteen-letters!")
        [problem] = problems(
            "[front_door]\nkeys = [\n { name = 'a', value = 'file:short.key' },\n"
            " { name = 'b', value = 'env:LONG' },\n]"
        )
        assert problem.startswith("3: key 'front_door.keys[a].value': the key has 15 characters")
        assert "at least 16" in problem
        assert "`openssl rand -hex 32`" in problem
        assert "the file short.key" in problem
        assert "fifteen-letters" not in problem

    def test_a_serve_s_own_key_may_be_short(self, problems: Problems, monkeypatch: pytest.MonkeyPatch) -> None:
        """It is somebody else's: Stoker only sends it."""
        monkeypatch.setenv("THEIRS", "short")
        assert (
            problems("[[serve]]\nname = 'a'\nengine = 'openai'\nbase_url = 'http://127.0.0.1:1'\nkey = 'env:THEIRS'")
            == []
        )

    def test_a_key_needs_a_name_of_its_own_and_a_model_that_exists(
        self, problems: Problems, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("K1", "the-same-for-both")
        monkeypatch.setenv("K2", "the-same-for-both")
        found = problems(
            "[front_door]\nkeys = [\n"
            " { value = 'env:K1' },\n { name = 'a' },\n"
            " { name = 'a', value = 'env:K2', models = ['fsat', '*'], scope = 'amdin' },\n]\n" + GOOD
        )
        assert [problem.split(": ", 2)[:2] for problem in found] == [
            ["3", "key 'front_door.keys[#1]'"],
            ["4", "key 'front_door.keys[a]'"],
            ["5", "key 'front_door.keys[a].scope'"],
            ["5", "key 'front_door.keys[a].name'"],
            ["5", "key 'front_door.keys[a].models[#1]'"],
            ["5", "key 'front_door.keys[a].value'"],
        ]
        assert "did you mean 'fast'?" in found[4]
        assert "the same key as in line 3" in found[5]
        assert "same'" not in found[5]


class TestPlaces:
    """Ports and slots hold what they can hold."""

    def test_two_serves_cannot_have_one_port(self, problems: Problems) -> None:
        [problem] = problems(
            "[[serve]]\nname = 'a'\nmodel = 'x'\nport = 9\n[[serve]]\nname = 'b'\nmodel = 'x'\nport = 9"
        )
        assert problem.startswith("8: key 'serve[b].port': serve 'b' needs port 9, which serve 'a' (line 4) has")

    @pytest.mark.parametrize(
        ("hosts", "is_free"),
        [
            (("10.0.0.1", "10.0.0.2"), True),
            (("box-a", "127.0.0.1"), True),
            (("localhost", "127.0.0.1"), False),
            (("0.0.0.0", "10.0.0.2"), False),
            (("box-a", "box-a"), False),
        ],
    )
    def test_one_port_of_two_addresses_is_two(
        self, problems: Problems, loaded: Callable[[str], Settings], hosts: tuple[str, str], is_free: bool
    ) -> None:
        text = "".join(
            f"[[serve]]\nname = '{name}'\ncmd = 'x'\nhost = '{host}'\nport = 9\n"
            for name, host in zip("ab", hosts, strict=True)
        )
        if is_free:
            assert [serve.host for serve in loaded(text).serves] == list(hosts)
        else:
            assert "needs port 9, which serve 'a'" in problems(text)[0]

    @pytest.mark.parametrize(
        ("slot", "serves", "is_free"),
        [
            ("", "", True),
            ("together = [['a', 'c'], ['b', 'c']]", "", True),
            ("together = [['a', 'b']]", "", False),
            ("memory = '10GiB'", "memory = '1GiB'", False),
            ("", "engine = 'vllm'\nsleep_level = 1", False),
        ],
    )
    def test_serves_that_never_run_at_the_same_time_may_have_one_port(
        self, problems: Problems, loaded: Callable[[str], Settings], slot: str, serves: str, is_free: bool
    ) -> None:
        text = f"[slots.g]\n{slot}\n" + "".join(
            f"[[serve]]\nname = '{name}'\nmodel = 'x'\nslot = 'g'\n{serves}\n{port}\n"
            for name, port in (("a", "port = 9"), ("b", "port = 9"), ("c", ""))
        )
        if is_free:
            assert [serve.port for serve in loaded(text).serves] == [9, 9, None]
        else:
            assert "needs port 9, which serve 'a'" in problems(text)[0]

    def test_a_slot_with_memory_must_know_and_hold_each_serve(self, problems: Problems) -> None:
        found = problems(
            "[slots.g]\nmemory = '10GiB'\n"
            "[[serve]]\nname = 'a'\nmodel = 'x'\nslot = 'g'\n"
            "[[serve]]\nname = 'b'\nmodel = 'x'\nslot = 'g'\nmemory = '12GiB'\n"
            "[[serve]]\nname = 'c'\nmodel = 'x'\nslot = 'g'\nmemory = 5\n"
        )
        assert [problem.partition(":")[0] for problem in found] == ["6", "11", "16"]
        assert "so serve 'a' needs `memory`" in found[0]
        assert "serve 'b' needs 12GiB and slot 'g' has 10GiB" in found[1]
        assert "5 has no unit" in found[2]

    @pytest.mark.parametrize(
        ("slot", "memory", "expected"),
        [
            ("memory = '10GiB'", "6GiB", "need 12GiB together in slot 'g'; it has 10GiB"),
            ("", "6GiB", "holds one serve at a time"),
            ("memory = '12GiB'", "6GiB", None),
        ],
    )
    def test_serves_that_stay_loaded_must_fit_together(
        self, problems: Problems, slot: str, memory: str, expected: str | None
    ) -> None:
        rows = "".join(
            f"[[serve]]\nname = '{name}'\nmodel = 'x'\nslot = 'g'\nmemory = '{memory}'\nkeep_loaded = true\n"
            for name in "ab"
        )
        found = problems(f"[slots.g]\n{slot}\n{rows}")
        if expected is None:
            assert found == []
        else:
            [problem] = found
            assert problem.startswith("14: key 'serve[b].keep_loaded': serves 'a' and 'b'")
            assert expected in problem

    def test_a_baseline_lives_in_its_slot(self, problems: Problems) -> None:
        rows = GOOD + "[[serve]]\nname = 'other'\nmodel = 'x'\n"
        [problem] = problems(rows.replace("[slots.gpu0]", "[slots.gpu0]\nbaseline = 'other'"))
        assert problem.startswith("2: key 'slots.gpu0.baseline': there is no serve 'other' in slot 'gpu0'")
        assert problems(rows.replace("[slots.gpu0]", "[slots.gpu0]\nbaseline = 'fast'")) == []

    def test_an_idle_serve_lives_in_its_slot_and_is_not_stopped_when_idle(self, problems: Problems) -> None:
        rows = GOOD + "[[serve]]\nname = 'other'\nmodel = 'x'\n"
        [problem] = problems(rows.replace("[slots.gpu0]", "[slots.gpu0]\nidle_serve = 'other'"))
        assert problem.startswith("2: key 'slots.gpu0.idle_serve': there is no serve 'other' in slot 'gpu0'")
        good = rows.replace("[slots.gpu0]", "[slots.gpu0]\nidle_serve = 'fast'")
        assert problems(good) == []
        [problem] = problems(good.replace('name = "fast"', 'name = "fast"\nidle_unload = "1m"'))
        assert "key 'serve[fast].idle_unload': 'fast' is the `idle_serve` of slot 'gpu0'" in problem

    @pytest.mark.parametrize(
        ("other", "expected"),
        [
            (
                "base_url = 'http://h/v1'",
                "'other' is external, and Stoker does not start it; name a serve of slot 'gpu0'",
            ),
            ("abstract = true", "'other' is abstract and never runs; name a serve of slot 'gpu0'"),
            ("model = 'x'\nslot = 'q'\n[slots.q]", "it is in slot 'q'; name a serve of slot 'gpu0'"),
            ("model = 'x'", 'set slot = "gpu0" for it, or name another serve'),
        ],
    )
    def test_an_idle_serve_that_cannot_be_loaded_into_the_slot_says_why(
        self, problems: Problems, other: str, expected: str
    ) -> None:
        rows = GOOD.replace("[slots.gpu0]", "[slots.gpu0]\nidle_serve = 'other'")
        [problem] = problems(f"{rows}[[serve]]\nname = 'other'\n{other}\n")
        assert problem.startswith("2: key 'slots.gpu0.idle_serve': there is no serve 'other' in slot 'gpu0'")
        assert problem.endswith(expected)

    def test_an_idle_serve_is_named_by_its_own_name(self, problems: Problems) -> None:
        rows = GOOD.replace("[slots.gpu0]", "[slots.gpu0]\nidle_serve = 'quick'")
        [problem] = problems(rows + "aliases = ['quick']\n")
        assert problem.endswith("there is no serve 'quick' in slot 'gpu0': it is an alias; write 'fast'")

    @pytest.mark.parametrize(
        ("sets", "expected"),
        [
            ("[['a', 'b']]", None),
            ("[['a', 'b'], ['a', 'c']]", None),
            ("[['a', 'd']]", "key 'slots.g.together[#1]': there is no serve 'd' in slot 'g'"),
            ("[['a', 'b'], ['a']]", "key 'slots.g.together[#2]': a set needs at least two serves"),
            ("[[]]", "key 'slots.g.together[#1]': a set needs at least two serves"),
            ("[['b', 'b']]", "key 'slots.g.together[#1]': serve 'b' is in this set twice"),
            ("['a', 'b']", "key 'slots.g.together[#1]'"),
            ("'a'", "key 'slots.g.together'"),
        ],
    )
    def test_together_names_serves_of_its_slot(self, problems: Problems, sets: str, expected: str | None) -> None:
        rows = "".join(f"[[serve]]\nname = '{name}'\nmodel = 'x'\nslot = 'g'\n" for name in "abc")
        found = problems(f"[slots.g]\ntogether = {sets}\n{rows}[[serve]]\nname = 'd'\nmodel = 'x'\n")
        assert (found == []) if expected is None else found[0].startswith(f"2: {expected}"), found

    def test_serves_that_stay_loaded_are_in_one_set(self, problems: Problems) -> None:
        rows = "".join(
            f"[[serve]]\nname = '{name}'\nmodel = 'x'\nslot = 'g'\nkeep_loaded = {kept}\n"
            for name, kept in (("a", "true"), ("b", "true"), ("c", "false"))
        )
        assert problems(f"[slots.g]\ntogether = [['a', 'b', 'c']]\n{rows}") == []
        [problem] = problems(f"[slots.g]\ntogether = [['a', 'c'], ['b', 'c']]\n{rows}")
        assert problem.startswith("12: key 'serve[b].keep_loaded': serves 'a' and 'b' have `keep_loaded` in slot 'g'")
        assert "no set of `together` has them all" in problem


class TestSecrets:
    """A secret is somewhere else, and no message repeats one."""

    SECRET = "sk-hunter2-very-secret"

    def file(self, source: str) -> str:
        return f"{GOOD}key = '{source}'\n[front_door]\nkeys = [{{ name = 'k', value = '{source}' }}]\n"

    @pytest.mark.parametrize("prefix", ["", "env:", "ENV:", "env: ", "file", "env:=", "Bearer "])
    def test_a_literal_is_refused_without_an_echo(self, problems: Problems, prefix: str) -> None:
        found = problems(self.file(f"{prefix}{self.SECRET}"))
        assert [problem.partition(":")[0] for problem in found] == ["6", "8"]
        for problem in found:
            assert "write env:NAME for an environment variable, or file:PATH for a file" in problem
            assert self.SECRET not in problem

    def test_a_secret_that_is_no_text_or_stands_in_a_url_is_not_repeated(self, problems: Problems) -> None:
        assert not any("12345678" in problem for problem in problems(f"{GOOD}key = 12345678\n"))
        [problem] = problems(f"{GOOD}base_url = 'http://u:{self.SECRET}@h/v1'\n")
        assert self.SECRET not in problem

    @pytest.mark.parametrize(
        ("content", "expected"),
        [
            (None, "does not exist; create it with mode 0600"),
            (b"", "is empty"),
            (b"\n", "is empty"),
            (SECRET.encode() + b"\nsecond", "use one line of printable ASCII"),
            (b"\xff\xfe", "cannot be a key"),
            (b"x" * 9000, "is longer than 8192 bytes"),
        ],
    )
    def test_a_secret_file_that_holds_no_key(
        self, problems: Problems, tmp_path: Path, content: bytes | None, expected: str
    ) -> None:
        if content is not None:
            (tmp_path / "the.key").write_bytes(content)
        for problem in problems(self.file("file:the.key")):
            assert expected in problem
            assert "the.key" in problem
            assert self.SECRET not in problem
        assert len(problems(self.file("file:the.key"))) == 2

    def test_a_variable_that_is_not_set_is_named(self, problems: Problems, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("STOKER_TEST_KEY", raising=False)
        found = problems(self.file("env:STOKER_TEST_KEY"))
        assert len(found) == 2
        assert all("the environment variable STOKER_TEST_KEY is not set or empty" in problem for problem in found)
        monkeypatch.setenv("STOKER_TEST_KEY", self.SECRET)
        assert problems(self.file("env:STOKER_TEST_KEY")) == []


class TestKeysAndApplications:
    """Settings of keys and applications that contradict themselves, or name what is not there."""

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("[app.a]\nrequests_per_minute = -1", "2: key 'app.a.requests_per_minute': is too small: at least 1"),
            ("[app.a]\ncost_per_day = 0", "2: key 'app.a.cost_per_day': is too small: more than 0"),
            ("[app.a]\ncost_per_day = -2.5", "2: key 'app.a.cost_per_day': is too small: more than 0"),
            (
                "[app.a]\ntokens_per_minute = 10\ntokens_per_day = 5",
                "2: key 'app.a.tokens_per_minute': is larger than tokens_per_day, so it can never be reached; lower it",
            ),
            ("[app.a]\ncontext = 5\nmax_output = 6", "3: key 'app.a.max_output': is larger than context"),
            ("[app.a]\npriority = 'high'", "2: key 'app.a.priority': 'high' is not"),
            ("[app.a]\nclasses = ['plannning']", "2: key 'app.a.classes[#1]': there is no class 'plannning'; did you"),
            ("[app.a]\nsampling = { temp = 1.0 }", "2: key 'app.a.sampling.temp': 'temp' is not accepted"),
            ("[app.a]\ndefault_model = '*'", "2: key 'app.a.default_model': no serve has the name '*'"),
            ("[app.'a b']", "1: key 'app.a b': is not a valid name"),
            ("[app.a]\nweight = 0", "2: key 'app.a.weight': is too small: more than 0"),
        ],
    )
    def test_a_wrong_setting_is_named_with_its_line(self, problems: Problems, text: str, expected: str) -> None:
        [problem] = problems(text)
        assert problem.startswith(expected)

    def test_a_key_of_an_application_that_is_not_there_is_refused(
        self, problems: Problems, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("K", "k" * 16)
        [problem] = problems("[app.agents]\n[[front_door.keys]]\nname = 'a'\nvalue = 'env:K'\napp = 'agent'")
        assert problem == "5: key 'front_door.keys[a].app': there is no application 'agent'; did you mean 'agents'?"


def test_a_probe_needs_identity_none(problems: Problems) -> None:
    [found] = problems(GOOD + 'probe = "/ping"\n')
    assert found.startswith("6: key 'serve[fast].probe': has no effect for serve 'fast': its identity is \"models\"")
    assert 'set `identity = "none"`, or remove it' in found


def test_a_health_path_is_a_path_or_the_word_none(problems: Problems) -> None:
    [found] = problems(GOOD + 'health = "no"\n')
    assert 'is not a path; write one like "/health"; or "none"' in found
    [found] = problems(GOOD + 'identity = "modles"\n')
    assert "'modles' is not accepted; use models or none; did you mean 'models'?" in found


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ('stop = "end {prt}"', "{prt} is not filled in; did you mean '{port}'?"),
        ('stop = "end {pid} {{port}}"\nstop_grace = "0s"', "is never run: `stop_grace` is 0s"),
        ('stop = "end {key}"\nkey = "env:PATH"', "uses {key}, but the serve has a `key` of its own"),
        ('stop = "end"\ndriver = "systemd"\nport = 9000', "has no effect for serve 'fast': systemd stops its unit"),
        ('stop = ""', "is empty; the first word is the program"),
    ],
)
def test_a_stop_command_can_be_run(problems: Problems, keys: str, said: str) -> None:
    [found] = problems(GOOD + keys + "\n")
    assert said in found
    assert "serve[fast].stop" in found


def test_a_stop_command_is_for_what_stoker_stops_by_signals(problems: Problems) -> None:
    [found] = problems('[[serve]]\nname = "a"\nbase_url = "http://h:1/v1"\nstop = "end"\n')
    assert "it is external, so Stoker neither starts nor stops it" in found
    [found] = problems('[[serve]]\nname = "a"\ncontainer = "c"\nport = 9000\nstop = "end"\n')
    assert "its container has its own command" in found


@pytest.mark.parametrize("path", ["llm", "/a b", "/a/../b", "/%2e", "/a?b"])
def test_a_base_path_is_a_plain_path(problems: Problems, path: str) -> None:
    [found] = problems(GOOD + f'base_path = "{path}"\n')
    assert 'serve[fast].base_path\': is not a path; write one like "/llm"' in found
