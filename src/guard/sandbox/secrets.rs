//! What of a home directory no confined command gets to see.

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Paths below home whose content gives power elsewhere, each with what it is.
pub(in crate::guard) const IN_HOME: &[(&str, &str)] = &[
    (".ssh", "keys that open other machines"),
    (".gnupg", "keys that sign and decrypt, and the socket of their agent"),
    (".aws", "keys of a cloud"),
    (".azure", "tokens of a cloud"),
    (".config/gcloud", "tokens of a cloud"),
    (".oci", "keys of a cloud"),
    (".config/doctl", "tokens of a cloud"),
    (".config/hcloud", "tokens of a cloud"),
    (".kube", "keys of clusters"),
    (".docker", "tokens of registries, and the socket of a rootless daemon"),
    (".config/containers", "tokens of registries"),
    (".config/gh", "tokens of code hosts"),
    (".config/glab-cli", "tokens of code hosts"),
    (".config/hub", "tokens of code hosts"),
    (".git-credentials", "passwords of code hosts"),
    (".config/git/credentials", "passwords of code hosts"),
    (".netrc", "passwords of anything"),
    (".npmrc", "tokens that publish packages"),
    (".yarnrc.yml", "tokens that publish packages"),
    (".pypirc", "tokens that publish packages"),
    (".gem/credentials", "tokens that publish packages"),
    (".cargo/credentials.toml", "tokens that publish packages"),
    (".cargo/credentials", "tokens that publish packages"),
    (".m2/settings-security.xml", "the password of other passwords"),
    (".terraform.d", "tokens of a cloud"),
    (".terraformrc", "tokens of a cloud"),
    (".vault-token", "a token that opens other secrets"),
    (".password-store", "passwords"),
    (".local/share/keyrings", "passwords"),
    (".local/share/kwalletd", "passwords"),
    (".config/op", "tokens of a password store"),
    (".pgpass", "passwords of databases"),
    (".my.cnf", "passwords of databases"),
    (".mozilla", "cookies and passwords of a browser"),
    (".config/google-chrome", "cookies and passwords of a browser"),
    (".config/chromium", "cookies and passwords of a browser"),
    (".config/BraveSoftware", "cookies and passwords of a browser"),
    (".thunderbird", "mail and its passwords"),
    (".bash_history", "what was typed, passwords among it"),
    (".zsh_history", "what was typed, passwords among it"),
    (".claude/.credentials.json", "tokens of a model provider"),
    (".codex/auth.json", "tokens of a model provider"),
    (".gemini/oauth_creds.json", "tokens of a model provider"),
    (".config/anthropic", "tokens of a model provider"),
];

/// Returns what is hidden of `home`: what may be there, going by the names in
/// it. Most are not, and one list is read sooner than as many names are asked
/// for.
pub(super) fn below(home: &Path) -> impl Iterator<Item = PathBuf> {
    let names: HashSet<OsString> = home
        .read_dir()
        .map(|entries| entries.flatten().map(|entry| entry.file_name()).collect())
        .unwrap_or_default();
    let may_be_there = move |path: &Path| {
        path.iter().next().is_some_and(|first| names.is_empty() || names.contains(first))
    };
    let paths = IN_HOME.iter().map(|(path, _)| Path::new(path));
    paths.filter(move |path| may_be_there(path)).map(|path| home.join(path))
}
