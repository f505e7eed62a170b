//! New serving certificates while the listener runs.

use crate::harness::{Bench, Foreign, Peer, day, names, start, text};
use larder_tls::Refreshed;
use std::fs;

const NEW: Refreshed = Refreshed { serving: true, clients: false };
const SAME: Refreshed = Refreshed { serving: false, clients: false };

#[test]
fn the_own_certificate_is_renewed_before_its_end_and_open_connections_go_on() {
    let bench = Bench::new();
    let tls = bench.open(start()).unwrap();
    let peer = Peer::new(bench.authority().certificate_pem(), None);
    let mut open = peer.connect(&tls, "localhost", start()).unwrap();
    assert_eq!(tls.refresh(&tls.names(), day(59)), SAME);
    assert_eq!(tls.refresh(&tls.names(), day(61)), NEW);
    assert_eq!(tls.refresh(&tls.names(), day(61)), SAME);
    let after = peer.connect(&tls, "localhost", day(120)).unwrap();
    assert_ne!(after.served(), open.served());
    assert!(open.carries("hello"));
    assert_eq!(tls.state(day(61)).not_after, day(151));
    drop(tls);
    let again = bench.open(day(61)).unwrap();
    assert_eq!(peer.connect(&again, "localhost", day(61)).unwrap().served(), after.served(), "it is in the folder");
}

#[test]
fn the_own_certificate_follows_the_addresses_of_the_node() {
    let bench = Bench::new();
    let tls = bench.open(start()).unwrap();
    let peer = Peer::new(bench.authority().certificate_pem(), None);
    assert!(peer.connect(&tls, "10.0.0.7", start()).is_err());
    let wanted = names(&["localhost", "127.0.0.1", "10.0.0.7", "node-1"]);
    assert_eq!(tls.refresh(&wanted, start()), NEW);
    assert_eq!(tls.state(start()).names, wanted);
    for name in ["10.0.0.7", "node-1"] {
        peer.connect(&tls, name, start()).unwrap();
    }
    assert_eq!(tls.refresh(&names(&["localhost"]), start()), NEW);
    assert!(peer.connect(&tls, "10.0.0.7", start()).is_err());
}

#[test]
fn a_certificate_that_cannot_be_written_serves_from_memory_until_it_can() {
    let bench = Bench::new();
    let tls = bench.open(start()).unwrap();
    let file = bench.file("serving.pem");
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    assert_eq!(tls.refresh(&tls.names(), day(61)), NEW);
    let problems = tls.state(day(61)).problems.join("\n");
    assert!(problems.contains("serving.pem is a directory") && problems.contains("only in memory"), "{problems}");
    assert_eq!(tls.state(day(61)).not_after, day(151));
    fs::remove_dir(&file).unwrap();
    assert_eq!(tls.refresh(&tls.names(), day(62)), SAME);
    assert_eq!(tls.state(day(62)).problems, Vec::<String>::new());
    assert!(text(&file).contains("BEGIN CERTIFICATE"));
}

#[test]
fn files_that_are_given_are_read_again_and_what_cannot_be_used_is_a_problem() {
    let mut bench = Bench::new();
    let (crt, key) = (bench.root.path().join("tls.crt"), bench.root.path().join("tls.key"));
    let authority = Foreign::new("cluster");
    let write = |(certificate, private): &(String, String)| {
        fs::write(&crt, certificate).unwrap();
        fs::write(&key, private).unwrap();
    };
    let [first, second, third] = [(); 3].map(|()| authority.issue(&["localhost"], "g"));
    write(&first);
    (bench.options.cert_file, bench.options.private_key_file) = (Some(crt.clone()), Some(key.clone()));
    let tls = bench.open(start()).unwrap();
    let peer = Peer::new(&authority.certificate, None);
    let mut open = peer.connect(&tls, "localhost", start()).unwrap();
    let before = open.served();
    let refresh = || tls.refresh(&names(&["elsewhere"]), start());
    let problems = || tls.state(start()).problems.join("\n");
    assert_eq!(refresh(), SAME);

    write(&second);
    assert_eq!(refresh(), NEW);
    let served = || peer.connect(&tls, "localhost", start()).unwrap().served();
    let now = served();
    assert_ne!(now, before);
    assert!(open.carries("hello"));

    // Somebody writes one file after the other.
    write(&(third.0.clone(), second.1.clone()));
    assert_eq!(refresh(), SAME);
    assert!(problems().contains("does not belong to the certificate"), "{}", problems());
    assert_eq!(served(), now, "the certificate before stays");
    fs::remove_file(&crt).unwrap();
    assert_eq!(refresh(), SAME);
    assert!(problems().contains(&format!("cannot read {}", crt.display())), "{}", problems());
    write(&third);
    assert_eq!(refresh(), NEW);
    assert_eq!(problems(), "");
    assert_ne!(served(), now);
}

#[test]
fn an_end_that_larder_cannot_put_off_is_a_problem() {
    let bench = Bench::new();
    let tls = bench.open(start()).unwrap();
    assert_eq!(tls.state(day(10 * 365 - 31)).problems.len(), 1, "{:?}", tls.state(day(10 * 365 - 31)).problems);
    let at = day(10 * 365 - 29);
    assert_eq!(tls.refresh(&tls.names(), at), NEW);
    assert_eq!(tls.refresh(&tls.names(), day(10 * 365 - 1)), SAME, "it lasts as long as the authority");
    let problems = tls.state(at).problems.join("\n");
    assert!(problems.contains("larder's own authority ends at") && !problems.contains("expired"), "{problems}");
}
