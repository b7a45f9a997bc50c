//! What all slots of a run have in common, for workers: shipped once.
//!
//! A worker adds what is its own: its models and their keys, its policy, its
//! clock. Its sandbox is no looser than the bounds here, nor than its own. What a
//! slot is asked to do, and what it may do, come with its grant. Nothing here is a
//! secret of the coordinator's configuration, but instructions and definitions are
//! its user's words.
//!
//! JSON, written by hand: inner types promise nothing about their names.

mod agents;
mod bounds;
mod limits;
mod skills;

use std::fmt::Display;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::ground::{PackedNames, StateNames};
use crate::config::Effort;
use crate::definition::Definitions;
use crate::event::SessionId;
use crate::fanout::Limits;
use crate::path_text;
use crate::skill::{Skill, Skills};
use agents::WrittenAgent;
pub use bounds::Bounds;
use bounds::WrittenBounds;
use limits::WrittenLimits;
use skills::WrittenSkill;

/// The form that is written and read here.
const FORM: u32 = 1;

/// Most bytes of a packet. Five hundred definitions and as many skills of the
/// largest size fit, with instructions; what is larger is none.
pub const PACKET_CAP: usize = 80 * 1024 * 1024;

/// What all slots of a run have in common.
#[derive(Debug, Clone)]
pub struct Packet {
    /// The version of tine that wrote it.
    pub version: String,
    /// The run.
    pub session: SessionId,
    /// The coordinator's working directory, every link followed.
    pub root: PathBuf,
    /// The types of agent that a call can name.
    pub definitions: Definitions,
    /// The skills that can be used, with the coordinator's paths: a worker takes
    /// them from [`Packet::skills_in`].
    pub skills: Skills,
    /// The user's and the project's instructions, for every system prompt.
    pub instructions: String,
    /// The bounds of a unit that names none itself.
    pub limits: Limits,
    /// What commands and fetches may reach at most.
    pub bounds: Bounds,
    /// The workspace; `None` if slots begin with an empty directory.
    pub workspace: Option<Bundles>,
    /// The main model, as a user would name it with `-m`.
    pub model: String,
    /// How hard models think; `None` for as hard as each does by itself.
    pub effort: Option<Effort>,
    /// The models to ask where a unit's own is overloaded, as for `model`.
    pub fallbacks: Vec<String>,
    /// Whether the run's money is limited, though perhaps not for a model
    /// without a price: `limits.needs_price` says that.
    pub is_money_limited: bool,
}

/// The workspace of a run, by the names of what holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bundles {
    /// The last commit of its history.
    pub commit: String,
    /// The commit that holds its state.
    pub base: String,
    /// What its top directory is called.
    pub name: PathBuf,
    /// Where the working directory is, below the top; may be empty.
    pub below: PathBuf,
    /// The hashes of the files that hold it, in the order in which one builds
    /// upon the other.
    pub bundles: Vec<String>,
}

/// Why bytes are no packet.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("what the run has sent to its workers cannot be used: {why}")]
pub struct NoPacket {
    why: String,
}

impl NoPacket {
    fn because(why: impl Display) -> Self {
        Self { why: why.to_string() }
    }
}

impl Packet {
    /// Writes it as JSON.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let Self { version, session, root, definitions, skills, instructions, .. } = self;
        let Self { limits, bounds, workspace, model, effort, fallbacks, is_money_limited, .. } =
            self;
        let written = Written {
            form: FORM,
            version: version.clone(),
            session: session.0.to_string(),
            root: path_text::to_text(root),
            agents: definitions.iter().map(|it| WrittenAgent::of(it)).collect(),
            skills: skills.iter().map(WrittenSkill::of).collect(),
            instructions: instructions.clone(),
            limits: WrittenLimits::of(limits),
            bounds: WrittenBounds::of(bounds),
            workspace: workspace.as_ref().map(WrittenBundles::of),
            model: model.clone(),
            effort: effort.as_ref().map(|effort| effort.as_str().to_owned()),
            fallbacks: fallbacks.clone(),
            is_money_limited: *is_money_limited,
        };
        serde_json::to_vec(&written).expect("texts, lists and numbers can be written as JSON")
    }

    /// Reads what [`Packet::encode`] wrote.
    ///
    /// # Errors
    ///
    /// It is anything else, or of another form. What is not understood is an
    /// error, since it might have forbidden something.
    pub fn decode(bytes: &[u8]) -> Result<Self, NoPacket> {
        if bytes.len() > PACKET_CAP {
            return Err(NoPacket::because(format!("it has more than {PACKET_CAP} bytes")));
        }
        let Form { form } = serde_json::from_slice(bytes).map_err(NoPacket::because)?;
        if form != FORM {
            let why = format!(
                "it is of form {form}, and this tine reads form {FORM}; run the same version of \
                 tine everywhere"
            );
            return Err(NoPacket::because(why));
        }
        let written: Written = serde_json::from_slice(bytes).map_err(NoPacket::because)?;
        written.read()
    }

    /// Returns what its workspace is made of. The error is a sentence.
    pub(super) fn names(&self) -> Result<PackedNames, String> {
        let Some(workspace) = &self.workspace else { return Ok(PackedNames::Nothing) };
        let Bundles { commit, base, name, below, bundles } = workspace.clone();
        let hash = |hex: &String| {
            let hash = blake3::Hash::from_hex(hex);
            hash.map_err(|_| format!("`{hex}` is not the name of a file of the workspace"))
        };
        let bundles = bundles.iter().map(hash).collect::<Result<_, _>>()?;
        Ok(PackedNames::State(StateNames { commit, base, name, below, bundles }))
    }

    /// Returns the skills for a copy of the working directory. The files beside
    /// one that is in the workspace are there; one that is not, such as the
    /// user's own, comes with its text alone, and names no directory.
    #[must_use]
    pub fn skills_in(&self, root: &Path) -> Skills {
        let (there, here) = self.tops(root);
        Skills::of(self.skills.iter().map(|skill| skills::moved(skill, there, here)).collect())
    }

    /// Returns the tops of the workspace: the coordinator's, and that of the copy
    /// whose working directory this is.
    #[must_use]
    pub fn tops<'a>(&'a self, root: &'a Path) -> (&'a Path, &'a Path) {
        let below = self.workspace.as_ref().map_or(Path::new(""), |workspace| &workspace.below);
        let above = |path: &'a Path| {
            let up = path.ancestors().nth(below.components().count());
            // A path that ends otherwise is that of another directory.
            up.filter(|_| path.ends_with(below) || below.as_os_str().is_empty())
        };
        match (above(&self.root), above(root)) {
            (Some(there), Some(here)) => (there, here),
            (None, _) | (_, None) => (&self.root, root),
        }
    }
}

/// Tells which form something has.
#[derive(Deserialize)]
struct Form {
    form: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    form: u32,
    version: String,
    session: String,
    root: String,
    agents: Vec<WrittenAgent>,
    skills: Vec<WrittenSkill>,
    instructions: String,
    limits: WrittenLimits,
    bounds: WrittenBounds,
    workspace: Option<WrittenBundles>,
    model: String,
    effort: Option<String>,
    fallbacks: Vec<String>,
    is_money_limited: bool,
}

impl Written {
    fn read(self) -> Result<Packet, NoPacket> {
        // It becomes the name of a directory.
        let session = uuid::Uuid::parse_str(&self.session)
            .map_err(|_| NoPacket::because(format!("`{}` is no session", self.session)))?;
        let effort = |effort: String| {
            let known = Effort::new(&effort);
            known.ok_or_else(|| NoPacket::because(format!("`{effort}` is no effort")))
        };
        let agents: Result<_, _> = self.agents.into_iter().map(WrittenAgent::read).collect();
        let skills: Result<_, _> = self.skills.into_iter().map(WrittenSkill::read).collect();
        Ok(Packet {
            version: self.version,
            session: SessionId(session.hyphenated().to_string().into()),
            root: path_text::from_text(&self.root),
            definitions: Definitions::default().with(agents?),
            skills: Skills::of(skills?),
            instructions: self.instructions,
            limits: self.limits.read()?,
            bounds: self.bounds.read()?,
            workspace: self.workspace.map(WrittenBundles::read),
            model: self.model,
            effort: self.effort.map(effort).transpose()?,
            fallbacks: self.fallbacks,
            is_money_limited: self.is_money_limited,
        })
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenBundles {
    commit: String,
    base: String,
    name: String,
    below: String,
    bundles: Vec<String>,
}

impl WrittenBundles {
    fn of(workspace: &Bundles) -> Self {
        let Bundles { commit, base, name, below, bundles } = workspace;
        Self {
            commit: commit.clone(),
            base: base.clone(),
            name: path_text::to_text(name),
            below: path_text::to_text(below),
            bundles: bundles.clone(),
        }
    }

    fn read(self) -> Bundles {
        let Self { commit, base, name, below, bundles } = self;
        let (name, below) = (path_text::from_text(&name), path_text::from_text(&below));
        Bundles { commit, base, name, below, bundles }
    }
}

/// Finds a skill that comes with the program.
fn bundled(name: &str) -> Option<Skill> {
    let (skills, _) = Skills::load(&crate::skill::Places::default(), |_, _| false);
    skills.iter().find(|skill| skill.name == name).cloned()
}

#[cfg(test)]
mod tests;
