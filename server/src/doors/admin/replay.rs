//! `ReplayService`: events of another time or another system, counted under their own times.
//!
//! A line has an identity: the SHA-256 of its file and its number. Its decision's id is eight
//! bytes of a hash over both, and its tag names both, so that it is counted once for good, however
//! often and in however many parts its file is sent. It costs nothing: it was paid for where it
//! happened.

mod names;

use prost_types::Timestamp;
use sha2::{Digest, Sha256};
use slotwise_proto::v1::replay_service_server::ReplayService;
use slotwise_proto::v1::{EventKind, ReplayEventsRequest, ReplayEventsResponse, ReplayedEvent};
use tonic::{Request, Response, Status, Streaming};

use super::gate::actor;
use super::{Admin, AdminDoor};
use crate::doors::refusal::Refusal;
use crate::events::{Event, Kind};
use crate::limits::{
    ID_BYTES_MAX, REPLAY_AHEAD_MAX, REPLAY_EVENTS_MAX, REPLAY_STALL_MAX, REPLAYS_MAX,
};
use crate::time::micros;
use crate::tokens::{PriceKind, Showing};
use names::Names;

#[tonic::async_trait]
impl ReplayService for AdminDoor {
    async fn replay_events(
        &self,
        request: Request<Streaming<ReplayEventsRequest>>,
    ) -> Result<Response<ReplayEventsResponse>, Status> {
        let actor = actor(&request)?;
        let mut messages = request.into_inner();
        let lines = tokio::select! {
            lines = replay(&self.admin, &mut messages) => lines?,
            () = self.drain.begun() => {
                let why = "this node is being stopped; send the file again: its lines count once";
                return Err(Status::unavailable(why));
            }
        };
        tracing::info!(actor = &*actor, lines, "events were replayed");
        Ok(Response::new(ReplayEventsResponse { lines }))
    }
}

/// Takes message after message: the next is not read before the last is durable.
async fn replay(
    admin: &Admin,
    messages: &mut Streaming<ReplayEventsRequest>,
) -> Result<u64, Status> {
    let ledger = &admin.ledger;
    let _turn = ledger.replaying.try_acquire().map_err(|_| {
        Refusal::unavailable(format!("{REPLAYS_MAX} files are being replayed; try again later"))
    })?;
    let (mut file, mut names) = (None::<File>, Names::default());
    let mut lines = 0;
    loop {
        let message = tokio::time::timeout(REPLAY_STALL_MAX, messages.message()).await;
        let message = message.map_err(|_| {
            Status::deadline_exceeded("the replay was given up: nothing comes any more")
        })??;
        let Some(message) = message else { return Ok(lines) };
        let file = match &mut file {
            Some(_) if !message.file_sha256.is_empty() => {
                return Err(
                    Refusal::invalid("file_sha256", "belongs into the first message").into()
                );
            }
            Some(file) => file,
            None => file.insert(File::new(&message.file_sha256)?),
        };
        if message.events.len() > REPLAY_EVENTS_MAX {
            let count = message.events.len();
            let problem = format!("are {count}; the limit is {REPLAY_EVENTS_MAX}");
            return Err(Refusal::invalid("events", problem).into());
        }
        names.learn(admin, &message.events).await?;
        let now_us = admin.users.clock.now_us();
        let visitor = |user_id: &str| admin.users.hash.of(user_id);
        let mut events = Vec::with_capacity(message.events.len());
        for replayed in &message.events {
            let event = file.event(replayed, &names, now_us, visitor);
            events.push(event.map_err(|problem| problem.of_line(replayed.line))?);
        }
        let count = events.len() as u64;
        if count > 0 {
            ledger.recorder.record(events).await.map_err(|lost| {
                Refusal::unavailable(format!("{lost}; send the file again: its lines count once"))
            })?;
        }
        lines += count;
    }
}

/// What is wrong with a line.
pub(super) struct Problem {
    field: &'static str,
    what: String,
}

impl Problem {
    fn new(field: &'static str, what: impl Into<String>) -> Self {
        Self { field, what: what.into() }
    }

    fn of_line(self, line: u64) -> Refusal {
        Refusal::invalid(self.field, format!("line {line}: {}", self.what))
    }
}

/// The file that is replayed, as far as it has come.
struct File {
    sha256: [u8; 32],
    hex: String,
    last_line: u64,
}

impl File {
    fn new(sha256: &[u8]) -> Result<Self, Refusal> {
        let sha256: [u8; 32] = sha256.try_into().map_err(|_| {
            let problem = "must hold the 32 bytes of the file's SHA-256 in the first message";
            Refusal::invalid("file_sha256", problem)
        })?;
        let hex = sha256.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self { sha256, hex, last_line: 0 })
    }

    fn event(
        &mut self,
        replayed: &ReplayedEvent,
        names: &Names,
        now_us: i64,
        visitor: impl Fn(&str) -> u128,
    ) -> Result<Event, Problem> {
        // Two events under one number would be one.
        if replayed.line <= self.last_line {
            let problem =
                format!("comes after line {}; lines count from 1 and go up", self.last_line);
            return Err(Problem::new("line", problem));
        }
        let kind = kind(replayed)?;
        let at_us = at(replayed.occurred_at.as_ref(), now_us)?;
        if replayed.user_id.len() > ID_BYTES_MAX {
            let problem = format!("has more than {ID_BYTES_MAX} bytes");
            return Err(Problem::new("user_id", problem));
        }
        let (account, ad, zone) = names.of(replayed)?;
        self.last_line = replayed.line;
        let user_id = Some(&*replayed.user_id).filter(|user_id| !user_id.is_empty());
        let showing = Showing {
            decision: self.decision(replayed.line),
            slot: 0,
            issued_at_ms: at_us.div_euclid(1_000),
            price_nanos: 0,
            price_kind: PriceKind::Free,
            on_impression: false,
            visitor: user_id.map(visitor),
            account,
            zone,
            ad,
        };
        let tag = format!("{}:{}", self.hex, replayed.line);
        let value_micros = replayed.value_micros;
        Ok(Event { kind, showing, at_us, tag, value_micros, filtered_by: None })
    }

    fn decision(&self, line: u64) -> u64 {
        let hash =
            Sha256::new().chain_update(self.sha256).chain_update(line.to_be_bytes()).finalize();
        let mut decision = [0; 8];
        decision.copy_from_slice(&hash[..8]);
        u64::from_be_bytes(decision)
    }
}

fn kind(replayed: &ReplayedEvent) -> Result<Kind, Problem> {
    let kind = match replayed.kind() {
        EventKind::Impression => Kind::Impression,
        EventKind::Click => Kind::Click,
        EventKind::Conversion => Kind::Conversion,
        EventKind::Unspecified | EventKind::Loss => {
            return Err(Problem::new("kind", "is none of impression, click and conversion"));
        }
    };
    if replayed.value_micros != 0 && kind != Kind::Conversion {
        return Err(Problem::new("value_micros", "is for conversions only"));
    }
    Ok(kind)
}

/// When it happened. Tokens hold no time before 1970.
fn at(occurred_at: Option<&Timestamp>, now_us: i64) -> Result<i64, Problem> {
    let missing = || Problem::new("occurred_at", "is missing");
    let at_us = micros(occurred_at.ok_or_else(missing)?).filter(|at_us| *at_us >= 0);
    let at_us = at_us
        .ok_or_else(|| Problem::new("occurred_at", "is no instant of the years 1970 to 9999"))?;
    let ahead_us = i64::try_from(REPLAY_AHEAD_MAX.as_micros()).unwrap_or(i64::MAX);
    if at_us > now_us.saturating_add(ahead_us) {
        return Err(Problem::new("occurred_at", "has not come yet"));
    }
    Ok(at_us)
}
