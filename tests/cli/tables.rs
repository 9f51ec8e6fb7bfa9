//! The tables the program goes by.

use crate::command::Place;

#[test]
fn exit_codes_are_explained_from_the_table_that_is_used() {
    insta::assert_snapshot!(Place::new().picture(&["explain", "exit-codes"]), @r"
    exit code 0
    ----- stdout -----
    CODE  MEANING                                                   TRY AGAIN
       0  done, or already so; `ask`: answered                      -
       1  it worked and the answer is no: ask failed, check failed  no
       2  wrong usage, or a wrong file or setting                   no
       3  node not running, still pending, no room                  yes
       4  not allowed, by policy, trust or credential               no
       5  `verify`: authentic, and not complete                     no
      70  a fault of mesh itself                                    no
     124  `run`: the job ran out of time                            no
     125  `run`: the mesh could not run the job                     maybe
     130  interrupted with Ctrl-C                                   -
     137  `run`: the job was killed, or ran out of memory           no

    `run` ends with the job's own code otherwise; codes 125 and up follow env(1) and timeout(1)
    ");
}

#[test]
fn environment_variables_are_explained() {
    insta::assert_snapshot!(Place::new().picture(&["explain", "environment"]), @r"
    exit code 0
    ----- stdout -----
    VARIABLE                    MEANING
    MESH_HOME                   the node's directory, as `--home`
    MESH_TOKEN                  an agent's own token, in place of the operator's
    MESH_MCP_MINIMUM_ISOLATION  the weakest isolation of an agent host's jobs
    MESH_MCP_ALLOWED_LANGUAGES  the languages an agent host's jobs may be in
    MESH_MCP_EXECUTOR           the node an agent host's jobs go to
    XDG_DATA_HOME               where that directory is when neither says
    XDG_RUNTIME_DIR             where the socket is when that path is too long
    NO_COLOR                    no colours, as `--color never`
    CLICOLOR_FORCE              colours into pipes too
    RUST_LOG                    which logs are written, in place of `-v`
    ");
}

#[test]
fn there_is_a_completion_script_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let output = Place::new().program(&["completions", shell]).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{shell}");
        let script = String::from_utf8(output.stdout).unwrap();
        assert!(script.contains("mesh-cli") && script.contains("mcp-server"), "{shell}");
    }
}
