//! Keys, certificates, tokens and kubeconfig files of a run, all made on the spot.

use anyhow::Result;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose, SanType};
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

/// The bearer token of the administrator (group `system:masters`).
pub const ADMIN_TOKEN: &str = "testbed-admin";
/// The bearer token of the node (user `system:node:NAME`, group `system:nodes`).
pub const NODE_TOKEN: &str = "testbed-node";

/// Where a run's credentials are.
#[derive(Clone, Debug)]
pub struct Credentials {
    /// The certificate authority of the API server.
    pub ca: PathBuf,
    /// The API server's certificate, for 127.0.0.1 and localhost.
    pub server_certificate: PathBuf,
    /// Its key.
    pub server_key: PathBuf,
    /// The key that signs service account tokens.
    pub service_account_key: PathBuf,
    /// The key that checks them.
    pub service_account_public_key: PathBuf,
    /// The tokens that the API server takes.
    pub tokens: PathBuf,
    /// The administrator's kubeconfig.
    pub admin_kubeconfig: PathBuf,
    /// The node's kubeconfig.
    pub node_kubeconfig: PathBuf,
}

impl Credentials {
    /// The credentials in a run's folder, whether or not they are written yet.
    pub fn at(folder: &Path) -> Self {
        Self {
            ca: folder.join("ca.crt"),
            server_certificate: folder.join("server.crt"),
            server_key: folder.join("server.key"),
            service_account_key: folder.join("service-account.key"),
            service_account_public_key: folder.join("service-account.pub"),
            tokens: folder.join("tokens.csv"),
            admin_kubeconfig: folder.join("admin.kubeconfig"),
            node_kubeconfig: folder.join("node.kubeconfig"),
        }
    }

    /// Makes and writes them.
    ///
    /// # Errors
    ///
    /// When the folder cannot be written.
    pub fn write(&self, node_name: &str, server: &str) -> Result<()> {
        let mut authority = CertificateParams::default();
        authority.distinguished_name.push(DnType::CommonName, "larder testbed");
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;
        let mut leaf = CertificateParams::new(vec!["localhost".to_owned()])?;
        leaf.subject_alt_names.push(SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST)));
        leaf.distinguished_name.push(DnType::CommonName, "kube-apiserver");
        let leaf_key = KeyPair::generate()?;
        let leaf = leaf.signed_by(&leaf_key, &authority)?;
        fs::write(&self.ca, authority.pem())?;
        fs::write(&self.server_certificate, leaf.pem())?;
        fs::write(&self.server_key, leaf_key.serialize_pem())?;
        let service_account = KeyPair::generate()?;
        fs::write(&self.service_account_key, service_account.serialize_pem())?;
        fs::write(&self.service_account_public_key, service_account.public_key_pem())?;
        let tokens = format!(
            "{ADMIN_TOKEN},admin,admin,system:masters\n{NODE_TOKEN},system:node:{node_name},{node_name},system:nodes\n"
        );
        fs::write(&self.tokens, tokens)?;
        fs::write(&self.admin_kubeconfig, self.kubeconfig("admin", ADMIN_TOKEN, server))?;
        fs::write(&self.node_kubeconfig, self.kubeconfig("node", NODE_TOKEN, server))?;
        Ok(())
    }

    fn kubeconfig(&self, user: &str, token: &str, server: &str) -> String {
        format!(
            "apiVersion: v1\n\
             kind: Config\n\
             clusters:\n\
             - name: testbed\n  \
               cluster:\n    \
                 server: {server}\n    \
                 certificate-authority: {}\n\
             users:\n\
             - name: {user}\n  \
               user:\n    \
                 token: {token}\n\
             contexts:\n\
             - name: testbed\n  \
               context:\n    \
                 cluster: testbed\n    \
                 user: {user}\n\
             current-context: testbed\n",
            self.ca.display()
        )
    }
}
