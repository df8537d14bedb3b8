//! The ways to the doors of a node: HTTP and gRPC, each of which may break off at any moment.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tonic::transport::{Channel, Endpoint};

/// Connections for gRPC, kept for the next call.
#[derive(Default)]
pub struct Lines(HashMap<SocketAddr, Channel>);

impl Lines {
    pub fn to(&mut self, addr: SocketAddr) -> Channel {
        let connect = || Endpoint::try_from(format!("http://{addr}")).unwrap().connect_lazy();
        self.0.entry(addr).or_insert_with(connect).clone()
    }
}

/// An answer over HTTP/1.1.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub head: String,
    pub body: String,
}

/// One request on a connection of its own. A browser's agent: what says that it is a program is
/// not counted.
pub async fn ask(addr: SocketAddr, method: &str, target: &str, body: &str) -> io::Result<Reply> {
    let mut stream = TcpStream::connect(addr).await?;
    let length = body.len();
    let request = format!(
        "{method} {target} HTTP/1.1\r\nhost: ads.example\r\nconnection: close\r\n\
         user-agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\r\n\
         content-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await?;
    // A pixel is no text, and nobody looks at it.
    let text = String::from_utf8_lossy(&bytes);
    let (head, body) = text.split_once("\r\n\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
    let head = head.to_ascii_lowercase();
    let status = head.get(9..12).and_then(|status| status.parse().ok());
    let status = status.ok_or(io::ErrorKind::InvalidData)?;
    let begins = bytes.len() - bytes.windows(4).position(|end| end == b"\r\n\r\n").unwrap() - 4;
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    if length.and_then(|length| length.parse().ok()) != Some(begins) {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Reply { status, head, body: body.to_owned() })
}
