//! The records of units: declared, changed, at work, ended.

use serde::Serialize;

use super::{Strand, Wait};
use crate::event::{ForkShare, PrefixShare};

#[derive(Serialize)]
pub(in crate::report) struct TaskStarted<'a> {
    pub(in crate::report) task_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::report) tool_use_id: Option<&'a str>,
    pub(in crate::report) description: &'a str,
    pub(in crate::report) subagent_type: &'a str,
    pub(in crate::report) is_backgrounded: bool,
    pub(in crate::report) spawn_depth: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::report) parent_task_id: Option<String>,
    #[serde(flatten)]
    pub(in crate::report) strand: Strand,
}

#[derive(Serialize)]
pub(in crate::report) struct TaskUpdated<'a> {
    pub(in crate::report) task_id: &'a str,
    pub(in crate::report) patch: Patch<'a>,
    #[serde(flatten)]
    pub(in crate::report) wait: Wait,
    #[serde(flatten)]
    pub(in crate::report) strand: Strand,
}

#[derive(Serialize)]
pub(in crate::report) struct Patch<'a> {
    pub(in crate::report) status: TaskStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::report) error: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::report) end_time: Option<u64>,
}

#[derive(Serialize, Clone, Copy)]
#[serde(rename_all = "snake_case")]
pub(in crate::report) enum TaskStatus {
    Pending,
    Running,
    Paused,
    Completed,
    Failed,
    Killed,
}

#[derive(Serialize)]
pub(in crate::report) struct TaskProgress<'a> {
    pub(in crate::report) task_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::report) tool_use_id: Option<&'a str>,
    /// The Python SDK fails on a progress record without it.
    pub(in crate::report) description: &'a str,
    pub(in crate::report) usage: TaskUsage,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::report) last_tool_name: Option<&'a str>,
    #[serde(flatten)]
    pub(in crate::report) strand: Strand,
}

#[derive(Serialize)]
pub(in crate::report) struct TaskNotification<'a> {
    pub(in crate::report) task_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::report) tool_use_id: Option<&'a str>,
    pub(in crate::report) status: NotificationStatus,
    /// A word that clients know for why it has not ended as others do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::report) reason: Option<&'static str>,
    /// Ours: why it failed or was stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::report) cause: Option<&'static str>,
    /// Empty if no file was written: clients read it as a string.
    pub(in crate::report) output_file: &'a str,
    pub(in crate::report) summary: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::report) usage: Option<TaskUsage>,
    /// Ours: how much of a fork's first request its parent had sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::report) prefix_share: Option<PrefixShareRecord>,
    #[serde(flatten)]
    pub(in crate::report) strand: Strand,
}

#[derive(Serialize, Clone, Copy)]
pub(in crate::report) struct PrefixShareRecord {
    shared_bytes: u64,
    total_bytes: u64,
    cached_tokens: u64,
}

/// All units that run beside their parents, whenever one comes or goes.
#[derive(Serialize)]
pub(in crate::report) struct BackgroundTasksChanged<'a> {
    pub(in crate::report) tasks: Vec<BackgroundTask<'a>>,
    /// How many more there are.
    #[serde(skip_serializing_if = "no_more")]
    pub(in crate::report) left_out: usize,
}

#[derive(Serialize)]
pub(in crate::report) struct BackgroundTask<'a> {
    pub(in crate::report) task_id: String,
    /// What clients call an agent.
    pub(in crate::report) task_type: &'static str,
    pub(in crate::report) description: &'a str,
    pub(in crate::report) subagent_type: &'a str,
}

#[derive(Serialize, Clone, Copy)]
#[serde(rename_all = "snake_case")]
pub(in crate::report) enum NotificationStatus {
    Completed,
    Failed,
    Stopped,
}

#[derive(Serialize, Clone, Copy)]
pub(in crate::report) struct TaskUsage {
    pub(in crate::report) total_tokens: u64,
    pub(in crate::report) tool_uses: u32,
    pub(in crate::report) duration_ms: u64,
    /// Ours: what is known of the cost, if that is anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::report) cost_usd: Option<f64>,
}

impl From<ForkShare> for PrefixShareRecord {
    fn from(ForkShare { prefix, cached_tokens }: ForkShare) -> Self {
        let PrefixShare { shared_bytes, total_bytes } = prefix;
        Self { shared_bytes, total_bytes, cached_tokens }
    }
}

fn no_more(left_out: &usize) -> bool {
    *left_out == 0
}
