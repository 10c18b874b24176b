"""Sealing: what opens where, keys and their sources, and the primitives against published vectors."""

from __future__ import annotations

import base64
import hashlib
import hmac
import pathlib
import shutil
import subprocess
import sys
import types

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import _bridge
from headrace.credentials.vault import KeySource, Place, StoreKey, Vault, VaultError, default_key_path, new_key

PLACE = Place("secrets_values", "sealed", ("acme/first", "refresh_token"))
PLANTED = "planted-secret-8c1f"


def vault(*keys: StoreKey) -> Vault:
    return Vault(keys or [StoreKey.read(new_key())])


def test_what_is_sealed_opens_at_its_place_alone() -> None:
    made = vault()
    sealed = made.seal(PLANTED, PLACE)
    assert PLANTED not in sealed
    assert base64.b64encode(PLANTED.encode()).decode().rstrip("=") not in sealed
    assert made.open(sealed, PLACE).reveal() == PLANTED
    elsewhere = [
        Place("other_table", PLACE.column, PLACE.row),
        Place(PLACE.table, "other", PLACE.row),
        Place(PLACE.table, PLACE.column, ("acme/second", "refresh_token")),
        Place(PLACE.table, PLACE.column, ("acme/first", "access_token")),
        Place(PLACE.table, PLACE.column, ("acme/firstrefresh_token",)),
        Place(PLACE.table, PLACE.column, (*PLACE.row, "")),
    ]
    for place in elsewhere:
        with pytest.raises(VaultError, match="does not open") as caught:
            made.open(sealed, place)
        assert PLANTED not in str(caught.value)


def test_a_text_is_sealed_differently_each_time() -> None:
    made = vault()
    assert len({made.seal(PLANTED, PLACE) for _ in range(50)}) == 50


@given(text=st.text(), flip=st.integers(min_value=0))
def test_any_text_comes_back_and_no_changed_one_does(text: str, flip: int) -> None:
    made = vault()
    sealed = made.seal(text, PLACE)
    assert made.open(sealed, PLACE).reveal() == text
    head, _, body = sealed.rpartition(".")
    raw = bytearray(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    raw[flip % len(raw)] ^= 1
    with pytest.raises(VaultError):
        made.open(f"{head}.{base64.urlsafe_b64encode(bytes(raw)).decode().rstrip('=')}", PLACE)


@pytest.mark.parametrize(
    "broken", ["", "hs1", "hs1.", "hs9.{key}.AAAA", "hs1.{key}.", "hs1.{key}.%%%", "hs1.{key}.A", "plain"]
)
def test_what_is_no_sealed_text_is_an_error(broken: str) -> None:
    made = vault()
    with pytest.raises(VaultError):
        made.open(broken.format(key=made.key), PLACE)


def test_the_first_key_seals_and_all_open() -> None:
    old, new = StoreKey.read(new_key()), StoreKey.read(new_key())
    sealed = vault(old).seal(PLANTED, PLACE)
    both = vault(new, old)
    assert both.open(sealed, PLACE).reveal() == PLANTED
    assert not both.is_current(sealed)
    again = both.seal(PLANTED, PLACE)
    assert both.is_current(again)
    with pytest.raises(VaultError, match=f"{new.id}.*{old.id}"):
        vault(old).open(again, PLACE)


def test_nothing_shows_a_key() -> None:
    text = new_key()
    key = StoreKey.read(text)
    source = KeySource("env:KEY", {"KEY": text})
    for shown in (repr(key), str(key), repr(vault(key)), repr(source), repr(source.vault())):
        assert text not in shown
        assert key.material.hex() not in shown
        assert repr(key.material) not in shown


@pytest.mark.parametrize("text", ["", "short", "AAAA", new_key()[:-2], new_key() + "AAAA", "\N{SNOWMAN}" * 44])
def test_what_is_no_key_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(VaultError, match=r"new-key|is empty|is not there") as caught:
        KeySource("env:KEY", {"KEY": text}).vault()
    assert not text or text not in str(caught.value)


def test_the_default_file_is_made_when_asked_and_is_its_owners_alone(tmp_path: pathlib.Path) -> None:
    environ = {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    source = KeySource("", environ)
    with pytest.raises(VaultError, match="cannot be read"):
        source.vault()
    made = source.vault(make=True)
    path = default_key_path(environ)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert source.vault(make=True).key == made.key
    source.write([new_key(), *source.written()])
    assert source.vault().keys[1] == made.key
    assert [entry.name for entry in path.parent.iterdir()] == ["store.key"]


def test_keys_come_from_a_file_or_the_environment_or_a_keyring(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = new_key(), new_key()
    (tmp_path / "key").write_text(f"{one}\n{two}\n")
    by_file = KeySource(f"file:{tmp_path / 'key'}").vault()
    by_environment = KeySource("env:KEY", {"KEY": f"{one},{two}"}).vault()
    kept: dict[tuple[str, str], str] = {}
    ring = types.SimpleNamespace(
        get_password=lambda service, name: kept.get((service, name)),
        set_password=lambda service, name, text: kept.__setitem__((service, name), text),
    )
    monkeypatch.setitem(sys.modules, "keyring", ring)
    source = KeySource("keyring:gateway")
    with pytest.raises(VaultError, match="the keyring has no 'gateway'"):
        source.vault()
    source.write([one, two])
    assert by_file.keys == by_environment.keys == source.vault().keys
    with pytest.raises(VaultError, match="cannot be written from here"):
        KeySource("env:KEY", {}).write([one])
    for reference in ("nowhere:x", "plain", "env:", "keyring:"):
        with pytest.raises(VaultError, match="write env:NAME, file:PATH or keyring:NAME"):
            KeySource(reference, {}).vault()


def test_a_keyring_that_is_not_installed_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(VaultError, match=r"pip install 'headrace\[keyring\]'"):
        KeySource("keyring:gateway").vault()


def test_ed25519_agrees_with_rfc_8032() -> None:
    # Its section 7.1, tests 1 and 3.
    seed = bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
    public = bytes.fromhex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")
    assert _bridge.ed25519_public(seed) == public
    assert _bridge.ed25519_sign(seed, b"") == bytes.fromhex(
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"
    )
    seed = bytes.fromhex("c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7")
    signature = _bridge.ed25519_sign(seed, b"\xaf\x82")
    public = _bridge.ed25519_public(seed)
    assert _bridge.ed25519_verify(public, b"\xaf\x82", signature)
    assert not _bridge.ed25519_verify(public, b"\xaf\x83", signature)
    assert not _bridge.ed25519_verify(b"short", b"\xaf\x82", signature)
    with pytest.raises(ValueError, match="32 bytes"):
        _bridge.ed25519_sign(b"short", b"")


@given(data=st.binary(), key=st.binary())
def test_hashes_agree_with_pythons_own(data: bytes, key: bytes) -> None:
    assert _bridge.sha256(data) == hashlib.sha256(data).digest()
    assert _bridge.hmac_sha256(key, data) == hmac.digest(key, data, "sha256")


def test_an_rsa_signature_is_what_openssl_takes(tmp_path: pathlib.Path) -> None:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("NO OPENSSL: the signature has nobody to check it")
    key, public, signed = (str(tmp_path / name) for name in ("key.pem", "public.pem", "signed"))
    subprocess.run([openssl, "genpkey", "-quiet", "-algorithm", "RSA", "-out", key], check=True)
    subprocess.run([openssl, "pkey", "-in", key, "-pubout", "-out", public], check=True)
    lines = pathlib.Path(key).read_text().splitlines()
    der = base64.b64decode("".join(line for line in lines if "-" not in line))
    pathlib.Path(signed).write_bytes(_bridge.rsa_sha256_sign(der, b"message"))
    command = [openssl, "dgst", "-sha256", "-verify", public, "-signature", signed]
    assert subprocess.run(command, input=b"message", check=True, capture_output=True).stdout == b"Verified OK\n"
    with pytest.raises(ValueError, match="PKCS#8"):
        _bridge.rsa_sha256_sign(b"no key", b"message")
