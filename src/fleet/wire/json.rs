//! What all messages are made of: texts, names of units, branches.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::branch::{Branch, BranchPath, Token};
use crate::event::UnitId;
use crate::session::kinds;

pub(super) use crate::session::kinds::Raw;

/// Text that is borrowed when it is written and owned when it was read.
pub(super) type Text<'a> = Cow<'a, str>;

pub(super) fn text(text: &str) -> Text<'_> {
    text.into()
}

pub(super) fn name(unit: UnitId) -> Text<'static> {
    unit.to_string().into()
}

pub(super) fn unit(name: &str) -> Result<UnitId, String> {
    kinds::unit_of(name)
}

pub(super) fn names(units: &[UnitId]) -> Vec<Text<'static>> {
    units.iter().copied().map(name).collect()
}

pub(super) fn units(names: &[Text<'_>]) -> Result<Vec<UnitId>, String> {
    names.iter().map(|name| unit(name)).collect()
}

/// Reads all of a list, or says what is wrong with the first that is bad.
pub(super) fn each<B, T>(
    bodies: Vec<B>,
    read: impl FnMut(B) -> Result<T, String>,
) -> Result<Vec<T>, String> {
    bodies.into_iter().map(read).collect()
}

/// Reads a token, with the bound that text has.
pub(super) fn token(number: u64) -> Result<Token, String> {
    let token = Some(Token(number)).filter(|&token| token <= Token::READ_LIMIT);
    token.ok_or_else(|| format!("{number} is not a token"))
}

#[derive(Serialize, Deserialize)]
pub(super) struct BranchBody<'a> {
    /// The token set's canonical text.
    tokens: Text<'a>,
    path: Text<'a>,
}

impl<'a> BranchBody<'a> {
    pub(super) fn of(branch: &'a Branch) -> Self {
        let Branch { tokens, path } = branch;
        Self { tokens: tokens.to_string().into(), path: path.as_str().into() }
    }

    pub(super) fn into_branch(self) -> Result<Branch, String> {
        let Self { tokens, path } = self;
        let tokens = tokens.parse().map_err(|error| format!("branch: {error}"))?;
        Ok(Branch { tokens, path: BranchPath::from_text(&path) })
    }
}
