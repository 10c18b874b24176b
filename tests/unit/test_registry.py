"""The registry: one door, broken plug-ins left out, two of a kind refused."""

import sys
import types
from importlib.metadata import EntryPoint

import pytest
from support.control import configured

from headrace.config import Config, ConfigurationError, Provider
from headrace.plugins import ENTRY_POINT_GROUP, Capability, ProviderDefinition
from headrace.registry import Registry


def definition(kind):
    return ProviderDefinition(
        kind=kind, label=kind, capabilities=(Capability("language_model", "openai_chat", lambda *_: None),)
    )


@pytest.fixture
def plugin(monkeypatch):
    """Offer a value as a plug-in's module does."""

    def offer(name, value):
        module = types.ModuleType(f"plugin_{name}")
        module.OFFER = value
        monkeypatch.setitem(sys.modules, module.__name__, module)
        return EntryPoint(name, f"{module.__name__}:OFFER", ENTRY_POINT_GROUP)

    return offer


def test_the_built_in_kinds_are_there():
    registry = Registry(tuple)
    assert {"openai", "openai_compatible", "anthropic", "demo", "jina", "brave"} <= set(registry.definitions)
    assert registry.broken == ()
    for kind, one in registry.definitions.items():
        assert one.kind == kind
        # Each can do something, and what is not the language model reads its own answers.
        assert all(able.name == "language_model" or able.read or able.run for able in one.capabilities)
        assert one.capabilities


def test_a_plugin_is_merged_alone_or_in_a_list(plugin):
    points = [plugin("one", definition("one")), plugin("more", [definition("two"), definition("three")])]
    registry = Registry(lambda: points)
    assert {"openai", "one", "two", "three"} <= set(registry.definitions)


def test_a_refresh_sees_what_was_installed_since(plugin):
    points = []
    registry = Registry(lambda: points)
    assert "late" not in registry.definitions
    points.append(plugin("late", definition("late")))
    assert "late" not in registry.definitions
    registry.refresh()
    assert "late" in registry.definitions


@pytest.mark.parametrize(
    ("offer", "word"),
    [
        (42, "TypeError"),
        (["x"], "offers a str"),
        (definition("Bad-Kind"), "'Bad-Kind'"),
        (definition("a" * 64), "lower-case"),
        (definition("a\n"), "lower-case"),
        (ProviderDefinition(kind="idle", label="", capabilities=()), "can do nothing"),
        (ProviderDefinition(kind="odd", label="", capabilities=("chat",)), "Capability"),
    ],
)
def test_a_broken_plugin_is_reported_and_left_out(plugin, offer, word):
    points = [plugin("bad", offer), plugin("good", definition("good"))]
    registry = Registry(lambda: points)
    (broken,) = registry.broken
    assert "bad" in broken.source
    assert word in broken.reason
    assert "good" in registry.definitions


def test_a_plugin_that_cannot_be_imported_is_left_out():
    registry = Registry(lambda: [EntryPoint("gone", "no_such_module_of_ours:X", ENTRY_POINT_GROUP)])
    assert "ModuleNotFoundError" in registry.broken[0].reason
    assert "openai" in registry.definitions
    [(_, told)] = registry.check(Config(providers=(Provider(id="far", kind="gone"),)))
    assert "gone (no_such_module_of_ours:X) is left out: ModuleNotFoundError" in told


def test_two_of_a_kind_name_both_and_a_refresh_keeps_the_old_set(plugin):
    points = [plugin("mine", definition("openai"))]
    with pytest.raises(ConfigurationError, match=r"'openai'.*headrace\.providers\.openai.*mine"):
        Registry(lambda: points)
    points = []
    registry = Registry(lambda: points)
    points += [plugin("a", definition("same")), plugin("b", definition("same"))]
    with pytest.raises(ConfigurationError, match=r"a \(plugin_a.*b \(plugin_b"):
        registry.refresh()
    assert "same" not in registry.definitions


def test_settings_are_read_into_the_definitions_own_class():
    registry = Registry(tuple)
    config = configured(
        '[[providers]]\nid = "a"\nkind = "openai"\n[providers.settings]\norganization = "org-1"\n'
        '[[providers]]\nid = "d"\nkind = "demo"\n'
    )
    settings = registry.settings_of(config.providers[0])
    assert (settings.organization, settings.project) == ("org-1", None)
    assert registry.settings_of(config.providers[1]) is None
