//! How a chat looks and behaves, `[chat]`: what only a person at a terminal
//! notices.

use std::time::Duration;

/// How a chat looks and behaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chat {
    /// Which editor's keys the line has.
    pub editing: Editing,
    /// Which colours there are.
    pub theme: Theme,
    /// What draws attention when a long turn ends or a question waits.
    pub bell: Bell,
    /// A turn that took less ends without a bell.
    pub bell_after: Duration,
    /// Whether the window gets a title.
    pub title: bool,
    /// Whether there are plain lines only and no live region, for readers that
    /// speak what appears.
    pub screen_reader: bool,
}

impl Default for Chat {
    fn default() -> Self {
        Self {
            editing: Editing::Emacs,
            theme: Theme::Dark,
            bell: Bell::Off,
            // Who waits for less is still looking.
            bell_after: Duration::from_secs(10),
            title: true,
            screen_reader: false,
        }
    }
}

/// Which editor's keys the line has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Editing {
    /// Those of readline.
    #[default]
    Emacs,
    /// Those of vi, beginning in insert mode.
    Vi,
}

impl Editing {
    /// All there are.
    pub const ALL: [Self; 2] = [Self::Emacs, Self::Vi];

    /// Returns the name in the configuration.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Emacs => "emacs",
            Self::Vi => "vi",
        }
    }

    pub(super) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|editing| editing.as_str() == name)
    }
}

/// Which colours there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Theme {
    /// Those that are seen on a dark ground.
    #[default]
    Dark,
    /// Those that are seen on a light ground.
    Light,
    /// None; what matters is bold or dim.
    Plain,
}

impl Theme {
    /// All there are, in the order in which they are offered.
    pub const ALL: [Self; 3] = [Self::Dark, Self::Light, Self::Plain];

    /// Returns the name in the configuration.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Dark => "dark",
            Self::Light => "light",
            Self::Plain => "plain",
        }
    }

    /// Finds a theme by its name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|theme| theme.as_str() == name)
    }
}

/// What draws attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Bell {
    /// Nothing does.
    #[default]
    Off,
    /// The terminal's bell.
    Bell,
    /// The desktop's notification, with OSC 9, where a terminal knows it.
    Osc9,
}

impl Bell {
    /// All there are.
    pub const ALL: [Self; 3] = [Self::Off, Self::Bell, Self::Osc9];

    /// Returns the name in the configuration.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Bell => "bell",
            Self::Osc9 => "osc9",
        }
    }

    pub(super) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|bell| bell.as_str() == name)
    }
}
