//! Which files are made, kept and refused.

use crate::harness::{Bench, DAY, Foreign, day, names, start, text};
use larder_tls::{Authority, ListenerTls};
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

#[test]
fn the_first_start_makes_files_for_their_owner_alone_and_the_next_ones_keep_them() {
    let bench = Bench::new();
    bench.open(start()).unwrap();
    let mode = |name: &str| fs::metadata(bench.file(name)).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode(""), mode("ca.pem"), mode("serving.pem")), (0o700, 0o600, 0o600));
    let files = || ["ca.pem", "serving.pem"].map(|name| text(&bench.file(name)));
    let first = files();
    bench.open(day(30)).unwrap();
    assert_eq!(files(), first);
    assert_eq!(fs::read_dir(bench.file("")).unwrap().count(), 2);
}

#[test]
fn a_serving_certificate_of_before_is_replaced_when_it_is_old_of_other_names_or_of_another_authority() {
    let bench = Bench::new();
    bench.open(start()).unwrap();
    let serving = || text(&bench.file("serving.pem"));
    let first = serving();
    bench.open(day(61)).unwrap();
    let second = serving();
    assert_ne!(second, first, "a third of its life is left");
    let other = names(&["localhost", "10.0.0.7"]);
    ListenerTls::open(bench.options.clone(), "node-1", &other, day(62)).unwrap();
    let third = serving();
    assert_ne!(third, second, "it is for other names");
    ListenerTls::open(bench.options.clone(), "node-1", &names(&["localhost"]), day(62)).unwrap();
    assert_eq!(serving(), third, "addresses that are not known yet are kept");
    fs::remove_file(bench.file("ca.pem")).unwrap();
    bench.open(day(62)).unwrap();
    assert_ne!(serving(), third, "it is of another authority");
}

#[test]
fn a_damaged_or_foreign_file_is_refused_with_what_to_do_and_stays() {
    let bench = Bench::new();
    bench.open(start()).unwrap();
    let (good, serving) = (text(&bench.file("ca.pem")), text(&bench.file("serving.pem")));
    let foreign = Foreign::new("larder on node-2");
    let (key, certificate) = good.split_at(good.find("-----BEGIN CERTIFICATE").unwrap());
    let stranger = Foreign::new("cluster");
    for (name, content, expected) in [
        ("ca.pem", "", "it holds no certificate in PEM"),
        ("ca.pem", "garbage", "it holds no certificate in PEM"),
        ("ca.pem", &good[..good.len() / 2], "it holds no certificate in PEM"),
        ("ca.pem", certificate, "it holds no private key in PEM"),
        ("ca.pem", key, "it holds no certificate in PEM"),
        ("ca.pem", &[key, &foreign.certificate].concat(), "its key does not belong to its certificate"),
        ("ca.pem", &[&stranger.key[..], &stranger.certificate].concat(), "it is not an authority that larder made"),
        ("ca.pem", &serving, "it is not an authority that larder made"),
        ("serving.pem", "garbage", "it holds no certificate in PEM"),
        ("serving.pem", &[key, &foreign.certificate].concat(), "does not belong to the certificate"),
    ] {
        fs::write(bench.file("ca.pem"), &good).unwrap();
        fs::write(bench.file(name), content).unwrap();
        let error = bench.open(start()).unwrap_err().to_string();
        let path = bench.file(name).display().to_string();
        assert!(error.starts_with(&path) && error.contains(expected) && error.contains("remove"), "{error}");
        assert!(!error.contains("PRIVATE KEY"), "{error}");
        assert_eq!(text(&bench.file(name)), content, "it stays");
        fs::write(bench.file("serving.pem"), &serving).unwrap();
    }
}

#[test]
fn links_and_files_that_others_may_read_are_refused() {
    let bench = Bench::new();
    bench.open(start()).unwrap();
    let set = |name: &str, mode| fs::set_permissions(bench.file(name), fs::Permissions::from_mode(mode)).unwrap();
    set("ca.pem", 0o644);
    let error = bench.open(start()).unwrap_err().to_string();
    assert!(error.contains("chmod 600"), "{error}");
    set("ca.pem", 0o600);
    set("", 0o755);
    let error = bench.open(start()).unwrap_err().to_string();
    assert!(error.contains("chmod 700"), "{error}");
    set("", 0o700);
    fs::rename(bench.file("ca.pem"), bench.root.path().join("ca.pem")).unwrap();
    symlink(bench.root.path().join("ca.pem"), bench.file("ca.pem")).unwrap();
    let error = bench.open(start()).unwrap_err().to_string();
    assert!(error.contains("is a link"), "{error}");
}

#[test]
fn what_is_given_is_refused_with_its_path() {
    let mut bench = Bench::new();
    let path = |name: &str| bench.root.path().join(name);
    let foreign = Foreign::new("cluster");
    let (certificate, key) = foreign.issue(&["localhost"], "g");
    fs::write(path("tls.crt"), &certificate).unwrap();
    fs::write(path("other.key"), foreign.issue(&["localhost"], "g").1).unwrap();
    fs::write(path("tls.key"), key).unwrap();
    fs::write(path("empty"), "").unwrap();
    let (crt, good, other, empty, none) =
        (path("tls.crt"), path("tls.key"), path("other.key"), path("empty"), path("none"));
    for (certificate, key, ca, named, expected) in [
        (&none, &good, &crt, &none, "cannot read"),
        (&crt, &none, &crt, &none, "cannot read"),
        (&empty, &good, &crt, &empty, "it holds no certificate in PEM"),
        (&crt, &empty, &crt, &empty, "it holds no private key in PEM"),
        (&crt, &other, &crt, &other, "does not belong to the certificate"),
        (&crt, &good, &none, &none, "cannot read"),
        (&crt, &good, &good, &good, "it holds no certificate in PEM"),
    ] {
        bench.options.cert_file = Some(certificate.clone());
        bench.options.private_key_file = Some(key.clone());
        bench.options.client_ca = Some(ca.clone());
        let error = bench.open(start()).unwrap_err().to_string();
        assert!(error.contains(&named.display().to_string()) && error.contains(expected), "{error}");
    }
    bench.options.cert_file = Some(crt.clone());
    bench.options.private_key_file = Some(good);
    bench.options.client_ca = Some(crt);
    bench.open(start()).unwrap();
    assert!(!bench.options.directory.exists(), "larder needs no authority of its own");
}

#[test]
fn an_authority_is_not_made_by_a_clock_that_is_wrong() {
    let bench = Bench::new();
    let error = bench.open("1970-01-01T00:00:10Z".parse().unwrap()).unwrap_err().to_string();
    assert!(error.contains("set the clock"), "{error}");
    assert!(!bench.file("ca.pem").exists());
}

#[test]
fn no_key_is_in_what_may_be_logged() {
    let bench = Bench::new();
    let tls = bench.open(start()).unwrap();
    let (authority, admin): (Authority, _) = (bench.authority(), bench.admin());
    let shown = format!("{tls:?} {authority:?} {admin:?} {:?}", tls.state(start()));
    assert!(!shown.contains("PRIVATE"), "{shown}");
    let late = bench.authority().issue_client("jane", "g", DAY * 10_000, start()).unwrap();
    assert_eq!(late.not_after, authority.not_after(), "it does not outlast the authority");
}
