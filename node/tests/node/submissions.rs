//! Submissions whose answer is lost on its way: one job, however often it was sent.
//!
//! Where gVisor is not installed they are skipped, and say so.

use std::path::Path;

use mesh_protocol::api::job::{JobFilter, RunRequest};
use mesh_protocol::job::{JobSpec, JobStatus, Language};
use mesh_protocol::policy::Trust;
use tokio::io::{AsyncReadExt, copy, copy_bidirectional};
use tokio::net::{UnixListener, UnixStream};

use crate::mesh::Node;

/// A way to a node on which the first answers are lost: the node has given them, and nobody gets them.
fn lossy_way(at: &Path, node: &Node, answers_lost: usize) {
    let (listener, there) = (UnixListener::bind(at).unwrap(), node.socket());
    tokio::spawn(async move {
        for connection in 0.. {
            let (mut client, _) = listener.accept().await.unwrap();
            let mut node = UnixStream::connect(&there).await.unwrap();
            if connection >= answers_lost {
                tokio::spawn(async move { copy_bidirectional(&mut client, &mut node).await });
                continue;
            }
            let (mut asks, _answers) = client.into_split();
            let (mut answers, mut asked) = node.into_split();
            let going = tokio::spawn(async move { copy(&mut asks, &mut asked).await });
            // The answer has begun, so what it acknowledges is committed; then everything is gone.
            answers.read_u8().await.unwrap();
            going.abort();
        }
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_is_asked_for_again_under_the_same_key_and_there_is_one_job() {
    let root = tempfile::tempdir().unwrap();
    let atlas = Node::found(root.path(), "atlas", "[executor]\nslots = 1\n", Trust::Mine).await;
    if !atlas.runs_jobs().await {
        return;
    }
    let way = root.path().join("way.sock");
    lossy_way(&way, &atlas, 1);
    let client = atlas.client_by(way);
    let request = RunRequest::new(JobSpec::new(Language::Bash, "echo once"));
    let receipt = client.submit(request.clone()).await.unwrap();
    assert!(receipt.replayed, "the first had arrived");
    let again = client.submit(request).await.unwrap();
    assert!(!again.replayed && again.job_id != receipt.job_id, "another submission is another job");
    for job in [receipt.job_id, again.job_id] {
        let view = atlas.client.job_result(job, 60).await.unwrap();
        assert_eq!((view.status, view.result.unwrap().stdout.as_str()), (JobStatus::Succeeded, "once\n"));
    }
    assert_eq!(atlas.client.jobs(&JobFilter::default(), 10).await.unwrap().jobs.len(), 2);
}
