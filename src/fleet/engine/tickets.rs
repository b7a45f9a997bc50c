//! Tickets that a worker pulls, one at a time.

use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::consumer::PullConsumer;
use async_nats::jetstream::consumer::pull::BatchConfig;
use async_nats::jetstream::{self, AckKind};
use async_nats::{Client, Message, RequestErrorKind, StatusCode, Subscriber};
use futures_util::StreamExt as _;
use tokio::time::{Instant, sleep_until, timeout};

use super::offers::TICKET;
use super::{Engine, EngineError, Job, layout};

/// How long one request for a ticket stands at the server.
const PULL_AGE: Duration = Duration::from_secs(30);

/// How often the server says meanwhile that it does.
const PULL_BEAT: Duration = Duration::from_secs(5);

/// How long nothing is said before the request is taken for lost: a server that was
/// started again beside the one that this is connected to knows nothing of it.
const PULL_SILENCE: Duration = Duration::from_secs(15);

/// Longest wait for the server to confirm what was said of a ticket.
const CONFIRM_LIMIT: Duration = Duration::from_secs(2);

/// How often that is tried on a connection that stands.
const CONFIRM_TRIES: u32 = 3;

/// Where a worker gets its tickets.
#[derive(Debug)]
pub struct Tickets {
    engine: Engine,
    labels: Vec<Option<Arc<str>>>,
    consumers: Vec<PullConsumer>,
    /// Tells whoever runs this what was dropped.
    say: fn(&str),
}

/// One job that is this worker's until its lease ends.
#[derive(Debug)]
pub struct Ticket {
    /// The job.
    pub job: Job,
    engine: Engine,
    message: jetstream::Message,
}

impl Engine {
    /// Opens the way to tickets for any worker and to those with these labels.
    ///
    /// # Errors
    ///
    /// A consumer with other settings, or none that may be made.
    pub async fn pull(&self, labels: &[Arc<str>]) -> Result<Tickets, EngineError> {
        let mut wanted = vec![None];
        for label in labels {
            if !wanted.contains(&Some(label.clone())) {
                wanted.push(Some(label.clone()));
            }
        }
        let mut consumers = Vec::with_capacity(wanted.len());
        for label in &wanted {
            consumers.push(self.consumer(label.as_deref()).await?);
        }
        Ok(Tickets { engine: self.clone(), labels: wanted, consumers, say: |_| {} })
    }
}

/// What a message says to one that asked for a ticket.
enum Word {
    Ticket,
    /// The request has stood for its time.
    Expired,
    /// The request stands.
    Alive,
    /// The request cannot be met now.
    Not,
    /// The consumer is gone.
    NoConsumer,
}

impl Tickets {
    /// Has whoever runs this told of what is dropped because it is no ticket.
    #[must_use]
    pub fn telling(self, say: fn(&str)) -> Self {
        Self { say, ..self }
    }

    /// Waits for a ticket and takes exactly that one.
    ///
    /// It waits over restarts of the server. A ticket that comes when the future
    /// was dropped is given back at once.
    ///
    /// # Errors
    ///
    /// What will not pass.
    pub async fn next(&mut self) -> Result<Ticket, EngineError> {
        loop {
            match self.ask().await? {
                Some(ticket) => return Ok(ticket),
                None => tracing::debug!("asking for a ticket again"),
            }
        }
    }

    /// Makes consumers that are gone. They have the names that they had.
    async fn make_consumers(&self) -> Result<(), EngineError> {
        for label in &self.labels {
            self.engine.consumer(label.as_deref()).await?;
        }
        Ok(())
    }

    /// Asks every consumer for one ticket. `None` is to ask anew.
    async fn ask(&mut self) -> Result<Option<Ticket>, EngineError> {
        let engine = self.engine.clone();
        let mut reconnected = engine.signs.reconnected();
        let mut asked = Asked::new(&engine).await?;
        for (index, consumer) in self.consumers.iter().enumerate() {
            asked.request(consumer, index).await;
        }
        let mut heard = vec![Instant::now(); self.consumers.len()];
        loop {
            let first = heard.iter().min().copied().unwrap_or_else(Instant::now);
            let message = tokio::select! {
                message = asked.next() => message,
                () = reconnected.next() => return Ok(None),
                () = sleep_until(first + PULL_SILENCE) => return Ok(None),
            };
            let Some(message) = message else { return Ok(None) };
            let index = asked.index(&message);
            if let Some(heard) = heard.get_mut(index) {
                *heard = Instant::now();
            }
            match word(&message) {
                Word::Alive => {}
                Word::Expired => {
                    if let Some(consumer) = self.consumers.get(index) {
                        asked.request(consumer, index).await;
                    }
                }
                Word::Not => {
                    layout::pause("no ticket").await;
                    return Ok(None);
                }
                Word::NoConsumer => {
                    drop(asked);
                    layout::pause("no consumer").await;
                    match self.make_consumers().await {
                        // A server that has just started has none yet; later it has.
                        Ok(()) | Err(EngineError::NoJetStream { cause: _ }) => return Ok(None),
                        Err(error) => return Err(error),
                    }
                }
                Word::Ticket => {
                    let context = engine.jetstream.clone();
                    let message = jetstream::Message { message, context };
                    match Ticket::read(&engine, message) {
                        Ok(ticket) => return Ok(Some(ticket)),
                        Err(strange) => {
                            self.drops(&strange).await;
                            return Ok(None);
                        }
                    }
                }
            }
        }
    }

    /// Has nobody handed what is no ticket.
    async fn drops(&self, strange: &jetstream::Message) {
        let subject = &strange.subject;
        (self.say)(&format!(
            "dropped what is no ticket: `{subject}`; somebody else publishes under this prefix"
        ));
        tracing::warn!("dropped what is no ticket: {subject}");
        // If that is lost, it comes again.
        let _ = strange.ack_with(AckKind::Term).await;
    }
}

fn word(message: &Message) -> Word {
    match message.status {
        None | Some(StatusCode::OK) => Word::Ticket,
        Some(StatusCode::IDLE_HEARTBEAT) => Word::Alive,
        Some(StatusCode::TIMEOUT | StatusCode::NOT_FOUND) => Word::Expired,
        Some(StatusCode::NO_RESPONDERS) => Word::NoConsumer,
        Some(_) if message.description.as_deref() == Some("Consumer Deleted") => Word::NoConsumer,
        Some(_) => Word::Not,
    }
}

/// Requests that stand. What comes for them after this is dropped is given back.
struct Asked {
    client: Client,
    inbox: String,
    answers: Option<Subscriber>,
    lease: Duration,
}

impl Asked {
    async fn new(engine: &Engine) -> Result<Self, EngineError> {
        let client = engine.client.clone();
        let inbox = client.new_inbox();
        let answers = client.subscribe(format!("{inbox}.*")).await;
        let answers = answers.map_err(|error| EngineError::Failed {
            doing: "asking for tickets",
            cause: error.to_string(),
        })?;
        Ok(Self { client, inbox, answers: Some(answers), lease: engine.lease })
    }

    async fn request(&self, consumer: &PullConsumer, index: usize) {
        let request = BatchConfig {
            batch: 1,
            expires: Some(PULL_AGE),
            idle_heartbeat: PULL_BEAT,
            ..BatchConfig::default()
        };
        let inbox = format!("{}.{index}", self.inbox);
        if let Err(error) = consumer.request_batch(request, inbox.into()).await {
            // It is asked for again when nothing is heard.
            tracing::debug!("no request for a ticket: {error}");
        }
    }

    /// Returns which consumer a message is from.
    fn index(&self, message: &Message) -> usize {
        let rest = message.subject.strip_prefix(self.inbox.as_str());
        let index = rest.and_then(|rest| rest.strip_prefix('.')?.parse().ok());
        index.unwrap_or(usize::MAX)
    }

    async fn next(&mut self) -> Option<Message> {
        self.answers.as_mut()?.next().await
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        let Some(mut answers) = self.answers.take() else { return };
        // Without a runtime the lease gives back what comes.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (client, lease) = (self.client.clone(), self.lease);
        runtime.spawn(async move {
            let give_back = async {
                if answers.drain().await.is_err() {
                    return;
                }
                while let Some(message) = answers.next().await {
                    if let (Word::Ticket, Some(reply)) = (word(&message), message.reply) {
                        // If that is lost, the lease gives it back.
                        let _ = client.publish(reply, AckKind::Nak(None).into()).await;
                    }
                }
            };
            // Past its lease a ticket is given back in any case.
            let _ = timeout(lease, give_back).await;
        });
    }
}

impl Ticket {
    /// Returns the message itself if it is no ticket.
    fn read(engine: &Engine, message: jetstream::Message) -> Result<Self, Box<jetstream::Message>> {
        // One that no consumer has handed out cannot be acknowledged.
        let is_one = message.payload == TICKET && message.info().is_ok();
        match engine.names.parse_job(&message.subject) {
            Some(job) if is_one => Ok(Self { job, engine: engine.clone(), message }),
            Some(_) | None => Err(Box::new(message)),
        }
    }

    /// Says that the work goes on: the lease begins anew. May be lost.
    pub async fn progress(&self) {
        if let Err(error) = self.message.ack_with(AckKind::Progress).await {
            tracing::debug!("no progress told: {error}");
        }
    }

    /// Says that the job is done, and returns once the server knows.
    ///
    /// A server that crashes just then may hand it out again all the same: whoever
    /// gets it asks its coordinator.
    ///
    /// # Errors
    ///
    /// What will not pass.
    pub async fn done(&self) -> Result<(), EngineError> {
        if self.confirmed(AckKind::Ack).await {
            return Ok(());
        }
        // A consumer that was set back by a crash does not know that it has handed
        // the ticket out and does not hear that it is done.
        self.engine.purge(self.message.subject.to_string()).await
    }

    /// Gives the job to the next worker, after a delay. If that is lost, the lease
    /// gives it on.
    pub async fn give_back(&self, delay: Duration) {
        self.confirmed(AckKind::Nak((!delay.is_zero()).then_some(delay))).await;
    }

    /// Has the job handed out to nobody any more.
    ///
    /// # Errors
    ///
    /// What will not pass.
    pub async fn drop_it(&self) -> Result<(), EngineError> {
        if self.confirmed(AckKind::Term).await {
            return Ok(());
        }
        self.engine.purge(self.message.subject.to_string()).await
    }

    /// Says something of the ticket until the server confirms it, some times.
    async fn confirmed(&self, kind: AckKind) -> bool {
        let Some(reply) = &self.message.reply else { return false };
        let mut tries = 0;
        while tries < CONFIRM_TRIES {
            let mut reconnected = self.engine.signs.reconnected();
            let request =
                async_nats::Request::new().payload(kind.into()).timeout(Some(CONFIRM_LIMIT));
            let answer = tokio::select! {
                answer = self.engine.client.send_request(reply.clone(), request) => answer,
                () = reconnected.next() => continue,
            };
            match answer {
                Ok(_) => return true,
                Err(error) => {
                    tracing::debug!("a ticket is not confirmed: {error}");
                    if error.kind() == RequestErrorKind::NoResponders {
                        layout::pause("nobody listens").await;
                    }
                }
            }
            // A server that is away has not been asked.
            let state = self.engine.client.connection_state();
            if state == async_nats::connection::State::Connected {
                tries += 1;
            }
        }
        false
    }
}

#[cfg(test)]
impl Ticket {
    /// A ticket for this job that no server has given.
    pub(in crate::fleet) fn of(engine: &Engine, job: Job) -> Self {
        let message = Message {
            subject: engine.names.job(&job).into(),
            reply: Some("reply".into()),
            payload: bytes::Bytes::new(),
            headers: None,
            status: None,
            description: None,
            length: 0,
        };
        let message = jetstream::Message { message, context: engine.jetstream.clone() };
        Self { job, engine: engine.clone(), message }
    }
}
