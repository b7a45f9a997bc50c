//! Sends the spans of a run to a collector that is not ours, in both encodings.
//!
//! `collector TINE` runs the binary's offline review in a small repository and
//! fails if the collector has not got what `docs/telemetry.md` promises.

use std::error::Error;
use std::path::Path;
use std::process::Command;

use mock_collector::{MockServer, Protocol};

/// The review without a model starts as many agents.
const REVIEWERS: usize = 5;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let tine = std::env::args_os().nth(1).ok_or("say which binary: collector TINE")?;
    for (name, protocol) in
        [("http/protobuf", Protocol::HttpBinary), ("http/json", Protocol::HttpJson)]
    {
        let server = MockServer::builder().protocol(protocol).start().await?;
        let endpoint = format!("http://{}", server.addr());
        let tine = tine.clone();
        // The server works on the threads of this runtime meanwhile.
        tokio::task::spawn_blocking(move || {
            review(Path::new(&tine), &endpoint, name).map_err(|error| error.to_string())
        })
        .await??;
        server
            .with_collector(|collector| {
                let ours = [("service.name", "tine-under-test")];
                let main = collector.expect_span_with_name("invoke_agent main");
                main.with_resource_attributes(ours).assert_count(1);
                collector
                    .expect_span_with_name("invoke_agent reviewer")
                    .with_attributes([("gen_ai.operation.name", "invoke_agent")])
                    .assert_count(REVIEWERS);
                collector
                    .expect_span_with_name("execute_tool Agent")
                    .with_attributes([("gen_ai.tool.name", "Agent")])
                    .assert_count(1);
                let spans: Vec<_> = collector.spans().iter().map(|it| it.span().clone()).collect();
                let trace = &spans[0].trace_id;
                assert!(trace.len() == 16 && spans.iter().all(|span| span.trace_id == *trace));
                let is_there = |id: &Vec<u8>| spans.iter().any(|span| span.span_id == *id);
                let roots = spans.iter().filter(|span| !is_there(&span.parent_span_id)).count();
                assert_eq!(roots, 1, "all spans hang together");
                assert!(spans.iter().all(|span| span.span_id.len() == 8));
                assert!(
                    spans.iter().all(|span| span.start_time_unix_nano <= span.end_time_unix_nano)
                );
            })
            .await;
        println!("{name}: ok");
        server.shutdown().await?;
    }
    Ok(())
}

/// Reviews a small change, and sends the spans there.
fn review(tine: &Path, endpoint: &str, protocol: &str) -> Result<(), Box<dyn Error>> {
    let place = tempfile::tempdir()?;
    let repository = place.path().join("repository");
    run(Command::new("git").args(["init", "--quiet"]).arg(&repository))?;
    std::fs::write(repository.join("lib.rs"), "pub fn half(text: &str) -> u32 {\n    0\n}\n")?;
    run(Command::new("git").arg("-C").arg(&repository).args(["add", "lib.rs"]))?;
    run(Command::new(tine)
        .arg("review")
        .current_dir(&repository)
        .env("TINE_HOME", place.path().join("home"))
        .env_remove("OPENAI_API_KEY")
        .env_remove("OPENAI_BASE_URL")
        .env_remove("OLLAMA_HOST")
        .env("OTEL_SERVICE_NAME", "tine-under-test")
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
        .env("OTEL_EXPORTER_OTLP_PROTOCOL", protocol))
}

fn run(command: &mut Command) -> Result<(), Box<dyn Error>> {
    let output = command.output()?;
    match output.status.success() {
        true => Ok(()),
        false => {
            Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)).into())
        }
    }
}
