//! The gates of a process and the lanes through them: those of its own models, and
//! those that other processes of its runs ask for.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::super::gate::{Bounds, Endpoint, Gate, Lane, LaneId, LaneName, Quota};
use crate::config::ServerModel;

/// Most gates that are kept for others alone. A run has one for each provider and
/// key that its workers have and it has not.
const FOREIGN_CAP: usize = 256;

/// Most models that others may have behind one gate.
const FOREIGN_LANES_CAP: usize = 256;

/// The gates and their lanes.
#[derive(Default)]
pub(super) struct Lanes {
    gates: BTreeMap<Endpoint, Gate>,
    own: Vec<Own>,
    /// The latest at the end.
    foreign: VecDeque<Foreign>,
}

/// The lane of a model that is open here. Those that differ in nothing that a
/// provider counts share it.
struct Own {
    id: Arc<LaneId>,
    quota: Quota,
    lane: Lane,
}

/// The gate of a provider that other processes of a run have.
struct Foreign {
    run: Arc<str>,
    name: String,
    gate: Gate,
    lanes: VecDeque<(String, Lane)>,
}

/// Returns what is configured for a model.
pub(super) fn bounds(server: &ServerModel) -> Bounds {
    let quota = Quota {
        requests_per_minute: server.requests_per_minute,
        tokens_per_minute: server.tokens_per_minute,
    };
    Bounds { quota, most_in_flight: server.max_in_flight }
}

impl Lanes {
    /// Returns the lane of a model. Of several models that share its gate, the one
    /// that allows the fewest requests at once counts.
    pub(super) fn own(&mut self, server: &ServerModel) -> (Arc<LaneId>, Lane) {
        let endpoint = Endpoint::new(&server.base_url, server.key.as_ref());
        let Bounds { quota, most_in_flight } = bounds(server);
        let gate = self.gates.entry(endpoint).or_insert_with(|| {
            // What was told to others holds here, too.
            let mut foreign = self.foreign.iter();
            let same = foreign.find(|foreign| endpoint.called(&foreign.run) == foreign.name);
            same.map_or_else(|| Gate::new(None), |foreign| foreign.gate.clone())
        });
        if let Some(most) = most_in_flight {
            gate.allow_at_most(most);
        }
        let id = LaneId { endpoint, model: server.model.clone() };
        let is_same = |own: &&Own| *own.id == id && own.quota == quota;
        if let Some(own) = self.own.iter().find(is_same) {
            return (Arc::clone(&own.id), own.lane.clone());
        }
        let (id, lane) = (Arc::new(id), gate.lane(quota));
        self.own.push(Own { id: Arc::clone(&id), quota, lane: lane.clone() });
        (id, lane)
    }

    /// Returns the lane that the processes of a run call so. What is configured here
    /// counts; only where nothing is, `bounds` does.
    pub(super) fn called(&mut self, run: &str, name: &LaneName, bounds: Bounds) -> Lane {
        if let Some(own) = self.own.iter().find(|own| own.id.called(run) == *name) {
            return own.lane.clone();
        }
        let is_same = |it: &Foreign| *it.run == *run && it.name == name.gate;
        let index = self.foreign.iter().position(is_same).unwrap_or_else(|| {
            let mut gates = self.gates.iter();
            let own = gates.find(|(endpoint, _)| endpoint.called(run) == name.gate);
            let gate = own.map_or_else(|| Gate::new(bounds.most_in_flight), |(_, it)| it.clone());
            if self.foreign.len() >= FOREIGN_CAP {
                self.foreign.pop_front();
            }
            let (run, name, lanes) = (run.into(), name.gate.clone(), VecDeque::new());
            self.foreign.push_back(Foreign { run, name, gate, lanes });
            self.foreign.len() - 1
        });
        let Foreign { gate, lanes, .. } = &mut self.foreign[index];
        if let Some((_, lane)) = lanes.iter().find(|(other, _)| *other == name.lane) {
            return lane.clone();
        }
        let lane = gate.lane(bounds.quota);
        if lanes.len() >= FOREIGN_LANES_CAP {
            lanes.pop_front();
        }
        lanes.push_back((name.lane.clone(), lane.clone()));
        lane
    }
}
