"""The door for tools: names, schemas, plug-ins, sources, and that no description carries a callable (P2, C4)."""

import asyncio
import dataclasses
from importlib.metadata import EntryPoint

import pytest

from headrace.tools.definition import Manifest, ToolSpec
from headrace.tools.toolbox import Toolbox
from tests.tools.conftest import Spy


def spec(**changes):
    return ToolSpec(**{"name": "a__b", "description": "d", "schema": "{}", "effects": ("read",), **changes})


MANIFEST = Manifest(namespace="acme", version="1", handlers=[Spy(name="acme__look"), Spy(name="acme__Do-it")])


def manifest():
    return MANIFEST


def broken():
    raise RuntimeError("not installed well")


def points(*values):
    return lambda: [EntryPoint(f"p{at}", f"{__name__}:{value}", "headrace.tools") for at, value in enumerate(values)]


def test_plugins_come_by_entry_points_and_a_broken_one_is_left_out():
    box = Toolbox([Spy(name="read")])
    box.load_plugins(points("manifest", "broken", "points", "nowhere"))
    assert box.names == ("acme__Do-it", "acme__look", "read")
    assert [one.reason.partition(":")[0] for one in box.broken] == ["RuntimeError", "TypeError", "AttributeError"]
    assert box.get("acme__look").source == f"p0 ({__name__}:manifest)"
    box.load_plugins(points("MANIFEST"))
    assert "two tools are named acme__look" in box.broken[-1].reason
    assert box.names == ("acme__Do-it", "acme__look", "read")


class Source:
    namespace = "far"

    def __init__(self, namespace="far"):
        self._offered = namespace

    async def manifest(self):
        return Manifest(namespace=self._offered, version="1", handlers=[Spy(name=f"{self._offered}__x")])


def test_a_sources_tools_are_seen_and_not_executed_until_somebody_says_so():
    async def main():
        box = Toolbox()
        await box.add_source(Source())
        entry = box.get("far__x")
        assert (entry.visible, entry.executable, entry.source) == (True, False, "source far")
        with pytest.raises(ValueError, match="lists tools of near"):
            await box.add_source(Source("near"))

    asyncio.run(main())


def test_names_namespaces_and_schemas_are_checked():
    for name in ("", "A", "a.b", "a__", "x" * 80, "a__b c"):
        with pytest.raises(ValueError, match="cannot name a tool"):
            spec(name=name)
    with pytest.raises(ValueError, match="does not begin with other__"):
        Manifest(namespace="other", version="1", handlers=[Spy(name="acme__look")])
    with pytest.raises(ValueError, match="is not one"):
        Manifest(namespace="a__b", version="1", handlers=[])
    wrong = Spy()
    for schema in ('{"type": 5}', '{"$ref": "file:///etc/passwd"}', '{"$ref": "http://127.0.0.1/x"}'):
        wrong.spec = spec(schema=schema)
        with pytest.raises(ValueError, match="its schema is none"):
            Toolbox([wrong])


def test_p2_what_a_provider_is_given_carries_no_callable():
    box = Toolbox([Spy(name="one")])
    (tool,) = box.menu()
    for field in dataclasses.fields(tool):
        assert not callable(getattr(tool, field.name))
    assert "Callable" not in str({field.type for field in dataclasses.fields(ToolSpec)})


def test_c4_the_menus_hash_and_a_tools_version_change_with_what_a_model_is_told():
    box = Toolbox([Spy(name="one"), Spy(name="two")])
    first = box.menu_hash()
    box.show("two", executable=False)
    assert box.menu_hash() == first
    box.show("two", visible=False)
    assert box.menu_hash() != first
    assert [name for name, _ in box.versions()] == ["one"]
    assert spec().full_version != spec(description="e").full_version
    assert spec().full_version != spec(version="2").full_version
    assert spec().full_version == spec(timeout_s=1.0).full_version


def test_the_packages_face_is_all_there_and_light():
    import subprocess
    import sys

    import headrace.tools

    for name in headrace.tools.__all__:
        assert getattr(headrace.tools, name).__name__ == name
    assert dir(headrace.tools) == sorted(headrace.tools.__all__)
    assert not hasattr(headrace.tools, "nothing")
    heavy = ("asyncio", "jsonschema_rs", "tree_sitter", "pydantic")
    code = f"import sys, headrace.tools; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
