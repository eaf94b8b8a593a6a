//! Live probing: sockets, stamps, pacing and the probe protocol.
