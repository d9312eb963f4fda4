//! Bytes and back: control TLVs, records and chunk headers; no state.
