//! Sealing, signing and hashing, by the library that TLS links.
//!
//! 1. A sealed text is `nonce (12) ‖ ciphertext ‖ tag (16)`, by ChaCha20-Poly1305 with a random nonce: up to 2^32 texts
//!    under one key. What it is bound to is the caller's `aad`.
//! 2. No error says why a text could not be opened, or a key not be read.
//!
//! Not here: where keys come from, what a sealed text is bound to.

use std::borrow::Cow;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom as _, SystemRandom};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair, UnparsedPublicKey};
use ring::{digest, hmac};

/// Seal a text under a key of 32 bytes, bound to `aad`.
#[pyfunction]
pub fn seal<'py>(py: Python<'py>, key: &[u8], plain: &[u8], aad: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    let key = aead_key(key)?;
    let mut sealed = Vec::with_capacity(NONCE_LEN + plain.len() + CHACHA20_POLY1305.tag_len());
    let mut nonce = [0; NONCE_LEN];
    SystemRandom::new().fill(&mut nonce).map_err(|_| PyValueError::new_err("the system gives no randomness"))?;
    sealed.extend_from_slice(&nonce);
    sealed.extend_from_slice(plain);
    let tag = key
        .seal_in_place_separate_tag(Nonce::assume_unique_for_key(nonce), Aad::from(aad), &mut sealed[NONCE_LEN..])
        .map_err(|_| PyValueError::new_err("the text is too long to be sealed"))?;
    sealed.extend_from_slice(tag.as_ref());
    Ok(PyBytes::new(py, &sealed))
}

/// Open what `seal` made. None: another key, another `aad`, or not what was sealed.
#[pyfunction]
pub fn unseal<'py>(py: Python<'py>, key: &[u8], sealed: &[u8], aad: &[u8]) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let key = aead_key(key)?;
    let Some((nonce, text)) = sealed.split_first_chunk::<NONCE_LEN>() else { return Ok(None) };
    let mut text = text.to_vec();
    let opened = key.open_in_place(Nonce::assume_unique_for_key(*nonce), Aad::from(aad), &mut text);
    Ok(opened.ok().map(|plain| PyBytes::new(py, plain)))
}

/// The SHA-256 of some bytes.
#[pyfunction]
pub fn sha256(data: &[u8]) -> Cow<'static, [u8]> {
    Cow::Owned(digest::digest(&digest::SHA256, data).as_ref().to_vec())
}

/// The HMAC-SHA256 of some bytes.
#[pyfunction]
pub fn hmac_sha256(key: &[u8], data: &[u8]) -> Cow<'static, [u8]> {
    Cow::Owned(hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), data).as_ref().to_vec())
}

/// The public key of an Ed25519 seed of 32 bytes.
#[pyfunction]
pub fn ed25519_public(seed: &[u8]) -> PyResult<Cow<'static, [u8]>> {
    Ok(Cow::Owned(ed25519_pair(seed)?.public_key().as_ref().to_vec()))
}

/// Sign with an Ed25519 seed of 32 bytes.
#[pyfunction]
pub fn ed25519_sign(seed: &[u8], message: &[u8]) -> PyResult<Cow<'static, [u8]>> {
    Ok(Cow::Owned(ed25519_pair(seed)?.sign(message).as_ref().to_vec()))
}

/// Whether an Ed25519 signature is this key's, on this message.
#[pyfunction]
pub fn ed25519_verify(public: &[u8], message: &[u8], signature: &[u8]) -> bool {
    UnparsedPublicKey::new(&ED25519, public).verify(message, signature).is_ok()
}

/// Sign with RSASSA-PKCS1-v1_5 and SHA-256 (RS256). `pkcs8` is the private key in DER.
#[pyfunction]
pub fn rsa_sha256_sign(pkcs8: &[u8], message: &[u8]) -> PyResult<Cow<'static, [u8]>> {
    let wrong = |_| PyValueError::new_err("this is no RSA key of 2048 to 4096 bits in PKCS#8");
    let pair = RsaKeyPair::from_pkcs8(pkcs8).map_err(wrong)?;
    let mut signature = vec![0; pair.public().modulus_len()];
    pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), message, &mut signature)
        .map_err(|_| PyValueError::new_err("the message could not be signed"))?;
    Ok(Cow::Owned(signature))
}

fn aead_key(key: &[u8]) -> PyResult<LessSafeKey> {
    let key = UnboundKey::new(&CHACHA20_POLY1305, key).map_err(|_| PyValueError::new_err("a key has 32 bytes"))?;
    Ok(LessSafeKey::new(key))
}

fn ed25519_pair(seed: &[u8]) -> PyResult<Ed25519KeyPair> {
    Ed25519KeyPair::from_seed_unchecked(seed).map_err(|_| PyValueError::new_err("an Ed25519 seed has 32 bytes"))
}
