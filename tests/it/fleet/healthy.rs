//! Slots that take longer than any lease: their workers live, and they are left alone.

use serde_json::json;

use super::{SESSION, SHORT, check_each_row_once, held_by, logged, map, table};
use crate::support::fleet::Fleet;
use crate::support::server::Gate;
use crate::support::wait::until;
use crate::support::wire::Wire;

/// How often a worker says in a lease that it lives.
const BEATS: usize = 4;

#[test]
fn a_slot_that_outlasts_two_leases_is_given_out_and_asked_for_once() {
    // Nobody may be silent for one lease here, so it is a longer one.
    let Some(mut fleet) = Fleet::start(2 * SHORT) else { return };
    let (wire, gate) = (Wire::of(&fleet.nats), Gate::closed());
    let (place, model) = (table(1), held_by(&gate));
    // The one that does not have it has a place for it.
    fleet.work(1, Some(&model));
    fleet.work(1, Some(&model));
    let running = map(&fleet, &place, &model, &["--session-id", SESSION]).start();
    model.wait_until_came(1);
    // After a lease without a sign of life its ticket would go to the other one, and
    // after two the coordinator would take it for lost.
    until("more than two leases are over", || wire.of_subject("tine.beat.").len() > 2 * BEATS + 2);
    gate.open();
    running.wait().exits(0);
    check_each_row_once(&place, 1);
    assert_eq!(logged(&place, "lost"), [json!(null); 0]);
    assert_eq!(model.finish().len(), 1);
    assert_eq!(wire.of_subject("tine.claim.").len(), 1, "its ticket went to nobody else");
}
