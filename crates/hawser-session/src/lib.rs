//! Stream mode without I/O: channels, chunks, reassembly, acknowledgement, reinjection and flow control.
