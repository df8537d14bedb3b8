//! Which calls may be sent again, and when: the one table of it.
//!
//! Every call may be sent again when the server provably did not read it. What else is known of a
//! call decides whether it is also sent again when its fate is unclear:
//!
//! | call | when its fate is unclear | because |
//! |---|---|---|
//! | Get..., List..., health | again | nothing changes |
//! | ChooseAds, ChoosePage with `dry_run`, `limited` or no `user_id` | again | no exposure is recorded; what it may hold lapses by itself |
//! | ChooseAds, ChoosePage otherwise | never | an exposure may be recorded, and would count twice |
//! | ChooseAdsBatch | again if each of its requests may | |
//! | SetCampaignStatus: a pause | again | asked again, it waits again |
//! | SetCampaignStatus otherwise | never | somebody may have paused the campaign in between |
//! | UpdateSegments, ForgetUser | again | done twice is done once |
//! | RecordEvents | again | repeats are counted once |
//! | Put..., Delete... | never | somebody else's change may have come in between |
//! | ReplayEvents | never by itself | it is a stream; whoever holds the file may send it again: a line counts once |
//! | Import, streams | never | one message of many may have been read |

use std::time::Duration;

use slotwise_proto::v1::*;
use tonic::{Code, Status};
use tonic_health::pb::HealthCheckRequest;

use crate::fate::Fate;
use crate::limits::{ATTEMPTS_MAX, REPEAT_WAIT_MAX, REPEAT_WAIT_MIN, UNSENT_MAX};
use crate::wait::backoff;

/// When a call is sent again, beyond when the server provably did not read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// Also when its fate is unclear, and when the server says UNAVAILABLE: done twice is as good
    /// as done once.
    Freely,
    /// Never else.
    OnlyUnread,
}

/// The request of a unary call, which knows whether a repeat of it is harmless.
pub trait Call: Clone {
    /// Whether this very call may be sent again when nobody knows whether the server did it.
    ///
    /// ```
    /// use slotwise_client::v1::ChooseAdsRequest;
    /// use slotwise_client::{Call, Repeat};
    ///
    /// let shown = ChooseAdsRequest { user_id: "visitor-1".into(), ..Default::default() };
    /// assert_eq!(shown.repeat(), Repeat::OnlyUnread);
    /// let looked = ChooseAdsRequest { dry_run: true, ..shown };
    /// assert_eq!(looked.repeat(), Repeat::Freely);
    /// ```
    fn repeat(&self) -> Repeat;
}

macro_rules! calls {
    ($repeat:ident: $($request:ty)*) => {
        $(impl Call for $request {
            fn repeat(&self) -> Repeat {
                Repeat::$repeat
            }
        })*
    };
}

calls! { Freely:
    GetAccountRequest ListAccountsRequest ListSitesRequest ListZonesRequest ListZoneAdsRequest
    GetCampaignRequest ListCampaignsRequest GetDeliveryRequest GetAdRequest ListAdsRequest
    ListChangesRequest ListNodesRequest
    ListMinutesRequest GetStatsRequest ListTopAdsRequest GetBillRequest
    GetProfileRequest
    HealthCheckRequest
    UpdateSegmentsRequest ForgetUserRequest RecordEventsRequest
}

calls! { OnlyUnread:
    PutAccountRequest PutSiteRequest PutZoneRequest PutCampaignRequest PutAdRequest
    DeleteCampaignRequest DeleteAdRequest
}

/// A pause that comes twice is one pause. An activation that comes late may undo a pause that came
/// in between.
impl Call for SetCampaignStatusRequest {
    fn repeat(&self) -> Repeat {
        match self.status() {
            CampaignStatus::Paused => Repeat::Freely,
            _ => Repeat::OnlyUnread,
        }
    }
}

impl Call for ChooseAdsRequest {
    fn repeat(&self) -> Repeat {
        decision(self.dry_run, self.limited, &self.user_id)
    }
}

impl Call for ChoosePageRequest {
    fn repeat(&self) -> Repeat {
        decision(self.dry_run, self.limited, &self.user_id)
    }
}

impl Call for ChooseAdsBatchRequest {
    fn repeat(&self) -> Repeat {
        match self.requests.iter().all(|request| request.repeat() == Repeat::Freely) {
            true => Repeat::Freely,
            false => Repeat::OnlyUnread,
        }
    }
}

fn decision(dry_run: bool, limited: bool, user_id: &str) -> Repeat {
    match dry_run || limited || user_id.is_empty() {
        true => Repeat::Freely,
        false => Repeat::OnlyUnread,
    }
}

/// How often one call was sent, and what may still be done.
#[derive(Debug)]
pub(crate) struct Tries {
    repeat: Repeat,
    sent: u32,
    unsent: u32,
}

impl Tries {
    pub(crate) fn new(repeat: Repeat) -> Self {
        Tries { repeat, sent: 0, unsent: 0 }
    }

    /// How long to pause before the call is sent again; none where it is not.
    pub(crate) fn again(&mut self, fate: Fate, status: &Status) -> Option<Duration> {
        if fate == Fate::Unsent {
            // Another connection may be there; if not, the call waits for one anyway.
            self.unsent += 1;
            return (self.unsent < UNSENT_MAX).then_some(Duration::ZERO);
        }
        self.sent += 1;
        let pushback = Pushback::of(status);
        let freely = self.repeat == Repeat::Freely;
        let harmless = match fate {
            Fate::Unread => true,
            Fate::Broken => freely,
            Fate::Answered => freely && is_passing(status, &pushback),
            Fate::Late | Fate::Unsent => false,
        };
        if !harmless || self.sent >= ATTEMPTS_MAX {
            return None;
        }
        match pushback {
            Pushback::Never => None,
            Pushback::After(pause) => Some(pause),
            Pushback::Unsaid => Some(backoff(self.sent, REPEAT_WAIT_MIN, REPEAT_WAIT_MAX)),
        }
    }
}

/// Whether the server says that another time may do. RESOURCE_EXHAUSTED may mean a full disk as
/// well as a full queue: only where it names a time.
fn is_passing(status: &Status, pushback: &Pushback) -> bool {
    match status.code() {
        Code::Unavailable => true,
        Code::ResourceExhausted => matches!(pushback, Pushback::After(_)),
        _ => false,
    }
}

/// What the server asks for in `grpc-retry-pushback-ms` (gRFC A6).
#[derive(Debug, PartialEq, Eq)]
enum Pushback {
    /// Nothing.
    Unsaid,
    /// A pause of this length.
    After(Duration),
    /// No repeat: a negative number, or what is none.
    Never,
}

impl Pushback {
    fn of(status: &Status) -> Self {
        let Some(value) = status.metadata().get("grpc-retry-pushback-ms") else {
            return Pushback::Unsaid;
        };
        // More than 32 bits are no time that anybody waits.
        match value.to_str().ok().and_then(|text| text.parse::<u32>().ok()) {
            Some(ms) => Pushback::After(Duration::from_millis(ms.into())),
            None => Pushback::Never,
        }
    }
}

#[cfg(test)]
#[path = "repeat_tests.rs"]
mod tests;
