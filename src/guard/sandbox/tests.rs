//! Which bounds a command gets, and what it is told where there are none.

use super::*;

fn sandbox(insistence: Insistence, bwrap: bool, landlock: bool) -> Sandbox {
    let bwrap = if bwrap { Ok(()) } else { Err(NoBwrap::NotInstalled) };
    let landlock = if landlock { Ok(7) } else { Err(NoLandlock::NotThere) };
    let settings = Settings { insistence, ..Settings::default() };
    let (bwrap, landlock) = (Arc::new(bwrap.into()), Arc::new(landlock.into()));
    Sandbox { settings, bwrap, landlock, ..Sandbox::default() }
}

#[track_caller]
fn check(sandbox: &Sandbox, access: Access, expected: (Backend, Access, NetworkAccess)) {
    let Confinement { backend, access, network } = sandbox.confinement(access);
    assert_eq!((backend, access, network), expected);
}

const NONE: (Backend, Access, NetworkAccess) = (Backend::None, Access::Off, NetworkAccess::Shared);

#[test]
fn a_command_gets_the_best_there_is() {
    let best = |bwrap, landlock| sandbox(Insistence::Best, bwrap, landlock);
    for access in [Access::ReadOnly, Access::WorkspaceWrite] {
        check(&best(true, true), access, (Backend::Bwrap, access, NetworkAccess::None));
        check(&best(false, true), access, (Backend::Landlock, access, NetworkAccess::None));
        check(&best(false, false), access, NONE);
    }
    check(&best(true, true), Access::Off, NONE);
}

#[test]
fn what_is_required_is_there_whatever_was_approved() {
    let required = |bwrap, landlock| sandbox(Insistence::Required, bwrap, landlock);
    let wide = (Backend::Bwrap, Access::WorkspaceWrite, NetworkAccess::Shared);
    check(&required(true, true), Access::Off, wide);
    check(
        &required(true, true),
        Access::ReadOnly,
        (Backend::Bwrap, Access::ReadOnly, NetworkAccess::None),
    );
    let none = required(false, false);
    for access in Access::ALL {
        let bounds = &CommandBounds::NONE;
        let place = Place { directory: Path::new("/"), roots: &[], bounds };
        let confinement = none.confinement(access);
        let refused = none.prepare(confinement, &place, &["true".into()]).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "`sandbox.mode` is `required`, and there is no sandbox: bubblewrap is not installed; \
             the kernel has no Landlock. Install `bubblewrap`, and see `tine doctor`"
        );
    }
}

#[test]
fn a_sandbox_that_is_off_is_not_looked_for() {
    let settings = Settings { insistence: Insistence::Off, ..Settings::default() };
    let off = Sandbox::new(settings);
    assert_eq!(off.backend(), Backend::None);
    for access in Access::ALL {
        check(&off, access, NONE);
    }
    assert!(off.bwrap.get().is_none() && off.landlock.get().is_none());
}

#[test]
fn the_network_is_for_what_may_write() {
    let mut sandbox = sandbox(Insistence::Best, true, true);
    sandbox.settings.network = NetworkAccess::Shared;
    check(&sandbox, Access::ReadOnly, (Backend::Bwrap, Access::ReadOnly, NetworkAccess::None));
    check(
        &sandbox,
        Access::WorkspaceWrite,
        (Backend::Bwrap, Access::WorkspaceWrite, NetworkAccess::Shared),
    );
}

#[test]
fn what_runs_unasked_is_not_looked_for_in_the_workspace() {
    let check = |path: &str, expected: &str| {
        assert_eq!(outside(path.as_ref(), &["/work".into()]), expected);
    };
    check("/work/bin:/usr/bin:.:bin:/worker", "/usr/bin:/worker");
    check("", "");
}

#[test]
fn a_command_without_a_sandbox_is_not_looked_for_elsewhere_in_the_repository() {
    use std::os::fd::AsFd as _;
    use std::os::unix::fs::PermissionsExt as _;
    let place = tempfile::tempdir().unwrap();
    let top = place.path().canonicalize().unwrap();
    let (bin, root) = (top.join("repo/node_modules/.bin"), top.join("repo/packages/one"));
    for directory in [&bin, &root, &top.join("repo/.git")] {
        std::fs::create_dir_all(directory).unwrap();
    }
    let planted = bin.join("tine-planted");
    std::fs::write(&planted, "").unwrap();
    std::fs::set_permissions(&planted, std::fs::Permissions::from_mode(0o755)).unwrap();
    let variables = [("PATH".into(), bin.into_os_string())];
    let variables = Variables::new(variables);
    let off = Settings { insistence: Insistence::Off, variables, ..Settings::default() };
    let (sandbox, roots) = (Sandbox::new(off), [root.clone()]);
    let place = Place { directory: &root, roots: &roots, bounds: &CommandBounds::NONE };
    let prepared = sandbox.prepare(Confinement::NONE, &place, &["tine-planted".into()]).unwrap();
    let null = std::fs::File::open("/dev/null").unwrap();
    let started = prepared.ready.start([null.as_fd(); 3]);
    assert_eq!(started.unwrap_err().kind(), io::ErrorKind::NotFound);
}
