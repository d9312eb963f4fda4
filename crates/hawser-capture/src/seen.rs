use hawser_path::Segments;

/// State of a flow at the last recount.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FlowState {
    pub(crate) moved: (u64, u64),
    /// Time of the flow's last progress.
    pub(crate) at: u64,
    /// Time of the last packet from the peer; 0 if unknown.
    pub(crate) heard: u64,
    pub(crate) segments: Option<Segments>,
}
