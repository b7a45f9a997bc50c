//! Maps of many rows in which everybody is killed: each row has its one line.

use nix::sys::signal::Signal;

use super::{SESSION, SHORT, check_each_row_once, echo, map, table};
use crate::support::fleet::Fleet;

#[test]
fn one_of_two_workers_is_killed_in_the_middle_of_a_map() {
    let Some(mut fleet) = Fleet::start(SHORT) else { return };
    let (place, model) = (table(200), echo());
    fleet.work(4, Some(&model));
    fleet.work(4, Some(&model));
    let running = map(&fleet, &place, &model, &[]).start();
    model.wait_until_came(80);
    fleet.workers[0].kill9();
    running.wait().exits(0);
    check_each_row_once(&place, 200);
}

#[test]
fn two_thousand_rows_survive_the_death_of_a_worker_the_server_and_the_coordinator() {
    const ROWS: usize = 2_000;
    let Some(mut fleet) = Fleet::start(SHORT) else { return };
    let (place, model) = (table(ROWS), echo());
    fleet.work(8, Some(&model));
    fleet.work(8, Some(&model));
    let running = map(&fleet, &place, &model, &["--session-id", SESSION]).start();
    model.wait_until_came(300);
    fleet.workers[0].kill9();
    fleet.work(8, Some(&model));
    model.wait_until_came(700);
    fleet.nats.kill9();
    fleet.nats.restart();
    model.wait_until_came(1_200);
    running.signal(Signal::SIGKILL);
    drop(running.wait());
    let running = map(&fleet, &place, &model, &["--resume", SESSION]).start();
    model.wait_until_came(ROWS);
    running.wait().exits(0);
    check_each_row_once(&place, ROWS);
    let asked = model.finish().len();
    assert!(asked <= ROWS + ROWS / 10, "{asked}: only what was at work is asked again");
}
