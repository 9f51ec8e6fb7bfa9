//! `run`: one program in a sandbox somewhere. Its outputs and its exit code become this command's own.

use std::path::Path;

use mesh_node::api::limits::WAIT_SECONDS_MAX;
use mesh_node::client::Client;
use mesh_protocol::api::job::{AttestationView, JobView, RunRequest};
use mesh_protocol::id::JobId;
use mesh_protocol::job::{CODE_BYTES_MAX, JobSpec, Language, Requirements, STDIN_BYTES_MAX};

use crate::args::RunArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::input::{self, Source};
use crate::invocation::Invocation;
use crate::job_files;
use crate::printer::Stream;
use crate::render;

/// How long signing an end may take on a busy machine.
const SIGNED_WITHIN_SECONDS: u64 = 30;

/// Runs. What keeps the mesh from running the job ends with [`Exit::NotRun`], so that no code of the job's is taken
/// for one of ours.
pub(crate) async fn run(invocation: &Invocation, args: RunArgs) -> Result<Exit, Failure> {
    let request = request(&args).await?;
    match submitted(invocation, &args, request).await {
        Err(failure) => {
            let report = failure.into_report();
            invocation.printer.failure(&report.error, &report.causes);
            Ok(Exit::NotRun)
        }
        exit => exit,
    }
}

async fn request(args: &RunArgs) -> Result<RunRequest, Failure> {
    if args.file == Some(Source::Stdin) && args.stdin == Some(Source::Stdin) {
        return Err(Failure::usage(
            "standard input cannot be both the program and what it reads",
            "put one of them in a file",
        ));
    }
    let code = match (&args.code, &args.file) {
        (Some(code), _) => code.clone(),
        (None, Some(source)) => source.text(CODE_BYTES_MAX).await?,
        (None, None) => String::new(),
    };
    let stdin = match &args.stdin {
        Some(source) => source.text(STDIN_BYTES_MAX).await?,
        None => String::new(),
    };
    let told = args.language.or_else(|| language_of(args.file.as_ref(), &code));
    let language = told.ok_or_else(|| {
        Failure::usage(
            "the program's language is not told by its name",
            "add `--language python`, `node` or `bash`",
        )
    })?;
    let spec = JobSpec {
        stdin,
        limits: args.limits.limits(),
        requirements: Requirements { minimum_isolation: args.minimum_isolation() },
        files: job_files::read(&args.inputs).await?,
        outputs: args.outputs.iter().map(|name| job_files::output_path(name)).collect(),
        runtime: args.runtime.clone(),
        ..JobSpec::new(language, code)
    };
    spec.check()
        .map_err(|error| Failure::usage(error.to_string(), "`mesh-cli run --help` shows examples"))?;
    Ok(RunRequest {
        spec,
        on: args.on.clone(),
        idempotency_key: args.idempotency_key.clone(),
        deadline_seconds: args.deadline,
        idempotent: args.idempotent,
    })
}

/// By the file's name, or else by the interpreter its first line names.
fn language_of(file: Option<&Source>, code: &str) -> Option<Language> {
    let extension = match file {
        Some(Source::File(path)) => path.extension().and_then(|extension| extension.to_str()),
        _ => None,
    };
    let by_name = extension.and_then(|extension| match extension {
        "py" => Some(Language::Python),
        "js" | "mjs" | "cjs" => Some(Language::Node),
        "sh" | "bash" => Some(Language::Bash),
        _ => None,
    });
    let interpreter = || {
        let first = code.lines().next()?.strip_prefix("#!")?;
        let word = first.split_whitespace().find(|word| !word.ends_with("/env"))?;
        match Path::new(word).file_name()?.to_str()? {
            "python" | "python3" => Some(Language::Python),
            "node" => Some(Language::Node),
            "bash" | "sh" => Some(Language::Bash),
            _ => None,
        }
    };
    by_name.or_else(interpreter)
}

async fn submitted(invocation: &Invocation, args: &RunArgs, request: RunRequest) -> Result<Exit, Failure> {
    let printer = &invocation.printer;
    if !args.detach {
        job_files::check_free(&args.output_dir, &request.spec.outputs)?;
    }
    let client = invocation.client()?;
    let receipt = client.submit(request).await?;
    if args.detach {
        printer.answer(&receipt, |receipt| receipt.job_id.to_string());
        return Ok(Exit::Done);
    }
    printer.progress(&render::job::accepted(&receipt));
    if let Some(held) = &receipt.held {
        printer.note(&render::receipt::held(held, &receipt.node_name, invocation.wall_ms()));
    }
    let job_id = receipt.job_id;
    invocation.leaves_running(format!(
        "the job goes on: `mesh-cli jobs {job_id}` shows it,\n`mesh-cli cancel {job_id}` stops it"
    ));
    let job = ended(&client, job_id).await?;
    let exit = conclude(invocation, &job);
    if !args.outputs.is_empty() {
        job_files::save(invocation, &client.job_outputs(job_id).await?, &args.output_dir)?;
    }
    if let Some(path) = &args.evidence {
        save_evidence(invocation, &client, &job, path).await?;
    }
    Ok(exit)
}

/// The job once it has ended. The node ends every job at its deadline, so this ends too.
pub(super) async fn ended(client: &Client, job: JobId) -> Result<JobView, Failure> {
    loop {
        let view = client.job_result(job, WAIT_SECONDS_MAX).await?;
        if view.terminal {
            return Ok(view);
        }
    }
}

/// The job once what became of its proof is known: an end that the node here decided is signed a moment later.
async fn attested(client: &Client, job: &JobView) -> Result<JobView, Failure> {
    if job.attestation != AttestationView::Pending {
        return Ok(job.clone());
    }
    // Behind every event there can be: answered when there will be no more.
    client.job_events(job.job_id, u64::MAX, SIGNED_WITHIN_SECONDS).await?;
    Ok(client.job(job.job_id).await?)
}

async fn save_evidence(
    invocation: &Invocation,
    client: &Client,
    job: &JobView,
    path: &Path,
) -> Result<(), Failure> {
    let job = &attested(client, job).await?;
    let nothing = matches!(
        job.attestation,
        AttestationView::Pending | AttestationView::Missing { .. } | AttestationView::Unsigned { .. }
    );
    if nothing {
        invocation.printer.warning(&format!("no evidence to save: {}", render::job::proof(&job.attestation)));
        return Ok(());
    }
    input::write_private(path, &client.evidence(job.job_id).await?)?;
    let signer = job.node;
    invocation.printer.note(&format!(
        "evidence saved; `mesh-cli verify {} --key {signer}` checks it anywhere",
        path.display()
    ));
    Ok(())
}

pub(super) fn conclude(invocation: &Invocation, job: &JobView) -> Exit {
    let printer = &invocation.printer;
    let Some(result) = &job.result else { return Exit::NotRun };
    if printer.json() {
        printer.answer(job, |_| String::new());
        return render::job::exit(result);
    }
    printer.foreign(Stream::Out, &result.stdout);
    printer.foreign(Stream::Err, &result.stderr);
    if result.truncated {
        printer.warning("the output was cut: the job wrote more than is kept");
    }
    if let Some(trouble) = render::job::trouble(result) {
        printer.complaint(&trouble);
    }
    render::job::exit(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_language_is_told_by_the_name_or_the_first_line() {
        let named = |name: &str, code| language_of(Some(&Source::File(name.into())), code);
        assert_eq!(named("a.py", ""), Some(Language::Python));
        assert_eq!(named("a.mjs", ""), Some(Language::Node));
        assert_eq!(named("a", "#!/usr/bin/env bash\ntrue"), Some(Language::Bash));
        assert_eq!(language_of(None, "#!/usr/bin/python3\n"), Some(Language::Python));
        assert_eq!(named("a.rb", "#!/usr/bin/env ruby"), None);
        assert_eq!(language_of(None, "print(1)"), None);
    }
}
