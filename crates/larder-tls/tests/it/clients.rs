//! Who a client is.

use crate::harness::{Bench, DAY, Foreign, Peer, day, start};
use larder_tls::{Client, Subject};

fn known(name: &str, group: &str, is_admin: bool, days: i64) -> Client {
    let subject = Subject { name: name.to_owned(), groups: vec![group.to_owned()] };
    Client::Known { subject, is_admin, until: day(days) }
}

fn refused(why: &str) -> Client {
    Client::Refused { why: why.to_owned() }
}

#[test]
fn only_a_certificate_of_the_admins_group_makes_an_admin() {
    let bench = Bench::new();
    let tls = bench.open(start()).unwrap();
    let authority = bench.authority();
    let trusts = authority.certificate_pem();
    let issue = |group| authority.issue_client("jane", group, DAY, start()).unwrap();
    let identity = |peer: &Peer| peer.connect(&tls, "localhost", start()).unwrap().identity;

    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        for alpn in [&b"h2"[..], b"http/1.1"] {
            let peer = Peer { version, alpn, ..Peer::new(trusts, Some(&issue("larder:admins"))) };
            let open = peer.connect(&tls, "127.0.0.1", start()).unwrap();
            assert_eq!(open.identity, known("jane", "larder:admins", true, 1));
            assert_eq!(open.server.alpn_protocol(), Some(alpn));
        }
    }
    for group in ["larder:admins2", "larder:admin", "system:masters", ""] {
        assert_eq!(identity(&Peer::new(trusts, Some(&issue(group)))), known("jane", group, false, 1));
    }
    assert_eq!(identity(&Peer::new(trusts, None)), Client::Anonymous);
    let foreign = Foreign::new("larder on node-1").issue(&[], "larder:admins");
    let peer = Peer { shows: Some(foreign), ..Peer::new(trusts, None) };
    assert_eq!(identity(&peer), refused("its authority is neither larder's own nor one of --client-ca"));
    // The serving certificate is of the same authority.
    let pem = std::fs::read_to_string(bench.file("serving.pem")).unwrap();
    let peer = Peer { shows: Some((pem.clone(), pem)), ..Peer::new(trusts, None) };
    assert_eq!(identity(&peer), refused("it is not a client's certificate"));
}

#[test]
fn a_certificate_counts_only_while_it_is_valid() {
    let bench = Bench::new();
    let tls = bench.open(start()).unwrap();
    let admin = bench.authority().issue_client("jane", "larder:admins", DAY, day(2)).unwrap();
    let peer = Peer::new(bench.authority().certificate_pem(), Some(&admin));
    for (at, expected) in [
        (day(1), refused("it is not valid yet: compare the clocks of the two machines")),
        (day(2), known("jane", "larder:admins", true, 3)),
        (day(4), refused("it has expired")),
    ] {
        assert_eq!(peer.connect(&tls, "localhost", at).unwrap().identity, expected);
    }
}

#[test]
fn clients_of_another_authority_are_let_in_while_its_file_says_so() {
    let mut bench = Bench::new();
    let path = bench.root.path().join("client-ca.crt");
    let (first, second) = (Foreign::new("one"), Foreign::new("two"));
    let write = |text: &str| std::fs::write(&path, text).unwrap();
    write(&first.certificate);
    bench.options.client_ca = Some(path.clone());
    let tls = bench.open(start()).unwrap();
    let trusts = bench.authority().certificate_pem().to_owned();
    let is_admin = |of: &Foreign| {
        let shows = Some(of.issue(&[], "larder:admins"));
        let open = Peer { shows, ..Peer::new(&trusts, None) }.connect(&tls, "localhost", start()).unwrap();
        matches!(open.identity, Client::Known { is_admin: true, .. })
    };
    let own_is_admin = || {
        let open = Peer::new(&trusts, Some(&bench.admin())).connect(&tls, "localhost", start()).unwrap();
        matches!(open.identity, Client::Known { is_admin: true, .. })
    };
    let refresh = || tls.refresh(&tls.names(), start()).clients;
    assert_eq!((is_admin(&first), is_admin(&second), own_is_admin()), (true, false, true));
    assert!(!refresh());
    write(&second.certificate);
    assert!(refresh());
    assert_eq!((is_admin(&first), is_admin(&second), own_is_admin()), (false, true, true));

    write("garbage");
    assert!(!refresh());
    let problems = tls.state(start()).problems.join("\n");
    assert!(problems.contains(&path.display().to_string()) && problems.contains("no certificate in PEM"), "{problems}");
    assert!(is_admin(&second), "the authorities before stay");
    std::fs::remove_file(&path).unwrap();
    assert!(!refresh());
    assert!(tls.state(start()).problems.join("\n").contains("cannot read"));
    write(&second.certificate);
    assert!(refresh());
    assert_eq!(tls.state(start()).problems, Vec::<String>::new());
    assert_eq!((is_admin(&second), own_is_admin()), (true, true));
}
