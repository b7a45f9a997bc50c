//! The table of programs with options that run others.

use super::settings::{perl_runs, php_runs, ssh_runs};
use super::{Launcher, Reach, Setting};

impl Launcher {
    const fn values(mut self, values: &'static str) -> Self {
        self.values = values;
        self
    }

    const fn attached(mut self, attached: &'static str) -> Self {
        self.attached = attached;
        self
    }

    const fn next(mut self, next: &'static str) -> Self {
        self.next = next;
        self
    }

    const fn ends(mut self, ends: &'static str) -> Self {
        self.ends = ends;
        self
    }

    const fn setting(
        mut self,
        letters: &'static str,
        long: &'static str,
        runs: fn(&str) -> bool,
    ) -> Self {
        self.setting = Some(Setting { letters, long, runs });
        self
    }

    const fn reach(mut self, reach: Reach) -> Self {
        self.reach = reach;
        self
    }

    const fn behind(mut self, behind: &'static [&'static str]) -> Self {
        self.behind = behind;
        self
    }

    const fn runs_operand(mut self) -> Self {
        self.runs_operand = true;
        self
    }
}

const fn anywhere(
    programs: &'static [&'static str],
    long: &'static [&'static str],
    letters: &'static str,
) -> Launcher {
    Launcher {
        programs,
        behind: &[],
        long,
        letters,
        values: "",
        attached: "",
        next: "",
        ends: "",
        setting: None,
        reach: Reach::Anywhere,
        runs_operand: false,
    }
}

/// Options of a subcommand of git.
const fn git(
    behind: &'static [&'static str],
    long: &'static [&'static str],
    letters: &'static str,
) -> Launcher {
    anywhere(&["git"], long, letters).behind(behind)
}

/// A setting that names the program of a transport or an alias, for one call.
const GIT_CONFIG: &[&str] = &["--config", "--template"];

/// What follows the first operand belongs to a script, or to another program.
const IN_FRONT: Reach = Reach::Operands(1);

/// Some text of a program's own language may run another one: see [`super::texts`].
pub(super) const LAUNCHERS: &[Launcher] = &[
    anywhere(
        &["git"],
        // An alias, a pager or a transport may be any program.
        &[
            "--config-env",
            "--exec-path",
            "--exec",
            "--extcmd",
            "--upload-pack",
            "--receive-pack",
            "--open-files-in-pager",
        ],
        "c",
    )
    .reach(Reach::LettersInFront),
    git(&["grep"], &[], "O").values("efABCm"),
    git(&["clone"], GIT_CONFIG, "uc").values("boj"),
    git(&["init"], GIT_CONFIG, ""),
    git(&["rebase", "difftool"], &[], "x"),
    git(&["bisect"], &["run"], ""),
    git(&["submodule"], &["foreach"], ""),
    git(&["hook"], &["run"], ""),
    git(&["instaweb"], &["--httpd"], "d"),
    git(&["help", "web--browse"], &["--browser", "--tool"], "bt"),
    git(&["send-email"], &["--sendmail-cmd", "--smtp-server", "--to-cmd", "--cc-cmd"], ""),
    anywhere(&["find"], &["-exec", "-execdir", "-ok", "-okdir"], ""),
    anywhere(&["fd", "fdfind"], &["--exec", "--exec-batch"], "xX").values("cdeEjoSt"),
    anywhere(&["rg"], &["--pre", "--hostname-bin"], ""),
    anywhere(&["ag", "ack", "bat", "batcat", "delta"], &["--pager"], ""),
    anywhere(&["sort"], &["--compress-program"], ""),
    anywhere(&["split"], &["--filter"], ""),
    anywhere(&["man"], &["--pager", "--html"], "PH").values("CRLmMSsep"),
    anywhere(&["less"], &["--lesskey-file", "--lesskey-src"], "k").values("bhjoOpPtTxyz"),
    anywhere(
        &["tar"],
        &[
            "--to-command",
            "--checkpoint-action",
            "--use-compress-program",
            "--rsh-command",
            "--rmt-command",
            "--info-script",
            "--new-volume-script",
        ],
        "IF",
    )
    .values("fCTXb"),
    anywhere(&["cpio"], &["--rsh-command"], ""),
    anywhere(&["zip"], &["--unzip-command"], ""),
    anywhere(&["rsync"], &["--rsh", "--rsync-path"], "e").values("BfTM"),
    // `ProxyCommand` and `LocalCommand` run here, not there.
    anywhere(&["ssh"], &[], "SFI")
        .values("BbcDEeiJLlmOPpQRWw")
        .setting("o", "-o", ssh_runs)
        // The host, and then the command that runs there.
        .reach(Reach::Operands(2)),
    anywhere(&["scp", "sftp"], &[], "SFD").values("ciJlPX").setting("o", "-o", ssh_runs),
    anywhere(&["wget"], &["--execute", "--use-askpass"], "e").values("oaiBtOTQPUADRXIl"),
    anywhere(&["tcpdump"], &[], "z").values("BcCFGijmMrsTVwWyEZ"),
    anywhere(&["nc", "ncat", "netcat"], &["--exec", "--sh-exec", "--lua-exec"], "ec"),
    // Their commands begin with `!`, or run programs themselves.
    anywhere(
        &["vim", "vi", "nvim", "view", "gvim", "rvim", "vimdiff"],
        &["--cmd", "--remote-expr", "--remote-send"],
        "cSsuUeE",
    ),
    anywhere(
        &["emacs", "emacsclient"],
        &["--eval", "--execute", "--load", "--script", "--funcall", "-eval", "-load", "-script"],
        "flex",
    ),
    anywhere(
        &["gdb"],
        &["-ex", "-iex", "-x", "-ix", "--command", "--eval-command", "--init-command"],
        "",
    ),
    anywhere(&["lldb"], &["--one-line", "--one-line-before-file", "--source"], "oOsS")
        .reach(Reach::Dashes),
    anywhere(&["sqlite3"], &["-cmd", "-init", "--cmd", "--init"], ""),
    // Builds. A runner or a compiler wrapper may be any program.
    anywhere(&["make", "gmake"], &["--eval", "--file", "--makefile"], "fE").values("CIoW"),
    anywhere(&["cmake"], &["-P"], ""),
    anywhere(&["cargo"], &["--config"], "").reach(Reach::Dashes),
    anywhere(&["rustdoc"], &["--runtool", "--test-runtool", "--test-builder"], ""),
    anywhere(&["go"], &["-exec", "-toolexec", "-vettool", "--exec", "--toolexec"], ""),
    anywhere(&["gcc", "g++", "cc", "c++", "clang", "clang++"], &["-wrapper", "-fplugin"], ""),
    anywhere(&["gradle"], &["--init-script"], "I").values("DPpbcgx"),
    anywhere(&["npm"], &["--script-shell", "--node-options"], "")
        .reach(Reach::Dashes)
        .runs_operand(),
    anywhere(&["npm"], &["--call"], "c").next("Cpw").reach(IN_FRONT),
    anywhere(&["npm"], &["--call"], "c").next("Cpw").behind(&["exec", "x"]).reach(Reach::Dashes),
    anywhere(&["npx"], &["--script-shell", "--call", "--node-options"], "c")
        .next("Cpw")
        .reach(IN_FRONT)
        .runs_operand(),
    anywhere(&["pnpm"], &["--script-shell", "--shell-mode"], "c")
        .next("CF")
        .reach(IN_FRONT)
        .runs_operand(),
    anywhere(&["pnpm"], &["--shell-mode"], "c")
        .next("CF")
        .behind(&["exec", "dlx"])
        .reach(Reach::Operands(2)),
    anywhere(&["yarn"], &["--script-shell", "--shell-mode"], "").reach(IN_FRONT).runs_operand(),
    anywhere(&["pip", "pip3"], &["--python"], ""),
    anywhere(&["apt", "apt-get", "apt-cache"], &["--option", "--config-file"], "oc"),
    anywhere(&["rpm"], &["--eval", "--pipe"], "E"),
    anywhere(&["pandoc"], &["--filter", "--lua-filter", "--pdf-engine"], "FL")
        .values("frtwodVMABHDTc"),
    anywhere(
        &["pdflatex", "xelatex", "lualatex", "latex"],
        &["-shell-escape", "--shell-escape"],
        "",
    ),
    anywhere(&["openssl"], &["-engine", "-provider-path"], ""),
    anywhere(&["hg"], &["--config", "--debugger"], ""),
    anywhere(&["svn"], &["--diff-cmd", "--diff3-cmd", "--editor-cmd", "--config-option"], ""),
    anywhere(&["env"], &["--split-string"], "S"),
    // The program is in the option.
    anywhere(&["sh", "bash", "dash", "zsh"], &["--command"], "c").next("oO").reach(IN_FRONT),
    anywhere(&["python"], &["--command"], "c").values("WXQ").ends("m").reach(IN_FRONT),
    anywhere(&["perl"], &[], "eE")
        .values("I")
        .attached("Fix")
        .setting("Mm", "-M", perl_runs)
        .reach(IN_FRONT),
    anywhere(&["ruby"], &["--eval"], "e").values("ICrE").attached("Fix").reach(IN_FRONT),
    anywhere(
        &["node"],
        &["--eval", "--print", "--require", "--import", "--loader", "--experimental-loader"],
        "per",
    )
    .next("C")
    .reach(IN_FRONT),
    anywhere(&["bun"], &["--eval", "--print", "--require", "--import", "--preload"], "per")
        // Its own command, `run`, and the script.
        .reach(Reach::Operands(2)),
    anywhere(&["deno"], &["--import", "--preload", "--require", "--loader"], "")
        .reach(Reach::Operands(2)),
    anywhere(&["php"], &["--run", "--process-code", "--process-begin", "--process-end"], "rBREz")
        .values("cfFtS")
        .setting("d", "--define", php_runs)
        .reach(IN_FRONT),
    anywhere(&["lua", "Rscript", "julia"], &["--eval", "--load"], "eElL")
        .next("tpCJHgOmi")
        .reach(IN_FRONT),
];
