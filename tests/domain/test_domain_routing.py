"""What the file permits a tier, before keys and verdicts have their say."""

from __future__ import annotations

import pytest

from stoker.domain.routing import RouterSettings, TaskClass
from stoker.domain.task import CLASSES
from stoker.domain.tier import Tier

LOCAL = Tier("local", "fast", classes=("chat", "law"))
CLOUD = Tier("cloud", "cloud", cloud=True)


@pytest.mark.parametrize(
    ("fields", "local", "cloud"),
    [
        ({}, {"chat", "law"}, {"chat", "law", "vision"}),
        ({"allow_cloud": False}, {"chat", "law"}, set()),
        ({"cloud_classes": ("vision",)}, {"chat", "law"}, {"vision"}),
        ({"cloud_classes": ()}, {"chat", "law"}, set()),
        ({"cloud_classes": ("vision",), "allow_cloud": False}, {"chat", "law"}, set()),
    ],
)
def test_a_cloud_needs_the_consent_of_all_and_a_local_tier_only_its_own_list(
    fields: dict[str, object], local: set[str], cloud: set[str]
) -> None:
    router = RouterSettings((LOCAL, CLOUD), **fields)  # type: ignore[arg-type]
    for tier, wanted in ((LOCAL, local), (CLOUD, cloud)):
        assert {name for name in ("chat", "law", "vision") if router.permits(tier, name)} == wanted


def test_a_cloud_keeps_to_its_own_list_too() -> None:
    router = RouterSettings((Tier("cloud", "cloud", cloud=True, classes=("chat",)),), cloud_classes=("vision", "chat"))
    assert [name for name in router.known if router.permits(router.tiers[0], name)] == ["chat"]


def test_own_classes_stand_beside_the_built_in_ones_and_none_stands_twice() -> None:
    router = RouterSettings((LOCAL,), classes=(TaskClass("law", tier="local"), TaskClass("chat")))
    assert router.known == (*CLASSES, "law")
    assert (router.specialist("law"), router.specialist("chat"), router.specialist("nothing")) == ("local", None, None)
