//! Help: the first page, and the pages that explain a promise.

use crate::command::Place;

#[test]
fn the_first_page_shows_every_command_by_task() {
    insta::assert_snapshot!(Place::new().picture(&["--help"]), @r#"
    exit code 0
    ----- stdout -----
    Ask agents and run code on any machine of your mesh

    Usage: mesh-cli [OPTIONS] [COMMAND]

    Make a mesh:
      init         Make a mesh with this machine as its first node
      invite       Print a ticket that lets one node join
      join         Join a mesh with a ticket
      up           Start this machine's node
      down         Stop this machine's node

    Work:
      ask          Give an agent work and wait for its answer
      send         Leave an agent a message, with no work to track
      run          Run a Python, Node.js or Bash program in a sandbox
      cancel       Stop an ask or a job

    Look:
      status       Show this node, its peers and its work
      who          List the agents that can be asked
      flights      List asks, or show or await one
      jobs         List jobs, or show, follow, stop or await one
      messages     List messages, newest first
      outbox       Show what waits for peers that cannot be reached
      ping         Measure the way to a node, and say which way it is
      explain      Explain how a node is reached, exit codes or variables
      whoami       Show who you are to the node
      logs         Show what the node in the background wrote
      doctor       Find out what is wrong, and how to mend it

    Trust:
      allow        Let a peer do something here
      deny         Stop letting a peer do something here
      block        Have nothing to do with a peer, on this node only
      unblock      Take a block back
      revoke       Expel a node from the mesh, for everyone and for good
      keys         Make, list or end keys of the job API
      verify       Check the evidence of a job, offline

    This machine:
      demo         Show a mesh of three nodes at work, on this machine alone
      setup        Install what jobs need on this machine
      check        Try whether this machine can run jobs; needs no node
      mcp-server   Serve the Model Context Protocol on standard input and output
      completions  Print a completion script for a shell

          --home <DIR>    The node's directory
          --json          Print one JSON document, the same as the node's API gives
      -q, --quiet         Print answers and errors, nothing else
      -v, --verbose...    Write logs to standard error; twice for more
          --color <WHEN>  When to use colour [possible values: auto, always, never]
          --no-input      Never ask anything; fail where a yes is needed
      -h, --help          Print help
      -V, --version       Print version

    Examples:
      mesh-cli init && mesh-cli up && mesh-cli invite
      mesh-cli ask @reviewer.node:atlas "review the last commit"
      echo 'print(6 * 7)' | mesh-cli run --language python -
    "#);
}

#[test]
fn join_recommends_the_way_that_keeps_the_ticket_out_of_the_history() {
    insta::assert_snapshot!(Place::new().picture(&["join", "--help"]), @r"
    exit code 0
    ----- stdout -----
    Join a mesh with a ticket

    Usage: mesh-cli join [OPTIONS] <TICKET>

    Arguments:
      <TICKET>  The ticket that `mesh-cli invite` printed, or `-` to read it from
                standard input

    Options:
          --name <NAME>    What this node is called; this machine's name when absent
          --trust <TRUST>  What other nodes may do here unless `mesh-cli allow` says
                           otherwise: mine, team or none [default: none]
      -h, --help           Print help

    Everywhere:
          --home <DIR>    The node's directory
          --json          Print one JSON document, the same as the node's API gives
      -q, --quiet         Print answers and errors, nothing else
      -v, --verbose...    Write logs to standard error; twice for more
          --color <WHEN>  When to use colour [possible values: auto, always, never]
          --no-input      Never ask anything; fail where a yes is needed

    `mesh-cli join -` reads the ticket from standard input. Prefer it: arguments can
    be read by other users of this machine and stay in the shell's history.
    ");
}

#[test]
fn run_explains_its_exit_codes() {
    insta::assert_snapshot!(Place::new().picture(&["run", "--help"]), @r"
    exit code 0
    ----- stdout -----
    Run a Python, Node.js or Bash program in a sandbox

    Usage: mesh-cli run [OPTIONS] <FILE|--code <CODE>>

    Arguments:
      [FILE]  The program's file, or `-` to read it from standard input

    Options:
      -e, --code <CODE>            The program itself
      -l, --language <LANGUAGE>    python, node or bash; told by the file's name or
                                   first line when absent
          --on <NODE>              The node to run it on, by name or id
          --stdin <FILE>           What the program reads: a file, or `-` for
                                   standard input
          --input <FILE>           A file the program finds at input/NAME, or
                                   NAME=FILE to call it otherwise; may be given
                                   again
          --output <NAME>          A file the program is to leave at output/NAME;
                                   may be given again
          --output-dir <DIR>       Where the files it leaves are saved
          --runtime <NAME>         The runtime pack to run it in
          --evidence <FILE>        Save the signed evidence of the job here
      -d, --detach                 Print the job's id and do not wait
          --deadline <TIME>        When the result is of no use any more; an hour
                                   when absent
          --idempotency-key <KEY>  Your own key: the same key and program again give
                                   the first job again, not a second
          --idempotent             Running it twice does no harm: it may go to
                                   another node when its own is gone
          --shared-kernel          Accept isolation that shares the machine's kernel
      -h, --help                   Print help

    Limits:
          --timeout <TIME>     Wall time, from when the sandbox is ready; up to 5m
                               [default: 15s]
          --cpu <TIME>         CPU time of all its processes together; as
                               `--timeout` when absent
          --memory <MIB>       MiB of memory, temporary files included; up to 1024
                               [default: 256]
          --processes <COUNT>  Processes and threads; up to 256 [default: 64]
          --file-size <MIB>    MiB of the largest file it may write; up to 256
                               [default: 16]

    Everywhere:
          --home <DIR>    The node's directory
          --json          Print one JSON document, the same as the node's API gives
      -q, --quiet         Print answers and errors, nothing else
      -v, --verbose...    Write logs to standard error; twice for more
          --color <WHEN>  When to use colour [possible values: auto, always, never]
          --no-input      Never ask anything; fail where a yes is needed

    The job's standard output and standard error are this command's, and so is its
    exit code. 125 means that the mesh could not run it, 124 that it ran out of
    time, 137 that it was killed or ran out of memory.

    A job has no network and sees no files of this machine. It runs on this node or
    on one that its operator chose.

      mesh-cli run script.py --stdin input.csv
      mesh-cli run plot.py --input data.csv --output plot.png --output-dir results
      mesh-cli run --language bash -e 'uname -a'
      mesh-cli run --on atlas --evidence proof.json script.js
    ");
}

#[test]
fn the_help_of_every_command_fits_eighty_columns() {
    let place = Place::new();
    let help = |arguments: &[&str]| {
        let output = place.program(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let page = help(&["--help"]);
    let (commands, _) = page.split_once("      --home").unwrap();
    let commands: Vec<&str> =
        commands.lines().filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next()).collect();
    assert!(commands.contains(&"ask") && commands.contains(&"completions"), "{commands:?}");
    for command in commands {
        let page = help(&[command, "--help"]);
        assert!(page.lines().all(|line| line.chars().count() <= 80), "{page}");
    }
}
