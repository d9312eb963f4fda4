/// Lowest TCP port at which a client may take connections of its gateway's: those below belong to
/// services.
pub const MIN_JOIN_PORT: u16 = 1024;
