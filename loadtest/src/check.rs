//! Whether an answer is right. Every answer is walked through as it lies in the read buffer,
//! without a copy of anything; some are decoded whole and held against the catalogue.

mod deep;
mod fields;

pub(crate) use deep::Deep;

use fields::{Fields, Value};

/// Why an answer is wrong.
pub(crate) type Wrong = &'static str;

/// What an answer must hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Want {
    pub(crate) zone: u32,
    /// Ads that were asked for.
    pub(crate) count: usize,
    /// Each visitor gets as many, whatever they have seen: enough ads of the zone have no cap.
    pub(crate) is_full: bool,
    pub(crate) is_explained: bool,
}

/// Characters of a token.
pub(crate) const TOKEN_CHARS: usize = 96;
/// Ads of one answer that are compared with each other; the service gives no more.
const ADS_MAX: usize = 100;

/// One ad of an answer.
#[derive(Clone, Copy, Default)]
struct Shown<'a> {
    campaign: &'a [u8],
    ad_unit: &'a [u8],
    token: &'a [u8],
    score: f64,
}

/// Walks through one `ChooseAdsResponse`.
pub(crate) fn answer(message: &[u8], want: &Want) -> Result<(), Wrong> {
    let mut shown = [Shown::default(); ADS_MAX];
    let mut count = 0;
    let (mut is_explained, mut reason, mut version) = (false, 0, 0);
    for field in Fields::of(message) {
        match field? {
            (2, Value::Bytes(bytes)) => {
                *shown.get_mut(count).ok_or("more ads than the service gives")? = ad(bytes)?;
                count += 1;
            }
            (3, Value::Number(number)) => reason = number,
            (4, Value::Number(number)) => version = number,
            (5, Value::Bytes(_)) => is_explained = true,
            (6, _) => return Err("one of a batch or stream was refused"),
            _ => {}
        }
    }
    let shown = &shown[..count];
    if count == 0 {
        return Err(match reason {
            1 => "no such zone: was the catalogue prepared with the same numbers?",
            2 => "the zone is empty: was the catalogue prepared with the same numbers?",
            _ if !want.is_full => return Ok(()),
            _ => "no ad at all",
        });
    }
    if reason != 0 {
        return Err("ads, and a reason for none");
    }
    if version == 0 {
        return Err("no version of the catalogue");
    }
    if count > want.count {
        return Err("more ads than were asked for");
    }
    if count < want.count && want.is_full {
        return Err("fewer ads than were asked for");
    }
    if is_explained != want.is_explained {
        return Err("an explanation that was not asked for, or none that was");
    }
    together(shown, want.zone)
}

/// One `ChosenAd`.
fn ad(message: &[u8]) -> Result<Shown<'_>, Wrong> {
    let mut shown = Shown::default();
    for field in Fields::of(message) {
        match field? {
            (1, Value::Bytes(bytes)) => shown.campaign = bytes,
            (2, Value::Bytes(bytes)) => shown.ad_unit = bytes,
            (4, Value::Eight(bits)) => shown.score = f64::from_bits(bits),
            (6, Value::Bytes(bytes)) => shown.token = bytes,
            _ => {}
        }
    }
    if shown.campaign.is_empty() || shown.ad_unit.is_empty() {
        return Err("an ad without a name");
    }
    if !is_token(shown.token) {
        return Err("a token that can be none");
    }
    if shown.score.is_nan() || shown.score <= 0.0 {
        return Err("an ad without a score");
    }
    Ok(shown)
}

/// What must hold of the ads of one answer together.
fn together(shown: &[Shown<'_>], zone: u32) -> Result<(), Wrong> {
    for (at, one) in shown.iter().enumerate() {
        if zone_of(one.ad_unit) != Some(zone) {
            return Err("an ad of another zone");
        }
        for before in &shown[..at] {
            if before.ad_unit == one.ad_unit && before.campaign == one.campaign {
                return Err("an ad twice");
            }
            if before.token == one.token {
                return Err("a token twice");
            }
        }
        if at > 0 && shown[at - 1].score < one.score {
            return Err("a better ad behind a worse one");
        }
    }
    Ok(())
}

/// Whether it has the shape of a token: so many characters of URL-safe base64. Without a branch for
/// each, so that many are looked at in one step.
pub(crate) fn is_token(text: &[u8]) -> bool {
    let Ok(text) = <&[u8; TOKEN_CHARS]>::try_from(text) else { return false };
    text.iter().fold(true, |is_it, byte| {
        let is_letter = (byte | 0x20).wrapping_sub(b'a') < 26;
        let is_digit = byte.wrapping_sub(b'0') < 10;
        is_it & (is_letter | is_digit | (*byte == b'-') | (*byte == b'_'))
    })
}

/// The zone that the name of an ad of ours says.
fn zone_of(ad_unit: &[u8]) -> Option<u32> {
    let digits = ad_unit.strip_prefix(b"z")?;
    let end = digits.iter().position(|byte| *byte == b'-')?;
    number(&digits[..end])
}

/// A decimal number.
fn number(digits: &[u8]) -> Option<u32> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u32, |number, digit| {
        let digit = digit.checked_sub(b'0').filter(|digit| *digit < 10)?;
        number.checked_mul(10)?.checked_add(u32::from(digit))
    })
}

/// The answers of a `ChooseAdsBatchResponse`, in order.
pub(crate) fn batch(message: &[u8]) -> impl Iterator<Item = Result<&[u8], Wrong>> {
    Fields::of(message).filter_map(|field| match field {
        Ok((1, Value::Bytes(bytes))) => Some(Ok(bytes)),
        Ok(_) => None,
        Err(wrong) => Some(Err(wrong)),
    })
}

/// What a follow-up needs of the first ad of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct First<'a> {
    pub(crate) campaign: &'a [u8],
    pub(crate) ad_unit: &'a [u8],
    pub(crate) token: &'a [u8],
}

/// The ads of an answer that was found right.
pub(crate) fn ads(message: &[u8]) -> impl Iterator<Item = First<'_>> {
    let ads = Fields::of(message).filter_map(|field| match field {
        Ok((2, Value::Bytes(bytes))) => ad(bytes).ok(),
        _ => None,
    });
    ads.map(|Shown { campaign, ad_unit, token, .. }| First { campaign, ad_unit, token })
}

/// The results of a `RecordEventsResponse`, whether packed or not.
pub(crate) fn event_results(message: &[u8]) -> Result<Vec<u64>, Wrong> {
    let mut results = Vec::new();
    for field in Fields::of(message) {
        match field? {
            (1, Value::Number(result)) => results.push(result),
            (1, Value::Bytes(packed)) => fields::packed(packed, &mut results)?,
            _ => {}
        }
    }
    Ok(results)
}

#[cfg(test)]
mod tests;
