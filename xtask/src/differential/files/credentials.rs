//! Certificates, keys and tokens that kubeconfigs name: of every kind, and in files that are odd.

use super::super::oracle;
use anyhow::{Context as _, Result};
use k8s_openapi::ByteString;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt as _, seq::IndexedRandom as _};
use serde_json::Value;
use std::collections::HashMap;
use std::path::Path;

/// Kinds of keys, and how often each comes. Larder cannot use all of them.
const KINDS: [(&str, u32); 9] = [
    ("p224", 1),
    ("p256", 5),
    ("p384", 3),
    ("p521", 1),
    ("ed25519", 3),
    ("rsa1024", 1),
    ("rsa2048", 4),
    ("rsa4096", 1),
    // The shortest in steps of 64 bits that larder cannot sign with.
    ("rsa4160", 1),
];

/// What a certificate is beside one of X.509 version 3 that is its own authority: see `oracle/certificates.go`.
const SPECIAL: [&str; 4] = ["v1", "expired", "server", "critical"];

/// The kind that odd files are made of; [`OTHER`] stands beside it.
const MAIN: &str = "p256";
const OTHER: &str = "rsa2048";

/// A file of the folder.
struct File {
    name: String,
    text: String,
}

/// Everything that kubeconfigs name. It is made once, because RSA keys take long.
pub(super) struct Credentials {
    /// Certificates and keys by their kind.
    kinds: HashMap<&'static str, Pairs>,
    odd: Pairs,
}

/// Certificates and keys, of which each fits each.
#[derive(Default)]
struct Pairs {
    certificates: Vec<File>,
    keys: Vec<File>,
}

/// What a kubeconfig gets of a file.
pub(super) enum Named {
    File(String),
    /// As the field that ends with `-data` has it.
    Data(String),
}

impl Credentials {
    /// Has the oracle make them, and writes them into the folder.
    pub(super) fn write(program: &Path, folder: &Path) -> Result<Self> {
        let mut kinds = HashMap::new();
        for (kind, _) in KINDS {
            kinds.insert(kind, Pairs::default());
        }
        let named = |(kind, _): (&'static str, u32)| {
            let special = SPECIAL.map(|special| (kind, format!("{kind}-{special}")));
            std::iter::once((kind, kind.to_owned())).chain(special)
        };
        let asked: Vec<(&str, String)> = KINDS.into_iter().flat_map(named).collect();
        let lines: Vec<String> = asked.iter().map(|(_, name)| format!("\"{name}\"")).collect();
        let mut texts = HashMap::new();
        for ((kind, name), answer) in asked.iter().zip(oracle::answer_lines(program, "certificates", &lines)?) {
            let answer: Value = serde_json::from_str(&answer)?;
            let text = |field: &str| answer[field].as_str().map(str::to_owned);
            let certificate = text("certificate").with_context(|| format!("no certificate in {answer}"))?;
            let pairs = kinds.entry(kind).or_default();
            pairs.certificates.push(file(&format!("{name}.crt"), &certificate));
            if name == kind {
                let key = text("key").with_context(|| format!("no key in {answer}"))?;
                pairs.keys.push(file(&format!("{name}.key"), &key));
                texts.insert(*kind, [certificate, key]);
                // PKCS#1 or SEC1.
                pairs.keys.extend(text("own_key").map(|key| file(&format!("{name}-own.key"), &key)));
            }
        }
        let own_key = kinds[MAIN].keys.last().map(|file| file.text.clone()).unwrap_or_default();
        let other_own_key = kinds[OTHER].keys.last().map(|file| file.text.clone()).unwrap_or_default();
        let odd = Pairs { certificates: certificates(&texts), keys: keys(&texts, &own_key, &other_own_key) };
        let [certificate, key] = &texts[MAIN];
        let plain = [("ca.crt", &**certificate), ("tls.crt", certificate), ("tls.key", key), ("token", "t\n")];
        let made = Self { kinds, odd };
        let all = made.kinds.values().chain([&made.odd]).flat_map(|pairs| pairs.certificates.iter().chain(&pairs.keys));
        for (name, text) in all.map(|file| (&*file.name, &*file.text)).chain(plain) {
            std::fs::write(folder.join(name), text)?;
        }
        Ok(made)
    }

    /// A certificate authority.
    pub(super) fn authority(&self, random: &mut Xoshiro256PlusPlus) -> Named {
        let pairs = self.pairs(random);
        named(random, &pairs.certificates)
    }

    /// A certificate of a client and a key, which usually fits.
    pub(super) fn client(&self, random: &mut Xoshiro256PlusPlus) -> [Named; 2] {
        let of_certificate = self.pairs(random);
        let of_key = match random.random_range(0..10) {
            0..8 => of_certificate,
            8 => &self.kinds[MAIN],
            _ => self.pairs(random),
        };
        [named(random, &of_certificate.certificates), named(random, &of_key.keys)]
    }

    fn pairs(&self, random: &mut Xoshiro256PlusPlus) -> &Pairs {
        if random.random_bool(0.2) {
            return &self.odd;
        }
        let kind = KINDS.choose_weighted(random, |(_, weight)| *weight).map_or(MAIN, |(kind, _)| kind);
        &self.kinds[kind]
    }
}

fn named(random: &mut Xoshiro256PlusPlus, files: &[File]) -> Named {
    let Some(file) = files.choose(random) else { return Named::File("none".to_owned()) };
    if random.random_bool(0.6) { Named::File(file.name.clone()) } else { Named::Data(base64(&file.text)) }
}

fn base64(text: &str) -> String {
    let encoded = serde_json::to_value(ByteString(text.as_bytes().to_vec())).unwrap_or_default();
    encoded.as_str().unwrap_or_default().to_owned()
}

fn file(name: &str, text: &str) -> File {
    File { name: name.to_owned(), text: text.to_owned() }
}

/// The second line of a block, or another, in another form.
fn change_line(block: &str, at: usize, change: impl Fn(&str) -> String) -> String {
    block.lines().enumerate().map(|(line, text)| if line == at { change(text) } else { format!("{text}\n") }).collect()
}

fn each_line(block: &str, change: impl Fn(&str) -> String) -> String {
    block.lines().map(|line| change(line) + "\n").collect()
}

/// A block without its last line.
fn cut(block: &str) -> String {
    let end = block.trim_end().rfind('\n').map_or(0, |at| at + 1);
    block[..end].to_owned()
}

fn relabelled(block: &str, from: &str, to: &str) -> String {
    block.replace(&format!(" {from}-----"), &format!(" {to}-----"))
}

/// What both certificates and keys come in; `other` is another block.
fn odd(name: &str, kind: &str, one: &str, other: &str) -> Vec<File> {
    let body: String = one.lines().filter(|line| !line.starts_with('-')).collect();
    let (first, last) = (one.lines().next().unwrap_or_default(), one.lines().last().unwrap_or_default());
    let garbage = format!("{first}\naGVsbG8=\n{last}\n");
    let damaged = |block: &str| change_line(block, 1, |line| format!("!{line}\n"));
    let forms = [
        ("empty", String::new()),
        ("text", "no PEM at all\n".to_owned()),
        ("several", format!("{one}{other}")),
        ("comments", format!("before: it\n{one}between\n\n{other}after")),
        ("crlf", one.replace('\n', "\r\n")),
        ("cr", one.replace('\n', "\r")),
        ("headers", change_line(one, 0, |line| format!("{line}\nName: value\n\n"))),
        (
            "encrypted",
            change_line(one, 0, |line| format!("{line}\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,0\n\n")),
        ),
        ("cut", cut(one)),
        ("cut-first", format!("{}{one}", cut(other))),
        ("cut-last", format!("{one}{}", cut(other))),
        ("damaged", damaged(one)),
        ("damaged-first", format!("{}{one}", damaged(other))),
        ("garbage", garbage.clone()),
        ("garbage-first", format!("{garbage}{one}")),
        ("garbage-last", format!("{one}{garbage}")),
        ("no-data", format!("{first}\n{last}\n")),
        ("short", change_line(one, 1, |_| String::new())),
        ("one-line", format!("{first}\n{body}\n{last}\n")),
        ("no-newline", one.trim_end().to_owned()),
        ("spaces", each_line(one, |line| format!("{line} \t"))),
        ("inner-spaces", each_line(one, |line| line.replace('A', " A"))),
        ("indented", each_line(one, |line| format!("  {line}"))),
        ("byte-order-mark", format!("\u{feff}{one}")),
        ("text-after-end", format!("{} text\n", one.trim_end())),
        ("other-end", one.replace("-----END ", "-----END OTHER ")),
        ("lower-case", one.to_lowercase()),
    ];
    forms.into_iter().map(|(form, text)| file(&format!("{name}-{form}.{kind}"), &text)).collect()
}

fn certificates(texts: &HashMap<&str, [String; 2]>) -> Vec<File> {
    let [certificate, key] = &texts[MAIN];
    let of = |kind: &str| &*texts[kind][0];
    let mut files = odd("odd", "crt", certificate, of(OTHER));
    files.extend([
        file("with-key.crt", &format!("{key}{certificate}")),
        file("trusted.crt", &relabelled(certificate, "CERTIFICATE", "TRUSTED CERTIFICATE")),
        file("x509.crt", &relabelled(certificate, "CERTIFICATE", "X509 CERTIFICATE")),
        file("unusable.crt", &format!("{}{}{}", of("p521"), of("rsa1024"), of("p224"))),
        file("unusable-first.crt", &format!("{}{certificate}", of("p521"))),
        file("key-alone.crt", key),
    ]);
    files
}

fn keys(texts: &HashMap<&str, [String; 2]>, own_key: &str, other_own_key: &str) -> Vec<File> {
    let [certificate, key] = &texts[MAIN];
    let mut files = odd("odd", "key", key, &texts[OTHER][1]);
    files.extend(odd("odd-own", "key", own_key, key));
    files.extend([
        file("with-certificate.key", &format!("{certificate}{key}")),
        file("certificate-alone.key", certificate),
        // As openssl writes it.
        file(
            "parameters.key",
            &format!("-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n{own_key}"),
        ),
        file("own-as-pkcs8.key", &relabelled(own_key, "EC PRIVATE KEY", "PRIVATE KEY")),
        file("own-as-rsa.key", &relabelled(own_key, "EC PRIVATE KEY", "RSA PRIVATE KEY")),
        file("pkcs8-as-own.key", &relabelled(key, "PRIVATE KEY", "EC PRIVATE KEY")),
        file("pkcs8-as-any.key", &relabelled(key, "PRIVATE KEY", "ANY PRIVATE KEY")),
        file("rsa-as-pkcs8.key", &relabelled(other_own_key, "RSA PRIVATE KEY", "PRIVATE KEY")),
        file("labelled-encrypted.key", &relabelled(key, "PRIVATE KEY", "ENCRYPTED PRIVATE KEY")),
        file("public.key", &relabelled(key, "PRIVATE KEY", "PUBLIC KEY")),
        file("no-space.key", &relabelled(key, "PRIVATE KEY", "XPRIVATE KEY")),
    ]);
    files
}
