//! What one path can do: round-trip time, delivery rate, silence; no policy.
