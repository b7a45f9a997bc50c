//! Certificates of one test, made with the `openssl` command, and whoever vouches
//! for them.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

/// Somebody who vouches for others.
pub(crate) struct Authority(TempDir);

/// The files of a certificate, and of its key.
pub(crate) struct Certificate {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let authority = Self(tempfile::tempdir().expect("there is a temporary directory"));
        authority.make("ca", "basicConstraints = critical, CA:TRUE\nkeyUsage = keyCertSign");
        authority
    }

    /// Returns the certificate to trust.
    pub(crate) fn certificate(&self) -> PathBuf {
        self.files("ca").certificate
    }

    /// Vouches for a server with this name, as `IP:127.0.0.1`.
    pub(crate) fn server(&self, name: &str) -> Certificate {
        let own = format!("extendedKeyUsage = serverAuth\nsubjectAltName = {name}");
        self.make("server", &format!("basicConstraints = CA:FALSE\n{own}"))
    }

    /// Vouches for servers with these names that connect to each other.
    pub(crate) fn routes(&self, names: &str) -> Certificate {
        let own = format!("extendedKeyUsage = serverAuth, clientAuth\nsubjectAltName = {names}");
        self.make("route", &format!("basicConstraints = CA:FALSE\n{own}"))
    }

    /// Vouches for somebody who connects.
    pub(crate) fn client(&self) -> Certificate {
        self.make("client", "basicConstraints = CA:FALSE\nextendedKeyUsage = clientAuth")
    }

    fn files(&self, name: &str) -> Certificate {
        let file = |end: &str| self.0.path().join(format!("{name}.{end}"));
        Certificate { certificate: file("pem"), key: file("key") }
    }

    /// Makes a certificate with these extensions; the first one vouches for itself.
    fn make(&self, name: &str, extensions: &str) -> Certificate {
        let (ca, made) = (self.files("ca"), self.files(name));
        let configuration = self.0.path().join(format!("{name}.conf"));
        let request = "[req]\nprompt = no\ndistinguished_name = who\nx509_extensions = own";
        let text = format!("{request}\n[who]\nCN = {name} of a test\n[own]\n{extensions}\n");
        fs::write(&configuration, text).expect("it is ours");
        let mut command = Command::new("openssl");
        command
            .args(["req", "-x509", "-nodes", "-days", "2", "-newkey", "ec"])
            .args(["-pkeyopt", "ec_paramgen_curve:prime256v1", "-config"])
            .arg(&configuration)
            .arg("-keyout")
            .arg(&made.key)
            .arg("-out")
            .arg(&made.certificate);
        if ca.certificate.exists() {
            command.arg("-CA").arg(&ca.certificate).arg("-CAkey").arg(&ca.key);
        }
        let output = command.output().expect("`openssl` from 3.0 on is in `PATH`");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        made
    }
}
