//! The vocabulary that every room of Hawser shares: instants, rates, byte counts and identifiers.
