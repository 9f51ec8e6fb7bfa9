//! `explain`: how a node is reached, and tables that the program itself goes by.

use serde::Serialize;

use crate::args::{ExplainArgs, Subject, Topic};
use crate::exit::{self, Exit};
use crate::failure::Failure;
use crate::invocation::Invocation;
use crate::table::{Align, Cell, Table};
use crate::{environment, render};

/// A line of either table, as `--json` prints it.
#[derive(Debug, Serialize)]
struct Line {
    name: String,
    meaning: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry: Option<&'static str>,
}

/// Explains.
pub(crate) async fn explain(invocation: &Invocation, args: &ExplainArgs) -> Result<Exit, Failure> {
    match &args.subject {
        Subject::Topic(Topic::ExitCodes) => exit_codes(invocation),
        Subject::Topic(Topic::Environment) => variables(invocation),
        Subject::Node(node) => {
            let route = invocation.client()?.route(node).await?;
            invocation.printer.answer(&route, |route| render::route::route(route, invocation.wall_ms()));
        }
    }
    Ok(Exit::Done)
}

fn exit_codes(invocation: &Invocation) {
    let line = |row: &exit::Row| Line {
        name: row.exit.code().to_string(),
        meaning: row.meaning,
        retry: Some(row.retry),
    };
    let lines: Vec<Line> = exit::TABLE.iter().map(line).collect();
    invocation.printer.answer(&lines, |lines| {
        let mut table =
            Table::new([("CODE", Align::Right), ("MEANING", Align::Left), ("TRY AGAIN", Align::Left)]);
        for line in lines {
            table.row([Cell::from(&line.name), Cell::from(line.meaning), Cell::maybe(line.retry)]);
        }
        let rest =
            "`run` ends with the job's own code otherwise; codes 125 and up follow env(1) and timeout(1)\n";
        format!("{}\n{rest}", table.render())
    });
}

fn variables(invocation: &Invocation) {
    let line = |variable: &environment::Variable| Line {
        name: variable.name.to_owned(),
        meaning: variable.meaning,
        retry: None,
    };
    let lines: Vec<Line> = environment::TABLE.iter().map(line).collect();
    invocation.printer.answer(&lines, |lines| {
        let mut table = Table::new([("VARIABLE", Align::Left), ("MEANING", Align::Left)]);
        lines.iter().for_each(|line| table.row([Cell::from(&line.name), Cell::from(line.meaning)]));
        table.render()
    });
}
