//! The MCP adapter alone, as a program that tests can start.

fn main() -> anyhow::Result<()> {
    let options = mesh_node::mcp::Options::from_environment(|name| std::env::var_os(name))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let served = runtime.block_on(mesh_node::mcp::serve_stdio(options));
    // A read of standard input may still be under way.
    runtime.shutdown_background();
    Ok(served?)
}
