//! How the services encode and decode their messages.

use std::marker::PhantomData;

use prost::Message;
use tonic::codec::{BufferSettings, Codec};
use tonic_prost::{ProstDecoder, ProstEncoder};

/// Bytes that a message is given room for at first; one that needs more gets it. A decision's
/// request and answer are some hundred bytes each, and each has a buffer of its own: tonic's 8 KiB
/// are two pages of memory for every call.
const FIRST_ROOM: usize = 1_024;

/// Bytes of a stream's messages that are gathered before they are handed on: tonic's own.
const HAND_ON: usize = 32 * 1_024;

/// Protobuf, with small buffers.
#[derive(Debug, Clone)]
pub struct SmallCodec<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for SmallCodec<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T, U> Codec for SmallCodec<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = ProstEncoder<T>;
    type Decoder = ProstDecoder<U>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstEncoder::new(settings())
    }

    fn decoder(&mut self) -> Self::Decoder {
        ProstDecoder::new(settings())
    }
}

fn settings() -> BufferSettings {
    BufferSettings::new(FIRST_ROOM, HAND_ON)
}
