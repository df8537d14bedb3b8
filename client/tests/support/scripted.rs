//! An HTTP/2 server that breaks as it is told to, below gRPC: what a tonic server never does.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use h2::Reason;
use h2::server::SendResponse;
use http::{HeaderMap, Response};
use prost::bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

/// What happens to one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// An empty message, which is the default of every type.
    Answer,
    /// RST_STREAM with REFUSED_STREAM, unread.
    Refuse,
    /// RST_STREAM with INTERNAL_ERROR, once all was read.
    Reset,
    /// The connection is cut once all was read.
    Cut,
    /// GOAWAY that names no stream as looked at. Only as the first turn of a connection.
    GoAway,
    /// UNAVAILABLE, with a pushback if any.
    Unavailable(Option<&'static str>),
}

/// The script that is left, and what was read.
#[derive(Debug, Default)]
pub(crate) struct Script {
    pub(crate) left: VecDeque<Turn>,
    /// Requests that came.
    pub(crate) came: u32,
    /// Requests of which the server has the whole message: it may have done them.
    pub(crate) read: u32,
    /// The header of each that came.
    pub(crate) timeouts: Vec<Duration>,
}

/// A running server; its script ends in `Answer` for ever.
#[derive(Clone)]
pub(crate) struct Scripted {
    pub(crate) address: SocketAddr,
    pub(crate) script: Arc<Mutex<Script>>,
}

impl Scripted {
    pub(crate) async fn start(turns: &[Turn]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let script = Script { left: turns.iter().copied().collect(), ..Script::default() };
        let server = Scripted {
            address: listener.local_addr().unwrap(),
            script: Arc::new(Mutex::new(script)),
        };
        let serving = server.clone();
        tokio::spawn(async move {
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                let first = serving.script.lock().unwrap().left.front().copied();
                match first {
                    Some(Turn::GoAway) => tokio::spawn(serving.clone().say_goodbye(socket)),
                    _ => tokio::spawn(serving.clone().serve(socket)),
                };
            }
        });
        server
    }

    pub(crate) fn came_and_read(&self) -> (u32, u32) {
        let script = self.script.lock().unwrap();
        (script.came, script.read)
    }

    /// The turn of the request that has just come.
    fn turn(&self) -> Turn {
        let mut script = self.script.lock().unwrap();
        script.came += 1;
        script.left.pop_front().unwrap_or(Turn::Answer)
    }

    async fn serve(self, socket: TcpStream) {
        let mut connection = h2::server::handshake(socket).await.unwrap();
        let cut = Arc::new(Notify::new());
        loop {
            let accepted = tokio::select! {
                accepted = connection.accept() => accepted,
                () = cut.notified() => return,
            };
            let Some(Ok((request, respond))) = accepted else { return };
            tokio::spawn(self.clone().take(request, respond, cut.clone()));
        }
    }

    async fn take(
        self,
        request: http::Request<h2::RecvStream>,
        mut respond: SendResponse<Bytes>,
        cut: Arc<Notify>,
    ) {
        let turn = self.turn();
        if turn == Turn::Refuse {
            respond.send_reset(Reason::REFUSED_STREAM);
            return;
        }
        let timeout = request.headers().get("grpc-timeout").unwrap().to_str().unwrap();
        let (number, unit) = timeout.split_at(timeout.len() - 1);
        let number: u64 = number.parse().unwrap();
        let timeout = match unit {
            "n" => Duration::from_nanos(number),
            "u" => Duration::from_micros(number),
            "m" => Duration::from_millis(number),
            "S" => Duration::from_secs(number),
            other => panic!("{other}"),
        };
        let mut body = request.into_body();
        while let Some(data) = body.data().await {
            let length = data.unwrap().len();
            body.flow_control().release_capacity(length).unwrap();
        }
        {
            let mut script = self.script.lock().unwrap();
            script.read += 1;
            script.timeouts.push(timeout);
        }
        match turn {
            Turn::Cut => cut.notify_one(),
            Turn::Reset => respond.send_reset(Reason::INTERNAL_ERROR),
            Turn::Unavailable(pushback) => unavailable(respond, pushback),
            _ => answer(respond),
        }
    }

    /// The raw frames: our settings, then, once the whole request is there, GOAWAY with 0 as the
    /// last stream that was looked at.
    async fn say_goodbye(self, mut socket: TcpStream) {
        const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];
        const GOAWAY: [u8; 17] = [0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        const DATA: u8 = 0;
        const END_STREAM: u8 = 1;
        socket.write_all(&SETTINGS).await.unwrap();
        let mut preface = [0; 24];
        socket.read_exact(&mut preface).await.unwrap();
        loop {
            let mut head = [0; 9];
            if socket.read_exact(&mut head).await.is_err() {
                return;
            }
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
            let mut payload = vec![0; usize::try_from(length).unwrap()];
            socket.read_exact(&mut payload).await.unwrap();
            if head[3] == DATA && head[4] & END_STREAM != 0 {
                break;
            }
        }
        assert_eq!(self.turn(), Turn::GoAway);
        socket.write_all(&GOAWAY).await.unwrap();
        let _ = socket.read_to_end(&mut Vec::new()).await;
    }
}

fn answer(mut respond: SendResponse<Bytes>) {
    let head = Response::builder().header("content-type", "application/grpc").body(()).unwrap();
    let mut body = respond.send_response(head, false).unwrap();
    // Not compressed, no bytes.
    body.send_data(vec![0, 0, 0, 0, 0].into(), false).unwrap();
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", "0".parse().unwrap());
    body.send_trailers(trailers).unwrap();
}

fn unavailable(mut respond: SendResponse<Bytes>, pushback: Option<&'static str>) {
    let mut head = Response::builder()
        .header("content-type", "application/grpc")
        .header("grpc-status", "14")
        .header("grpc-message", "not now");
    if let Some(ms) = pushback {
        head = head.header("grpc-retry-pushback-ms", ms);
    }
    respond.send_response(head.body(()).unwrap(), true).unwrap();
}
