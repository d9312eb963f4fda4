use hawser_sctp::{AssociationConfig, Checksum, ConnectStrategy, Framing, Selection};
use hawser_session::seal::datagram::OVERHEAD;
use hawser_session::{Outgoing, SctpPaths, SessionConfig, Side};
use hawser_types::ByteCount;
use hawser_wire::sctp::StreamNumber;

/// Returns the configuration of an association that carries a channel of a session.
///
/// `side` is this end. A client names its links to the gateway, which may see several of them
/// behind one address.
pub fn association_config(session: &SessionConfig, side: Side) -> AssociationConfig {
    AssociationConfig {
        policy: session.scheduler,
        selection: selection(session.sctp_paths),
        max_message: MAX_RECORD,
        connect: ConnectStrategy::AtOnce,
        max_init_retransmissions: 5,
        announces_links: side == Side::Client,
        ..AssociationConfig::default()
    }
}

/// Returns the configuration of an association whose packets travel in sealed datagrams: the seal
/// replaces the checksum, identifies the packet's session, and takes a part of every datagram.
pub fn below_seal(config: AssociationConfig) -> AssociationConfig {
    AssociationConfig {
        checksum: Checksum::LowerLayer,
        framing: Framing::Compact,
        placed_stream: Some(StreamNumber::new(Outgoing::TUNNEL_STREAM)),
        max_packet: config.max_packet.saturating_sub(OVERHEAD),
        ..config
    }
}

fn selection(paths: SctpPaths) -> Selection {
    match paths {
        SctpPaths::All => Selection::Answering,
        SctpPaths::Paper => Selection::Paper { theta: THETA },
    }
}

/// Limit of a path's slowness relative to the fastest. Source: SCTP aggregation §3.2 (θ).
const THETA: f64 = 4.0;
/// More than any record: a chunk in it has at most 64 KiB.
const MAX_RECORD: ByteCount = ByteCount::new(256 * 1024);

#[cfg(test)]
mod tests {
    use hawser_sched::chunk::ChunkPolicy;

    use super::*;

    #[test]
    fn an_association_has_the_policy_of_its_session_and_takes_its_longest_record() {
        let session = SessionConfig {
            scheduler: ChunkPolicy::Redundant,
            ..SessionConfig::default()
        };
        for side in [Side::Client, Side::Gateway] {
            let config = below_seal(association_config(&session, side));
            assert_eq!(config.policy, ChunkPolicy::Redundant);
            assert_eq!(config.max_message, MAX_RECORD);
            assert_eq!(config.announces_links, side == Side::Client);
            assert_eq!(config.framing, Framing::Compact);
        }
    }

    #[test]
    fn the_papers_paths_are_taken_where_they_are_wanted() {
        let selected = |sctp_paths| {
            let session = SessionConfig {
                sctp_paths,
                ..SessionConfig::default()
            };
            association_config(&session, Side::Client).selection
        };
        assert_eq!(selected(SctpPaths::All), Selection::Answering);
        let paper = AssociationConfig::paper().selection;
        assert_eq!(selected(SctpPaths::Paper), paper);
    }
}
