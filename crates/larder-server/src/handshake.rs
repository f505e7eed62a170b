//! The beginning of a connection over TLS.

use rustix::net::sockopt;
use rustls::ServerConfig;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;
use tokio_rustls::{TlsAcceptor, rustls};

/// The first byte of a TLS handshake.
const HANDSHAKE: u8 = 0x16;
/// The answer to a client that does not speak TLS, as the API server's.
const PLAIN: &[u8] = b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";
/// The pause before the kernel asks a silent client whether it is there, and between further questions. Go has the same.
const KEEPALIVE: Duration = Duration::from_secs(15);

/// Shakes hands. It has no deadline of its own.
pub(crate) async fn accept(config: Arc<ServerConfig>, mut stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
    let mut first = [0];
    if stream.peek(&mut first).await? == 1 && first != [HANDSHAKE] {
        // Closing with unread data would reset the connection before the client has the answer.
        let _ = stream.try_read(&mut [0; 8 << 10]);
        stream.write_all(PLAIN).await?;
        stream.shutdown().await?;
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the client does not speak TLS"));
    }
    TlsAcceptor::from(config).accept(stream).await
}

/// Lets the kernel notice a client whose machine is gone: a watch that is silent writes nothing that would fail.
pub(crate) fn watch_for_silence(stream: &TcpStream, stall_timeout: Duration) -> io::Result<()> {
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, KEEPALIVE)?;
    sockopt::set_tcp_keepintvl(stream, KEEPALIVE)?;
    let milliseconds = u32::try_from(stall_timeout.as_millis()).unwrap_or(u32::MAX);
    Ok(sockopt::set_tcp_user_timeout(stream, milliseconds)?)
}
