//! Files of another time, replayed through the admin door: each again and again until it is
//! acknowledged, and then once more.

use std::sync::Arc;
use std::time::Duration;

use slotwise_proto::v1::replay_service_client::ReplayServiceClient;
use slotwise_proto::v1::{EventKind, ReplayEventsRequest, ReplayedEvent};

use crate::book::Event;
use crate::lines::Lines;
use crate::random::Random;
use crate::sender::{Sender, is_broken_off, now_us, random_us, stamp};
use crate::world::{CAMPAIGNS, Cell, UNITS, ZONES};

const LINES: u64 = 60;
/// Lines of one message at most.
const MESSAGE: u64 = 20;
/// How far back they lie: most of them are late.
pub const BACK_S: u64 = 2 * 3_600;
const ANSWER_MAX: Duration = Duration::from_secs(6);
const REST: Duration = Duration::from_millis(30);

/// Replays files as long as the sender tells.
pub async fn replay(sender: Arc<Sender>, mut random: Random) {
    let mut lines = Lines::default();
    while !sender.is_finishing() {
        let (sha256, file) = file(&sender, &mut random);
        let mut again = 1 + random.below(2);
        while again > 0 {
            if send(&sender, &sha256, &file, &mut lines, &mut random).await {
                again -= 1;
            }
            tokio::time::sleep(REST).await;
        }
        tokio::time::sleep(REST * 10).await;
    }
}

/// A file, in the book as well.
fn file(sender: &Sender, random: &mut Random) -> (Vec<u8>, Vec<ReplayedEvent>) {
    // Any 32 bytes name a file.
    let sha256 = (0..4).flat_map(|_| random.next().to_be_bytes()).collect();
    let now_us = now_us();
    let line = |line| {
        let (site, zone) = random.pick(&ZONES);
        let (campaign, unit) = (random.pick(&CAMPAIGNS), random.pick(&UNITS));
        let kinds = [EventKind::Impression, EventKind::Click, EventKind::Conversion];
        let (kind, at_us) = (random.pick(&kinds), now_us - random_us(random, BACK_S));
        let [site, zone, campaign, unit] = [site, zone, campaign, unit].map(str::to_owned);
        let event = ReplayedEvent {
            line,
            kind: kind.into(),
            occurred_at: Some(stamp(at_us)),
            campaign_id: campaign.clone(),
            ad_unit_id: unit.clone(),
            site_id: site.clone(),
            zone_id: zone.clone(),
            ..ReplayedEvent::default()
        };
        let cell = Cell { site, zone, campaign, unit };
        let (token, id) = Default::default();
        sender.book().add_replayed(Event { kind, cell, token, id, at_us: Some(at_us) });
        event
    };
    (sha256, (1..=LINES).map(line).collect())
}

/// Whether it was acknowledged.
async fn send(
    sender: &Sender,
    sha256: &[u8],
    file: &[ReplayedEvent],
    lines: &mut Lines,
    random: &mut Random,
) -> bool {
    let Some(node) = sender.node(random) else { return false };
    let message = usize::try_from(1 + random.below(MESSAGE)).unwrap();
    let messages: Vec<_> = file
        .chunks(message)
        .enumerate()
        .map(|(at, events)| ReplayEventsRequest {
            file_sha256: if at == 0 { sha256.to_vec() } else { Vec::new() },
            events: events.to_vec(),
        })
        .collect();
    let mut door = ReplayServiceClient::new(lines.to(node.admin));
    let replaying = door.replay_events(tokio_stream::iter(messages));
    match tokio::time::timeout(ANSWER_MAX, replaying).await {
        Ok(Ok(answer)) => {
            assert_eq!(answer.into_inner().lines, file.len() as u64);
            true
        }
        Ok(Err(status)) => {
            is_broken_off(&status);
            false
        }
        Err(_) => false,
    }
}
