//! That the examples run, and find what they say they find.

#[path = "../../examples/custom_engine.rs"]
mod custom_engine;
#[path = "../../examples/custom_loop.rs"]
mod custom_loop;
#[path = "../../examples/custom_model.rs"]
mod custom_model;
#[path = "../../examples/tool_agent.rs"]
mod tool_agent;

#[test]
fn the_example_of_an_agent_with_tools_runs() -> anyhow::Result<()> {
    tool_agent::main()
}

#[test]
fn the_example_of_a_model_of_ones_own_runs() -> anyhow::Result<()> {
    custom_model::main()
}

#[test]
fn the_example_of_a_loop_of_ones_own_runs() -> anyhow::Result<()> {
    custom_loop::main()
}

#[test]
fn the_example_of_an_engine_of_ones_own_runs() -> anyhow::Result<()> {
    custom_engine::main()
}
