"""One exception class for each kind of `provider.error`, and no secrets in what they say."""

from typing import get_args

import pytest

from headrace import errors
from headrace.codes import ErrorKind
from headrace.events import ProviderErrorEvent


def test_classes_and_kinds_are_one_to_one():
    assert list(errors.KINDS) == list(get_args(ErrorKind))
    assert len(set(errors.KINDS.values())) == len(errors.KINDS)
    assert {cls for cls in vars(errors).values() if isinstance(cls, type) and hasattr(cls, "kind")} == set(
        errors.KINDS.values()
    )


@pytest.mark.parametrize("kind", errors.KINDS)
def test_an_event_becomes_the_exception_of_its_kind(kind):
    event = ProviderErrorEvent(kind, retryable=False, status=500, provider="acme", message="sk-canary", raw="sk-canary")
    error = errors.from_event(event)
    assert type(error) is errors.KINDS[kind]
    assert error.event is event
    assert "500" in str(error)
    assert "acme" in str(error)
    assert "canary" not in f"{error!r} {error}"


def test_the_tree_at_the_top_of_the_module_is_the_truth():
    classes = [cls for cls in vars(errors).values() if isinstance(cls, type) and issubclass(cls, errors.HeadraceError)]
    for cls in classes:
        assert cls.__name__ in errors.__doc__, cls
        assert cls.__module__ == "headrace.errors"
        if hasattr(cls, "kind"):
            line = next(line for line in errors.__doc__.splitlines() if cls.__name__ in line)
            assert f" {cls.kind} " in line


def test_every_name_of_the_native_lists_is_known_to_the_types():
    for kind in get_args(ErrorKind):
        ProviderErrorEvent(kind, retryable=True)
    with pytest.raises(ValueError, match="no such kind"):
        ProviderErrorEvent("else", retryable=True)
