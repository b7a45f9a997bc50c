//! What a sandbox costs a command: library code and the processes it starts,
//! timed from this one.

use std::fs::File;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tine::event::{Access, Backend, Confinement, NetworkAccess};
use tine::guard::CommandBounds;
use tine::guard::sandbox::{Place, Prepared, Sandbox, Settings, Variables};

use crate::clock;
use crate::measure::median_of;
use crate::table::{Figure, Unit};

/// How often each figure is measured. Starting processes varies more than
/// computing.
const ROUNDS: usize = 101;

/// From a command to its end in a small repository, with all that is made ready
/// before and cleared up after it. The trial of what there is comes first and is
/// not counted.
pub(crate) fn sandbox() -> Vec<Figure> {
    let directory = tempfile::tempdir().expect("the system has room for a directory");
    let root = directory.path().canonicalize().expect("it was just made");
    let work = root.join("work");
    std::fs::create_dir_all(work.join(".git/hooks")).expect("the place is new");
    std::fs::write(work.join(".git/config"), "").expect("the place is new");
    let sandbox = Sandbox::new(Settings {
        home: std::env::home_dir(),
        stubs: root.join("stubs"),
        scratch: vec![root],
        variables: Variables::new(std::env::vars_os()),
        ..Settings::default()
    });
    let has = |backend| match backend {
        Backend::Bwrap => sandbox.bwrap().is_ok(),
        Backend::Landlock => sandbox.landlock().is_ok(),
        Backend::None => true,
    };
    let figures = [
        ("free", Backend::None, 2.0),
        ("Landlock and seccomp", Backend::Landlock, 1.5),
        ("bubblewrap and seccomp", Backend::Bwrap, 8.0),
    ];
    let figures = figures.into_iter().filter(|(_, backend, _)| has(*backend));
    let figures = figures.map(|(name, backend, limit)| {
        let name = format!("a command that does nothing, {name}");
        Figure::new(name, time_of_command(&sandbox, backend, &work), limit, Unit::Millis)
    });
    figures.chain(bubblewrap_alone(&sandbox, &work)).collect()
}

/// What bubblewrap takes by itself, told as little as makes a sandbox: what is
/// left to us of the limit.
fn bubblewrap_alone(sandbox: &Sandbox, work: &Path) -> Option<Figure> {
    let arguments = "--ro-bind / / --dev /dev --proc /proc --tmpfs /tmp --tmpfs /run --unshare-all \
                     --die-with-parent --new-session --cap-drop ALL --bind";
    sandbox.bwrap().as_ref().ok()?;
    let took = median_of(ROUNDS, |_| {
        let started = clock::now();
        let mut command = Command::new("bwrap");
        command.args(arguments.split_whitespace()).args([work, work]).arg("/bin/true");
        let status = command.stdin(Stdio::null()).status().expect("it was tried");
        assert!(status.success());
        (clock::now() - started).as_secs_f64() * 1e3
    });
    Some(Figure::new("the same, bubblewrap and nothing of ours", took, 8.0, Unit::Millis))
}

/// Returns the milliseconds that a command takes.
fn time_of_command(sandbox: &Sandbox, backend: Backend, work: &PathBuf) -> f64 {
    let confinement = match backend {
        Backend::None => Confinement::NONE,
        Backend::Bwrap | Backend::Landlock => {
            Confinement { backend, access: Access::WorkspaceWrite, network: NetworkAccess::None }
        }
    };
    let place = Place {
        directory: work,
        roots: std::slice::from_ref(work),
        bounds: &CommandBounds::default(),
    };
    let null =
        File::options().read(true).write(true).open("/dev/null").expect("it is always there");
    median_of(ROUNDS, |_| {
        let started = clock::now();
        let prepared = sandbox.prepare(confinement, &place, &["/bin/true".into()]);
        let Prepared { ready, held } = prepared.expect("it was found");
        let mut running = ready.start([null.as_fd(); 3]).expect("it can be started");
        let status = running.wait().expect("it is ours");
        assert!(status.success());
        assert_eq!(held.finish(), []);
        let took = clock::now() - started;
        took.as_secs_f64() * 1e3
    })
}
