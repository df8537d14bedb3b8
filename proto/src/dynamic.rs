//! Messages seen through their descriptors, for what must work alike on every type: JSON, masks.

use std::sync::LazyLock;

use prost::{Message, Name};
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor};

static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
    // The bytes were encoded by this crate's own build script: they decode, or it did not build.
    #[allow(clippy::expect_used)]
    DescriptorPool::decode(crate::DESCRIPTORS).expect("the contract's descriptors decode")
});

/// The descriptors of every type in the contract.
pub fn pool() -> &'static DescriptorPool {
    &POOL
}

/// The descriptor of `M`.
pub fn descriptor<M: Name>() -> MessageDescriptor {
    // Every generated type comes from the same descriptors as the pool.
    #[allow(clippy::expect_used)]
    POOL.get_message_by_name(&M::full_name()).expect("a generated type is in the pool")
}

/// `message` as a dynamic message of the same type.
pub fn to_dynamic<M: Message + Name>(message: &M) -> DynamicMessage {
    let mut dynamic = DynamicMessage::new(descriptor::<M>());
    // Both sides have the same descriptor, so the bytes of one always decode as the other.
    #[allow(clippy::expect_used)]
    dynamic.transcode_from(message).expect("the same type on both sides");
    dynamic
}

/// `dynamic` as its generated type `M`.
///
/// # Errors
/// When `dynamic` is of another type than `M` and its bytes do not decode as one.
pub fn from_dynamic<M: Message + Default>(
    dynamic: &DynamicMessage,
) -> Result<M, prost::DecodeError> {
    dynamic.transcode_to()
}
