//! How a profile is written in Redis; see `scripts/profile.lua`.

use redis::{Cmd, RedisError, Value};
use slotwise_core::decide::StrictAsk;
use slotwise_core::model::{
    ADVERTISERS_IN_PROFILE_MAX, AdSerial, AdvertiserId, CampaignSerial, CapLevel,
    EXPOSURES_PER_ADVERTISER_MAX, Exposure, Profile, SEGMENTS_IN_PROFILE_MAX, Segment, ZoneSerial,
};

use super::super::link::words;
use super::super::scripts::{self, Script};
use crate::limits::HISTORY;
use crate::ports::{SegmentsChange, StoreError};

const RECORD_BYTES: usize = 36;

/// A profile as the store has it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Stored {
    pub(super) profile: Profile,
    /// What was shown until then is forgotten; 0: nothing ever was.
    pub(super) forgotten_until_us: i64,
    /// Whether there was something that we did not write.
    pub(super) is_damaged: bool,
    /// What all this is called; nothing: it has no name.
    pub(super) name: Option<Box<str>>,
}

/// What the store says of a profile.
#[derive(Debug)]
pub(super) enum Said {
    /// This is all of it.
    Whole(Stored),
    /// It is as its reader knew it, with what was told.
    AsExpected {
        /// That is more than before.
        is_changed: bool,
    },
}

impl Said {
    /// Reads the reply to [`read`] or [`add`].
    ///
    /// # Errors
    /// When it is an error, or is not of that form.
    pub(super) fn from_reply(reply: &Value, now_us: i64) -> Result<Self, StoreError> {
        match reply {
            Value::Int(changed) => Ok(Self::AsExpected { is_changed: *changed == 1 }),
            hash => Stored::from_reply(hash, now_us).map(Self::Whole),
        }
    }
}

impl Stored {
    /// Reads what HGETALL replied. What is over at `now_us`, or damaged, is left out.
    ///
    /// # Errors
    /// When the reply is an error, or is not of that form.
    pub(super) fn from_reply(reply: &Value, now_us: i64) -> Result<Self, StoreError> {
        let mut stored = Self::default();
        match reply {
            Value::Array(items) => {
                for pair in items.chunks_exact(2) {
                    stored.take(&pair[0], &pair[1], now_us);
                }
            }
            Value::Map(pairs) => {
                pairs.iter().for_each(|(field, value)| stored.take(field, value, now_us));
            }
            Value::ServerError(error) => {
                let is_no_hash = error.code() == "WRONGTYPE";
                if !is_no_hash {
                    return Err(StoreError::Unavailable(words(&RedisError::from(error.clone()))));
                }
                stored.is_damaged = true;
            }
            _ => return Err(unexpected()),
        }
        stored.profile.take_fresh();
        let history_us = i64::try_from(HISTORY.as_micros()).unwrap_or(i64::MAX);
        stored.profile.expire(history_us, now_us);
        Ok(stored)
    }

    fn take(&mut self, field: &Value, value: &Value, now_us: i64) {
        let (Value::BulkString(field), Value::BulkString(value)) = (field, value) else {
            self.is_damaged = true;
            return;
        };
        let is_sound = match &field[..] {
            [b'a', b':', advertiser @ ..] => self.take_list(advertiser, value, now_us),
            b"s" => self.take_segments(value),
            b"f" => self.take_forgotten(value),
            b"v" => {
                self.name = str::from_utf8(value).ok().map(Box::from);
                Some(())
            }
            // Of a newer version, perhaps.
            _ => Some(()),
        };
        self.is_damaged |= is_sound.is_none();
    }

    fn take_list(&mut self, advertiser: &[u8], list: &[u8], now_us: i64) -> Option<()> {
        let advertiser = AdvertiserId::from(str::from_utf8(advertiser).ok()?);
        let (records, []) = list.as_chunks::<RECORD_BYTES>() else { return None };
        for record in records {
            // Scripts keep to the bounds; beyond them is what somebody else wrote.
            self.profile.record(&advertiser, exposure(record), now_us).ok()?;
        }
        Some(())
    }

    fn take_segments(&mut self, lines: &[u8]) -> Option<()> {
        let segment = |line: &str| {
            let (expires_us, name) = line.split_once(' ')?;
            Some(Segment { name: name.to_owned(), expires_us: expires_us.parse().ok()? })
        };
        let lines: Vec<_> = str::from_utf8(lines).ok()?.lines().map(segment).collect();
        let is_sound = lines.iter().all(Option::is_some);
        self.profile.set_segments(lines.into_iter().flatten().collect());
        is_sound.then_some(())
    }

    fn take_forgotten(&mut self, until_us: &[u8]) -> Option<()> {
        self.forgotten_until_us = str::from_utf8(until_us).ok()?.parse().ok()?;
        Some(())
    }
}

fn unexpected() -> StoreError {
    StoreError::Unavailable("redis replied with something else than was asked for".to_owned())
}

fn record(exposure: &Exposure) -> [u8; RECORD_BYTES] {
    let mut bytes = [0; RECORD_BYTES];
    bytes[0..8].copy_from_slice(&exposure.at_us.to_le_bytes());
    let life_us = if exposure.is_held { -exposure.life_us } else { exposure.life_us };
    bytes[8..16].copy_from_slice(&life_us.to_le_bytes());
    bytes[16..24].copy_from_slice(&exposure.decision.to_le_bytes());
    bytes[24..28].copy_from_slice(&exposure.zone.0.to_le_bytes());
    bytes[28..32].copy_from_slice(&exposure.campaign.0.to_le_bytes());
    bytes[32..36].copy_from_slice(&exposure.ad.0.to_le_bytes());
    bytes
}

fn exposure(record: &[u8; RECORD_BYTES]) -> Exposure {
    let life_us = i64::from_le_bytes(part(record, 8));
    Exposure {
        at_us: i64::from_le_bytes(part(record, 0)),
        life_us: life_us.saturating_abs(),
        is_held: life_us < 0,
        decision: u64::from_le_bytes(part(record, 16)),
        zone: ZoneSerial(u32::from_le_bytes(part(record, 24))),
        campaign: CampaignSerial(u32::from_le_bytes(part(record, 28))),
        ad: AdSerial(u32::from_le_bytes(part(record, 32))),
    }
}

fn part<const N: usize>(record: &[u8; RECORD_BYTES], at: usize) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&record[at..at + N]);
    bytes
}

/// The command that reads a profile, of which the reader knows what is called `known`.
pub(super) fn read(key: &str, known: Option<&str>) -> Cmd {
    match known {
        None => redis::cmd("HGETALL").arg(key).to_owned(),
        Some(name) => scripts::profile_read().run(&[key.to_owned()]).arg(name).to_owned(),
    }
}

/// `script` on the profile at `key`, with the arguments that all of them take.
fn run(script: &Script, key: &str, now_us: i64) -> Cmd {
    let mut command = script.run(&[key.to_owned()]);
    command.arg(now_us).arg(u64::try_from(HISTORY.as_millis()).unwrap_or(u64::MAX));
    command.arg(EXPOSURES_PER_ADVERTISER_MAX).arg(ADVERTISERS_IN_PROFILE_MAX);
    command
}

/// The command that adds exposures, in this order, to what is called `known`; it is called `name`
/// then.
pub(super) fn add<'e>(
    key: &str,
    now_us: i64,
    known: Option<&str>,
    name: &str,
    exposures: impl Iterator<Item = &'e (AdvertiserId, Exposure)>,
) -> Cmd {
    let mut lists: Vec<(&AdvertiserId, Vec<u8>)> = Vec::new();
    for (advertiser, exposure) in exposures {
        match lists.iter_mut().find(|(of, _)| *of == advertiser) {
            Some((_, list)) => list.extend(record(exposure)),
            None => lists.push((advertiser, record(exposure).to_vec())),
        }
    }
    let mut command = run(scripts::profile_add(), key, now_us);
    command.arg(known.unwrap_or_default()).arg(name);
    for (advertiser, list) in lists {
        command.arg(advertiser.as_str()).arg(list);
    }
    command
}

/// The command that frees the place that `showing` holds.
pub(super) fn release(
    key: &str,
    now_us: i64,
    advertiser: &AdvertiserId,
    showing: &Exposure,
) -> Cmd {
    let mut command = run(scripts::profile_release(), key, now_us);
    command.arg(advertiser.as_str()).arg(&record(showing)[..]);
    command
}

/// The command that asks the store to admit; see [`admitted`].
pub(super) fn strict(key: &str, now_us: i64, ask: &StrictAsk) -> Cmd {
    let mut command = run(scripts::profile_strict(), key, now_us);
    command.arg(ask.count);
    for candidate in &ask.candidates {
        let mut caps = String::new();
        for cap in &candidate.caps {
            let level = match cap.level {
                CapLevel::Ad => 'a',
                CapLevel::Campaign => 'c',
                CapLevel::Advertiser => 'v',
            };
            caps += &format!("{level} {} {}\n", cap.window_us, cap.impressions_max);
        }
        command.arg(candidate.advertiser.as_str()).arg(&record(&candidate.exposure)[..]);
        command.arg(candidate.taken_before).arg(caps);
    }
    command
}

/// The ads that the store admitted, and the profile with them.
pub(super) fn admitted(
    reply: &Value,
    ask: &StrictAsk,
    now_us: i64,
) -> Result<(Vec<AdSerial>, Stored), StoreError> {
    let [Value::Array(positions), hash] = parts(reply)? else { return Err(unexpected()) };
    let ad = |position: &Value| match position {
        Value::Int(position) => {
            let candidate = ask.candidates.get(usize::try_from(*position).ok()?);
            candidate.map(|candidate| candidate.exposure.ad)
        }
        _ => None,
    };
    let ads: Option<Vec<_>> = positions.iter().map(ad).collect();
    Ok((ads.ok_or_else(unexpected)?, Stored::from_reply(hash, now_us)?))
}

/// The command that changes segments; see [`changed`].
pub(super) fn segments(key: &str, now_us: i64, change: &SegmentsChange) -> Cmd {
    let mut command = run(scripts::profile_segments(), key, now_us);
    command.arg(SEGMENTS_IN_PROFILE_MAX).arg(change.add.len());
    for segment in &change.add {
        command.arg(&segment.name).arg(segment.expires_us);
    }
    command.arg(&change.remove);
    command
}

/// The profile with the segments as they are now.
pub(super) fn changed(reply: &Value, now_us: i64) -> Result<Stored, StoreError> {
    match parts(reply)? {
        [Value::Int(0)] => Err(StoreError::Full("the profile is full of segments")),
        [Value::Int(1), hash] => Stored::from_reply(hash, now_us),
        _ => Err(unexpected()),
    }
}

/// The command that forgets what was shown until then.
pub(super) fn forget(key: &str, until_us: i64) -> Cmd {
    let mut command = run(scripts::profile_forget(), key, until_us);
    command.arg(until_us);
    command
}

/// Whether anything was held.
pub(super) fn held(reply: &Value) -> Result<bool, StoreError> {
    match reply {
        Value::Int(held) => Ok(*held == 1),
        other => parts(other).and(Err(unexpected())),
    }
}

/// The parts of a reply, unless it is an error.
pub(super) fn parts(reply: &Value) -> Result<&[Value], StoreError> {
    match reply {
        Value::Array(parts) => Ok(parts),
        Value::ServerError(error) => {
            Err(StoreError::Unavailable(words(&RedisError::from(error.clone()))))
        }
        _ => Err(unexpected()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_US: i64 = 1_000;

    fn shown(decision: u64) -> Exposure {
        Exposure {
            at_us: NOW_US,
            life_us: 1,
            is_held: false,
            decision,
            zone: ZoneSerial(2),
            campaign: CampaignSerial(3),
            ad: AdSerial(4),
        }
    }

    fn hash(fields: &[(&str, &[u8])]) -> Value {
        let bytes = |bytes: &[u8]| Value::BulkString(bytes.to_vec());
        let fields =
            fields.iter().flat_map(|(field, value)| [bytes(field.as_bytes()), bytes(value)]);
        Value::Array(fields.collect())
    }

    fn stored(fields: &[(&str, &[u8])], now_us: i64) -> Stored {
        Stored::from_reply(&hash(fields), now_us).unwrap()
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let all = [shown(1), shown(u64::MAX), Exposure { is_held: true, ..shown(2) }];
        let list: Vec<_> = all.iter().flat_map(record).collect();
        let stored = stored(&[("a:x", &list), ("f", b"7"), ("s", b"2000 a/1\n3000 b/2\n")], NOW_US);
        assert_eq!(stored.profile.list(&"x".into()), all);
        assert_eq!(stored.forgotten_until_us, 7);
        let segments = stored.profile.segments().iter();
        let segments: Vec<_> = segments.map(|s| (s.name.as_str(), s.expires_us)).collect();
        assert_eq!(segments, [("a/1", 2_000), ("b/2", 3_000)]);
        assert!(!stored.is_damaged);
        assert_eq!(stored.profile.clone().take_fresh(), []);
    }

    /// As it was written before there were holds, and what such a version makes of one: a life
    /// below zero is over.
    #[test]
    fn a_hold_is_a_life_below_zero() {
        let held = Exposure { is_held: true, life_us: 5, ..shown(7) };
        let mut bytes = record(&held);
        assert_eq!(bytes[8..16], (-5_i64).to_le_bytes());
        bytes[8..16].copy_from_slice(&5_i64.to_le_bytes());
        assert_eq!(exposure(&bytes), Exposure { is_held: false, ..held });
    }

    #[test]
    fn what_is_over_is_left_out() {
        let fields: [(&str, &[u8]); 2] = [("a:x", &record(&shown(1))), ("s", b"1001 a/1\n")];
        let over = stored(&fields, NOW_US + 1);
        assert_eq!(over, Stored::default());
    }

    #[test]
    fn what_is_damaged_is_left_out_and_said_and_the_rest_is_read() {
        let sound = record(&shown(1));
        let damages: [(&str, &[u8]); 8] = [
            ("a:y", &sound[1..]),
            ("a:y", b"x"),
            ("a:\u{0}", b"y"),
            ("f", b"never"),
            ("f", b""),
            ("s", b"a/1\n"),
            ("s", b"soon a/1\n"),
            ("s", b"\xff"),
        ];
        for damage in damages {
            let stored = stored(&[damage, ("a:x", &sound)], NOW_US);
            assert!(stored.is_damaged, "{damage:?}");
            assert_eq!(stored.profile.lists().count(), 1, "{damage:?}");
            assert_eq!(stored.profile.list(&"x".into()), [shown(1)]);
        }
        let half = stored(&[("s", b"2000 a/1\n?\n"), ("new", b"?")], NOW_US);
        assert_eq!((half.profile.segments().len(), half.is_damaged), (1, true));
        assert!(!stored(&[("new", b"?")], NOW_US).is_damaged, "a newer version's");
    }

    #[test]
    fn a_list_beyond_its_bound_is_read_up_to_it() {
        let list: Vec<_> = (0..500).flat_map(|decision| record(&shown(decision))).collect();
        let stored = stored(&[("a:x", &list)], NOW_US);
        assert_eq!(stored.profile.list(&"x".into()).len(), EXPOSURES_PER_ADVERTISER_MAX);
        assert!(stored.is_damaged);
    }

    #[test]
    fn replies_that_are_no_hash_are_errors() {
        for reply in [Value::Nil, Value::Int(1), Value::SimpleString("QUEUED".into())] {
            assert!(Stored::from_reply(&reply, NOW_US).is_err(), "{reply:?}");
        }
    }
}
