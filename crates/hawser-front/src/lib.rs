//! Where traffic comes in: the proxy port, the gateway and file transfer.
