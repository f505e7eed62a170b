//! The local API of larder over a Unix socket
