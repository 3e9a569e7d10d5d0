"""What a file means: defaults, paths, parents, secrets; and where the file is looked for."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from stoker.config.find import find, state_directory
from stoker.config.load import load
from stoker.domain.access import CompatPaths, ListenSettings, Media, Settings
from stoker.domain.dialect import Dialect
from stoker.domain.errors import ConfigError
from stoker.domain.key import Scope
from stoker.domain.serve import Driver, Requires, Status, SwapPolicy

Loaded = Callable[[str], Settings]


def test_an_empty_file_is_a_front_door_with_defaults(loaded: Loaded, tmp_path: Path) -> None:
    settings = loaded("")
    assert settings.front_door == ListenSettings()
    assert settings.compat == CompatPaths(llama_swap=True, llama_cpp=True)
    assert settings.serves == ()
    assert settings.slots == ()
    assert settings.source == str(tmp_path / "stoker.toml")
    assert settings.paths.state == str(tmp_path / "home/.local/state/stoker")
    assert settings.paths.logs == settings.paths.state + "/logs"
    assert settings.paths.vault == str(tmp_path / "home/.local/share/stoker/vault")


def test_a_serve_has_the_defaults_that_the_page_promises(loaded: Loaded, tmp_path: Path) -> None:
    [one] = loaded('[[serve]]\nname = "fast"\nmodel = "m/x.gguf"\nparallel = 6').serves
    assert (one.engine, one.driver, one.served_name, one.max_active) == ("llama.cpp", Driver.PROCESS, "fast", 6)
    assert (one.queue, one.queue_timeout, one.ready_timeout, one.stop_grace) == (64, 30.0, 600.0, 10.0)
    assert (one.status, one.idle_unload, one.embedded) == (Status.PRODUCTION, None, None)
    assert one.dialects == {Dialect.CHAT, Dialect.COMPLETIONS, Dialect.MESSAGES, Dialect.RESPONSES}
    assert (one.model, one.directory) == (str(tmp_path / "m/x.gguf"), str(tmp_path))


def test_images_are_fetched_only_where_the_file_says_so(loaded: Loaded) -> None:
    assert loaded("").media == Media() == Media(False, (), 20 * 2**20, 10.0, 8)
    media = loaded('[media]\nfetch = true\nhosts = ["*.Example.com", "*.example.com"]\nmax_bytes = "1MiB"').media
    assert media == Media(True, ("*.example.com",), 2**20)


def test_the_front_door_takes_units_scopes_and_an_explicit_none(
    loaded: Loaded, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MY_KEY", "sk-1-of-16-letters")
    (tmp_path / "admin.key").write_text("sk-2-of-16-letters\n")
    door = loaded(
        """
        [front_door]
        host = "0.0.0.0"
        prefixes = ["/llm/", "/llm"]
        body_limit = "1MiB"
        commit_after = "0s"
        keys = [
          { name = "team", value = "env:MY_KEY", max_active = 4, models = ["fast"] },
          { name = "me", value = "file:admin.key", scope = "admin" },
        ]
        [[serve]]
        name = "f"
        model = "x"
        aliases = ["fast"]
        """
    ).front_door
    assert (door.prefixes, door.body_limit, door.commit_after, door.auth) == (("/llm",), 2**20, 0.0, None)
    team, me = door.keys
    assert (team.value.reveal(), team.scope, team.max_active, team.models) == (
        "sk-1-of-16-letters",
        Scope.INFERENCE,
        4,
        ("fast",),
    )
    assert (me.value.reveal(), me.value.source, me.scope) == ("sk-2-of-16-letters", "file:admin.key", Scope.ADMIN)
    assert loaded('[front_door]\nhost = "::"\nauth = "none"').front_door.auth is False


def test_paths_are_relative_to_the_file_not_to_where_stoker_was_started(
    loaded: Loaded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/")
    settings = loaded(
        """
        [paths]
        state = "here/state"
        vault = "~/vault"
        [[serve]]
        name = "a"
        model = "vault:sub/a.gguf"
        requires = { files = ["../b.txt"], packages = { x = ">=1" }, commands = ["c"] }
        [[serve]]
        name = "b"
        model = "~/b.gguf"
        """
    )
    home = tmp_path / "home"
    assert settings.paths.state == str(tmp_path / "here/state")
    assert settings.paths.logs == str(tmp_path / "here/state/logs")
    assert [each.model for each in settings.serves] == [str(home / "vault/sub/a.gguf"), str(home / "b.gguf")]
    assert settings.serves[0].requires == Requires((str(tmp_path.parent / "b.txt"),), {"x": ">=1"}, ("c",))


def test_an_xdg_state_home_counts_when_it_is_absolute(loaded: Loaded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/srv/state")
    assert loaded("").paths.state == "/srv/state/stoker"
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    assert loaded("").paths.state.endswith("/home/.local/state/stoker")


def test_commands_are_split_and_their_models_left_alone(loaded: Loaded) -> None:
    one, two, three = loaded(
        """
        [[serve]]
        name = "a"
        engine = "openai"
        model = "org/name"
        cmd = "run --model '{model} x' --port {port}"
        [[serve]]
        name = "b"
        engine = "openai"
        port = 9000
        cmd = ["run", "a b", '{"json": 1}']
        [[serve]]
        name = "c"
        cmd = "llama-server -m fixed.gguf --port {port}"
        """
    ).serves
    assert (one.cmd, one.model) == (("run", "--model", "{model} x", "--port", "{port}"), "org/name")
    assert (two.cmd, two.port) == (("run", "a b", '{"json": 1}'), 9000)
    assert two.dialects == {Dialect.CHAT, Dialect.COMPLETIONS}
    assert three.model == ""


def test_a_base_url_makes_a_serve_external(loaded: Loaded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("K", "secret")
    [one] = loaded(
        '[[serve]]\nname = "far"\nserved_name = "q"\nkey = "env:K"\n'
        'base_url = "https://h:1/v1/"\ndialects = ["embeddings"]\n'
    ).serves
    assert (one.driver, one.engine, one.base_url, one.served_name) == (Driver.EXTERNAL, "openai", "https://h:1/v1", "q")
    assert one.key is not None
    assert one.key.reveal() == "secret"
    assert one.dialects == {Dialect.EMBEDDINGS}


def test_a_status_carries_its_reason(loaded: Loaded) -> None:
    text = "".join(
        f'[[serve]]\nname = "s{n}"\nmodel = "x"\nstatus = "{status}"\n{more}\n'
        for n, (status, more) in enumerate(
            [("rejected-too slow", ""), ("blocked-driver", 'reason = "bug 7"'), ("rejected", ""), ("research", "")]
        )
    )
    assert [(each.status, each.reason, each.needs_force) for each in loaded(text).serves] == [
        (Status.REJECTED, "too slow", True),
        (Status.BLOCKED, "bug 7", True),
        (Status.REJECTED, "", True),
        (Status.RESEARCH, "", False),
    ]


def test_swap_is_for_every_slot_and_a_slot_may_differ_in_one_key(loaded: Loaded) -> None:
    one, two = loaded(
        """
        [swap]
        patience = 3
        linger = "250ms"
        max_wait = "auto"
        drain_timeout = "5s"
        [slots.a]
        devices = [0, "GPU-1"]
        [slots.b]
        memory = "2GiB"
        swap = { patience = 0, linger = "auto" }
        """
    ).slots
    assert (one.devices, one.memory, one.swap) == (
        ("0", "GPU-1"),
        None,
        SwapPolicy(patience=3.0, linger=0.25, drain_timeout=5.0),
    )
    assert (two.memory, two.swap) == (2**31, SwapPolicy(patience=0.0, drain_timeout=5.0))


def test_a_child_inherits_what_it_does_not_say_and_no_names(loaded: Loaded) -> None:
    grandchild, parent, child = loaded(
        """
        [[serve]]
        name = "grandchild"
        extends = "child"
        queue = 1
        [[serve]]
        name = "parent"
        model = "x"
        served_name = "px"
        aliases = ["p"]
        env = { A = "1", B = "2" }
        extra_args = ["-a"]
        parallel = 2
        [[serve]]
        name = "child"
        extends = "parent"
        env = { B = "3" }
        extra_args = ["-b"]
        """
    ).serves
    assert (child.served_name, child.aliases, child.parallel, child.max_active) == ("child", (), 2, 2)
    assert (child.env, child.extra_args) == ({"A": "1", "B": "3"}, ("-b",))
    assert (parent.env, parent.extra_args) == ({"A": "1", "B": "2"}, ("-a",))
    assert (grandchild.env, grandchild.queue, grandchild.model) == (child.env, 1, parent.model)


def test_an_abstract_serve_is_only_a_parent(loaded: Loaded) -> None:
    settings = loaded(
        '[[serve]]\nname = "base"\nabstract = true\nparallel = 8\n'
        '[[serve]]\nname = "real"\nextends = "base"\nmodel = "x"\n'
        '[[serve]]\nname = "leaf"\nextends = "real"\nqueue = 0\n'
    )
    assert [(each.name, each.parallel, each.queue) for each in settings.serves] == [("real", 8, 64), ("leaf", 8, 0)]


def test_the_same_name_twice_within_one_serve_is_fine(loaded: Loaded) -> None:
    [one] = loaded('[[serve]]\nname = "a"\nserved_name = "a"\naliases = ["a", "b", "b"]\nmodel = "x"').serves
    assert one.names() == ("a", "b")


class TestFind:
    """explicit > $STOKER_CONFIG > ./stoker.toml > the user's own."""

    def test_each_place_wins_over_the_next(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
        with pytest.raises(ConfigError, match="`stoker init`"):
            find()
        user = tmp_path / "xdg/stoker/stoker.toml"
        user.parent.mkdir(parents=True)
        user.touch()
        assert find() == user
        (tmp_path / "stoker.toml").touch()
        assert find() == Path("stoker.toml")
        (tmp_path / "env.toml").touch()
        monkeypatch.setenv("STOKER_CONFIG", str(tmp_path / "env.toml"))
        assert find() == tmp_path / "env.toml"
        (tmp_path / "home").mkdir()
        (tmp_path / "home/mine.toml").touch()
        assert find("~/mine.toml") == tmp_path / "home/mine.toml"

    def test_a_named_file_that_is_not_there_is_an_error_not_a_fallback(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "stoker.toml").touch()
        with pytest.raises(ConfigError, match=r"gone\.toml: there is no such file"):
            find("gone.toml")
        monkeypatch.setenv("STOKER_CONFIG", "lost.toml")
        with pytest.raises(ConfigError, match=r"lost\.toml \(from \$STOKER_CONFIG\)"):
            find()


class TestUnreadable:
    """What is no TOML names its line; only then nothing else can be said."""

    @pytest.mark.parametrize(
        ("text", "line", "what"),
        [
            ("a = 1\nb = \n", 2, "Invalid value"),
            ("a = 1\na = 2\n", 2, "Cannot overwrite a value"),
            ("[x]\n\n[x]\n", 3, "Cannot declare"),
            ('a = 1\nb = "open', 2, "Unterminated"),
            ("a = [1,\n2\n", 2, "Unclosed array"),
            ("a = " + "[" * 100_000, 1, "nested too deep"),
            ("a = " + "9" * 5000, 1, "Exceeds the limit"),
        ],
        ids=["value", "twice", "table twice", "string", "array", "deep", "long number"],
    )
    def test_a_syntax_error_has_file_and_line(
        self, problems: Callable[[str], list[str]], text: str, line: int, what: str
    ) -> None:
        [problem] = problems(text)
        assert problem.startswith(f"{line}: not TOML: ")
        assert what in problem

    def test_bytes_that_are_no_text_name_their_line(self, tmp_path: Path) -> None:
        path = tmp_path / "stoker.toml"
        path.write_bytes(b"a = 1\nb = '\xff'\n")
        with pytest.raises(ConfigError, match=r"stoker\.toml:2: not TOML: a byte that is not UTF-8"):
            load(path)

    def test_a_missing_file_and_a_directory_are_named(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match=r"no such file; `stoker init --path .*stoker\.toml` writes one"):
            load(tmp_path / "stoker.toml")
        with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
            load(tmp_path)

    def test_a_byte_order_mark_is_no_error(self, tmp_path: Path) -> None:
        path = tmp_path / "stoker.toml"
        path.write_bytes("\ufeff[front_door]\nport = 9\n".encode())
        assert load(path).front_door.port == 9

    def test_a_relative_file_gives_absolute_settings(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        Path("stoker.toml").write_text('[[serve]]\nname = "a"\nmodel = "m"')
        settings = load(Path("stoker.toml"))
        assert settings.source == str(tmp_path / "stoker.toml")
        assert os.path.isabs(settings.serves[0].model)


@pytest.mark.parametrize(
    ("host", "compat", "expected"),
    [
        ("127.0.0.1", "", CompatPaths(llama_swap=True, llama_cpp=True)),
        ("::1", "llama_cpp = false", CompatPaths(llama_swap=True, llama_cpp=False)),
        ("0.0.0.0", "", CompatPaths()),
        ("0.0.0.0", "llama_swap = true", CompatPaths(llama_swap=True, llama_cpp=False)),
    ],
)
def test_paths_of_other_programs_are_on_by_default_only_on_loopback(
    loaded: Loaded, tmp_path: Path, host: str, compat: str, expected: CompatPaths
) -> None:
    secret = tmp_path / "key"
    secret.write_text("x" * 32)
    secret.chmod(0o600)
    text = f'[front_door]\nhost = "{host}"\nkeys = [{{ name = "k", value = "file:{secret}" }}]\n[compat]\n{compat}\n'
    assert loaded(text).compat == expected


@pytest.mark.parametrize(
    "text", ["", "[paths]\n", "[paths]\nstate = 'state'\n", "[paths]\nstate = '../x'\n", "[paths]\nstate = '~/mine'\n"]
)
def test_the_state_directory_is_found_without_reading_the_rest(tmp_path: Path, text: str) -> None:
    path = tmp_path / "stoker.toml"
    path.write_text(text)
    expected = Path(load(path).paths.state)
    path.write_text(f"{text}\n[[serve]]\nnmae = 'a'\n")
    assert state_directory(path) == expected


@pytest.mark.parametrize("text", ["[paths", "paths = 1\n", "[paths]\nstate = 3\n"])
def test_where_the_state_directory_cannot_be_told_the_whole_file_is_read(tmp_path: Path, text: str) -> None:
    path = tmp_path / "stoker.toml"
    path.write_text(text)
    assert state_directory(path) is None
