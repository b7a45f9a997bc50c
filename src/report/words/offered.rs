//! The words about servers of tools.

use super::sanitise;
use crate::event::{Offered, ServerStatus};
use crate::message::counted;

/// Most servers that are named, and most characters of a name.
const SERVERS_CAP: usize = 16;
const NAME_CAP: usize = 40;

/// Returns what servers of tools offer.
#[must_use]
pub fn offered(offered: &Offered) -> String {
    let of = |status: ServerStatus| {
        let all = offered.servers.iter().filter(|server| server.status == status);
        let names = all
            .clone()
            .take(SERVERS_CAP)
            .map(|server| sanitise::line(&server.name).chars().take(NAME_CAP).collect::<String>());
        let names: Vec<String> = names.collect();
        let more = all.count() - names.len();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        (!names.is_empty()).then(|| format!("{}{more} {}", names.join(", "), status.as_str()))
    };
    let standing = ServerStatus::ALL.into_iter().filter_map(of);
    let tools = offered.tools.as_ref().map(|tools| counted(tools.len() as u64, "tool"));
    let parts: Vec<String> = standing.chain(tools).collect();
    format!("servers of tools: {}", parts.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::ServerGlance;

    #[test]
    fn servers_are_told_by_how_they_stand_and_obey_no_terminal() {
        let glance = |name: &str, status| ServerGlance { name: name.into(), status };
        let servers = vec![
            glance("a", ServerStatus::Connected),
            glance("b\u{1b}[2J", ServerStatus::Failed),
            glance("c", ServerStatus::Connected),
        ];
        let all = Offered { servers, tools: Some([].into()) };
        assert_eq!(offered(&all), "servers of tools: a, c connected; b\\u{1b}[2J failed; 0 tools");
    }
}
