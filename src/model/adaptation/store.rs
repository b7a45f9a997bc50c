//! The file that keeps adaptations for later processes.
//!
//! It is a cache: what cannot be read or written is learned again by one refused
//! request.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use super::{Adaptation, Adaptations};

/// Version of the file's format. A file of another version is replaced.
const VERSION: u32 = 1;

/// Maximum number of models in the file; far more than a user has.
const MODELS_CAP: usize = 256;

/// Maximum number of adaptations of one model in the file. Only the contents of
/// long sessions reach it; those left out are refused, and found, once more.
const ADAPTATIONS_CAP: usize = 256;

/// Maximum bytes of the file that are read.
const FILE_CAP: u64 = 4 * 1024 * 1024;

/// Held while the file is read and written anew: models that share a file, and models of
/// one name with other settings, are saved side by side.
static WRITING: Mutex<()> = Mutex::new(());

/// The file of adaptations.
#[derive(Debug, Clone)]
pub struct AdaptationStore {
    file: Arc<Path>,
}

/// The part of the file that is about one model of one server.
#[derive(Debug, Clone)]
pub struct StoredAdaptations {
    file: Arc<Path>,
    model: Arc<str>,
}

#[derive(Serialize, Deserialize)]
struct AdaptationFile {
    version: u32,
    models: BTreeMap<String, Vec<String>>,
}

impl AdaptationStore {
    /// Opens a store, whose file need not be there yet.
    #[must_use]
    pub fn new(file: &Path) -> Self {
        Self { file: file.into() }
    }

    /// Returns the part about a model, named by API, address and name.
    #[must_use]
    pub fn entry(&self, model: &str) -> StoredAdaptations {
        StoredAdaptations { file: Arc::clone(&self.file), model: model.into() }
    }
}

impl StoredAdaptations {
    /// Returns the adaptations that are kept. Those of other versions of tine
    /// are passed over.
    pub(super) fn read(&self) -> Vec<Adaptation> {
        let mut kept = read(&self.file);
        let names = kept.models.remove(&*self.model).unwrap_or_default();
        names.iter().filter_map(|name| Adaptation::from_name(name)).collect()
    }

    /// Keeps these adaptations beside those that are kept already.
    pub(super) fn write(&self, adaptations: &Adaptations) {
        let _writing = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = self.add(adaptations) {
            tracing::debug!(%error, "the adaptations are not kept");
        }
    }

    fn add(&self, adaptations: &Adaptations) -> io::Result<()> {
        let mut kept = read(&self.file);
        let mut names = kept.models.remove(&*self.model).unwrap_or_default();
        let before = names.len();
        let new = adaptations.iter().filter(|it| is_kept(it)).map(ToString::to_string);
        let new: Vec<String> = new.filter(|name| !names.contains(name)).collect();
        names.extend(new);
        names.truncate(ADAPTATIONS_CAP);
        if names.len() <= before {
            return Ok(());
        }
        if kept.models.len() >= MODELS_CAP {
            kept.models.clear();
        }
        kept.models.insert(self.model.to_string(), names);
        let directory = self.file.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(directory)?;
        let mut new = tempfile::Builder::new().prefix(".adaptations-").tempfile_in(directory)?;
        new.write_all(&serde_json::to_vec_pretty(&kept)?)?;
        new.persist(&self.file).map_err(|error| error.error)?;
        Ok(())
    }
}

/// Returns whether later processes begin with an adaptation. What would quietly
/// take something from the user is found out, and told, in each.
fn is_kept(adaptation: &Adaptation) -> bool {
    /// Keys that carry what the user has set.
    const SET_BY_USERS: [&str; 7] = [
        "reasoning_effort",
        "reasoning",
        "thinking",
        "output_config",
        "max_tokens",
        "max_completion_tokens",
        "max_output_tokens",
    ];
    !matches!(adaptation, Adaptation::Without(key) if SET_BY_USERS.contains(&&**key))
        && !matches!(adaptation, Adaptation::WithoutTool(_))
        && !matches!(adaptation, Adaptation::NoImages | Adaptation::NoTools)
}

fn read(file: &Path) -> AdaptationFile {
    let is_small = fs::metadata(file).is_ok_and(|metadata| metadata.len() <= FILE_CAP);
    let text = is_small.then(|| fs::read(file).ok()).flatten();
    let kept = text.and_then(|text| serde_json::from_slice::<AdaptationFile>(&text).ok());
    kept.filter(|kept| kept.version == VERSION)
        .unwrap_or(AdaptationFile { version: VERSION, models: BTreeMap::new() })
}
