//! Damaged files: whatever the bytes, the loader answers with a model or an error, and never panics.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, clippy::print_stderr)]

mod onnx_common;

use std::path::Path;

use onnx_common::rich;
use prost::Message;
use qnnc::onnx::load_bytes;

/// A small generator of numbers (xorshift), so that every run damages alike.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n as u64) as usize
    }
}

fn survive(bytes: Vec<u8>) -> bool {
    load_bytes(Path::new("m.onnx"), bytes.into()).is_ok()
}

#[test]
fn cut_at_every_byte() {
    let whole = rich().encode_to_vec();
    assert!(survive(whole.clone()));
    for len in 0..whole.len() {
        survive(whole[..len].to_vec());
    }
}

#[test]
fn every_byte_changed() {
    let whole = rich().encode_to_vec();
    for at in 0..whole.len() {
        for change in [0x01, 0x04, 0x80, 0xff] {
            let mut bytes = whole.clone();
            bytes[at] ^= change;
            survive(bytes);
        }
    }
}

#[test]
fn bytes_changed_removed_repeated_at_random() {
    let whole = rich().encode_to_vec();
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    let mut loaded = 0;
    for _ in 0..4000 {
        let mut bytes = whole.clone();
        for _ in 0..=numbers.below(4) {
            let at = numbers.below(bytes.len());
            match numbers.below(4) {
                0 => bytes[at] = numbers.below(256) as u8,
                1 => drop(bytes.remove(at)),
                2 => bytes.insert(at, numbers.below(256) as u8),
                _ => {
                    let end = (at + numbers.below(64)).min(bytes.len());
                    let piece = bytes[at..end].to_vec();
                    let to = numbers.below(bytes.len());
                    bytes.splice(to..to, piece);
                }
            }
        }
        loaded += usize::from(survive(bytes));
    }
    assert!(loaded > 0, "no damaged model loads: the damage is too coarse to test the loader");
}

#[test]
fn messages_nested_without_end() {
    let wrap = |tag: u8, mut content: Vec<u8>| {
        let mut out = vec![tag];
        prost::encoding::encode_varint(content.len() as u64, &mut out);
        out.append(&mut content);
        out
    };
    // A graph in an attribute of a node of a graph in an attribute ...: fields 6, 5 and 1.
    let graphs = (0..2000).fold(vec![], |inner, _| wrap(0x0a, wrap(0x2a, wrap(0x32, inner))));
    // An input whose type is a sequence of sequences of ...: fields 1 and 4, under 2 and 11.
    let types = (0..3000).fold(vec![], |inner, _| wrap(0x22, wrap(0x0a, inner)));
    for graph in [graphs, wrap(0x5a, wrap(0x12, types))] {
        assert!(!survive(wrap(0x3a, graph)));
    }
}
