"""`[edge.NAME]`: what is configured wrong is found before anything is pointed at it, with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.config import effective
from stoker.config.load import load
from stoker.domain.access import Settings
from stoker.domain.errors import ConfigError
from stoker_edge.edge import AddressKind, DiscoveryCommand, Ec2Instances, IngressKind, WorkerAddress, address_kind
from stoker_edge.table import edges_of
from stoker_edge.warnings import warnings

WORKER = '[edge.gpu]\nstatic = "10.0.0.7"\nport = 8000\nmodel = "qwen"\n'
INGRESS = 'ingress = "nginx"\nupstream_file = "up.conf"\nroutes = ["https://llm.example/v1/*"]\n'


def loaded(directory: Path, text: str) -> Settings:
    path = directory / "stoker.toml"
    path.write_text(text)
    return load(path)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('[edge.gpu]\nport = 1\nmodel = "m"\n', "1: key 'edge.gpu': nothing says how the worker is found"),
        (WORKER + 'dns = "gpu.lan"\n', "5: key 'edge.gpu.dns': the worker is already found by `static`"),
        ('[edge.gpu]\nstatic = "10.0.0.7"\nmodel = "m"\n', "`port` is missing"),
        ('[edge.gpu]\nstatic = "10.0.0.7"\nport = 1\n', "`model` is missing"),
        ('[edge.gpu]\nstatic = "gpu.lan"\nport = 1\nmodel = "m"\n', "is not an IP address"),
        (WORKER.replace("10.0.0.7", "8.8.8.8"), "8.8.8.8 is a public address, .* or set allow_public = true"),
        (WORKER.replace("10.0.0.7", "169.254.169.254"), "cannot be a worker's address"),
        ('[edge.gpu]\nport = 1\nmodel = "m"\n[edge.gpu.ec2]\nregion = "eu-1"\n', "every instance of the account"),
        (WORKER + 'ca = "ca.pem"\n', "key 'edge.gpu.ca': has no effect without an ingress"),
        (WORKER + 'ingress = "nginx"\nroutes = ["https://a.example/v1/*"]\n', "`upstream_file` is missing"),
        (WORKER + 'ingress = "nginx"\nupstream_file = "a"\n', "`routes` is missing"),
        (WORKER + 'ingress = "apache"\n', "use nginx or caddy"),
        (WORKER + INGRESS.replace("https", "http"), "is not a public route"),
        (WORKER + INGRESS.replace("/v1/*", "/*"), "is not a public route"),
        (WORKER + 'key = "sk-secret"\n', "a secret must not be in this file"),
        (
            WORKER + INGRESS + WORKER.replace("gpu", "two") + INGRESS,
            "line 6 already writes this file",
        ),
        (
            WORKER + '[[serve]]\nname = "q"\nbase_url = "edge:gpo"\n',
            "key 'serve.q..base_url': there is no edge 'gpo'; did you mean 'gpu'",
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, text: str, found: str) -> None:
    with pytest.raises(ConfigError, match=found):
        loaded(tmp_path, text)


def test_an_edge_with_all_defaults(tmp_path: Path) -> None:
    (edge,) = edges_of(loaded(tmp_path, WORKER + INGRESS))
    assert edge.ingress is not None
    assert edge.routes is not None
    assert (edge.ingress.kind, edge.ingress.config) == (IngressKind.NGINX, "/etc/nginx/nginx.conf")
    assert edge.ingress.upstream_file == str(tmp_path / "up.conf")
    assert edge.ingress.validate[-1] == "{config}"
    assert edge.routes.urls == ("https://llm.example",)


def test_the_key_of_the_worker_is_used_for_the_routes_unless_they_have_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONE", "one")
    monkeypatch.setenv("TWO", "two")
    for own, seen in (("", "env:ONE"), ('route_key = "env:TWO"\n', "env:TWO")):
        (edge,) = edges_of(loaded(tmp_path, WORKER + INGRESS + 'key = "env:ONE"\n' + own))
        assert edge.worker.key is not None
        assert edge.worker.key.source == "env:ONE"
        assert edge.routes is not None
        assert edge.routes.key is not None
        assert edge.routes.key.source == seen


def test_each_kind_of_discovery(tmp_path: Path) -> None:
    def found(text: str) -> object:
        return edges_of(loaded(tmp_path, f'[edge.gpu]\nport = 1\nmodel = "m"\n{text}\n'))[0].worker.discovery

    assert found('command = "find-worker --role llm"') == DiscoveryCommand(
        ("find-worker", "--role", "llm"), str(tmp_path)
    )
    ec2 = Ec2Instances("eu-central-1", "", {"Role": "llm"})
    assert found('[edge.gpu.ec2]\nregion = "eu-central-1"\ntags = { Role = "llm" }') == ec2


@pytest.mark.parametrize(
    "text",
    [
        WORKER,
        WORKER + INGRESS + 'resolve = "127.0.0.1"\nca = "ca.pem"\ntemplate = "own.tmpl"\nverify_timeout = "5s"\n',
        '[edge.gpu]\ndns = "gpu.lan"\nport = 1\nmodel = "m"\nallow_public = true\n' + INGRESS.replace("nginx", "caddy"),
        '[edge.gpu]\nport = 1\nmodel = "m"\n[edge.gpu.ec2]\ninstance_id = "i-1"\n',
        WORKER.replace("gpu", '"team/gpu 1ä"'),
    ],
)
def test_what_is_shown_loads_to_the_same(tmp_path: Path, text: str) -> None:
    settings = loaded(tmp_path, text)
    assert edges_of(loaded(tmp_path, effective.to_toml(settings))) == edges_of(settings)


def test_an_edge_that_nothing_uses_is_warned_about(tmp_path: Path) -> None:
    assert any("edge 'gpu' has no effect" in text for text in warnings(loaded(tmp_path, WORKER)))
    used = loaded(tmp_path, WORKER + '[[serve]]\nname = "q"\nbase_url = "edge:gpu"\n')
    assert not any("no effect" in text for text in warnings(used))
    assert used.serves[0].base_url == "edge:gpu"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("10.1.2.3", AddressKind.PRIVATE),
        ("172.31.0.1", AddressKind.PRIVATE),
        ("172.32.0.1", AddressKind.PUBLIC),
        ("100.64.0.1", AddressKind.PRIVATE),
        ("fd00::1", AddressKind.PRIVATE),
        ("::ffff:10.0.0.1", AddressKind.PRIVATE),
        ("::ffff:8.8.8.8", AddressKind.PUBLIC),
        ("127.0.0.2", AddressKind.LOOPBACK),
        ("::1", AddressKind.LOOPBACK),
        ("2606:4700::1111", AddressKind.PUBLIC),
        ("169.254.169.254", AddressKind.UNUSABLE),
        ("fe80::1", AddressKind.UNUSABLE),
        ("0.0.0.0", AddressKind.UNUSABLE),
        ("224.0.0.1", AddressKind.UNUSABLE),
        ("192.0.2.1", AddressKind.UNUSABLE),
    ],
)
def test_addresses_are_judged_by_their_form(text: str, kind: AddressKind) -> None:
    assert address_kind(text) is kind


def test_an_ipv6_address_is_written_in_brackets() -> None:
    assert str(WorkerAddress("fd00::1", 80)) == "[fd00::1]:80"


@pytest.mark.parametrize(
    ("more", "reload"),
    [
        ("", ("nginx", "-s", "reload")),
        ('ingress_config = "own/nginx.conf"\n', ("nginx", "-s", "reload", "-c", "{config}")),
        ('ingress_config = "own/nginx.conf"\nreload_command = "reload it"\n', ("reload", "it")),
    ],
)
def test_the_reload_is_of_the_nginx_whose_configuration_is_given(
    tmp_path: Path, more: str, reload: tuple[str, ...]
) -> None:
    ingress = edges_of(loaded(tmp_path, WORKER + INGRESS + more))[0].ingress
    assert ingress is not None
    assert ingress.reload == reload
