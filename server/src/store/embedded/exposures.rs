//! Exposures as bytes on disk: fixed little-endian fields behind one byte of format.

use slotwise_core::model::{
    AccountSerial, AdSerial, AdvertiserId, CampaignSerial, Exposure, ZoneSerial,
};

use crate::ports::VisitorKey;

/// The first byte of every batch.
const FORMAT: u8 = 1;

/// One exposure with whose it is.
pub(super) type Shown = (VisitorKey, AdvertiserId, Exposure);

/// A batch with nothing in it yet.
pub(super) fn new_batch() -> Vec<u8> {
    vec![FORMAT]
}

/// Adds one exposure to `batch`.
pub(super) fn encode(
    batch: &mut Vec<u8>,
    visitor: VisitorKey,
    advertiser: &AdvertiserId,
    shown: &Exposure,
) {
    batch.extend(visitor.account.0.to_le_bytes());
    batch.extend(visitor.visitor.to_le_bytes());
    batch.extend(shown.at_us.to_le_bytes());
    batch.extend(shown.life_us.to_le_bytes());
    batch.extend(shown.decision.to_le_bytes());
    batch.extend(shown.zone.0.to_le_bytes());
    batch.extend(shown.campaign.0.to_le_bytes());
    batch.extend(shown.ad.0.to_le_bytes());
    // An id has at most 128 bytes; what is longer could not have entered the catalogue.
    let name = advertiser.as_str().as_bytes();
    let len = u8::try_from(name.len()).unwrap_or(u8::MAX);
    batch.push(len);
    batch.extend(&name[..usize::from(len)]);
}

/// The exposures of `batch`; an error in words where it is not one that [`encode`] wrote.
pub(super) fn decode(batch: &[u8]) -> Result<Vec<Shown>, &'static str> {
    let Some((&FORMAT, mut rest)) = batch.split_first() else {
        return Err("exposures in a format that is not known");
    };
    let mut shown = Vec::new();
    while !rest.is_empty() {
        shown.push(decode_one(&mut rest).ok_or("exposures are cut short")?);
    }
    Ok(shown)
}

fn decode_one(rest: &mut &[u8]) -> Option<Shown> {
    fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
        let (head, tail) = rest.split_first_chunk::<N>()?;
        *rest = tail;
        Some(*head)
    }
    let visitor = VisitorKey {
        account: AccountSerial(u32::from_le_bytes(take(rest)?)),
        visitor: u128::from_le_bytes(take(rest)?),
    };
    let exposure = Exposure {
        at_us: i64::from_le_bytes(take(rest)?),
        life_us: i64::from_le_bytes(take(rest)?),
        decision: u64::from_le_bytes(take(rest)?),
        zone: ZoneSerial(u32::from_le_bytes(take(rest)?)),
        campaign: CampaignSerial(u32::from_le_bytes(take(rest)?)),
        ad: AdSerial(u32::from_le_bytes(take(rest)?)),
    };
    let [len] = take(rest)?;
    let (name, tail) = rest.split_at_checked(usize::from(len))?;
    *rest = tail;
    Some((visitor, std::str::from_utf8(name).ok()?.into(), exposure))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_reads_back_and_a_cut_one_says_so() {
        let visitor = VisitorKey { account: AccountSerial(7), visitor: u128::MAX - 1 };
        let exposure = Exposure {
            at_us: -5,
            life_us: i64::MAX,
            decision: 42,
            zone: ZoneSerial(1),
            campaign: CampaignSerial(2),
            ad: AdSerial(3),
        };
        let advertiser = AdvertiserId::from("müller");
        let mut batch = new_batch();
        encode(&mut batch, visitor, &advertiser, &exposure);
        let one = batch.len();
        encode(&mut batch, visitor, &advertiser, &exposure);
        assert_eq!(decode(&batch).unwrap(), vec![(visitor, advertiser, exposure); 2]);
        for cut in (0..batch.len()).filter(|&cut| cut != 1 && cut != one) {
            assert!(decode(&batch[..cut]).is_err(), "cut at {cut}");
        }
    }
}
