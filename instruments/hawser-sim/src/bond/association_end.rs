use hawser_channels::association::{AssociationState, AssociationWriter, Next};
use hawser_sctp::{
    Association, AssociationConfig, AssociationId, Endpoint, EndpointConfig, Event, Local,
};
use hawser_types::Instant;

/// One end of the association that carries a channel.
pub(super) struct AssociationEnd {
    pub(super) endpoint: Endpoint,
    pub(super) association: Option<(AssociationId, Association)>,
    pub(super) is_established: bool,
    /// What writes to it, once it is a channel of the session, and the time since which it is.
    pub(super) writer: Option<(AssociationWriter, Instant)>,
    /// What the writer waits for.
    pub(super) waits: Next,
    /// The session has named the channel since the writer last looked.
    pub(super) is_woken: bool,
    /// A message was refused for want of room, and there has been none since.
    pub(super) is_full: bool,
    pub(super) planned: Option<Instant>,
    /// There may be work, and it is being done.
    pub(super) notified: bool,
    pub(super) running: bool,
}

impl AssociationEnd {
    pub(super) fn new(config: &AssociationConfig, locals: &[Local], seed: u64) -> Self {
        let config = EndpointConfig::new(config.clone(), locals);
        Self {
            endpoint: Endpoint::new(config, [seed as u8; 32], seed),
            association: None,
            is_established: false,
            writer: None,
            waits: Next::Again,
            is_woken: false,
            is_full: false,
            planned: None,
            notified: false,
            running: false,
        }
    }

    /// True if the writer has something to do.
    pub(super) fn is_writer_due(&self) -> bool {
        let Some((_, association)) = &self.association else {
            return false;
        };
        self.is_woken
            || match self.waits {
                Next::Again => true,
                Next::Idle => false,
                Next::Full(below) => !self.is_full && association.queued() < below,
            }
    }

    /// Takes the state of the association, to be reported to the session.
    pub(super) fn take_state(&mut self, now: Instant) -> Option<AssociationState> {
        let (_, association) = self.association.as_mut()?;
        let (writer, began) = self.writer.as_ref()?;
        let waiting = writer.waiting();
        Some(AssociationState::take(now, *began, association, waiting))
    }

    /// Takes what the association has to tell. Returns false if it is over.
    pub(super) fn take_events(&mut self) -> bool {
        let mut lives = true;
        while let Some((id, association)) = &mut self.association
            && let Some(event) = association.poll_event()
        {
            match event {
                Event::Established => self.is_established = true,
                Event::Writable => self.is_full = false,
                Event::PeerAddresses(known) => self.endpoint.addresses_changed(*id, &known),
                Event::Closed(_) | Event::Restarted => lives = false,
                _ => {}
            }
        }
        lives
    }
}
