//! SOCKS5, as much of it as leads to a server (RFC 1928, and RFC 1929 for user and password).

use super::{Asked, Behaviour, Shared};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::TcpStream;

const NO_PASSWORD: u8 = 0;
const PASSWORD: u8 = 2;
const NONE_OF_THEM: u8 = 0xff;

/// The reply to a request for a connection: this code, and no address.
const fn reply(code: u8) -> [u8; 10] {
    [5, code, 0, 1, 0, 0, 0, 0, 0, 0]
}

pub(super) async fn serve<S: AsyncRead + AsyncWrite + Unpin>(mut client: S, shared: &Shared) -> io::Result<()> {
    let behaviour = shared.behaviour.lock().clone();
    let [_version, methods] = read(&mut client).await?;
    let offered = read_long(&mut client, methods).await?;
    let demanded = matches!(behaviour, Behaviour::Demand(..));
    let methods = if demanded { &[PASSWORD][..] } else { &[NO_PASSWORD, PASSWORD] };
    let method = methods.iter().copied().find(|method| offered.contains(method)).unwrap_or(NONE_OF_THEM);
    client.write_all(&[5, method]).await?;
    let mut shown = None;
    match method {
        NONE_OF_THEM => return Ok(()),
        PASSWORD => {
            let [_version, length] = read(&mut client).await?;
            let user = text(read_long(&mut client, length).await?)?;
            let length = client.read_u8().await?;
            let password = text(read_long(&mut client, length).await?)?;
            let accepted = match &behaviour {
                Behaviour::Demand(this, that) => (this, that) == (&user, &password),
                _ => true,
            };
            client.write_all(&[1, u8::from(!accepted)]).await?;
            shown = Some(format!("{user}:{password}"));
            if !accepted {
                return Ok(());
            }
        }
        _ => {}
    }
    let [_version, _command, _reserved, kind] = read(&mut client).await?;
    let host = match kind {
        1 => Ipv4Addr::from(read::<4>(&mut client).await?).to_string(),
        4 => format!("[{}]", Ipv6Addr::from(read::<16>(&mut client).await?)),
        _ => {
            let length = client.read_u8().await?;
            text(read_long(&mut client, length).await?)?
        }
    };
    let port = client.read_u16().await?;
    shared.note(Asked { server: format!("{host}:{port}"), shown });
    match behaviour {
        Behaviour::Refuse(code) => return client.write_all(&reply(u8::try_from(code).unwrap_or(1))).await,
        Behaviour::Hang => return tokio::io::copy(&mut client, &mut tokio::io::sink()).await.map(drop),
        Behaviour::Close => return Ok(()),
        Behaviour::Lead | Behaviour::Demand(..) => {}
    }
    let Ok(mut server) = TcpStream::connect(shared.leads_to).await else { return client.write_all(&reply(5)).await };
    client.write_all(&reply(0)).await?;
    copy_bidirectional(&mut client, &mut server).await.map(drop)
}

async fn read<const N: usize>(client: &mut (impl AsyncRead + Unpin)) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    client.read_exact(&mut bytes).await?;
    Ok(bytes)
}

async fn read_long(client: &mut (impl AsyncRead + Unpin), length: u8) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length.into()];
    client.read_exact(&mut bytes).await?;
    Ok(bytes)
}

fn text(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(io::Error::other)
}
