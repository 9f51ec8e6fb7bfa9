//! The `mesh-cli` binary.

fn main() -> std::process::ExitCode {
    mesh_cli::main()
}
