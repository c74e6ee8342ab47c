//! Connections on which a process waits for what happens elsewhere, again and again: `XREAD BLOCK`, `BRPOP`, long polls.

use crate::remembered::Remembered;
use wakepath_model::ids::{EndpointId, MonoNs};

/// By connection, when the answer to the last such call came; 0 where it has none that counts, or the last call there was another one.
#[derive(Default)]
pub(crate) struct Listening(Remembered<EndpointId, MonoNs>);

impl Listening {
    /// A call begins; `awaits`: it waits for something that happens elsewhere.
    pub(crate) fn asks(&mut self, flow: EndpointId, awaits: bool) {
        if awaits || self.0.get(flow).is_some() {
            *self.0.at(flow) = MonoNs(0);
        }
    }

    /// Such a call is answered.
    pub(crate) fn hears(&mut self, flow: EndpointId, at: MonoNs) {
        let heard = self.0.at(flow);
        if *heard == MonoNs(0) {
            *heard = at;
        }
    }

    /// Whether such a call was ever seen on a connection.
    pub(crate) fn has_seen(&self, flow: EndpointId) -> bool {
        self.0.get(flow).is_some()
    }

    /// When the answer came to the last call on a connection, if that was such a one.
    pub(crate) fn heard(&self, flow: EndpointId) -> Option<MonoNs> {
        self.0.get(flow).copied().filter(|&at| at != MonoNs(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_call_of_a_connection_counts() {
        let (mut listening, [a, b]) = (Listening::default(), [EndpointId(1), EndpointId(2)]);
        listening.asks(a, true);
        assert_eq!(listening.heard(a), None);
        listening.hears(a, MonoNs(10));
        // more of the same answer
        listening.hears(a, MonoNs(11));
        assert_eq!((listening.heard(a), listening.heard(b)), (Some(MonoNs(10)), None));
        listening.asks(a, false);
        listening.asks(b, false);
        assert_eq!((listening.heard(a), listening.heard(b)), (None, None));
    }
}
