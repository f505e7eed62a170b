//! The seeds of `fuzz/seeds`, and random bytes.

use super::*;
use proptest::collection::vec;
use proptest::prelude::*;
use std::path::Path;

#[test]
fn what_each_seed_leads_to_holds() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/transcode");
    let mut count = 0;
    for seed in std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let seed = seed.unwrap().path();
        println!("{}", seed.display());
        transcode(&std::fs::read(seed).unwrap());
        count += 1;
    }
    assert!(count > 0, "{} is empty", folder.display());
}

/// A number in the seven-bit bytes of protobuf.
fn varint(value: usize) -> Vec<u8> {
    let mut out = crate::output::Backward::with_capacity(10);
    out.varint(value as u64);
    out.finish().to_vec()
}

/// Fields of protobuf, which may have fields of their own as values.
fn fields() -> impl Strategy<Value = Vec<u8>> {
    let number =
        (1_usize..46, any::<usize>()).prop_map(|(number, value)| [varint(number << 3), varint(value)].concat());
    let bytes = |(number, bytes): (usize, Vec<u8>)| [varint(number << 3 | 2), varint(bytes.len()), bytes].concat();
    let text = (1_usize..46, "[a-z0-9<é]{0,6}").prop_map(move |(number, text)| bytes((number, text.into_bytes())));
    prop_oneof![number, text].prop_recursive(6, 40, 5, move |inner| {
        (1_usize..20, vec(inner, 0..5)).prop_map(move |(number, inner)| bytes((number, inner.concat())))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn a_message_of_any_bytes_holds(data in vec(any::<u8>(), 0..64)) {
        transcode(&data);
    }

    #[test]
    fn a_message_of_any_fields_holds(message in 0..14_u8, fields in vec(fields(), 0..6)) {
        transcode(&[vec![message], fields.concat()].concat());
    }
}
