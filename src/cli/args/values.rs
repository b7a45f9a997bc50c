//! What values of flags are read into.

use std::num::NonZeroU32;
use std::str::FromStr;
use std::time::Duration;

use super::Most;
use crate::config::Effort;
use crate::event::{Access, Backend, NetworkAccess};
use crate::flow;
use crate::message::Usd;

pub(super) fn parse_effort(level: &str) -> Result<Effort, &'static str> {
    Effort::new(level).ok_or(Effort::RULE)
}

pub(super) fn parse_most(text: &str) -> Result<Most<NonZeroU32>, &'static str> {
    most(text).ok_or("expected a number from 1 on")
}

pub(super) fn parse_most_or_none(text: &str) -> Result<Most<u32>, &'static str> {
    most(text).ok_or("expected a number from 0 on")
}

fn most<T: FromStr>(text: &str) -> Option<Most<T>> {
    match text {
        "-1" => Some(Most(None)),
        _ => text.parse().ok().map(|most| Most(Some(most))),
    }
}

pub(super) fn parse_usd(text: &str) -> Result<Usd, String> {
    let amount = text.parse().ok().and_then(Usd::from_dollars);
    amount.ok_or_else(|| "expected dollars, such as 2.50".to_owned())
}

pub(super) fn parse_span(text: &str) -> Result<Duration, &'static str> {
    flow::file::span(text).ok_or("expected a span of time, such as 90s, 10m or 1h, at most a week")
}

pub(super) fn parse_access(name: &str) -> Result<Access, String> {
    one_of(&Access::ALL, Access::as_str, name)
}

pub(super) fn parse_network(name: &str) -> Result<NetworkAccess, String> {
    one_of(&NetworkAccess::ALL, NetworkAccess::as_str, name)
}

pub(super) fn parse_backend(name: &str) -> Result<Backend, String> {
    one_of(&[Backend::Bwrap, Backend::Landlock], Backend::as_str, name)
}

fn one_of<T: Copy>(all: &[T], as_str: fn(T) -> &'static str, name: &str) -> Result<T, String> {
    let found = all.iter().copied().find(|one| as_str(*one) == name);
    found.ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|one| as_str(*one)).collect();
        format!("expected one of {}", names.join(", "))
    })
}

pub(super) fn parse_mode(name: &str) -> Result<crate::guard::Mode, String> {
    crate::guard::Mode::from_name(name).ok_or_else(|| {
        let names: Vec<&str> = crate::guard::Mode::ALL.iter().map(|mode| mode.as_str()).collect();
        format!("expected one of {}", names.join(", "))
    })
}
