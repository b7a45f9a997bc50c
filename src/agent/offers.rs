//! What the main conversation has of servers of tools.
//!
//! It stays the same from the first request on, so that every request begins
//! with the same bytes. Where a summary has broken that in any case, what
//! servers offer by then takes its place.

use std::sync::Arc;

use super::Unit;
use crate::event::{Offered, OfferedTool};
use crate::line::Told;
use crate::mcp::Servers;
use crate::message::Head;

/// What a conversation has of servers.
#[derive(Debug, Clone)]
pub struct Offers {
    /// The servers.
    pub servers: Arc<Servers>,
    /// Their tools that the conversation knows, in order.
    pub tools: Arc<[OfferedTool]>,
}

impl Unit {
    /// Takes what servers offer now. Only for a conversation whose requests are
    /// about to begin otherwise.
    pub(super) async fn take_offers(&mut self) {
        let Some(Offers { servers, tools }) = &mut self.offers else { return };
        let now: Arc<[OfferedTool]> = servers.tools().into();
        if now == *tools {
            return;
        }
        *tools = Arc::clone(&now);
        self.tools = self.tools.with_served(&now, servers);
        let offered = Offered { servers: servers.glances(), tools: Some(now) };
        let system = self.history.prefix().head.system.clone();
        self.history.set_head(Arc::new(Head::new(system, self.tools.schemas())));
        self.context.delegate = self.context.delegate.with_tools(self.tools.clone());
        self.context.line.tell(Told::Offered(Arc::new(offered))).await;
    }
}
