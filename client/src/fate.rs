//! What became of a request that was not answered well. Only what is certain counts: a request
//! whose fate is unclear may have been done.

use std::error::Error as _;

use h2::Reason;
use tonic::{ConnectError, Status, TimeoutExpired};

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It never left, or the server said with its goodbye (GOAWAY) that it did not look at it. The
    /// connection takes no more.
    Unsent,
    /// The server refused the stream without reading it (REFUSED_STREAM); the connection stays.
    Unread,
    /// The connection broke; the server may have done the call.
    Broken,
    /// The deadline was over on this side.
    Late,
    /// The server answered with a status.
    Answered,
}

impl Fate {
    /// Reads it off the error, link by link. A status without a source came over the wire.
    ///
    /// - tonic's `ConnectError`: the connection was gone when the call came to it (it dials but
    ///   once, see `pool/dial.rs`).
    /// - hyper's "canceled": on HTTP/2 only for requests that were still in its queue when the
    ///   connection ended.
    /// - h2's GOAWAY from the peer: only for streams above the last that the peer says it looked
    ///   at, and for requests whose body was not begun. Streams up to that one end in an I/O error.
    /// - h2's REFUSED_STREAM from the peer: not processed in any way (RFC 9113, 8.7).
    pub(crate) fn of(status: &Status) -> Self {
        let mut link = status.source();
        if link.is_none() {
            return Fate::Answered;
        }
        while let Some(error) = link {
            if error.is::<ConnectError>() {
                return Fate::Unsent;
            }
            if error.is::<TimeoutExpired>() {
                return Fate::Late;
            }
            if error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_canceled) {
                return Fate::Unsent;
            }
            if let Some(error) = error.downcast_ref::<h2::Error>() {
                return Fate::of_h2(error);
            }
            link = error.source();
        }
        Fate::Broken
    }

    fn of_h2(error: &h2::Error) -> Self {
        match error.reason() {
            _ if !error.is_remote() => Fate::Broken,
            _ if error.is_go_away() => Fate::Unsent,
            Some(Reason::REFUSED_STREAM) => Fate::Unread,
            _ => Fate::Broken,
        }
    }

    /// Whether the connection takes no further call. A reset of one stream says nothing of the
    /// others.
    pub(crate) fn ends_connection(self, status: &Status) -> bool {
        match self {
            Fate::Unsent => true,
            Fate::Unread | Fate::Late | Fate::Answered => false,
            Fate::Broken => !is_stream_reset(status),
        }
    }
}

fn is_stream_reset(status: &Status) -> bool {
    let mut link = status.source();
    while let Some(error) = link {
        if let Some(error) = error.downcast_ref::<h2::Error>() {
            return error.is_reset();
        }
        link = error.source();
    }
    false
}
