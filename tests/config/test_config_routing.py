"""Tiers, classes and the router: what they become, what is refused, and what is probably not meant."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from stoker.config.effective import show, to_toml
from stoker.config.warnings import warnings
from stoker.domain.access import Settings
from stoker.domain.dialect import Dialect
from stoker.domain.routing import BreakerLimits, ClassifierModelSettings, RouterSettings, ShadowSettings, TaskClass
from stoker.domain.serve import Driver
from stoker.domain.task import HIGH_RISK, UNKNOWN
from stoker.domain.tier import Cost, Tier, Verify

Loaded = Callable[[str], Settings]
Problems = Callable[[str], list[str]]
REFERENCE = Path(__file__).parents[2] / "docs/reference"
PAGE, CLASSES = ((REFERENCE / page).read_text(encoding="utf-8") for page in ("configuration.md", "task-classes.md"))
SHADOW = "[router.shadow]\nrate = 0.25\njudge = 'cloud'\ntimeout = '90s'\n"

KEPT = "[[serve]]\nname = 'kept'\nmodel = 'x.gguf'\n"
TELLER = "[router.classifier]\nserve = 'fast'\ntimeout = '90ms'\n"

SERVES = """\
[[serve]]
name = "fast"
model = "x.gguf"
served_name = "spark"
aliases = ["gpt"]
[[serve]]
name = "far"
base_url = "https://far.example.com/v1"
[[serve]]
name = "parent"
abstract = true
"""
"""11 lines: what a test appends begins at line 12."""
LOCAL = '[[tier]]\nname = "local"\nserve = "fast"\n'
CLOUD = """\
[[tier]]
name = "cloud"
base_url = "https://api.example.com/v1"
model = "big"
cost = { input = 3, output = 9 }
"""


@pytest.fixture
def routed(loaded: Loaded) -> Callable[[str], RouterSettings]:
    """`routed(text)`: the router of a file with SERVES and this text."""

    def run(text: str) -> RouterSettings:
        router = loaded(SERVES + text).router
        assert router is not None
        return router

    return run


@pytest.fixture
def doubts(loaded: Loaded, tmp_path: Path) -> Callable[[str], list[str]]:
    """`doubts(text)`: the warnings about a file with SERVES and this text."""
    (tmp_path / "x.gguf").touch()
    return lambda text: warnings(loaded(SERVES + text))


class TestTiers:
    """A tier is a serve of the file, or a cloud that becomes one."""

    def test_without_a_tier_nothing_is_routed(self, loaded: Loaded) -> None:
        assert loaded(SERVES).router is None
        assert not {"router", "tier"} & show(loaded(SERVES)).keys()

    def test_a_tier_of_a_local_serve_is_free_and_holds_calls_unless_the_file_says_otherwise(
        self, routed: Callable[[str], RouterSettings]
    ) -> None:
        assert routed(LOCAL) == RouterSettings((Tier("local", "fast"),))
        [tier] = routed(LOCAL + "cost = { input = 0.1, output = 0 }\nverify = 'hold-all'").tiers
        assert (tier.cost, tier.verify, tier.cloud) == (Cost(0.1, 0.0), Verify.HOLD_ALL, False)

    def test_a_cloud_tier_becomes_an_external_serve_of_its_name_without_a_slot(
        self, loaded: Loaded, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("CLOUD_KEY", "sk-1")
        settings = loaded(SERVES + CLOUD + 'key = "env:CLOUD_KEY"\ndialect = "messages"\n')
        serve = settings.serves[-1]
        assert (serve.name, serve.driver, serve.engine, serve.slot) == ("cloud", Driver.EXTERNAL, "openai", None)
        assert (serve.base_url, serve.served_name) == ("https://api.example.com/v1", "big")
        assert serve.key is not None
        assert (serve.key.reveal(), serve.key_header) == ("sk-1", "x-api-key")
        assert (serve.dialects, serve.asks_dialects) == ({Dialect.MESSAGES}, False)
        assert (serve.translation.cloud, serve.from_tier, serve.max_active, serve.parallel) == (True, True, 64, 64)
        assert settings.router is not None
        assert settings.router.tiers == (Tier("cloud", "cloud", True, Cost(3.0, 9.0), Verify.OFF),)

    def test_a_cloud_speaks_chat_and_runs_as_many_as_the_file_says(self, loaded: Loaded) -> None:
        serve = loaded(CLOUD + "max_active = 3").serves[0]
        assert (serve.dialects, serve.max_active, serve.key_header) == ({Dialect.CHAT}, 3, "authorization")

    @pytest.mark.parametrize(
        "host",
        ["127.0.0.1:9", "127.1", "[::1]:9", "10.0.0.7", "172.16.9.9", "172.31.0.1", "192.168.1.2:8000", "169.254.1.1",
         "100.64.0.1", "[fd00::1]", "[fe80::1]", "[::ffff:192.168.0.1]", "0.0.0.0", "localhost:9", "localhost.",
         "gpu-box", "gpu.local", "Gpu.Local", "box.lan"],
    )  # fmt: skip
    def test_what_lies_on_this_machine_or_in_a_private_network_is_no_trusted_cloud_unless_the_file_says_so(
        self, loaded: Loaded, doubts: Callable[[str], list[str]], host: str
    ) -> None:
        near = CLOUD.replace("api.example.com", host)
        for text, is_cloud in ((near, False), (near + "cloud = true\n", True), (near + "cloud = false\n", False)):
            settings = loaded(text)
            assert settings.router is not None
            assert (settings.router.tiers[0].cloud, settings.serves[0].translation.cloud) == (is_cloud, is_cloud)
            assert settings.router.tiers[0].verify is (Verify.OFF if is_cloud else Verify.HOLD_TOOLS)
        [doubt] = doubts(near)
        assert "is on this machine or in a private network, so this is a local tier" in doubt
        assert "`cloud = true`" in doubt
        assert doubts(near + "cloud = false\n") == doubts(near + "cloud = true\n") == []

    @pytest.mark.parametrize(
        "host", ["api.example.com", "8.8.8.8", "172.32.0.1", "100.128.0.1", "[2606:4700::1]", "localhost.example.com"]
    )
    def test_what_lies_on_the_internet_is_a_cloud_unless_the_file_says_otherwise(
        self, loaded: Loaded, doubts: Callable[[str], list[str]], host: str
    ) -> None:
        far = CLOUD.replace("api.example.com", host)
        for text, is_cloud in ((far, True), (far + "cloud = false\n", False)):
            settings = loaded(text)
            assert settings.router is not None
            assert settings.router.tiers[0].cloud is is_cloud
            assert doubts(text) == []

    def test_a_tier_near_by_needs_no_cost(self, problems: Problems) -> None:
        near = CLOUD.replace("https://api.example.com", "http://127.0.0.1:9").replace("cost =", "# cost =")
        assert problems(near) == []
        [problem] = problems(near + "cloud = true\n")
        assert "a cloud needs `cost`" in problem

    def test_a_tier_may_say_how_long_its_first_byte_may_take(self, loaded: Loaded) -> None:
        for said, seconds in (("", None), ('first_byte_timeout = "45s"', 45.0), ('first_byte_timeout = "0s"', 0.0)):
            router = loaded(CLOUD + said).router
            assert router is not None
            assert router.tiers[0].first_byte_timeout == seconds

    @pytest.mark.parametrize(("said", "seconds"), [("5s", 60.0), ("5m", 300.0), ("0s", 0.0)])
    def test_with_no_other_tier_left_its_serve_gets_as_much_and_at_least_a_minute(
        self, loaded: Loaded, said: str, seconds: float
    ) -> None:
        assert loaded(CLOUD + f'first_byte_timeout = "{said}"').serves[0].first_byte_timeout == seconds
        assert loaded(CLOUD).serves[0].first_byte_timeout is None

    def test_a_serve_that_somebody_else_runs_is_a_cloud_as_a_tier_and_must_say_what_it_costs(
        self, loaded: Loaded, problems: Problems
    ) -> None:
        tier = '[[tier]]\nname = "far"\nserve = "far"\n'
        [problem] = problems(SERVES + tier)
        assert problem.startswith("12: key 'tier[far]': a cloud needs `cost`: write cost = { input")
        router = loaded(SERVES + tier + "cost = { input = 0, output = 0 }").router
        assert router is not None
        assert (router.tiers[0].cloud, router.tiers[0].verify) == (True, Verify.OFF)
        ours = SERVES.replace('far.example.com/v1"', 'far.example.com/v1"\ntranslation = { cloud = false }')
        assert problems(ours + tier) == []

    def test_two_tiers_may_run_the_same_model_of_a_cloud(self, loaded: Loaded) -> None:
        """And what the vendor calls it means no serve: a local one may go by that name."""
        text = SERVES + CLOUD + CLOUD.replace('"cloud"', '"second"').replace('"big"', '"gpt"')
        names = {serve.name: serve.names() for serve in loaded(text).serves}
        assert names == {
            "fast": ("fast", "spark", "gpt"), "far": ("far",), "cloud": ("cloud",), "second": ("second",)
        }  # fmt: skip

    def test_tiers_keep_the_order_of_the_file(self, routed: Callable[[str], RouterSettings]) -> None:
        assert [tier.name for tier in routed(CLOUD + LOCAL).tiers] == ["cloud", "local"]

    def test_a_class_may_want_another_mode(self, routed: Callable[[str], RouterSettings]) -> None:
        [tier] = routed(LOCAL + 'verify = "off"\nverify_class = { planning = "hold-all" }').tiers
        assert (tier.mode("planning"), tier.mode("chat")) == (Verify.HOLD_ALL, Verify.OFF)


class TestRouter:
    """What holds for all tiers."""

    def test_left_out_it_is_cautious(self, routed: Callable[[str], RouterSettings]) -> None:
        router = routed(LOCAL)
        assert (router.high_risk, router.allow_cloud, router.cloud_classes) == (HIGH_RISK, True, ("*",))
        assert (router.breaker, router.profile_path) == (BreakerLimits(5, 30.0, 20.0), None)
        assert (router.explore, router.shadow) == (0.0, ShadowSettings())

    def test_what_the_file_says_counts(self, routed: Callable[[str], RouterSettings], tmp_path: Path) -> None:
        router = routed(
            LOCAL + '[router]\nprofile_path = "q/../p.json"\nhigh_risk = ["review"]\nbreaker_cool_down = "1m"\n'
            'breaker_failures = 1\nbreaker_window = "2s"\n[router.class.law]\nwords = ["clause"]\ntier = "local"\n'
            '[router.class.chat]\nwords = ["hi"]\n'
        )
        assert router.profile_path == str(tmp_path / "p.json")
        assert (router.high_risk, router.breaker) == (("review",), BreakerLimits(1, 2.0, 60.0))
        assert router.classes == (TaskClass("law", ("clause",), "local"), TaskClass("chat", ("hi",)))
        assert (router.specialist("law"), router.specialist("chat"), router.specialist("review")) == (
            "local", None, None,
        )  # fmt: skip

    def test_who_grades_how_much_and_for_how_much_is_as_the_file_says(
        self, routed: Callable[[str], RouterSettings]
    ) -> None:
        table = 'rate = 1\njudge = "local"\ncost_cap = 0\nqueue = 2\ntimeout = "5s"'
        router = routed(LOCAL + f"[router]\nexplore = 0.05\n[router.shadow]\n{table}")
        assert (router.explore, router.shadow) == (0.05, ShadowSettings(1.0, "local", 0.0, 2, 5.0))

    def test_a_tier_that_only_judges_serves_no_class(self, routed: Callable[[str], RouterSettings]) -> None:
        router = routed(LOCAL + CLOUD + "classes = []\n" + SHADOW)
        assert [tier.classes for tier in router.tiers] == [("*",), ()]
        assert not any(router.permits(router.tiers[1], name) for name in router.known)

    def test_a_serve_or_a_cloud_tier_may_tell_classes(self, routed: Callable[[str], RouterSettings]) -> None:
        assert routed(LOCAL).classifier is None
        assert routed(LOCAL + "[router.classifier]\nserve = 'far'").classifier == ClassifierModelSettings(
            "far", 0.5, 0.8
        )
        table = "[router.classifier]\nserve = 'cloud'\ntimeout = '2s'\nbelow = 1\n"
        assert routed(LOCAL + table + CLOUD).classifier == ClassifierModelSettings("cloud", 2.0, 1.0)
        assert routed(LOCAL + table + CLOUD).serves == ("fast", "cloud")

    def test_what_is_shown_reads_back(self, loaded: Loaded) -> None:
        settings = loaded(
            SERVES + LOCAL + CLOUD + "[router.class.law]\ntier = 'cloud'\n[router.class.chat]\n" + SHADOW + TELLER
        )
        again = loaded(to_toml(settings))
        assert (again.router, again.serves) == (settings.router, settings.serves)

    def test_a_cloud_tier_is_shown_as_a_tier_and_not_as_a_serve_too(self, loaded: Loaded) -> None:
        text = to_toml(loaded(SERVES + CLOUD))
        assert text.count('"https://api.example.com/v1"') == 1
        assert text.count('name = "cloud"') == 1

    def test_the_example_of_the_page_is_a_whole_file(self, loaded: Loaded, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("CLOUD_KEY", "sk-1")
        example = PAGE.split("\n## [router]\n")[1].split("```toml\n")[1].split("```")[0]
        router = loaded(example).router
        assert router is not None
        assert [(tier.name, tier.serve, tier.cloud) for tier in router.tiers] == [
            ("local", "fast", False), ("cloud", "cloud", True),
        ]  # fmt: skip
        assert router.specialist("contracts") == "cloud"
        assert {name for name in router.known if router.permits(router.tiers[1], name)} == {
            "planning", "reasoning", "contracts",
        }  # fmt: skip

    def test_the_page_of_classes_defines_every_built_in_class(self, routed: Callable[[str], RouterSettings]) -> None:
        assert tuple(name for name in re.findall(r"^## (.+)$", CLASSES, re.MULTILINE) if name != UNKNOWN) == (
            routed(LOCAL).known
        )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # what a tier is
        ("[[tier]]\nserve = 'fast'", ["12: key 'tier[#1]': `name` is missing; every [[tier]] needs one"]),
        ("[[tier]]\nname = 'a'", ["12: key 'tier[a]': tier 'a' has no `serve` and no `base_url`; give one of the two"]),
        ("[[tier]]\nname = 'a'\nserve = 'fsat'", ["14: key 'tier[a].serve': there is no serve 'fsat'; did you mean"]),
        ("[[tier]]\nname = 'a'\nserve = 'parent'", ["14: key 'tier[a].serve': there is no serve 'parent'"]),
        ("[[tier]]\nname = 'a'\nserve = 'gpt'", ["14: key 'tier[a].serve': there is no serve 'gpt'"]),
        (
            LOCAL + "base_url = 'http://a'\ndialect = 'chat'\nmodel = 'x'\nmax_active = 1\nkey = 'env:HOME'",
            [
                "15: key 'tier[local].base_url': applies to a cloud, and tier 'local' is serve 'fast'; remove one of",
                "16: key 'tier[local].dialect': applies to a cloud",
                "17: key 'tier[local].model': applies to a cloud",
                "18: key 'tier[local].max_active': applies to a cloud",
                "19: key 'tier[local].key': applies to a cloud",
            ],
        ),
        (
            CLOUD.replace('model = "big"\n', ""),
            ["12: key 'tier[cloud]': tier 'cloud' has no `model`; give the cloud's name of the model"],
        ),
        (
            CLOUD.replace("cost =", "# cost ="),
            ["12: key 'tier[cloud]': a cloud needs `cost`: write cost = { input = 3.0, output = 15.0 },"],
        ),
        (CLOUD.replace("input = 3, ", ""), ["16: key 'tier[cloud].cost': `input` is missing; write 0 if it costs"]),
        (LOCAL + "cost = { output = -1 }", ["15: key 'tier[local].cost.output': is too small: at least 0",
                                            "15: key 'tier[local].cost': `input` is missing"]),
        (CLOUD + "dialect = 'completions'", ["17: key 'tier[cloud].dialect': 'completions' is not accepted; use ch"]),
        (CLOUD + "key = 'sk-secret'", ["17: key 'tier[cloud].key': a secret must not be in this file"]),
        (CLOUD + "keys = 'x'", ["17: key 'tier[cloud].keys': unknown key; did you mean 'key'?"]),
        (CLOUD + "slot = 'x'", ["17: key 'tier[cloud].slot': unknown key; did you mean 'serve.slot'?"]),
        (LOCAL + "verify = 'hold'", ["15: key 'tier[local].verify': 'hold' is not accepted; use off, observe,"]),
        (LOCAL + "classes = []", ["15: key 'tier[local].classes': is empty, so the tier serves nothing"]),
        ("tier = 1", ["12: key 'serve[parent].tier': unknown key"]),
        # one namespace
        ("[[tier]]\nname = 'far'\nserve = 'fast'", ["13: key 'tier[far].name': 'far' already means serve 'far' (line"]),
        (CLOUD.replace('"cloud"', '"fast"'), ["13: key 'tier[fast].name': 'fast' already means serve 'fast' (line 2)"]),
        (LOCAL + LOCAL, ["16: key 'tier[local].name': line 13 already has a tier with this name; choose another"]),
        (CLOUD + CLOUD, ["18: key 'tier[cloud].name': line 13 already has a tier with this name; choose another"]),
        (LOCAL.replace('"local"', '"fast"') * 2, ["16: key 'tier[fast].name': line 13 already has a tier with this"]),
        (LOCAL.replace("local", "auto"), ["13: key 'tier[auto].name': 'auto' is reserved for routing"]),
        (LOCAL + "[alias.local]\nserve = 'fast'", ["15: key 'alias.local': 'local' is already the name of a serve"]),
        # aliases of tasks
        ("[alias]\nquick = 'auto'", ["13: key 'alias.quick': 'auto' chooses among tiers, but there is no [[tier]];"]),
        (LOCAL + "[alias]\nquick = 'auto:plannig'",
         ["16: key 'alias.quick': there is no class 'plannig'; did you mean 'planning'?"]),
        (LOCAL + "[alias.quick]\nserve = 'auto:law'",
         ["16: key 'alias.quick.serve': there is no class 'law'; add a section [router.class.law]"]),
        (LOCAL + "[alias]\nquick = 'auto:unknown'", ["16: key 'alias.quick': 'unknown' is not a class: it is"]),
        (LOCAL + "[alias]\nquick = 'auto:'", ["16: key 'alias.quick': there is no class ''"]),
        (LOCAL + "[alias]\none = 'other'\nother = 'one'",
         ["16: key 'alias.one': 'other' is an alias; an alias may point to a serve, `auto` or `auto:CLASS`",
          "17: key 'alias.other': 'one' is an alias"]),
        (LOCAL + "[alias]\none = 'one'", ["16: key 'alias.one': 'one' is an alias"]),
        (LOCAL + "[alias]\nauto = 'auto:chat'", ["16: key 'alias.auto': 'auto' is already the name"]),
        (LOCAL + "[alias]\nquick = 'fsat'", ["16: key 'alias.quick': there is no serve 'fsat'; did you mean 'fast'?"]),
        (LOCAL + "[alias]\nquick = 3", ["16: key 'alias.quick': must be a table, not a whole number"]),
        (LOCAL + "[alias]\nquick = 'a b'", ["16: key 'alias.quick': there is no serve 'a b'"]),
        (LOCAL + "[alias.quick]\nserve = 'auto'\nwatch = '1m'",
         ["17: key 'alias.quick.watch': applies to promotions, and an alias of `auto` is never promoted; remove it"]),
        (LOCAL + "[alias.quick]\nserve = 'auto'\nmodel = 'x'",
         ["17: key 'alias.quick.model': unknown key; did you mean"]),
        # classes
        (LOCAL + "[router.class.unknown]\nwords = ['x']", ["15: key 'router.class.unknown': 'unknown' is not a class"]),
        (LOCAL + "classes = ['unknown']", ["15: key 'tier[local].classes[#1]': 'unknown' is not a class: it is"]),
        (LOCAL + "[router]\nhigh_risk = ['unknown']", ["16: key 'router.high_risk[#1]': 'unknown' is not a class:"]),
        (LOCAL + "classes = ['*', 'plannnig']", ["15: key 'tier[local].classes[#2]': there is no class 'plannnig'; d"]),
        (LOCAL + "classes = ['law']", ["15: key 'tier[local].classes[#1]': there is no class 'law'; add a section [r"]),
        (LOCAL + "verify_class = { caht = 'off' }",
         ["15: key 'tier[local].verify_class.caht': there is no class 'caht'; did you mean 'chat'?"]),
        (LOCAL + "verify_class = { '*' = 'off' }", ["15: key 'tier[local].verify_class.*': there is no class '*'"]),
        (LOCAL + "verify_class = { chat = 'of' }", ["15: key 'tier[local].verify_class.chat': 'of' is not accepted;"]),
        (LOCAL + "[router]\nhigh_risk = ['reveiw']",
         ["16: key 'router.high_risk[#1]': there is no class 'reveiw'; did you mean 'review'?"]),
        (LOCAL + "[router]\nhigh_risk = ['*']", ["16: key 'router.high_risk[#1]': there is no class '*'"]),
        (LOCAL + "[router]\ncloud_classes = ['*', 'visoin']",
         ["16: key 'router.cloud_classes[#2]': there is no class 'visoin'; did you mean 'vision'?"]),
        (LOCAL + "[router.class.'a b']", ["15: key 'router.class.a b': is not a valid name: use letters"]),
        (LOCAL + "[router.class.law]\ntier = 'locla'",
         ["16: key 'router.class.law.tier': there is no tier 'locla'; did you mean 'local'?"]),
        (LOCAL + "classes = ['chat']\n[router.class.law]\ntier = 'local'",
         ["17: key 'router.class.law.tier': tier 'local' does not serve this class (line 15); name another tier, or"]),
        (LOCAL + "[router.class.law]\nword = []", ["16: key 'router.class.law.word': unknown key; did you mean 'word"]),
        # the router
        ("[router.class.law]", ["12: key 'router': there is no [[tier]] to choose from"]),
        (LOCAL + "[router]\nbreaker_window = '0s'", ["16: key 'router.breaker_window': must be longer than 0"]),
        (LOCAL + "[router]\nbreaker_failures = 0", ["16: key 'router.breaker_failures': is too small: at least 1"]),
        (LOCAL + "[router]\nexplore = 0.2", ["16: key 'router.explore': is too large: at most 0.1"]),
        (LOCAL + "[router.shadow]\nrate = 0.1", ["15: key 'router.shadow': `judge` is missing; name the tier"]),
        (LOCAL + "[router.shadow]\nrate = 2.0\njudge = 'local'", ["16: key 'router.shadow.rate': is too large: at mo"]),
        (LOCAL + "[router.shadow]\nrate = 0.1\njudge = 'locla'",
         ["17: key 'router.shadow.judge': there is no tier 'locla'; did you mean 'local'?"]),
        (LOCAL + "[router.shadow]\njudge = 'cluod'", ["16: key 'router.shadow.judge': there is no tier 'cluod'"]),
        (LOCAL + "[router.shadow]\njudge = 'local'\ntimeout = '0s'", ["17: key 'router.shadow.timeout': must be lo"]),
        (LOCAL + "[router.shadow]\nqueue = 0", ["16: key 'router.shadow.queue': is too small: at least 1"]),
        (LOCAL + "[router.classifier]\nbelow = 0.5", ["15: key 'router.classifier': `serve` is missing; name the"]),
        (LOCAL + "[router.classifier]\nserve = 'fats'",
         ["16: key 'router.classifier.serve': there is no serve 'fats'; did you mean 'fast'?"]),
        (LOCAL + "[router.classifier]\nserve = 'parent'", ["16: key 'router.classifier.serve': there is no serve"]),
        (LOCAL + "[router.classifier]\nserve = 'local'", ["16: key 'router.classifier.serve': there is no serve"]),
        (LOCAL + "[router.classifier]\nserve = 'fast'\nbelow = 1.5", ["17: key 'router.classifier.below': is too "]),
        (LOCAL + "[router.classifier]\nserve = 'fast'\ntimeout = '0s'", ["17: key 'router.classifier.timeout': must"]),
        (LOCAL + "[router]\nallow_clouds = true", ["16: key 'router.allow_clouds': unknown key; did you mean 'allow_"]),
        # from elsewhere
        ("[[serve]]\nname = 'b'\nmodel = 'x'\nfallback = 'cloud'\n" + CLOUD,
         ["15: key 'serve[b].fallback': 'cloud' is a cloud tier, which cannot be a fallback"]),
        ("[[serve]]\nname = 'b'\nextends = 'cloud'\nmodel = 'x'\n" + CLOUD,
         ["14: key 'serve[b].extends': there is no serve 'cloud'"]),
    ],
)  # fmt: skip
def test_each_mistake_is_told_with_its_line_and_nothing_else_is(
    problems: Problems, text: str, expected: list[str]
) -> None:
    found = problems(SERVES + text)
    assert len(found) == len(expected), found
    for problem, start in zip(found, expected, strict=True):
        assert problem.startswith(start)


def test_all_mistakes_are_told_at_once(problems: Problems) -> None:
    found = problems(
        SERVES
        + '[router]\nhigh_risk = ["plan"]\nallow_cloud = "no"\n[router.class.law]\ntier = "clod"\n'
        + '[[tier]]\nname = "auto"\nserve = "slow"\nclasses = ["laws"]\n'
        + CLOUD.replace("cost = { input = 3, output = 9 }\n", "verify = 'on'\n")
    )
    assert [int(problem.partition(":")[0]) for problem in found] == [13, 14, 16, 18, 19, 20, 21, 25]


@pytest.mark.parametrize(
    "text",
    [
        "[[tier]]\nname = 'a b'\nserve = 'fast'\n[router.class.law]\ntier = 'ab'",
        "[[tier]]\nname = 'a'\nserve = 5",
        "[[tier]]\nname = 'a'\nbase_url = 'nowhere'\nmodel = 'x'",
        CLOUD.replace("{ input = 3, output = 9 }", "3"),
        CLOUD.replace('"big"', "3"),
        LOCAL + "classes = 'law'",
        LOCAL + "classes = ['law']\n[router]\nclass = 5",
        LOCAL + "classes = ['law']\n[router.class]\nlaw = 5",
        LOCAL.replace("fast", "fast2") + "[[serve]]\nname = 'fast 2'\nmodel = 'x'",
        "[front_door]\nkeys = [{ name = 'k', value = 'file:k', models = ['a b'] }]\n[[tier]]\nname='a b'\nserve='fast'",
        "[front_door]\nkeys = [{ name = 'k', value = 'file:k', models = ['auto:law'] }]\n"
        + LOCAL
        + "[router.class]\nlaw = 5",
    ],
)
def test_what_follows_from_a_mistake_is_not_told_again(problems: Problems, tmp_path: Path, text: str) -> None:
    (tmp_path / "k").write_text("secret-of-16-more")
    assert len(found := problems(SERVES + text)) == 1, found


@pytest.mark.parametrize("section", ["tier", "router"])
def test_a_section_of_the_wrong_kind_is_one_problem(problems: Problems, section: str) -> None:
    [problem] = problems(
        f"{section} = 1\n{SERVES}[router.class.law]\ntier = 'x'\n" if section == "tier" else "router = 1"
    )
    assert problem.startswith(f"1: key '{section}': must be ")


class TestKeys:
    """Who may ask for routing, and whose requests stay here."""

    def key(self, rest: str, tmp_path: Path) -> str:
        (tmp_path / "k").write_text("secret-of-16-more")
        return f"[front_door]\nkeys = [{{ name = 'k', value = 'file:k'{rest} }}]\n{SERVES}"

    def test_a_key_may_go_to_clouds_unless_the_file_says_otherwise(self, loaded: Loaded, tmp_path: Path) -> None:
        assert loaded(self.key("", tmp_path)).front_door.keys[0].cloud
        assert not loaded(self.key(", cloud = false", tmp_path)).front_door.keys[0].cloud

    def test_a_key_may_list_tiers_and_what_is_reserved_for_routing(self, problems: Problems, tmp_path: Path) -> None:
        text = self.key(", models = ['auto', 'auto:planning', 'auto:law', 'local', 'cloud']", tmp_path)
        assert problems(text + LOCAL + CLOUD + "[router.class.law]") == []

    def test_it_may_not_list_what_is_not_there(self, problems: Problems, tmp_path: Path) -> None:
        """The vendor's name of a cloud's model is none either."""
        text = self.key(", models = ['auto:plan', 'big', 'locl']", tmp_path)
        found = problems(text + LOCAL + CLOUD)
        assert [problem.partition(": no serve")[0] for problem in found] == [
            f"2: key 'front_door.keys[k].models[#{n}]'" for n in (1, 2, 3)
        ]
        assert found[0].endswith("did you mean 'auto:planning'?")
        assert found[2].endswith("did you mean 'local'?")
        [alone] = problems(self.key(", models = ['auto']", tmp_path))
        assert "no serve has the name 'auto'" in alone


class TestDoubts:
    """What works and is probably not meant."""

    def test_a_good_file_has_none(self, doubts: Callable[[str], list[str]]) -> None:
        assert doubts(LOCAL + CLOUD) == []
        assert doubts(LOCAL + LOCAL.replace("local", "again")) == []
        assert doubts(LOCAL + TELLER.replace("fast", "far")) == []
        assert doubts("keep_loaded = true\n".join((KEPT, LOCAL + TELLER.replace("fast", "kept")))) == []

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            (CLOUD + LOCAL, "tier 'cloud' costs more than 'local', which is listed after it"),
            (LOCAL + "[router.class.summarize]", "router.class 'summarize' is a new class; did you mean the built-in"),
            (LOCAL + "[router]\nhigh_risk = []", "router: high_risk is empty"),
            (CLOUD + "[router]\ncloud_classes = ['chat']", "router: no tier may serve creative, planning, multi-file"),
            (LOCAL + TELLER, "router.classifier: 'fast' is not loaded for this, so it classifies only while it runs"),
            (LOCAL + CLOUD + "[router]\nallow_cloud = false\n" + TELLER.replace("fast", "cloud"),
             "router.classifier: 'cloud' is a cloud, but `allow_cloud` is false"),
            (LOCAL.replace("fast", "bad") + "[[serve]]\nname = 'bad'\nmodel = 'x.gguf'\nstatus = 'rejected-slow'",
             "tier 'local': its serve 'bad' is rejected; it starts only with --force"),
        ],
    )  # fmt: skip
    def test_each_is_told_once(self, doubts: Callable[[str], list[str]], text: str, expected: str) -> None:
        [doubt] = doubts(text)
        assert doubt.startswith(expected)

    def test_a_key_on_a_line_that_others_can_read(
        self, doubts: Callable[[str], list[str]], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("CLOUD_KEY", "sk-very-secret")
        plain = CLOUD.replace("https", "http")
        assert doubts(plain) == []
        [doubt] = doubts(plain + 'key = "env:CLOUD_KEY"')
        assert doubt.startswith("tier 'cloud': http://api.example.com/v1 is not encrypted")
        assert "sk-very" not in doubt


def test_an_alias_of_a_task_is_the_routers_and_one_of_a_serve_may_be_moved(
    loaded: Loaded, routed: Callable[[str], RouterSettings]
) -> None:
    text = (
        LOCAL + '[alias]\nquick = "auto"\nlawyer = "auto:law"\nmine = "fast"\n[alias.old]\nserve = "auto:review"\n'
        "[router.class.law]\n"
    )
    assert routed(text).aliases == {"quick": "auto", "lawyer": "auto:law", "old": "auto:review"}
    settings = loaded(SERVES + text)
    assert [(alias.name, alias.serve) for alias in settings.aliases] == [("mine", "fast")]
    again = loaded(to_toml(settings))
    assert (again.router, again.aliases) == (settings.router, settings.aliases)
