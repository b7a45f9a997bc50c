//! Files by which a program of the user runs something later: editors, shells,
//! package managers, CI and other agents.
//!
//! One table, easy to extend: add a row with the file's name and a sentence about the
//! program that runs it. `acceptEdits` asks about these files; rules allow them like any
//! other file. A sandboxed command cannot change an existing file marked
//! [`SandboxAccess::Kept`], and what it creates is set aside. The files with which a
//! project builds and tests (`Makefile`, `package.json`, `build.rs`) are not in the table:
//! editing them is an agent's work.

use std::path::{Path, PathBuf};

use super::paths::as_elsewhere;

/// The access of sandboxed commands to such a file at the top of the workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SandboxAccess {
    /// No command can change or create it.
    Kept,
    /// Commands can change it: it runs on another machine, or a package manager writes it.
    Open,
}

use SandboxAccess::{Kept, Open};

/// The names of files and directories, a sentence about the program that runs them, and
/// the access of sandboxed commands.
///
/// `DIRECTORY/NAME` matches an entry of a directory of that name, and `*END` matches the
/// end of a file's name. Case does not matter.
const RUN_LATER: &[(&[&str], &str, SandboxAccess)] = &[
    // Editors.
    (&[".vscode", "*.code-workspace"], "VS Code runs its tasks, debuggers and servers", Kept),
    (&[".vs"], "Visual Studio runs its tasks", Kept),
    (&[".idea", ".run", ".fleet"], "JetBrains IDEs run its configurations", Kept),
    (&[".zed"], "Zed runs its tasks and servers", Kept),
    (&["*.sublime-project"], "Sublime Text runs its build systems", Kept),
    (&[".theia"], "Theia runs its tasks", Kept),
    (&[".vimrc", ".exrc", ".gvimrc", "_vimrc"], "Vim runs its commands", Kept),
    (&[".nvimrc", ".nvim.lua"], "Neovim runs its commands", Kept),
    (&[".dir-locals.el", ".emacs", ".emacs.d"], "Emacs evaluates it", Kept),
    (&[".helix"], "Helix starts its language servers", Kept),
    // Environments.
    (&[".envrc"], "direnv runs it", Kept),
    (&[".autoenv", ".autoenv.zsh"], "autoenv runs it", Kept),
    (&["mise.toml", ".mise.toml", ".mise", ".rtx.toml"], "mise runs its hooks and tasks", Kept),
    (&[".devcontainer", ".devcontainer.json"], "the editor runs its commands", Kept),
    (&[".gitpod.yml", ".gitpod.dockerfile", ".idx"], "the cloud editor runs its tasks", Open),
    // Package managers.
    (&[".npmrc"], "npm takes its registry, shell and node options from it", Kept),
    (&[".yarnrc", ".yarnrc.yml"], "Yarn runs the release and plugins it names", Kept),
    (&[".yarn/releases", ".yarn/plugins"], "Yarn runs it", Kept),
    (&[".pnpmfile.cjs", "pnpmfile.js"], "pnpm runs it", Kept),
    (&["bunfig.toml"], "Bun preloads what it names", Kept),
    (&[".cargo"], "Cargo runs the linker, wrapper and runner it names", Kept),
    (&["rust-toolchain", "rust-toolchain.toml"], "rustup runs the toolchain it names", Kept),
    (&["pip.conf", "pip.ini", ".pip", ".pydistutils.cfg"], "pip takes its index from it", Kept),
    (&[".condarc"], "conda takes its channels from it", Kept),
    (&[".gemrc", ".bundle"], "RubyGems and Bundler take their options from it", Open),
    (&[".mvn"], "Maven loads the extensions it names", Kept),
    (&["gradle/wrapper"], "Gradle downloads and runs what it names", Kept),
    (&[".bazelrc", ".bazelversion"], "Bazel takes its options and version from it", Kept),
    (&["nuget.config"], "NuGet takes its sources from it", Kept),
    (&[".buckconfig"], "Buck takes its tools from it", Kept),
    // Shells and their programs.
    (
        &[".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile"],
        "the shell runs it",
        Kept,
    ),
    (&[".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout"], "the shell runs it", Kept),
    (&[".kshrc", ".cshrc", ".tcshrc", ".login", ".logout"], "the shell runs it", Kept),
    (&[".config/fish", ".config/nushell"], "the shell runs it", Kept),
    (&[".xprofile", ".xinitrc", ".xsession", ".config/autostart"], "the session runs it", Kept),
    (&[".config/systemd", ".config/environment.d"], "systemd runs it", Kept),
    (&[".inputrc", ".tmux.conf", ".screenrc"], "the terminal's programs obey it", Kept),
    (&[".gdbinit", ".lldbinit", "*-gdb.py"], "the debugger runs it", Kept),
    (&[".irbrc", ".pryrc", ".rprofile", ".pythonrc", ".psqlrc"], "the interpreter runs it", Kept),
    (&[".curlrc", ".wgetrc", ".ssh"], "the program takes its options from it", Kept),
    // Git and what it starts.
    (&[".gitmodules", ".gitconfig"], "git takes addresses and commands from it", Kept),
    (&[".husky", ".githooks", ".git-hooks"], "git runs hooks in it", Kept),
    (&[".pre-commit-config.yaml", ".pre-commit-hooks.yaml"], "pre-commit runs its hooks", Kept),
    (
        &["lefthook.yml", "lefthook.yaml", "lefthook.toml", ".lefthook.yml", ".lefthook"],
        "lefthook runs its hooks",
        Kept,
    ),
    (&["lefthook-local.yml", ".overcommit.yml", ".lintstagedrc"], "a git hook runs it", Kept),
    // CI: it runs elsewhere, with the keys of the repository's owner.
    (&[".github/workflows", ".github/actions"], "GitHub runs its jobs", Open),
    (&[".gitea/workflows", ".forgejo/workflows"], "the forge runs its jobs", Open),
    (&[".gitlab-ci.yml", ".gitlab-ci.yaml", ".gitlab/ci"], "GitLab runs its jobs", Open),
    (&[".circleci", ".travis.yml", ".appveyor.yml", "appveyor.yml"], "CI runs its jobs", Open),
    (&["azure-pipelines.yml", ".azure-pipelines", "jenkinsfile"], "CI runs its jobs", Open),
    (&["bitbucket-pipelines.yml", ".drone.yml", ".buildkite"], "CI runs its jobs", Open),
    (&[".woodpecker", ".woodpecker.yml", ".cirrus.yml", ".builds"], "CI runs its jobs", Open),
    // Other agents.
    (&[".cursor"], "Cursor starts its servers and hooks", Kept),
    (&[".codex"], "Codex starts its servers", Kept),
    (&[".gemini"], "Gemini CLI starts its servers and hooks", Kept),
    (&[".qwen"], "Qwen Code starts its servers and hooks", Kept),
    (&[".kiro", ".amazonq"], "Kiro and Amazon Q start its servers and hooks", Kept),
    (&[".windsurf", ".codeium"], "Windsurf starts its servers and hooks", Kept),
    (&[".roo", ".cline", ".kilocode"], "the agent starts its servers", Kept),
    (&[".continue"], "Continue starts its servers", Kept),
    (&[".opencode", "opencode.json", "opencode.jsonc"], "OpenCode starts its servers", Kept),
    (&[".aider.conf.yml"], "aider runs its commands", Kept),
    (&[".crush.json", "crush.json", ".crush"], "Crush starts its servers", Kept),
    (&[".factory", ".augment", ".junie", ".goose", ".trae"], "the agent starts its servers", Kept),
    (&["mcp.json"], "agents start its servers", Kept),
];

/// Returns what runs or obeys a file later, as a sentence without its end; `None` for
/// the files of a project. `path` is one below a workspace directory.
pub(super) fn run_by(path: &Path) -> Option<&'static str> {
    let names: Vec<String> =
        path.components().map(|part| as_elsewhere(&part.as_os_str().to_string_lossy())).collect();
    let is_named = |pattern: &str| match (pattern.strip_prefix('*'), pattern.split_once('/')) {
        (Some(end), _) => names.last().is_some_and(|name| name.ends_with(end)),
        (None, Some((directory, name))) => {
            names.windows(2).any(|pair| pair[0] == directory && pair[1] == name)
        }
        (None, None) => names.iter().any(|name| name == pattern),
    };
    let row = RUN_LATER.iter().find(|(names, ..)| names.iter().any(|name| is_named(name)));
    row.map(|(_, by, _)| *by)
}

/// Returns the names of all files and directories that no sandboxed command may change or
/// create in a workspace directory, without those that are patterns.
pub(super) fn kept_names() -> Vec<&'static str> {
    let kept = RUN_LATER.iter().filter(|(.., access)| *access == Kept);
    kept.flat_map(|(names, ..)| *names).copied().filter(|name| !name.starts_with('*')).collect()
}

/// Returns the files and directories directly in a workspace directory that no
/// sandboxed command may change. The directories in the workspace directory may be links.
pub(super) fn kept_in(root: &Path) -> Vec<PathBuf> {
    let Ok(entries) = root.read_dir() else { return Vec::new() };
    let is_kept = |name: &str| {
        let name = as_elsewhere(name);
        let kept = RUN_LATER.iter().filter(|(.., access)| *access == Kept);
        kept.flat_map(|(names, ..)| *names).any(|pattern| match pattern.strip_prefix('*') {
            Some(end) => name.ends_with(end),
            None => name == *pattern,
        })
    };
    let entries = entries.flatten().map(|entry| entry.file_name());
    let kept = entries.filter(|name| is_kept(&name.to_string_lossy())).map(|name| root.join(name));
    let names = kept_names().into_iter().filter(|name| name.contains('/'));
    let below = names.map(|name| root.join(name)).filter(|path| path.symlink_metadata().is_ok());
    let mut kept: Vec<PathBuf> = kept.chain(below).collect();
    kept.sort();
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_a_file_is_known_by_its_name() {
        for path in [
            ".vscode/tasks.json",
            "sub/.vscode/settings.json",
            ".VSCode/tasks.json",
            "x.code-workspace",
            ".idea/workspace.xml",
            ".envrc",
            "deep/down/.envrc",
            ".npmrc",
            ".yarnrc.yml",
            ".cargo/config.toml",
            ".devcontainer/devcontainer.json",
            ".zed/tasks.json",
            ".cursor/mcp.json",
            ".codex/config.toml",
            ".gemini/settings.json",
            ".pre-commit-config.yaml",
            ".github/workflows/ci.yml",
            ".gitlab-ci.yml",
            ".bashrc",
            ".gitmodules",
            ".gitconfig",
            ".husky/pre-commit",
            "Jenkinsfile",
            ".config/fish/config.fish",
        ] {
            assert!(run_by(Path::new(path)).is_some(), "{path}");
        }
        for path in [
            "src/main.rs",
            "Makefile",
            "package.json",
            "Cargo.toml",
            ".github/ISSUE_TEMPLATE.md",
            ".gitignore",
            ".editorconfig",
            "vscode/a",
            "docs/mcp.md",
            "config/fish",
            "workflows/a.yml",
        ] {
            assert_eq!(run_by(Path::new(path)), None, "{path}");
        }
    }

    #[test]
    fn names_of_the_table_are_as_they_are_compared_and_listed_once() {
        let mut names: Vec<&str> =
            RUN_LATER.iter().flat_map(|(names, ..)| *names).copied().collect();
        for name in &names {
            assert_eq!(*name, name.to_lowercase(), "case does not matter");
            assert!(name.matches('/').count() <= 1, "{name}");
        }
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn a_sandbox_keeps_what_is_there_and_runs_here() {
        let place = tempfile::tempdir().unwrap();
        for directory in [".vscode", ".github/workflows", "src", ".config/fish", ".config/other"] {
            std::fs::create_dir_all(place.path().join(directory)).unwrap();
        }
        std::fs::write(place.path().join(".envrc"), "").unwrap();
        let kept = kept_in(place.path());
        let expected = [".config/fish", ".envrc", ".vscode"].map(|name| place.path().join(name));
        assert_eq!(kept, expected);
    }
}
