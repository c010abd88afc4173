//! The `evenkeel` command; everything is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    evenkeel_app::cli::main()
}
