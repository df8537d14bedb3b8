//! One event, told by a request for the URL that holds its token.

use http::StatusCode;

use super::reply::{Reply, ill_formed, line, pixel, redirect, unavailable, untaken};
use super::visit::Visit;
use super::{Events, Untaken};
use crate::events::{Event, Kind};
use crate::limits::ID_BYTES_MAX;
use crate::telemetry::Metric;
use crate::tokens::Showing;

/// What a conversion's URL says beside the token.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Conversion {
    /// The advertiser's own id of it; empty: the token has but one.
    pub(super) id: String,
    /// What it is worth, in micros.
    pub(super) value_micros: i64,
}

impl Events {
    /// Records a click, and leads to the ad's landing URL.
    pub(super) async fn click(&self, token: &str, visit: Visit) -> Reply {
        let now_us = self.clock.now_us();
        let showing = match self.open(token.as_bytes(), Kind::Click, now_us) {
            Ok(showing) => showing,
            Err(why) => return untaken(why),
        };
        let location = match self.landings.of(showing.ad, token).await {
            Ok(location) => location,
            Err(error) => {
                tracing::warn!(%error, "a click cannot be led on");
                return (unavailable(), Metric::EventCallsFailed);
            }
        };
        let Some(response) = location.and_then(|location| redirect(&location)) else {
            return untaken(Untaken::BadToken);
        };
        if visit.is_uncounted {
            return (response, Metric::EventCallsUncounted);
        }
        // Only then the answer. What is lost is our fault, and not the visitor's.
        let metric = self.record(event(Kind::Click, showing, now_us, visit.filtered_by)).await;
        (response, metric)
    }

    /// Records an impression.
    pub(super) async fn impression(&self, token: &str, visit: Visit) -> Reply {
        let now_us = self.clock.now_us();
        let showing = match self.open(token.as_bytes(), Kind::Impression, now_us) {
            Ok(showing) => showing,
            Err(why) => return untaken(why),
        };
        if visit.is_uncounted {
            return (pixel(), Metric::EventCallsUncounted);
        }
        let is_seen = showing.on_impression && visit.filtered_by.is_none();
        let metric = self.record(event(Kind::Impression, showing, now_us, visit.filtered_by)).await;
        if is_seen {
            self.settling.seen(&showing, now_us).await;
        }
        (pixel(), metric)
    }

    /// Records a conversion. It often comes from an advertiser's server, whose agent is some
    /// library's: nothing is filtered by it, as whoever has the token was given it.
    pub(super) async fn conversion(&self, token: &str, query: Option<&str>, visit: Visit) -> Reply {
        let now_us = self.clock.now_us();
        let showing = match self.open(token.as_bytes(), Kind::Conversion, now_us) {
            Ok(showing) => showing,
            Err(why) => return untaken(why),
        };
        let Conversion { id, value_micros } = match Conversion::read(query) {
            Ok(conversion) => conversion,
            Err(why) => return ill_formed(why),
        };
        if visit.is_uncounted {
            return (pixel(), Metric::EventCallsUncounted);
        }
        let conversion = event(Kind::Conversion, showing, now_us, None);
        let metric = self.record(Event { tag: id, value_micros, ..conversion }).await;
        if metric == Metric::EventCallsFailed {
            // No visitor waits: whoever told it can tell it again.
            return (unavailable(), metric);
        }
        (pixel(), metric)
    }

    /// Makes `event` durable, and says what its call counts as.
    async fn record(&self, event: Event) -> Metric {
        let is_filtered = event.filtered_by.is_some();
        if self.recorder.record(vec![event]).await.is_err() {
            return Metric::EventCallsFailed;
        }
        let metric = if is_filtered { Metric::EventsFiltered } else { Metric::EventsAccepted };
        self.counters.add(metric, 1);
        Metric::EventCallsTaken
    }
}

impl Conversion {
    /// What the query of the URL says: `id` and `value`, each once at most. What else stands there
    /// is somebody else's.
    pub(super) fn read(query: Option<&str>) -> Result<Self, &'static str> {
        let (mut id, mut value) = (None, None);
        for (name, said) in url::form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            let place = match &*name {
                "id" => &mut id,
                "value" => &mut value,
                _ => continue,
            };
            if place.replace(said.into_owned()).is_some() {
                return Err("id and value may be given once\n");
            }
        }
        let id = id.unwrap_or_default();
        check_id(&id)?;
        let value = value.filter(|value| !value.is_empty()).map_or(Ok(0), |value| value.parse());
        let value_micros = value.map_err(|_| "value is a whole number of micros\n")?;
        Ok(Self { id, value_micros })
    }
}

/// A conversion's id is kept as it is: it is bounded, as every id.
pub(super) fn check_id(id: &str) -> Result<(), &'static str> {
    if id.len() > ID_BYTES_MAX || id.chars().any(char::is_control) {
        return Err("id is at most 128 bytes, without control characters\n");
    }
    Ok(())
}

/// An event without a conversion's own fields.
pub(super) fn event(
    kind: Kind,
    showing: Showing,
    at_us: i64,
    filtered_by: Option<String>,
) -> Event {
    Event { kind, showing, at_us, tag: String::new(), value_micros: 0, filtered_by }
}

/// What stands where nothing is known.
pub(super) fn nothing_here() -> Reply {
    (line(StatusCode::NOT_FOUND, "nothing is here\n"), Metric::EventCallsRefused)
}

/// What stands where another method would do.
pub(super) fn not_by_this_method() -> Reply {
    let response = line(StatusCode::METHOD_NOT_ALLOWED, "not by this method\n");
    (response, Metric::EventCallsRefused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conversions_id_and_value_are_read_and_nothing_else() {
        let read = |query| Conversion::read(Some(query));
        let is = |id: &str, value_micros| Ok(Conversion { id: id.to_owned(), value_micros });
        assert_eq!(Conversion::read(None), is("", 0));
        assert_eq!(read("id=order+7%2F8&value=12500000&cb=1"), is("order 7/8", 12_500_000));
        assert_eq!(read("value=-5"), is("", -5), "goods that came back");
        assert_eq!(read("id=&value="), is("", 0));
        let long = format!("id={}", "x".repeat(129));
        for bad in ["value=1.5", "value=NaN", "value=9223372036854775808", "id=a&id=b", "id=%00"] {
            assert!(read(bad).is_err(), "{bad}");
        }
        assert!(read(&long).is_err());
        assert!(read(&long[..long.len() - 1]).is_ok());
    }
}
