//! The binary: everything is in the library, so that tests can enter anywhere.

fn main() -> std::process::ExitCode {
    tine::cli::main()
}
