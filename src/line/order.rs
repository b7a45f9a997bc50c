//! What a unit is told to do about the units that it waits for.

use tokio::sync::mpsc;

use crate::event::UnitId;

/// Most orders of one call that nobody has looked at. A person gives them, one
/// key at a time.
pub const ORDERS_CAP: usize = 64;

/// What is done about units of a call while their caller waits for them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// It waits for these no more: they go on beside it.
    Aside(Vec<UnitId>),
    /// The task of this one is run again, and that takes its place. The unit
    /// itself has ended or was told to stop.
    Again(UnitId),
}

/// Where the orders about the units of one call go.
pub type Orders = mpsc::Sender<Order>;
