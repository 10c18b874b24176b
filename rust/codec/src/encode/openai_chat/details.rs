//! `reasoning_details`: the slot for opaque state that compatible vendors and their clients have.
//!
//! Every entry has an integer `index`; fragments of one entry share it. Readable reasoning also stands in
//! `reasoning_content`, in the same delta, so that nobody who reads both reads it twice.

use super::{Chat, Continued, List, Shared, list_comma, minted, put, put_count, put_raw, put_str};
use crate::event::{AttachTo, ContinuationForm, Protocol};
use crate::json::{Kind, Scan, Scanner};
use crate::text::Text;

impl Chat {
    /// Reasoning that a signature may follow goes out twice in one delta, as the vendors do that sign: where all
    /// clients look for it, and in the entry that the signature will complete.
    pub(super) fn signed_text(&mut self, shared: &Shared, block: u32, text: Text<'_>, out: &mut Vec<u8>) {
        self.role(shared, out);
        if text.is_empty() {
            return;
        }
        let begins = self.signing != Some(block);
        if begins {
            self.end_entry();
            self.signing = Some(block);
            self.details += 1;
        }
        let index = self.details - 1;
        if shared.stream {
            self.chunk(shared, out, |out| {
                put(out, "\"reasoning_content\":\"");
                text.push_json(out);
                put_count(out, "\",\"reasoning_details\":[{\"index\":", index);
                put(out, ",\"type\":\"reasoning.text\",\"text\":\"");
                text.push_json(out);
                put(out, "\"}]");
            });
        } else {
            text.push_json(self.body.reasoning.get_or_insert_default());
            let details = &mut self.body.details;
            if begins {
                list_comma(details);
                put_count(details, "{\"index\":", index);
                put(details, ",\"type\":\"reasoning.text\",\"text\":\"");
            }
            text.push_json(details);
        }
    }

    /// Ends the entry that waits for its signature, without one.
    pub(super) fn end_entry(&mut self) {
        if self.signing.take().is_some() && !self.body.details.is_empty() {
            put(&mut self.body.details, "\"}");
        }
    }

    /// Opaque state goes into `reasoning_details`, the slot that compatible vendors and their clients have for it.
    pub(super) fn continuation(&mut self, shared: &Shared, continuation: &Continued<'_>, out: &mut Vec<u8>) {
        let Continued { family, form, data, to, index } = *continuation;
        if self.signing == Some(index) && to == AttachTo::Reasoning && form == ContinuationForm::Signature {
            return self.sign(shared, &shared.slot(family, form, data), out);
        }
        self.end_entry();
        if family == Protocol::OpenaiChat {
            let entries = native_entries(data);
            if !entries.is_empty() {
                for members in entries {
                    self.detail(shared, &members, out);
                }
                return;
            }
        }
        let mut members = Vec::with_capacity(96);
        if to == AttachTo::Call {
            let (stem, slot) = (&shared.stem, self.opened);
            if let Some(id) = self.calls.id(index, || minted(stem, slot)) {
                put_str(&mut members, "\"id\":", id);
                members.push(b',');
            }
        }
        let data = shared.slot(family, form, data);
        put_str(&mut members, "\"type\":\"reasoning.encrypted\",\"data\":", &data);
        self.detail(shared, &members, out);
    }

    /// Completes the entry whose text went out.
    pub(super) fn sign(&mut self, shared: &Shared, signature: &str, out: &mut Vec<u8>) {
        self.signing = None;
        let index = self.details - 1;
        if shared.stream {
            self.chunk(shared, out, |out| {
                put_count(out, "\"reasoning_details\":[{\"index\":", index);
                put_str(out, ",\"type\":\"reasoning.text\",\"signature\":", signature);
                put(out, "}]");
            });
        } else {
            put_str(&mut self.body.details, "\",\"signature\":", signature);
            self.body.details.push(b'}');
        }
    }

    pub(super) fn detail(&mut self, shared: &Shared, members: &[u8], out: &mut Vec<u8>) {
        let mut entry = Vec::with_capacity(members.len() + 16);
        put_count(&mut entry, "{\"index\":", self.details);
        entry.push(b',');
        entry.extend_from_slice(members);
        entry.push(b'}');
        self.details += 1;
        self.entry(shared, List::Details, &entry, out);
    }
}

/// The members of a vendor's own entries (one object, or a list of them) but for `index`, which may repeat or be
/// missing there. Empty where the data is no such JSON.
pub(super) fn native_entries(data: Text<'_>) -> Vec<Vec<u8>> {
    let data = data.decode();
    let mut scanner = Scanner::new(data.as_bytes());
    let mut entries = Vec::new();
    let read = match scanner.kind() {
        Ok(Kind::Object) => native_entry(&mut scanner, &mut entries),
        Ok(Kind::Array) => native_list(&mut scanner, &mut entries),
        _ => return entries,
    };
    if read.is_err() || !scanner.at_end() {
        entries.clear();
    }
    entries
}

pub(super) fn native_list(scanner: &mut Scanner<'_>, entries: &mut Vec<Vec<u8>>) -> Scan<()> {
    let mut items = scanner.array()?;
    while scanner.item(&mut items)? {
        native_entry(scanner, entries)?;
    }
    Ok(())
}

pub(super) fn native_entry(scanner: &mut Scanner<'_>, entries: &mut Vec<Vec<u8>>) -> Scan<()> {
    let mut items = scanner.object()?;
    let mut members = Vec::new();
    while let Some(key) = scanner.key(&mut items)? {
        let value = scanner.skip()?;
        if !key.is("index") {
            list_comma(&mut members);
            Text::from(key).push_json_string(&mut members);
            members.push(b':');
            put_raw(&mut members, value);
        }
    }
    if !members.is_empty() {
        entries.push(members);
    }
    Ok(())
}
