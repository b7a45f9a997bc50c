//! The binary in a mount namespace of its own, where other things are mounted than on the
//! machine. Where no such namespace may be made its tests pass, unless `REQUIRE_SANDBOX=1`.

use std::process::{Command, Stdio};

use nix::unistd::Uid;

use super::tine::Tine;

/// Hides bubblewrap wherever tine looks for it.
pub(crate) const HIDE_BWRAP: &str = "for file in /usr/bin/bwrap /bin/bwrap /usr/local/bin/bwrap \
    /run/current-system/sw/bin/bwrap; do if test -f $file; then mount --bind /dev/null $file; fi; done";

/// The options with which `unshare` makes a namespace in which this user may mount.
fn options() -> &'static [&'static str] {
    if Uid::effective().is_root() { &["--mount"] } else { &["--map-root-user", "--mount"] }
}

/// Returns whether a namespace can be made.
pub(crate) fn can_mount() -> bool {
    let mut tried = Command::new("unshare");
    tried.args(options()).args(["mount", "--bind", "/usr", "/usr"]);
    let status = tried.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    let can = status.is_ok_and(|status| status.success());
    let required = std::env::var("REQUIRE_SANDBOX").is_ok_and(|value| value == "1");
    assert!(can || !required, "no mount namespace can be made here");
    can
}

impl Tine {
    /// Starts it after this shell script, whose mounts it alone sees.
    pub(crate) fn mounting(self, script: &str) -> Self {
        let script = format!("set -e; {script}; exec \"$@\"");
        self.by("unshare", options().iter().chain(&["sh", "-c", &script, "sh"]))
    }
}
