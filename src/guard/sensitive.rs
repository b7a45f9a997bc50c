//! Files whose content gives power elsewhere: reading them is asked about.
//!
//! Tables, easy to review; what is in the home directory the sandbox hides too.
//! They are no rules that anybody wrote, so an allow rule for
//! reading lifts them, and so does `bypassPermissions`.

use std::path::{Path, PathBuf};

use super::paths;
use super::sandbox::secrets;
use crate::path_text;

/// What in those places everybody may know.
const HARMLESS: [&str; 3] = ["known_hosts", "known_hosts.old", "config"];

/// Places of the system.
const IN_SYSTEM: [(&str, &str); 34] = [
    ("/etc/shadow", HASHES),
    ("/etc/shadow-", HASHES),
    ("/etc/gshadow", HASHES),
    ("/etc/gshadow-", HASHES),
    ("/etc/master.passwd", HASHES),
    ("/etc/security/opasswd", HASHES),
    ("/etc/tcb", HASHES),
    ("/var/lib/sss", HASHES),
    ("/var/backups/shadow.bak", HASHES),
    ("/var/backups/gshadow.bak", HASHES),
    ("/var/db/dslocal", HASHES),
    ("/etc/sudoers", WHO),
    ("/etc/sudoers.d", WHO),
    ("/etc/ssl/private", CERTIFICATES),
    ("/etc/pki/tls/private", CERTIFICATES),
    ("/etc/letsencrypt", CERTIFICATES),
    ("/etc/ssh/ssh_host_rsa_key", MACHINE),
    ("/etc/ssh/ssh_host_dsa_key", MACHINE),
    ("/etc/ssh/ssh_host_ecdsa_key", MACHINE),
    ("/etc/ssh/ssh_host_ed25519_key", MACHINE),
    ("/etc/krb5.keytab", MACHINE),
    ("/var/lib/samba/private", MACHINE),
    ("/etc/wireguard", NETWORKS),
    ("/etc/openvpn", NETWORKS),
    ("/etc/ipsec.secrets", NETWORKS),
    ("/etc/ppp/chap-secrets", NETWORKS),
    ("/etc/ppp/pap-secrets", NETWORKS),
    ("/etc/wpa_supplicant", NETWORKS),
    ("/etc/NetworkManager/system-connections", NETWORKS),
    ("/etc/mysql/debian.cnf", "passwords of databases"),
    ("/etc/kubernetes", "keys of clusters"),
    ("/etc/rancher", "keys of clusters"),
    ("/run/secrets", "keys of whatever runs in this container"),
    ("/var/run/secrets", "keys of whatever runs in this container"),
];

const HASHES: &str = "hashes of passwords";
const WHO: &str = "who may do what on this machine";
const CERTIFICATES: &str = "keys of certificates";
const MACHINE: &str = "keys by which others know this machine";
const NETWORKS: &str = "keys of networks";

/// Names of keys and of stores of them. Files that end in `.key` are not among them:
/// that may be anything.
pub(super) const KEYS: [&str; 4] = ["id_rsa", "id_dsa", "id_ecdsa", "id_ed25519"];
pub(super) const ENDS_OF_KEYS: [&str; 5] = [".kdbx", ".p12", ".pem", ".pfx", ".ppk"];

/// Ends of the names of what Terraform writes down of what it has made: passwords and
/// keys among it.
pub(super) const ENDS_OF_STATES: [&str; 2] = [".tfstate", ".tfstate.backup"];

/// Names of files that end as keys do and hold certificates, which are public.
const CERTIFICATE_FILES: [&str; 7] = [
    "ca-bundle.pem",
    "ca-certificates.pem",
    "cacert.pem",
    "cert.pem",
    "chain.pem",
    "fullchain.pem",
    "roots.pem",
];

/// Directories of the certificates that a system trusts.
const CERTIFICATES_OF_SYSTEM: [&str; 4] =
    ["/etc/ssl/certs", "/etc/pki/ca-trust", "/etc/ca-certificates", "/usr"];

/// What the kernel shows of a process that is nobody else's business.
const IN_PROC: [&str; 4] = ["environ", "mem", "auxv", "kcore"];

/// Ends of the names of files that hold no secret, though `.env` is in them.
const EXAMPLES: [&str; 4] = ["example", "sample", "template", "dist"];

/// What is known of a machine: whose home, and where our own settings are. Each
/// with its links followed, once: a search may see a million files.
#[derive(Debug, Clone, Default)]
pub struct Secrets {
    home: Vec<PathBuf>,
    settings: Vec<PathBuf>,
}

impl Secrets {
    /// Takes the user's home directory, and our own configuration, which may
    /// hold keys in headers.
    #[must_use]
    pub fn new(home: Option<&Path>, settings: Option<&Path>) -> Self {
        let both = |path: Option<&Path>| {
            let path =
                path.map(|path| vec![path.to_owned(), paths::resolved(Path::new("/"), path)]);
            path.unwrap_or_default()
        };
        // Whoever calls us, root has a home.
        let home = both(home).into_iter().chain([PathBuf::from("/root")]).collect();
        Self { home, settings: both(settings) }
    }

    /// Returns the home directories.
    pub(super) fn homes(&self) -> &[PathBuf] {
        &self.home
    }

    /// Returns what is asked about, in words: what it is, and where.
    pub(super) fn listed(&self) -> Vec<(&'static str, Vec<String>)> {
        let in_home = secrets::in_home().map(|(place, what)| (what, format!("~/{place}")));
        let in_system = IN_SYSTEM.iter().map(|(place, what)| (*what, (*place).to_owned()));
        let in_proc = IN_PROC.iter().map(|name| (PROCESS, format!("/proc/*/{name}")));
        let keys = KEYS.iter().map(|name| (KEY, (*name).to_owned()));
        let keys = keys.chain(ENDS_OF_KEYS.iter().map(|end| (KEY, format!("*{end}"))));
        let states = ENDS_OF_STATES.iter().map(|end| (OF_STATE, format!("*{end}")));
        let keys = keys.chain(states);
        let anywhere = [".env", ".env.*", ".envrc"].map(|name| (OF_PROJECT, name.to_owned()));
        let settings = self.settings.first().map(|path| (SETTINGS, path_text::to_text(path)));
        let mut listed: Vec<(&'static str, Vec<String>)> = Vec::new();
        for (what, place) in
            in_home.chain(in_system).chain(in_proc).chain(keys).chain(anywhere).chain(settings)
        {
            match listed.iter_mut().find(|(known, _)| *known == what) {
                Some((_, places)) => places.push(place),
                None => listed.push((what, vec![place])),
            }
        }
        listed
    }

    /// Tells what is in a file that is better asked about; `path` has no links
    /// in it.
    pub(super) fn within(&self, path: &Path) -> Option<&'static str> {
        if self.settings.iter().any(|settings| path == settings) {
            return Some(SETTINGS);
        }
        let in_home = self.home.iter().find_map(|home| in_home(path.strip_prefix(home).ok()?));
        in_home.or_else(|| in_system(path)).or_else(|| in_any_directory(path))
    }

    /// Tells what is in a directory or below it that is better asked about.
    ///
    /// Of files that may be anywhere, only those directly in it, or at the root
    /// of a project in it, are looked for: a decision does not walk the disk.
    pub(super) fn below(&self, directory: &Path, root: &Path) -> Option<&'static str> {
        let holds_env = |place: &Path| {
            let env = place.join(".env");
            env.symlink_metadata().ok().and_then(|_| in_any_directory(&env))
        };
        let mut places = [directory, root].into_iter().filter(|place| place.starts_with(directory));
        self.below_sparing(directory).or_else(|| places.find_map(holds_env))
    }

    /// The same, where files that may be anywhere are left out. `directory` may
    /// be one of them.
    pub(super) fn below_sparing(&self, directory: &Path) -> Option<&'static str> {
        let holds = |place: &Path| place.starts_with(directory);
        let mut in_home = self.home.iter().flat_map(|home| {
            secrets::in_home().filter(|(place, _)| holds(&home.join(place))).map(|(_, what)| what)
        });
        let in_system = || IN_SYSTEM.iter().find(|(place, _)| holds(Path::new(place)));
        self.within(directory)
            .or_else(|| in_home.next())
            .or_else(|| self.settings.iter().any(|settings| holds(settings)).then_some(SETTINGS))
            .or_else(|| in_system().map(|(_, what)| *what))
            .or_else(|| holds(Path::new("/proc")).then_some(PROCESS))
    }
}

/// What is to be said of our settings.
const SETTINGS: &str = "keys, perhaps, among tine's settings";

/// What is to be said of keys that may be anywhere.
const KEY: &str = "a key";

/// Content of states of Terraform.
const OF_STATE: &str = "passwords and keys of what Terraform has made";

/// What is to be said of `.env`.
const OF_PROJECT: &str = "keys and passwords of the project";

/// What is to be said of a process.
const PROCESS: &str = "the environment or the memory of a process, keys among it";

fn in_home(below: &Path) -> Option<&'static str> {
    let (place, what) = secrets::holding(below)?;
    let name = below.file_name()?.to_str().unwrap_or_default();
    let harmless = place == ".ssh" && (HARMLESS.contains(&name) || name.ends_with(".pub"));
    (!harmless).then_some(what)
}

fn in_system(path: &Path) -> Option<&'static str> {
    if path.starts_with("/proc") {
        let name = path.file_name()?.to_str()?;
        return IN_PROC.contains(&name).then_some(PROCESS);
    }
    IN_SYSTEM.iter().find(|(place, _)| path.starts_with(place)).map(|(_, what)| *what)
}

/// `.env` and its kin hold the keys of whatever the project talks to.
fn in_any_directory(path: &Path) -> Option<&'static str> {
    let name = path.file_name()?.to_str()?.to_ascii_lowercase();
    if KEYS.contains(&name.as_str()) || ENDS_OF_KEYS.iter().any(|end| name.ends_with(end)) {
        let is_certificate = CERTIFICATE_FILES.contains(&name.as_str())
            || CERTIFICATES_OF_SYSTEM.iter().any(|place| path.starts_with(place));
        return (!is_certificate || !name.ends_with(".pem")).then_some(KEY);
    }
    if ENDS_OF_STATES.iter().any(|end| name.ends_with(end)) {
        return Some(OF_STATE);
    }
    let rest = name.strip_prefix(".env")?;
    let is_it = rest.is_empty()
        || rest == "rc"
        || rest.strip_prefix('.').is_some_and(|kind| {
            !EXAMPLES.iter().any(|example| kind == *example || kind.ends_with(example))
        });
    is_it.then_some(OF_PROJECT)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets() -> Secrets {
        let settings = Path::new("/home/ada/.config/t.toml");
        Secrets::new(Some(Path::new("/home/ada")), Some(settings))
    }

    #[test]
    fn what_opens_something_else_is_known_wherever_it_is() {
        for path in [
            "/home/ada/.ssh/id_ed25519",
            "/home/ada/.ssh",
            "/home/ada/.aws/credentials",
            "/home/ada/.netrc",
            "/home/ada/.config/gh/hosts.yml",
            "/home/ada/.config/t.toml",
            "/home/ada/src/app/.env",
            "/srv/.env.production",
            "/srv/.ENV",
            "/srv/.envrc",
            "/srv/tests/server.pem",
            "/srv/infra/terraform.tfstate",
            "/srv/infra/terraform.tfstate.backup",
            "/home/ada/.claude.json",
            "/home/ada/.qwen/oauth_creds.json",
            "/home/ada/.gradle/gradle.properties",
            "/home/ada/.m2/settings.xml",
            "/home/ada/.config/rclone/rclone.conf",
            "/home/ada/.config/pip/pip.conf",
            "/home/ada/.config/heroku/x",
            "/home/ada/.config/github-copilot/hosts.json",
            "/home/ada/.s3cfg",
            "/home/ada/.boto",
            "/home/ada/.databrickscfg",
            "/home/ada/.fly/config.yml",
            "/home/ada/.wgetrc",
            "/home/ada/.psql_history",
            "/home/ada/.local/share/fish/fish_history",
            "/etc/shadow",
            "/etc/shadow-",
            "/etc/security/opasswd",
            "/etc/letsencrypt/live/a/privkey.pem",
            "/root/.aws/credentials",
            "/srv/keys/id_ed25519",
            "/srv/keys/All.KDBX",
            "/proc/123/environ",
            "/proc/123/task/124/environ",
        ] {
            assert!(secrets().within(Path::new(path)).is_some(), "{path}");
        }
    }

    #[test]
    fn what_everybody_may_know_is_not_asked_about() {
        for path in [
            "/home/ada/.ssh/id_ed25519.pub",
            "/home/ada/.ssh/known_hosts",
            "/home/ada/.ssh/config",
            "/home/bob/notes",
            "/home/ada/.config/other",
            "/srv/.env.example",
            "/srv/.envrc.txt",
            "/srv/certs/fullchain.pem",
            "/etc/ssl/certs/ISRG_Root_X1.pem",
            "/usr/lib/python3/dist-packages/certifi/cacert.pem",
            "/home/ada/.claude/settings.json",
            "/home/ada/.config/pipewire/x",
            "/home/ada/src/main.tf",
            "/etc/passwd",
            "/etc/ssh/ssh_host_rsa_key.pub",
            "/srv/keys/id_ed25519.pub",
            "/proc/cpuinfo",
        ] {
            assert_eq!(secrets().within(Path::new(path)), None, "{path}");
        }
    }

    #[test]
    fn a_directory_that_holds_such_a_place_is_known_too() {
        let below = |directory: &Path| secrets().below(directory, Path::new("/srv/app"));
        for directory in ["/", "/home", "/home/ada", "/home/ada/.ssh", "/proc", "/etc"] {
            assert!(below(Path::new(directory)).is_some(), "{directory}");
        }
        for directory in ["/home/ada/src", "/usr", "/srv"] {
            assert_eq!(below(Path::new(directory)), None, "{directory}");
        }
        let project = tempfile::tempdir().unwrap();
        let root = project.path().canonicalize().unwrap();
        let outside = root.parent().unwrap();
        assert_eq!(secrets().below(outside, &root), None);
        std::fs::write(root.join(".env"), "").unwrap();
        assert!(secrets().below(&root, &root).is_some());
        assert!(secrets().below(outside, &root).is_some());
        assert_eq!(secrets().below(&root.join("src"), &root), None);
    }
}
