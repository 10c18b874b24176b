"""T5: truncation is declared, with the omitted size."""

import re

from hypothesis import given
from hypothesis import strategies as st

from headrace.tools.clip import Clip, clip


@given(st.text(max_size=400), st.integers(0, 200), st.integers(1, 17))
def test_t5_head_omitted_and_tail_are_the_whole_to_the_byte(text, limit, step):
    data = text.replace("\0", "").encode()
    one = Clip(limit)
    for at in range(0, len(data), step):
        one.feed(data[at : at + step])
    view = one.done()
    assert view == clip(data, limit)
    head, tail = view.head.encode(), view.tail.encode()
    assert view.total == len(data)
    assert len(head) + view.omitted + len(tail) == len(data)
    assert data.startswith(head)
    assert data.endswith(tail)
    assert len(head) + len(tail) <= max(limit, 0)
    assert (view.omitted == 0) == (len(data) <= limit)


@given(st.binary(max_size=300), st.integers(1, 100))
def test_t5_any_bytes_are_counted_exactly(data, limit):
    view = clip(data, limit)
    assert view.total == len(data)
    assert 0 <= view.omitted <= len(data)
    # What is left out is at most three bytes of a cut character more, at either end.
    assert len(data) - limit <= view.omitted <= max(0, len(data) - limit) + 6


def test_t5_the_cut_says_how_much_is_gone_and_where_the_whole_is():
    text = clip(b"a" * 1000, 100).text("artifact sha256:00ff")
    found = re.search(
        r"\n\[\.\.\. (\d+) bytes omitted; the whole, (\d+) bytes, is artifact sha256:00ff \.\.\.]\n", text
    )
    assert (found[1], found[2]) == ("900", "1000")
    assert clip(b"a" * 100, 100).text("artifact x") == "a" * 100


def test_a_long_stream_holds_no_more_than_the_view():
    one = Clip(1000)
    for _ in range(2000):
        one.feed(b"0123456789" * 10)
    assert len(one._head) + len(one._tail) <= 2000  # noqa: SLF001
    assert one.done().total == 200_000
