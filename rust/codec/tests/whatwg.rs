//! What the web platform's own tests ask of an event stream's reader, one case for each of its `eventsource/format-*` tests and for
//! `event-data`, named after them. The streams are ours.
//!
//! 1. A case says the events (name and data) that the standard has a browser dispatch.
//! 2. Left out: what a browser does with `id` and `retry` (here both are only ignored), and its check of the MIME type.
//! 3. Each case is read whole, byte by byte, and in every two parts.

use headrace_codec::framing::Frame;
use headrace_codec::framing::sse::Sse;

struct Case {
    /// The web platform's test.
    name: &'static str,
    wire: &'static str,
    events: &'static [(&'static str, &'static str)],
}

const CASES: &[Case] = &[
    Case {
        name: "format-bom",
        wire: "\u{feff}data: first\n\n\u{feff}data: not a field\n\ndata: third\n\n",
        events: &[("message", "first"), ("message", "third")],
    },
    Case {
        name: "format-bom-2",
        wire: "\u{feff}\u{feff}data: not a field\n\ndata: second\n\n",
        events: &[("message", "second")],
    },
    Case {
        name: "format-comments",
        wire: "data:a\r:\0\n:\r\ndata:b\n: a comment that is longer than a field\rdata:c\n:data:no\r:\ndata:d\n\n",
        events: &[("message", "a\nb\nc\nd")],
    },
    Case {
        name: "format-data-before-final-empty-line",
        wire: "retry:900\ndata:whole\n\nid:7\ndata:no line after this",
        events: &[("message", "whole")],
    },
    Case {
        name: "format-field-data",
        wire: "data:\n\ndata\ndata\n\ndata:x\n\n",
        events: &[("message", ""), ("message", "\n"), ("message", "x")],
    },
    Case {
        name: "format-field-event",
        wire: "event:named\ndata:x\n\ndata:y\n\n",
        events: &[("named", "x"), ("message", "y")],
    },
    Case { name: "format-field-event-empty", wire: "event: \ndata:x\n\n", events: &[("message", "x")] },
    Case {
        name: "format-field-id",
        wire: "id:1\nid\ndata:x\nid: \u{2026}\n\nid:2\n\ndata:y\n\n",
        events: &[("message", "x"), ("message", "y")],
    },
    Case { name: "format-field-id-null", wire: "id:\0\0\ndata:x\n\n", events: &[("message", "x")] },
    Case {
        name: "format-field-parsing",
        wire: "data:\0\ndata:  two\rData:no\ndata\0:no\ndata:three\r\0data:no\nda-ta:no\rdata_no\ndata:four\rdata:\r\n data:no\ndata:six\n\n",
        events: &[("message", "\0\n two\nthree\nfour\n\nsix")],
    },
    Case { name: "format-field-retry", wire: "retry:3000\ndata:x\n\n", events: &[("message", "x")] },
    Case { name: "format-field-retry-bogus", wire: "retry:3000\nretry:10x\ndata:x\n\n", events: &[("message", "x")] },
    Case { name: "format-field-retry-empty", wire: "retry\ndata:x\n\n", events: &[("message", "x")] },
    Case {
        name: "format-field-unknown",
        wire: "data:x\n data\ndata\nnothing:of use\ndata:y\n&not-even-a-name\ndata:z\n\n",
        events: &[("message", "x\n\ny\nz")],
    },
    Case { name: "format-leading-space", wire: "data:\tx\rdata: \ndata:y\n\n", events: &[("message", "\tx\n\ny")] },
    Case { name: "format-newlines", wire: "data:x\r\ndata\ndata:y\r\n\r", events: &[("message", "x\n\ny")] },
    Case { name: "format-null-character", wire: "data:\0\n\n", events: &[("message", "\0")] },
    Case { name: "format-utf-8", wire: "data:so\u{2026}\n\n", events: &[("message", "so\u{2026}")] },
    Case {
        name: "event-data",
        wire: "data:x\ndata: x\n\n:\nno-field:x\n\nno-field:x\nData:x\n\ndata\n\ndata:end\n\n",
        events: &[("message", "x\nx"), ("message", ""), ("message", "end")],
    },
];

fn read(pieces: &[&[u8]]) -> Vec<(String, String)> {
    let mut events = Vec::new();
    let mut sse = Sse::default();
    let mut each = |frame: Frame<'_>| {
        if let Some(data) = frame.data {
            events.push((String::from_utf8(frame.name.to_vec()).unwrap(), String::from_utf8(data.to_vec()).unwrap()));
        }
        true
    };
    for piece in pieces {
        sse.feed(piece, &mut each).unwrap();
    }
    sse.finish(true, &mut each);
    events
}

#[test]
fn an_event_stream_is_read_as_the_web_platform_reads_it() {
    for Case { name, wire, events } in CASES {
        let want: Vec<_> = events.iter().map(|(n, d)| ((*n).to_owned(), (*d).to_owned())).collect();
        let wire = wire.as_bytes();
        assert_eq!(read(&[wire]), want, "{name}");
        assert_eq!(read(&wire.chunks(1).collect::<Vec<_>>()), want, "{name}, byte by byte");
        for cut in 0..=wire.len() {
            assert_eq!(read(&[&wire[..cut], &wire[cut..]]), want, "{name}, cut at {cut}");
        }
    }
}
