//! HTTP/2 as a client speaks it, no more of it than a load needs, and as cheap as it can be made:
//! the server shares the processor with whoever measures it. Nothing in here does I/O.

pub(crate) mod connection;
pub(crate) mod frame;
pub(crate) mod head;
pub(crate) mod hpack;
pub(crate) mod huffman;
pub(crate) mod request;
pub(crate) mod streams;

#[cfg(test)]
mod hex;
#[cfg(test)]
mod tests;
