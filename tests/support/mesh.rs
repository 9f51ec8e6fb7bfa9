//! The program under test: the same `main` as the real one, built in this package so that its tests can start it.

fn main() -> std::process::ExitCode {
    mesh_cli::main()
}
