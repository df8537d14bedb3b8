//! What an event counts once by.

use sha2::{Digest, Sha256};

use super::{Event, Kind};

/// Names an event: equal for repeats of the same one, and for no two others.
///
/// 16 bytes: six of the time of issue in milliseconds, first, so that what happens together lies
/// together in an index; then, for an impression or a click, the decision's id and the slot with
/// the kind in its highest bits; else ten bytes of a SHA-256 over those and the tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventId(pub [u8; 16]);

/// A slot is below this: placements of a page x ads of a placement, rounded up.
const SLOTS: u16 = 1 << 13;
const _: () =
    assert!(crate::limits::PLACEMENTS_MAX * crate::limits::COUNT_MAX as usize <= SLOTS as usize);

impl EventId {
    pub(super) fn of(event: &Event) -> Self {
        let showing = &event.showing;
        let kind = match event.kind {
            Kind::Impression => 0,
            Kind::Click => 1,
            Kind::Conversion => 2,
        };
        let mut id = [0; 16];
        id[..6].copy_from_slice(&showing.issued_at_ms.to_be_bytes()[2..]);
        let slot = (showing.slot % SLOTS) | (kind * SLOTS);
        if event.tag.is_empty() && event.kind != Kind::Conversion {
            id[6..14].copy_from_slice(&showing.decision.to_be_bytes());
            id[14..].copy_from_slice(&slot.to_be_bytes());
        } else {
            let hash = Sha256::new()
                .chain_update(showing.decision.to_be_bytes())
                .chain_update(slot.to_be_bytes())
                .chain_update(event.tag.as_bytes())
                .finalize();
            id[6..].copy_from_slice(&hash[..10]);
        }
        Self(id)
    }

    /// The least id of a showing that was issued at `us` of Unix time or later; times before 1970
    /// count as that.
    pub fn first_issued(us: i64) -> Self {
        let ms = us.div_euclid(1_000).clamp(0, (1 << 48) - 1);
        let mut id = [0; 16];
        id[..6].copy_from_slice(&ms.to_be_bytes()[2..]);
        Self(id)
    }

    /// When the showing was issued, in milliseconds of Unix time.
    pub fn issued_at_ms(self) -> i64 {
        let mut issued = [0; 8];
        issued[2..].copy_from_slice(&self.0[..6]);
        i64::from_be_bytes(issued)
    }
}
