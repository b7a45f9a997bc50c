//! Settings in the value of an option: which of them run code, for programs with many.

/// Settings of PHP that run code, load it, or lift a bound on what scripts may do. A setting
/// of a group counts with its prefix, which ends in a dot.
const PHP: [&str; 23] = [
    "allow_url_include",
    "assert.callback",
    "auto_append_file",
    "auto_prepend_file",
    "cli.pager",
    "disable_classes",
    "disable_functions",
    "enable_dl",
    "extension",
    "extension_dir",
    "ffi.",
    "imap.enable_insecure_rsh",
    "include_path",
    "mail.force_extra_parameters",
    "opcache.file_cache",
    "opcache.preload",
    "open_basedir",
    "sendmail_path",
    "unserialize_callback_func",
    "user_ini.filename",
    // With these a debugger elsewhere runs what it likes.
    "xdebug.client_host",
    "xdebug.remote_host",
    "zend_extension",
];

/// Settings of ssh that run nothing and read no other settings.
const SSH: [&str; 30] = [
    "addressfamily",
    "batchmode",
    "checkhostip",
    "ciphers",
    "compression",
    "connectionattempts",
    "connecttimeout",
    "exitonforwardfailure",
    "forwardagent",
    "forwardx11",
    "globalknownhostsfile",
    "hostkeyalgorithms",
    "hostname",
    "identitiesonly",
    "identityfile",
    "kbdinteractiveauthentication",
    "kexalgorithms",
    "loglevel",
    "macs",
    "numberofpasswordprompts",
    "passwordauthentication",
    "port",
    "preferredauthentications",
    "pubkeyauthentication",
    "requesttty",
    "serveralivecountmax",
    "serveraliveinterval",
    "stricthostkeychecking",
    "user",
    "userknownhostsfile",
];

/// Returns whether a setting `key=value` of PHP may run code.
pub(super) fn php_runs(setting: &str) -> bool {
    let (key, value) = setting.split_once('=').unwrap_or((setting, ""));
    let key = key.trim().to_ascii_lowercase();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    // PHP reads the option as a line of its configuration: a value may end that line.
    !key.chars().all(is_plain)
        || value.contains(['\n', '\r', '"', '\'', ';', '$', '`'])
        || PHP.iter().any(|it| key == *it || it.ends_with('.') && key.starts_with(it))
}

/// Returns whether a setting of ssh, `Key=value` or `Key value`, may run a program.
pub(super) fn ssh_runs(setting: &str) -> bool {
    let setting = setting.trim_start();
    let end = setting.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(setting.len());
    let (key, value) = setting.split_at(end);
    value.contains(['\n', '\r']) || !SSH.contains(&&*key.to_ascii_lowercase())
}

/// Returns whether perl's `-M` does more than load a module: what it is given is put into the
/// text of the program.
pub(super) fn perl_runs(module: &str) -> bool {
    !module.chars().all(|c| c.is_ascii_alphanumeric() || "_:=,-.".contains(c))
}
