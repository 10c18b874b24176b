"""The closed lists of codes: as types in Python, as lists in the native module, the same in both."""

from typing import get_args

from headrace import _bridge, codes


def test_types_and_native_lists_are_the_same():
    typed = {name: list(get_args(getattr(codes, name))) for name in codes.__all__}
    assert dict(_bridge.code_lists()) == typed
    assert list(typed) == sorted(codes.__all__)
