"""The typed requests and results: what is read of a client, what is written for it, vectors and forms."""

import base64
import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace._bridge import float_array, pack_floats
from headrace.capabilities import (
    CallUsage,
    Embedding,
    EmbedRequest,
    EmbedResult,
    FetchRequest,
    FetchResult,
    Hit,
    Image,
    ImageRequest,
    ImageResult,
    Ranked,
    RerankRequest,
    RerankResult,
    SearchRequest,
    SearchResult,
    Vector,
    embeddings,
    fetch,
    forms,
    images,
    rerank,
    search,
)
from headrace.capabilities.fetch import cut
from headrace.errors import BadRequestError

FLOATS = st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=64)


@given(FLOATS)
def test_a_vector_is_the_same_by_numbers_and_by_base64(numbers):
    packed = struct.pack(f"<{len(numbers)}f", *numbers)
    by_numbers, by_text = Vector.of(numbers), Vector.from_base64(base64.b64encode(packed).decode())
    assert by_numbers == by_text
    assert by_numbers.data == packed
    assert by_text.tolist() == numbers
    assert base64.b64decode(by_numbers.base64()) == packed
    assert len(by_text) == len(numbers)
    # What a client reads of either is the same, too.
    assert json.loads(json.dumps(by_text.tolist())) == by_numbers.tolist()


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False, width=32), min_size=32, max_size=80), st.booleans())
def test_packed_numbers_are_those_that_python_reads(numbers, spaced):
    raw = json.dumps({"a": ["x", numbers], "b": [1, 2]}, indent=1 if spaced else None).encode()
    made = json.loads(pack_floats(raw))
    assert (Vector.from_base64(made["a"][1]), made["b"]) == (Vector.of(numbers), [1, 2])
    assert Vector.of(json.loads(float_array(Vector.of(numbers).data))) == Vector.of(numbers)


@given(st.binary(max_size=200))
def test_what_is_no_json_is_packed_to_itself(raw):
    assert pack_floats(raw) == raw


@given(st.lists(st.integers(-128, 127), min_size=1), st.sampled_from(["int8", "binary"]))
def test_small_numbers_keep_their_type(numbers, dtype):
    vector = Vector.of(numbers, dtype)
    assert Vector.from_base64(vector.base64(), dtype) == vector
    assert (vector.tolist(), len(vector)) == (numbers, len(numbers))


@pytest.mark.parametrize(
    ("values", "dtype"), [([300], "int8"), ([-1], "uint8"), (["x"], "float"), ([None], "float"), ([1.5], "int8")]
)
def test_what_is_no_vector_is_none(values, dtype):
    with pytest.raises(ValueError, match="no vector"):
        Vector.of(values, dtype)


@pytest.mark.parametrize("text", ["AAA", "AAAA", "not base64!", "AAAA\n"])
def test_half_a_number_is_no_vector(text):
    with pytest.raises(ValueError):  # noqa: PT011 - base64's own words, or ours
        Vector.from_base64(text)


def test_a_vectors_repr_is_short():
    assert repr(Vector.of([0.0] * 4096)) == "Vector(dtype='float')"


def test_an_embedding_request_of_a_client():
    asked = embeddings.parse(
        {"model": "a/m", "input": ["x", [1, 2], {"image": "https://a/i.png"}], "dimensions": 4, "odd": 1, "user": None}
    )
    assert asked.input == ("x", (1, 2), {"image": "https://a/i.png"})
    assert (asked.dimensions, asked.encoding, asked.extra) == (4, "float", {"odd": 1})
    assert embeddings.parse({"input": [1, 2, 3]}).input == ((1, 2, 3),)
    assert embeddings.parse({"input": "x", "encoding_format": "base64"}).encoding == "base64"


@pytest.mark.parametrize(
    ("module", "body", "field"),
    [
        (embeddings, {"input": []}, "input"),
        (embeddings, {"input": ""}, "input"),
        (embeddings, {"input": ["a", 1]}, "input"),
        (embeddings, {"input": ["a", {"image": 1}]}, "input"),
        (embeddings, {"input": "a", "dimensions": True}, "dimensions"),
        (embeddings, {"input": "a", "dimensions": 0}, "dimensions"),
        (embeddings, {"input": "a", "encoding_format": "hex"}, "encoding_format"),
        (embeddings, {"input": "a", "input_type": "x"}, "input_type"),
        (rerank, {"documents": ["a"]}, "query"),
        (rerank, {"query": "q"}, "documents"),
        (rerank, {"query": "q", "documents": []}, "documents"),
        (rerank, {"query": "q", "documents": [1]}, "documents"),
        (search, {"query": " "}, "query"),
        (search, {"query": "q", "max_results": "5"}, "max_results"),
        (search, {"query": "q", "freshness": "hour"}, "freshness"),
        (search, {"query": "q", "include_domains": "a.example"}, "include_domains"),
        (fetch, {}, "url"),
        (fetch, {"url": "https://a.example", "format": "pdf"}, "format"),
        (images, {"model": "m"}, "prompt"),
        (images, {"prompt": "p", "n": 0}, "n"),
        (images, {"prompt": "p", "stream": "yes"}, "stream"),
        (images, {"prompt": "p", "image": "file:///x"}, "image"),
        (images, {"prompt": "p", "image": "data:image/png;base64,!"}, "image"),
        (images, {"prompt": "p", "mask": "https://a/m.png"}, "mask"),
    ],
)
def test_a_wrong_field_is_named(module, body, field):
    with pytest.raises(BadRequestError) as caught:
        module.parse(body)
    assert caught.value.param == field
    assert field in str(caught.value)


@pytest.mark.parametrize("module", [embeddings, rerank, search, fetch, images])
def test_a_body_that_is_no_object_is_refused(module):
    with pytest.raises(BadRequestError, match="JSON object"):
        module.parse(["x"])


def test_results_for_clients():
    usage = CallUsage(input_tokens=3)
    made = EmbedResult(
        model="m",
        embeddings=(Embedding(0, (Vector.of([1.5]),)), Embedding(1, (Vector.of([1.0]), Vector.of([2.0])))),
        usage=usage,
    )
    told = json.loads(embeddings.render(EmbedRequest(model="m", input=("a", "b")), made))
    assert [one["embedding"] for one in told["data"]] == [[1.5], [[1.0], [2.0]]]
    assert told["usage"] == {"prompt_tokens": 3, "total_tokens": 3}
    told = json.loads(embeddings.render(EmbedRequest(model="m", input=("a", "b"), encoding="base64"), made))
    assert told["data"][0]["embedding"] == "AADAPw=="

    ranked = RerankResult(model="m", results=(Ranked(1, 0.5, "b"), Ranked(0, 0.25, {"image": "u"})))
    asked = RerankRequest(model="m", query="q", documents=("a", "b"))
    told = json.loads(rerank.render(asked, ranked))
    assert told["results"][0] == {"index": 1, "relevance_score": 0.5, "document": {"text": "b"}}
    assert told["results"][1]["document"] == {"image": "u"}
    bare = RerankRequest(model="m", query="q", documents=("a", "b"), return_documents=False)
    assert "document" not in json.loads(rerank.render(bare, ranked))["results"][0]

    found = SearchResult(results=(Hit(url="https://a", title="t", score=0.0),), answer="yes")
    told = json.loads(search.render(SearchRequest(query="q"), found))
    assert told["results"] == [{"url": "https://a", "title": "t", "snippet": "", "score": 0.0, "source_index": 0}]
    assert (told["answer"], "id" in told) == ("yes", False)

    page = FetchResult(url="https://b", content="x")
    told = json.loads(fetch.render(FetchRequest(url="https://a"), page))
    assert (told["requested_url"], told["url"], "title" in told) == ("https://a", "https://b", False)

    picture = ImageResult(images=(Image(data="QQ==", mime="image/webp"),))
    assert json.loads(images.render(picture, now=5)) == {
        "created": 5,
        "data": [{"b64_json": "QQ==", "mime_type": "image/webp"}],
    }
    assert picture.images[0].read() == b"A"
    event, data = images.render_stream(picture, now=5, edit=True).decode().strip().split("\n")
    assert event == "event: image_edit.completed"
    assert json.loads(data.removeprefix("data: "))["output_format"] == "webp"
    with pytest.raises(BadRequestError, match="ask without stream"):
        images.render_stream(ImageResult(images=(Image(url="https://a"),)), now=5, edit=False)
    with pytest.raises(ValueError, match="fetch its url"):
        Image(url="https://a").read()


@given(st.text(max_size=40), st.integers(0, 60))
def test_a_cut_text_is_a_prefix_within_its_bytes(text, limit):
    kept, truncated = cut(text, limit)
    assert text.startswith(kept)
    assert len(kept.encode("utf-8", "replace")) <= max(limit, 0) or not truncated
    assert truncated == (len(text.encode("utf-8", "replace")) > limit)


def test_a_picture_of_json_is_an_address_or_data():
    asked = images.parse(
        {"prompt": "p", "images": ["https://a/i.png", {"image_url": {"url": "data:image/webp;base64,QUI="}}]}, edit=True
    )
    assert asked.images[0].url == "https://a/i.png"
    assert (asked.images[1].data, asked.images[1].mime) == (b"AB", "image/webp")
    assert asked.images[1].uri == "data:image/webp;base64,QUI="
    with pytest.raises(BadRequestError, match="give the picture"):
        images.parse({"prompt": "p"}, edit=True)


PARTS = st.lists(
    st.builds(
        forms.Part,
        name=st.text(st.characters(codec="ascii", exclude_characters='"\\', categories=["L", "N", "P"]), min_size=1),
        data=st.binary(max_size=200),
        filename=st.none() | st.just("a.png"),
        content_type=st.none() | st.just("image/png"),
    ),
    max_size=5,
)


@given(PARTS)
def test_a_form_that_was_written_is_read_as_it_was(parts):
    kind, body = forms.write_form(parts)
    boundary = forms.boundary_of(kind)
    if not parts:
        return
    assert forms.read_form(body, boundary) == parts
    assert forms.write_form(parts) == (kind, body)


def test_a_form_of_a_client():
    picture = b"\x89PNG\r\n--x\r\n\r\nend"
    body = (
        b'--b\r\nContent-Disposition: form-data; name="prompt"\r\n\r\nhi\r\n'
        b'--b\r\nContent-Disposition: form-data; name="n"\r\n\r\n2\r\n'
        b'--b\r\nContent-Disposition: form-data; name="stream"\r\n\r\ntrue\r\n'
        b'--b\r\nContent-Disposition: form-data; name="image[]"; filename="a.webp"\r\nContent-Type: image/webp\r\n\r\n'
        + picture
        + b"\r\n--b--\r\n"
    )
    assert forms.boundary_of('multipart/form-data; boundary="b"') == "b"
    assert forms.boundary_of("application/json; boundary=b") is None
    asked = images.parse_form(forms.read_form(body, "b"))
    assert (asked.prompt, asked.n, asked.stream) == ("hi", 2, True)
    (file,) = asked.images
    assert (file.data, file.mime, file.name) == (picture, "image/webp", "a.webp")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "not whole"),
        (b'--b\r\nContent-Disposition: form-data; name="a"\r\n\r\nx', "not whole"),
        (b"--b\r\nno head\r\n--b--", "no head"),
        (b"--b\r\nContent-Type: text/plain\r\n\r\nx\r\n--b--", "no name"),
        (b"--b\r\n" + b"a" * 5000 + b"\r\n\r\nx\r\n--b--", "no head, or too long"),
        (b"".join(b"--b\r\na: b\r\n\r\n\r\n" for _ in range(200)) + b"--b--", "more than 128"),
    ],
)
def test_what_is_no_form_is_refused(body, words):
    with pytest.raises(BadRequestError, match=words):
        forms.read_form(body, "b")


@given(st.binary(max_size=200).map(lambda noise: b"--b" + noise + b"--b--"))
def test_noise_is_a_form_or_refused(body):
    try:
        parts = forms.read_form(body, "b")
    except BadRequestError:
        return
    assert all(part.name is not None for part in parts)


def test_a_request_says_nothing_of_pictures_in_its_repr():
    asked = images.parse({"prompt": "p", "image": "data:image/png;base64,c2VjcmV0"}, edit=True)
    assert "secret" not in repr(asked)
    assert "c2VjcmV0" not in repr(ImageResult(images=(Image(data="c2VjcmV0"),)))
    assert ImageRequest(model="m", prompt="p").images == ()
