"""Seals: a chain that was made anew is no longer the one that was sealed."""

import base64
import stat

import pytest

from headrace.log import payloads as p
from headrace.log.records import LogError, TamperedError, checked
from headrace.log.seals import SealKey, check_seals
from tests.support import runs

KEY = SealKey(bytes(range(32)))
PLAIN = runs.records(runs.whole())
SEAL = KEY.seal(runs.RUN, len(PLAIN), PLAIN[-1].chain)
SEALED = runs.records([*runs.whole(), SEAL])


def test_a_sealed_run_verifies_up_to_its_seal():
    assert check_seals(SEALED) == len(PLAIN)
    assert check_seals(SEALED, trusted=[KEY.public]) == len(PLAIN)
    assert check_seals(PLAIN) == 0


@pytest.mark.parametrize("at", range(2, len(PLAIN)))
def test_a_chain_that_was_made_anew_does_not_pass(at):
    """Whoever can write the store can make the whole chain again; the seal still names what it has sealed."""
    changed = [*runs.whole(), SEAL]
    changed[at] = p.UserMessage(text="nothing of the kind")
    forged = runs.records(changed)
    assert list(checked(forged, runs.RUN)) == forged
    with pytest.raises(TamperedError) as caught:
        check_seals(forged)
    assert caught.value.seq == len(PLAIN)


def test_a_seal_of_another_key_run_or_signature_does_not_pass():
    other = SealKey(bytes(32))
    again = runs.records([*runs.whole(), other.seal(runs.RUN, len(PLAIN), PLAIN[-1].chain)])
    assert check_seals(again) == len(PLAIN)
    with pytest.raises(TamperedError, match="not trusted"):
        check_seals(again, trusted=[KEY.public])
    data = SEAL.to_dict()
    signature = bytearray(base64.b64decode(SEAL.signature))
    signature[5] ^= 1
    foreign = KEY.seal("r2", len(PLAIN), PLAIN[-1].chain)
    for change in (
        {"signature": base64.b64encode(signature).decode()},
        {"signature": "no base64"},
        {"signature": foreign.signature},
        {"public_key": other.public},
        {"upto": len(PLAIN) + 1},
        {"upto": 0},
    ):
        bad = runs.records([*runs.whole(), p.LogSealed.from_dict(data | change)])
        with pytest.raises(TamperedError) as caught:
            check_seals(bad)
        assert caught.value.seq == len(bad), change


def test_a_key_is_a_file_of_its_owner_alone(tmp_path):
    path = tmp_path / "seal.key"
    made = SealKey.load(path, randomness=lambda size: b"7" * size)
    assert SealKey.load(path).public == made.public
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "37" * 32 not in repr(made)
    path.chmod(0o644)
    with pytest.raises(LogError, match="others may read it"):
        SealKey.load(path)
    path.chmod(0o600)
    path.write_text("not a key")
    with pytest.raises(LogError, match="is no seed"):
        SealKey.load(path)
    with pytest.raises(ValueError, match="32 bytes"):
        SealKey(b"short")
