use hawser_sched::connection::Load;

/// Connections on a link or on the gateway, and their remaining load.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Charges {
    load: Load,
    /// Real-time connections among them.
    calls: u32,
    /// Connections established so far.
    opened: u64,
}

/// The charge of one connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Charge {
    pub(crate) load: Load,
    pub(crate) is_call: bool,
}

impl Charges {
    pub(crate) const fn load(&self) -> Load {
        self.load
    }

    pub(crate) const fn has_calls(&self) -> bool {
        self.calls > 0
    }

    pub(crate) const fn opened(&self) -> u64 {
        self.opened
    }

    /// True if no connection on it has anything left to carry.
    pub(crate) fn is_empty(&self) -> bool {
        self.load == Load::default()
    }

    pub(crate) const fn on_opened(&mut self) {
        self.opened += 1;
    }

    pub(crate) fn add(&mut self, charge: Charge) {
        let load = &mut self.load;
        load.connections = load.connections.saturating_add(charge.load.connections);
        load.up += charge.load.up;
        load.down += charge.load.down;
        self.calls += u32::from(charge.is_call);
    }

    pub(crate) fn subtract(&mut self, charge: Charge) {
        let load = &mut self.load;
        load.connections = load.connections.saturating_sub(charge.load.connections);
        load.up -= charge.load.up;
        load.down -= charge.load.down;
        self.calls = self.calls.saturating_sub(u32::from(charge.is_call));
    }

    /// Removes all charges, so that current ones can be added.
    pub(crate) fn clear(&mut self) {
        (self.load, self.calls) = (Load::default(), 0);
    }
}
