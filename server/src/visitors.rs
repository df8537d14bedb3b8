//! Visitors as this service knows them: by a hash of their id, never by the id itself.

use siphasher::sip128::SipHasher24;

/// Turns a visitor's id into what is stored and compared in its place: SipHash-2-4 of 128 bits
/// under a secret, so that nobody without it can tell whose a hash is. Prints no key.
#[derive(Clone, Copy)]
pub struct VisitorHash {
    key: [u8; 16],
}

impl VisitorHash {
    /// The hash under `secret`, which must be the same for all nodes and for ever.
    pub fn new(secret: &[u8; 32]) -> Self {
        let mut key = [0; 16];
        key.copy_from_slice(&secret[..16]);
        Self { key }
    }

    /// What stands for this visitor.
    pub fn of(&self, user_id: &str) -> u128 {
        SipHasher24::new_with_key(&self.key).hash(user_id.as_bytes()).as_u128()
    }
}
