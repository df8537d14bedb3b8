//! Asks each call of the admin door who calls, and whether they may.

use std::future::{Ready, ready};
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::Either;
use http::header::AUTHORIZATION;
use http::{Extensions, HeaderMap};
use tonic::{Request, Status};
use tower::{Layer, Service};

use super::access::needed;
use super::identities::{Identities, Identity};
use crate::doors::listener::ConnectionInfo;
use crate::doors::reload::Reloaded;

/// Says the same to whoever shows nothing and whoever shows the wrong thing.
const UNKNOWN: &str = "this door asks who calls, and you have shown nothing that it knows: \
                       send `authorization: Bearer TOKEN`, or a client certificate";

/// Who may come in; nothing: everybody, as only this machine reaches the door.
#[derive(Clone)]
pub(super) struct Gate(pub(super) Option<Arc<Reloaded<Identities>>>);

impl Gate {
    /// Lets a call of `path` through, whose caller it gives; nobody where it asks nobody.
    fn admit(
        &self,
        path: &str,
        credentials: &Credentials,
        extensions: &Extensions,
    ) -> Result<Option<Identity>, Status> {
        let Some(needed) = needed(path) else { return Ok(None) };
        let Some(identities) = &self.0 else { return Ok(Some(Identity::local())) };
        let identities = identities.current();
        let found = match credentials {
            // What a call says outweighs what its connection says: a wrong token is refused.
            Credentials::Token(token) => identities.by_token(token),
            Credentials::Unreadable => None,
            Credentials::None => {
                let peer = extensions.get::<ConnectionInfo>().map(|info| info.peer.clone());
                identities.by_certificate(peer.unwrap_or_default().names())
            }
        };
        let identity = found.ok_or_else(|| Status::unauthenticated(UNKNOWN))?;
        if identity.role < needed {
            tracing::warn!(name = %identity.name, role = %identity.role, %needed, "a call was refused");
            let Identity { name, role } = identity;
            let why = format!("this call needs the role {needed}, and {name} has {role}");
            return Err(Status::permission_denied(why));
        }
        Ok(Some(identity.clone()))
    }
}

/// What a call says of its caller.
#[derive(Debug, PartialEq, Eq)]
enum Credentials {
    None,
    Token(Vec<u8>),
    /// Something, and no bearer token.
    Unreadable,
}

impl Credentials {
    /// Takes them out of `headers`, so that nothing behind the gate can write them down.
    fn take(headers: &mut HeaderMap) -> Self {
        let mut values = headers.get_all(AUTHORIZATION).iter();
        let credentials = match (values.next(), values.next()) {
            (None, _) => Self::None,
            (Some(value), None) => match value.as_bytes().split_at_checked(BEARER.len()) {
                Some((scheme, token)) if scheme.eq_ignore_ascii_case(BEARER) => {
                    Self::Token(token.trim_ascii().to_vec())
                }
                _ => Self::Unreadable,
            },
            (Some(_), Some(_)) => Self::Unreadable,
        };
        headers.remove(AUTHORIZATION);
        credentials
    }
}

/// The scheme before a token; its case does not matter.
const BEARER: &[u8] = b"Bearer ";

/// Who makes this call, for the audit log.
pub(super) fn actor<T>(request: &Request<T>) -> Result<Arc<str>, Status> {
    let identity = request.extensions().get::<Identity>();
    let name = identity.map(|identity| Arc::clone(&identity.name));
    name.ok_or_else(|| Status::internal("the door has no gate"))
}

impl<S> Layer<S> for Gate {
    type Service = Gated<S>;

    fn layer(&self, inner: S) -> Gated<S> {
        Gated { inner, gate: self.clone() }
    }
}

/// A service behind a [`Gate`].
#[derive(Clone)]
pub(super) struct Gated<S> {
    inner: S,
    gate: Gate,
}

impl<S, In, Out> Service<http::Request<In>> for Gated<S>
where
    S: Service<http::Request<In>, Response = http::Response<Out>>,
    Out: Default,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Either<Ready<Result<S::Response, S::Error>>, S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: http::Request<In>) -> Self::Future {
        let credentials = Credentials::take(request.headers_mut());
        match self.gate.admit(request.uri().path(), &credentials, request.extensions()) {
            Ok(identity) => {
                if let Some(identity) = identity {
                    request.extensions_mut().insert(identity);
                }
                Either::Right(self.inner.call(request))
            }
            Err(status) => Either::Left(ready(Ok(status.into_http()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_one_bearer_token_or_none_and_are_taken_out() {
        let token = |text: &str| Credentials::Token(text.as_bytes().to_vec());
        for (values, expected) in [
            (&[][..], Credentials::None),
            (&["Bearer abc"], token("abc")),
            (&["bearer  abc "], token("abc")),
            (&["Bearer "], token("")),
            (&["Bearer"], Credentials::Unreadable),
            (&["Basic abc"], Credentials::Unreadable),
            (&["abc"], Credentials::Unreadable),
            (&[""], Credentials::Unreadable),
            (&["Bearer abc", "Bearer abd"], Credentials::Unreadable),
        ] {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(AUTHORIZATION, value.parse().unwrap());
            }
            assert_eq!(Credentials::take(&mut headers), expected, "{values:?}");
            assert!(headers.is_empty(), "{values:?}");
        }
    }
}
