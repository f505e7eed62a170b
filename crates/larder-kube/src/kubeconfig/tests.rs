//! What kubeconfigs mean, and how those that are wrong are refused. Each case was compared with `clientcmd`.

use super::*;
use secrecy::ExposeSecret;
use tempfile::TempDir;

/// A folder with a kubeconfig of one cluster and one user, and with files that it can name.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        for name in ["ca.crt", "tls.crt", "tls.key", "token"] {
            std::fs::write(folder.path().join(name), name).unwrap();
        }
        Self(folder)
    }

    fn load(&self, text: &str) -> Result<ClientSettings, String> {
        let path = self.0.path().join("kubeconfig");
        std::fs::write(&path, text).unwrap();
        load(&path, None, &Files::default()).map_err(|error| {
            let error = error.to_string();
            let rest = error.strip_prefix(&format!("kubeconfig {}: ", path.display()));
            rest.unwrap_or_else(|| panic!("it names the file: {error}")).to_owned()
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

/// A kubeconfig with these fields of its cluster and its user.
fn kubeconfig(cluster: &str, user: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: main\ncontexts:\n- name: main\n  context: {{cluster: c, user: u}}\n\
         clusters:\n- name: c\n  cluster: {{{cluster}}}\nusers:\n- name: u\n  user: {{{user}}}\n"
    )
}

fn settings(cluster: &str, user: &str) -> ClientSettings {
    let settings = Folder::new().load(&kubeconfig(cluster, user));
    settings.unwrap_or_else(|problem| panic!("{cluster} {user}: {problem}"))
}

#[test]
fn a_server_without_a_scheme_is_plain_http_without_credentials() {
    for (server, means) in [
        ("127.0.0.1:7461", "http://127.0.0.1:7461/"),
        ("localhost:6443", "http://localhost:6443/"),
        ("example.com", "http://example.com/"),
        ("[::1]:6443", "http://[::1]:6443/"),
        ("https://example.com:6443", "https://example.com:6443/"),
        ("HTTPS://example.com", "https://example.com/"),
        ("https://example.com/k8s/clusters/c-1", "https://example.com/k8s/clusters/c-1"),
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080/"),
    ] {
        let settings = settings(&format!("server: '{server}', tls-server-name: k"), "token: t, as: someone");
        assert_eq!(settings.server.to_string(), means);
        let has_scheme = server.contains("://");
        assert_eq!((settings.user.token.is_some(), settings.tls_server_name.is_some()), (has_scheme, has_scheme));
        assert_eq!(settings.user.impersonate.unwrap().user, "someone");
    }
    for server in ["a b", "example.com/path", "ftp://x", "https://", "https://x:99999", "https://x:y", "://x", "-", ":"]
    {
        let problem = Folder::new().load(&kubeconfig(&format!("server: '{server}'"), "")).err();
        if server != "-" {
            assert!(problem.unwrap().starts_with("server of cluster \"c\": it"), "{server}");
        }
    }
}

#[test]
fn an_empty_field_is_not_set() {
    let folder = Folder::new();
    let cluster = "server: 'https://k', certificate-authority: ca.crt, certificate-authority-data: '', \
                   tls-server-name: '', proxy-url: '', insecure-skip-tls-verify: null, disable-compression:";
    let user = "client-certificate: tls.crt, client-certificate-data: '', client-key: tls.key, client-key-data: '', \
                token: '', tokenFile: '', username: '', password: '', as: '', as-uid: '', as-groups: [], exec: null";
    let settings = folder.load(&kubeconfig(cluster, user)).unwrap_or_else(|problem| panic!("{problem}"));
    assert!(settings.authorities == Some(Blob::File(folder.path("ca.crt"))));
    assert!(settings.user.client_certificate == Some(Blob::File(folder.path("tls.crt"))));
    assert!(settings.user.client_key == Some(Blob::File(folder.path("tls.key"))));
    assert!(settings.tls_server_name.is_none() && settings.proxy_url.is_none() && !settings.insecure_skip_tls_verify);
    let user = settings.user;
    assert!(user.token.is_none() && user.token_file.is_none() && user.username.is_none() && user.password.is_none());
    assert!(user.impersonate.is_none() && user.exec.is_none());
    assert_eq!(settings.namespace, "default");
}

#[test]
fn paths_begin_at_the_folder_of_the_kubeconfig() {
    let folder = Folder::new();
    let user = "tokenFile: ./a/../token, token: t, exec: {apiVersion: client.authentication.k8s.io/v1, \
                interactiveMode: Never, command: ./bin/get, args: [a, null], env: [{name: A, value: b}]}";
    let settings =
        folder.load(&kubeconfig("server: 'https://k', certificate-authority-data: Y2E=", user)).ok().unwrap();
    assert!(settings.authorities == Some(Blob::Inline(Zeroizing::new(b"ca".to_vec()))));
    assert_eq!(settings.user.token_file, Some(folder.path("token")));
    assert_eq!(settings.user.token.unwrap().expose_secret(), "t");
    let exec = settings.user.exec.unwrap();
    assert_eq!(Path::new(&exec.command), folder.path("bin/get"));
    assert_eq!((exec.args, exec.interactive_mode), (vec!["a".to_owned(), String::new()], InteractiveMode::Never));
    assert_eq!((exec.env[0].0.as_str(), exec.env[0].1.expose_secret()), ("A", "b"));
}

#[test]
fn fields_in_another_case_are_unknown_and_the_last_of_two_counts() {
    let settings = settings("server: 'https://a', SERVER: 'https://b', server: 'https://c', x: {y: z}", "Token: t");
    assert_eq!(settings.server.host(), Some("c"));
    assert!(settings.user.token.is_none());
    let json = r#"{"kind": "Config", "clusters": [{"name": "c", "cluster": {"server": "https://j"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c"}}], "current-context": "x"}"#;
    assert_eq!(Folder::new().load(json).ok().unwrap().server.host(), Some("j"));
    let two = format!("{}---\nnot: [closed\n", kubeconfig("server: 'https://first'", ""));
    assert_eq!(Folder::new().load(&two).ok().unwrap().server.host(), Some("first"));
}

#[test]
fn errors_of_clientcmd_name_the_field_and_the_remedy() {
    const EXEC: &str = "apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: c";
    let exec = |fields: &str| format!("exec: {{{fields}}}");
    let cluster = "server: 'https://k'";
    for (cluster, user, says) in [
        ("", "", "cluster \"c\" has no server"),
        ("server: ''", "", "cluster \"c\" has no server"),
        ("server: [x]", "", "clusters[0].cluster.server: a list where a string belongs, at line 9 column 21"),
        ("server: 5", "", "clusters[0].cluster.server: a number where a string belongs; put it in quotes"),
        (
            "server: 'https://k', insecure-skip-tls-verify: 'yes'",
            "",
            "insecure-skip-tls-verify: a string where a boolean belongs; write it without quotes",
        ),
        (
            "server: 'https://k', certificate-authority: ca.crt, certificate-authority-data: eA==",
            "",
            "cluster \"c\" sets both certificate-authority and certificate-authority-data; remove one",
        ),
        (
            "server: 'https://k', certificate-authority-data: eA==, insecure-skip-tls-verify: true",
            "",
            "sets insecure-skip-tls-verify and a certificate-authority; remove one",
        ),
        ("server: 'https://k', certificate-authority-data: '!'", "", "certificate-authority-data: it is not base64"),
        ("server: 'https://k', certificate-authority: none.crt", "", "certificate authority "),
        (cluster, "client-certificate: tls.crt", "client certificate without a key; set client-key"),
        (cluster, "client-certificate: tls.crt, client-key: no.key", "client key "),
        (cluster, "client-certificate: tls.crt, client-key: tls.key, client-key-data: eA==", "both client-key and"),
        (cluster, "token: t, username: name", "both a token and a username or password"),
        (cluster, "token: t, password: word", "both a token and a username or password"),
        (cluster, "token: 31337", "users[0].user.token: a number where a string belongs"),
        (cluster, "tokenFile: none", "token "),
        (cluster, "as-uid: x", "without a user; set as"),
        (cluster, "auth-provider: {name: gcp}", "auth-provider (\"gcp\"), which Kubernetes has removed"),
        (cluster, &exec("command: c"), "exec has no apiVersion"),
        (cluster, &exec("apiVersion: client.authentication.k8s.io/v1"), "exec has no command"),
        (cluster, &exec("apiVersion: client.authentication.k8s.io/v1, command: c"), "set interactiveMode"),
        (cluster, &exec("apiVersion: client.authentication.k8s.io/v1alpha1, command: c"), "exec has an apiVersion"),
        (cluster, &exec(&format!("{EXEC}, env: [{{value: '31337'}}]")), "exec has no name for one of its env"),
        (cluster, &exec(&format!("{EXEC}, args: c")), "users[0].user.exec.args: a string where a list belongs"),
    ] {
        let problem = Folder::new().load(&kubeconfig(cluster, user)).err();
        let problem = problem.unwrap_or_else(|| panic!("{cluster} {user} is taken"));
        assert!(problem.contains(says) && !problem.contains("31337"), "{cluster} {user}: {problem}");
    }
}

#[test]
fn a_file_that_is_no_kubeconfig_is_refused_with_the_place() {
    for (text, says) in [
        ("", "it sets no current-context"),
        ("# nothing\n", "it sets no current-context"),
        ("null", "it sets no current-context"),
        ("[]", "it is not a map of fields, at line 1 column 1"),
        ("a: [", "not valid"),
        ("a: b\n c: d\n", "line 2"),
        ("kind: Pod", "kind: a kubeconfig has Config here, at line 1 column 7"),
        ("apiVersion: v2", "apiVersion: a kubeconfig has v1 here"),
        ("current-context: gone\ncontexts: [{name: here}]", "no context \"gone\"; it has here"),
        ("current-context: x\ncontexts: [{name: x}, {name: x}]", "two entries have the name \"x\""),
        ("contexts: {name: x}", "contexts: a map where a list belongs, at line 1 column 11"),
        ("current-context: x\ncontexts: [{name: x}]", "cluster \"\" has no server"),
        ("users: [{name: u, user: {token: *31337}}]", "an alias to an anchor that is not there"),
        ("a: \u{1}", "a control character"),
    ] {
        let problem = Folder::new().load(text).err().unwrap_or_else(|| panic!("{text:?} is taken"));
        assert!(problem.contains(says) && !problem.contains("31337"), "{text:?}: {problem}");
    }
    let missing = load(Path::new("/none/kubeconfig"), None, &Files::default()).err().unwrap().to_string();
    assert!(missing.contains("/none/kubeconfig") && missing.contains("--kubeconfig"), "{missing}");
}
