//! What of a home directory no confined command gets to see.

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// Paths below home whose content gives power elsewhere, by what it is: where the programs
/// that write them keep them by default.
const BY_CONTENT: &[(&str, &[&str])] = &[
    ("keys that open other machines", &[".ssh", ".tsh", ".vnc/passwd", ".putty"]),
    ("keys that sign and decrypt, and the socket of their agent", &[".gnupg"]),
    (
        "keys that sign and decrypt",
        &[".config/sops", ".config/age", ".minisign", ".step", ".acme.sh", ".lego"],
    ),
    (
        "keys of a cloud",
        &[
            ".aws",
            ".oci",
            ".boto",
            ".s3cfg",
            ".config/rclone",
            ".rclone.conf",
            ".config/openstack",
            ".aliyun",
            ".tccli",
            ".bluemix",
            ".chef",
            ".mc/config.json",
            ".config/scw",
            ".config/linode-cli",
            ".config/exoscale",
            ".vultr-cli.yaml",
            ".gsutil",
        ],
    ),
    (
        "tokens of a cloud",
        &[
            ".azure",
            ".config/gcloud",
            ".config/doctl",
            ".config/hcloud",
            ".terraform.d",
            ".terraformrc",
            ".fly",
            ".config/heroku",
            ".local/share/heroku",
            ".config/netlify",
            ".netlify",
            ".local/share/com.vercel.cli",
            ".vercel",
            ".config/.wrangler",
            ".wrangler",
            ".cloudflared",
            ".railway",
            ".render",
            ".config/configstore",
            ".pulumi/credentials.json",
            ".config/ngrok",
            ".ngrok2",
            ".databrickscfg",
            ".databricks",
            ".snowflake",
            ".snowsql",
            ".dbt/profiles.yml",
            ".supabase",
            ".config/planetscale",
            ".config/turso",
            ".confluent",
            ".ccloud",
            ".modal.toml",
            ".kaggle",
            ".cache/huggingface/token",
            ".cache/huggingface/stored_tokens",
            ".huggingface",
            ".config/wandb",
            ".lightning",
            ".vast_api_key",
        ],
    ),
    (
        "keys of clusters",
        &[
            ".kube",
            ".minikube/profiles",
            ".rancher",
            ".config/argocd",
            ".argocd",
            ".config/lxc",
            ".config/incus",
        ],
    ),
    ("tokens of registries, and the socket of a rootless daemon", &[".docker"]),
    ("tokens of registries", &[".config/containers", ".config/helm", ".jfrog"]),
    (
        "tokens of code hosts",
        &[
            ".config/gh",
            ".config/glab-cli",
            ".config/hub",
            ".config/tea",
            ".config/lab",
            ".config/github-copilot",
            ".config/.jira",
            ".jira.d",
            ".sentryclirc",
            ".circleci",
            ".travis",
            ".config/buildkite.yaml",
            ".config/cachix",
        ],
    ),
    (
        "passwords of code hosts",
        &[".git-credentials", ".config/git/credentials", ".git-credential-cache"],
    ),
    (
        "passwords of anything",
        &[
            ".netrc",
            "_netrc",
            ".wgetrc",
            ".smbcredentials",
            ".davfs2",
            ".lftp",
            ".config/lftp",
            ".ncftp",
            ".filezilla",
            ".config/filezilla",
            ".config/remmina",
            ".local/share/remmina",
            ".ansible_vault_password",
            ".vault_pass",
        ],
    ),
    (
        "tokens that publish packages",
        &[
            ".npmrc",
            ".yarnrc.yml",
            ".pypirc",
            ".gem/credentials",
            ".cargo/credentials.toml",
            ".cargo/credentials",
            ".config/pip",
            ".pip",
            ".config/pypoetry/auth.toml",
            ".local/share/uv/credentials",
            ".continuum",
            ".gradle/gradle.properties",
            ".m2/settings.xml",
            ".sbt/.credentials",
            ".ivy2/.credentials",
            ".composer/auth.json",
            ".config/composer/auth.json",
            ".hex/hex.config",
            ".pub-cache/credentials.json",
            ".config/dart/pub-credentials.json",
            ".luarocks/upload_config.lua",
            ".julia/servers",
            ".config/pnpm/rc",
        ],
    ),
    ("the password of other passwords", &[".m2/settings-security.xml"]),
    ("a token that opens other secrets", &[".vault-token"]),
    (
        "passwords",
        &[
            ".password-store",
            ".local/share/keyrings",
            ".local/share/kwalletd",
            ".lastpass",
            ".lpass",
            ".local/share/lpass",
            ".config/keepassxc",
            ".local/share/gopass",
        ],
    ),
    (
        "tokens of a password store",
        &[
            ".config/op",
            ".config/1Password",
            ".config/Bitwarden",
            ".config/Bitwarden CLI",
            ".config/rbw",
            ".local/share/rbw",
        ],
    ),
    (
        "passwords of databases",
        &[
            ".pgpass",
            ".pg_service.conf",
            ".my.cnf",
            ".mylogin.cnf",
            ".odbc.ini",
            ".cassandra",
            ".local/share/DBeaverData",
        ],
    ),
    (
        "cookies and passwords of a browser",
        &[
            ".mozilla",
            ".librewolf",
            ".config/google-chrome",
            ".config/google-chrome-beta",
            ".config/chromium",
            ".config/BraveSoftware",
            ".config/microsoft-edge",
            ".config/vivaldi",
            ".config/opera",
            "snap/firefox",
        ],
    ),
    (
        "mail and its passwords",
        &[
            ".thunderbird",
            ".mutt",
            ".muttrc",
            ".config/neomutt",
            ".msmtprc",
            ".config/msmtp",
            ".mbsyncrc",
            ".offlineimaprc",
            ".fetchmailrc",
            ".config/himalaya",
        ],
    ),
    (
        "messages and their keys",
        &[
            ".config/Slack",
            ".config/discord",
            ".config/Signal",
            ".local/share/TelegramDesktop",
            ".purple",
            ".config/weechat",
            ".weechat",
            ".irssi",
        ],
    ),
    ("keys of wallets", &[".bitcoin", ".ethereum", ".electrum", ".config/solana"]),
    ("the key of the display", &[".Xauthority"]),
    (
        "what was typed, passwords among it",
        &[
            ".bash_history",
            ".zsh_history",
            ".zhistory",
            ".history",
            ".sh_history",
            ".ksh_history",
            ".bash_sessions",
            ".zsh_sessions",
            ".local/share/fish",
            ".config/nushell/history.txt",
            ".xonsh_history",
            ".local/share/atuin",
            ".python_history",
            ".node_repl_history",
            ".irb_history",
            ".pry_history",
            ".php_history",
            ".Rhistory",
            ".psql_history",
            ".mysql_history",
            ".mariadb_history",
            ".sqlite_history",
            ".rediscli_history",
            ".mongodb",
            ".dbshell",
            ".influx_history",
            ".gdb_history",
            ".viminfo",
        ],
    ),
    (
        "tokens of a model provider",
        &[
            ".claude/.credentials.json",
            ".claude.json",
            ".codex/auth.json",
            ".gemini/oauth_creds.json",
            ".qwen/oauth_creds.json",
            ".config/anthropic",
            ".config/openai",
            ".config/io.datasette.llm",
            ".copilot",
            ".local/share/opencode/auth.json",
            ".config/goose",
            ".local/share/crush",
            ".config/aichat",
            ".config/mods",
            ".vibe/.env",
        ],
    ),
];

/// Returns the same paths, each with what it is.
pub(in crate::guard) fn in_home() -> impl Iterator<Item = (&'static str, &'static str)> {
    BY_CONTENT.iter().flat_map(|(what, paths)| paths.iter().map(move |path| (*path, *what)))
}

/// Returns the one of these paths that a path below home is or is in, and what it is.
pub(in crate::guard) fn holding(below: &Path) -> Option<(&'static str, &'static str)> {
    // A search looks at a million files, of which few are in such a place.
    static FIRST: LazyLock<HashSet<&'static str>> =
        LazyLock::new(|| in_home().filter_map(|(path, _)| path.split('/').next()).collect());
    let first = below.iter().next()?.to_str()?;
    FIRST.contains(first).then(|| in_home().find(|(path, _)| below.starts_with(path))).flatten()
}

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
    let paths = in_home().map(|(path, _)| Path::new(path));
    paths.filter(move |path| may_be_there(path)).map(|path| home.join(path))
}
