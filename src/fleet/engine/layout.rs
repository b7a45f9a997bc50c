//! The streams, buckets and consumers of the pool, and their settings.
//!
//! Whoever comes first makes them; everybody else finds them equal, or says what
//! is not.

use std::time::Duration;

use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::consumer::{self, AckPolicy, PullConsumer, pull};
use async_nats::jetstream::stream::{
    Config, DiscardPolicy, Info as StreamInfo, RetentionPolicy, StorageType,
};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::Engine;
use super::error::{Denied, EngineError, Kind};
use super::names::SHARDS;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// How long a ticket waits for a worker.
pub(in crate::fleet) const JOBS_AGE: Duration = DAY;

/// How long frames, results and blobs are kept: a coordinator whose machine slept over
/// a weekend reads on where it was. One that is started anew has another name, and
/// reads nothing of the one before.
const EVENTS_AGE: Duration = DAY.saturating_mul(7);

/// How long a consumer that nobody uses is kept: there is one for each version of tine
/// and each label. It is made again if it was in use.
const UNUSED_LIMIT: Duration = DAY.saturating_mul(7);

/// How long a run's end is told to workers that come back.
const CONTROL_AGE: Duration = DAY;

/// How long a worker is listed after it was last heard of: three of its reports.
const WORKERS_AGE: Duration = Duration::from_secs(15);

/// How long a frame that is sent again is known for the same: longer than a server
/// takes to restart. Results and tickets are known by their subjects for as long
/// as they are stored.
const EVENTS_WINDOW: Duration = Duration::from_secs(120);

/// Most workers that may wait for a ticket at a time, for each label.
const WAITING_CAP: i64 = 4096;

/// The copies where nothing is configured and there are servers enough.
const REPLICAS: usize = 3;

/// What NATS calls how many copies there are of a stream.
const COPIES: &str = "num_replicas";

/// How long a cluster may have too few servers for these before that is believed: its
/// servers tell each other every ten seconds what they have.
const JOINING: Duration = Duration::from_secs(15);

/// An error code of NATS that its client has no name for.
const REPLICAS_NOT_ALONE: ErrorCode = ErrorCode(10074);

impl Engine {
    /// Makes what is not there, and compares what is.
    pub(super) async fn lay_out(&self, replicas: Option<usize>) -> Result<(), EngineError> {
        let mut refused = None;
        for config in self.streams() {
            self.ensure(config, replicas, &mut refused).await?;
        }
        self.consumer(None).await.map(drop)
    }

    /// Returns why these cannot be made, as far as JetStream tells.
    pub(super) async fn why_unready(&self) -> String {
        if let Err(cause) = self.hears_of_all().await {
            return cause;
        }
        // All that are there have a server; but nobody makes any where nobody leads.
        match self.call::<Value>("STREAM.NAMES".into(), &json!({})).await {
            Err(Denied::Passing(cause)) => cause,
            Ok(_) | Err(Denied::Nobody | Denied::Said(_) | Denied::Final(_)) => {
                "no answer in time".to_owned()
            }
        }
    }

    fn streams(&self) -> Vec<Config> {
        let names = &self.names;
        let bucket = |name: String, subject: String, max_age| Config {
            max_messages_per_subject: 1,
            discard: DiscardPolicy::New,
            allow_rollup: true,
            deny_delete: true,
            ..stream(name, vec![subject], max_age)
        };
        let blobs = names.blobs_bucket();
        let of_blobs = vec![format!("$O.{blobs}.C.>"), format!("$O.{blobs}.M.>")];
        let events = |shard| Config {
            duplicate_window: EVENTS_WINDOW,
            ..stream(names.events_stream(shard), names.all_events(shard), EVENTS_AGE)
        };
        let others = [
            Config {
                retention: RetentionPolicy::WorkQueue,
                // One ticket a slot: a ticket that is sent again while the first is
                // still there is refused, however long after.
                max_messages_per_subject: 1,
                discard: DiscardPolicy::New,
                discard_new_per_subject: true,
                duplicate_window: self.lease,
                ..stream(names.jobs_stream(), vec![names.all_jobs()], JOBS_AGE)
            },
            bucket(names.control_stream(), names.all_control(), CONTROL_AGE),
            bucket(names.workers_stream(), names.all_workers(), WORKERS_AGE),
            Config {
                discard: DiscardPolicy::New,
                allow_rollup: true,
                ..stream(names.blobs_stream(), of_blobs, EVENTS_AGE)
            },
        ];
        others.into_iter().chain((0..SHARDS).map(events)).collect()
    }

    /// Makes or compares one stream. `refused` is when a cluster first had too few
    /// servers.
    async fn ensure(
        &self,
        config: Config,
        replicas: Option<usize>,
        refused: &mut Option<Instant>,
    ) -> Result<(), EngineError> {
        let created = loop {
            let wanted = match replicas {
                Some(count) => count,
                None => self.copies(&config.name).await?,
            };
            let created = self.create(Config { num_replicas: wanted, ..config.clone() }).await;
            let Err(Denied::Said(error)) = &created else { break created };
            let too_few = || EngineError::TooFew { copies: wanted, cause: error.to_string() };
            match (error.error_code(), replicas) {
                (ErrorCode::CLUSTER_NO_PEERS, _) => {
                    let since = *refused.get_or_insert_with(Instant::now);
                    if since.elapsed() > JOINING {
                        // Nobody would notice that there is one copy of everything from
                        // now on, also once all servers are there.
                        return Err(too_few());
                    }
                    pause(&error.to_string()).await;
                    continue;
                }
                (REPLICAS_NOT_ALONE, Some(_)) => return Err(too_few()),
                // It has the name of a cluster, and stores things alone.
                (REPLICAS_NOT_ALONE, None) => {}
                (_, _) => break created,
            }
            match self.create(Config { num_replicas: 1, ..config.clone() }).await {
                // Somebody else made it meanwhile, when there were servers enough.
                Err(Denied::Final(EngineError::Differs { setting: COPIES, .. })) => {}
                created => break created,
            }
        };
        created.map_err(|denied| denied.into_error("laying out streams"))
    }

    /// Returns how many copies there are of a stream, or should be if there is none.
    async fn copies(&self, name: &str) -> Result<usize, EngineError> {
        Ok(match self.stream_info(name).await? {
            Some(info) => info.config.num_replicas,
            None if self.client.server_info().cluster.is_some() => REPLICAS,
            None => 1,
        })
    }

    async fn create(&self, config: Config) -> Result<(), Denied> {
        let subject = format!("STREAM.CREATE.{}", config.name);
        let body = json!(config);
        loop {
            match self.answered::<StreamInfo>(&subject, &body).await {
                Ok(_) => return Ok(()),
                Err(Denied::Said(error)) if error.error_code() == ErrorCode::STREAM_NAME_EXIST => {
                    let found = self.stream_info(&config.name).await.map_err(Denied::Final)?;
                    // Gone again between the two questions.
                    let Some(found) = found else { continue };
                    return compare(&config, &found.config).map_err(Denied::Final);
                }
                Err(denied) => return Err(denied),
            }
        }
    }

    /// Returns what is known of a stream; `None` if there is none.
    pub(super) async fn stream_info(&self, name: &str) -> Result<Option<StreamInfo>, EngineError> {
        match self.answered(&format!("STREAM.INFO.{name}"), &json!({})).await {
            Ok(info) => Ok(Some(info)),
            Err(Denied::Said(error)) if error.error_code() == ErrorCode::STREAM_NOT_FOUND => {
                Ok(None)
            }
            Err(denied) => Err(denied.into_error("looking at a stream")),
        }
    }

    /// Returns the consumer that all workers of a label share.
    pub(super) async fn consumer(&self, label: Option<&str>) -> Result<PullConsumer, EngineError> {
        let (stream, name) = (self.names.jobs_stream(), self.names.consumer(label));
        let config = pull::Config {
            durable_name: Some(name.clone()),
            filter_subject: self.names.labelled(label),
            ack_policy: AckPolicy::Explicit,
            ack_wait: self.lease,
            max_deliver: -1,
            // As many as there are slots; the pool's size is not the server's to bound.
            max_ack_pending: -1,
            max_waiting: WAITING_CAP,
            inactive_threshold: UNUSED_LIMIT,
            ..pull::Config::default()
        };
        let ours = consumer::IntoConsumerConfig::into_consumer_config(config.clone());
        let body = json!({ "stream_name": stream, "config": ours, "action": "create" });
        let path = format!("{stream}.{name}.{}", config.filter_subject);
        let made = loop {
            match self.make_consumer(&path, &body).await {
                Err(Denied::Passing(cause)) => pause(&cause).await,
                made => break made,
            }
        };
        let info = match made {
            Ok(info) => info,
            Err(Denied::Said(error))
                if [ErrorCode::CONSUMER_ALREADY_EXISTS, ErrorCode::CONSUMER_NAME_EXIST]
                    .contains(&error.error_code()) =>
            {
                let subject = format!("CONSUMER.INFO.{stream}.{name}");
                let found = self.answered::<consumer::Info>(&subject, &json!({})).await;
                let info = found.map_err(|denied| denied.into_error("looking at a consumer"))?;
                compare_consumers(&name, &ours, &info.config)?;
                info
            }
            Err(denied) => return Err(denied.into_error("making a consumer")),
        };
        Ok(PullConsumer::new(config, info, self.jetstream.clone()))
    }
}

/// Waits a little for a cluster to make up its mind.
pub(super) async fn pause(cause: &str) {
    tracing::debug!("JetStream does not answer yet: {cause}");
    tokio::time::sleep(Duration::from_millis(100)).await;
}

fn stream(name: String, subjects: Vec<String>, max_age: Duration) -> Config {
    Config {
        name,
        subjects,
        max_age,
        storage: StorageType::File,
        max_messages: -1,
        max_bytes: -1,
        max_messages_per_subject: -1,
        max_consumers: -1,
        max_message_size: -1,
        duplicate_window: max_age.min(EVENTS_WINDOW),
        allow_direct: true,
        ..Config::default()
    }
}

/// A setting's name, and how it is written.
type Setting<T> = (&'static str, fn(&T) -> String);

/// Finds the first setting of a stream that is not as it would have been made.
fn compare(ours: &Config, theirs: &Config) -> Result<(), EngineError> {
    let settings: [Setting<Config>; 19] = [
        ("subjects", |config| config.subjects.join(", ")),
        ("retention", |config| format!("{:?}", config.retention)),
        ("storage", |config| format!("{:?}", config.storage)),
        ("max_age", |config| format!("{:?}", config.max_age)),
        ("duplicate_window", |config| format!("{:?}", config.duplicate_window)),
        (COPIES, |config| config.num_replicas.to_string()),
        ("max_msgs", |config| bound_of(config.max_messages)),
        ("max_bytes", |config| bound_of(config.max_bytes)),
        ("max_msgs_per_subject", |config| bound_of(config.max_messages_per_subject)),
        ("max_msg_size", |config| bound_of(config.max_message_size.into())),
        ("discard", |config| format!("{:?}", config.discard)),
        ("discard_new_per_subject", |config| config.discard_new_per_subject.to_string()),
        ("allow_rollup_hdrs", |config| config.allow_rollup.to_string()),
        ("allow_direct", |config| config.allow_direct.to_string()),
        ("no_ack", |config| config.no_ack.to_string()),
        ("sealed", |config| config.sealed.to_string()),
        ("deny_delete", |config| config.deny_delete.to_string()),
        ("deny_purge", |config| config.deny_purge.to_string()),
        ("max_consumers", |config| bound_of(config.max_consumers.into())),
    ];
    let (kind, name) = match ours.name.split_once('_') {
        Some(("KV", bucket)) => (Kind::Bucket, bucket),
        Some(("OBJ", bucket)) => (Kind::ObjectStore, bucket),
        Some(_) | None => (Kind::Stream, ours.name.as_str()),
    };
    for (setting, of) in settings {
        let (ours, theirs) = (of(ours), of(theirs));
        if ours != theirs {
            return Err(EngineError::Differs {
                kind,
                name: name.to_owned(),
                setting,
                theirs,
                ours,
            });
        }
    }
    Ok(())
}

fn compare_consumers(
    name: &str,
    ours: &consumer::Config,
    theirs: &consumer::Config,
) -> Result<(), EngineError> {
    let settings: [Setting<consumer::Config>; 7] = [
        ("filter_subject", |config| config.filter_subject.clone()),
        ("ack_policy", |config| format!("{:?}", config.ack_policy)),
        ("ack_wait", |config| format!("{:?}", config.ack_wait)),
        ("max_deliver", |config| bound_of(config.max_deliver)),
        ("max_ack_pending", |config| bound_of(config.max_ack_pending)),
        ("max_waiting", |config| bound_of(config.max_waiting)),
        ("inactive_threshold", |config| format!("{:?}", config.inactive_threshold)),
    ];
    for (setting, of) in settings {
        let (ours, theirs) = (of(ours), of(theirs));
        if ours != theirs {
            let (kind, name) = (Kind::Consumer, name.to_owned());
            return Err(EngineError::Differs { kind, name, setting, theirs, ours });
        }
    }
    Ok(())
}

/// Writes a bound; servers say "none" in two ways.
fn bound_of(count: i64) -> String {
    if count <= 0 { "none".to_owned() } else { count.to_string() }
}
