//! Impressions and conversions that a URL tells.

use std::sync::atomic::Ordering;

use slotwise_server::events::{Event, Kind};
use slotwise_server::telemetry::Metric;
use slotwise_server::tokens::Showing;

use crate::bench::{Door, Reply, event, showing};
use crate::support::NOON_US;

fn assert_pixel(reply: &Reply) {
    assert_eq!(reply.status, 200, "{reply:?}");
    assert_eq!(reply.header("content-type"), Some("image/gif"));
    assert_eq!(reply.header("cache-control"), Some("no-store"));
    assert_eq!(reply.body.len(), 43);
    // GIF89a, 1 by 1.
    assert_eq!(reply.body[..10], *b"GIF89a\x01\x00\x01\x00");
    assert_eq!(reply.body[42], b';');
}

#[tokio::test]
async fn an_impression_is_a_pixel_and_is_recorded() {
    let door = Door::open().await;
    let url = format!("/i/{}", door.token(&showing(1)));
    assert_pixel(&door.get(&url).await);
    assert_eq!(door.recorded(), [event(Kind::Impression, showing(1), NOON_US)]);
    assert_eq!(door.settled(), [], "choosing it was showing it");
    let head = door.ask("HEAD", &url, &[]).await;
    assert_eq!((head.status, head.header("content-length")), (200, Some("43")));
    assert_pixel(&door.ask("GET", &url, &[("sec-purpose", b"prefetch")]).await);
    assert_eq!(door.recorded(), []);
    door.recorder.is_broken.store(true, Ordering::SeqCst);
    assert_pixel(&door.get(&url).await);
}

#[tokio::test]
async fn an_impression_settles_what_its_decision_holds_unless_a_bot_saw_it() {
    let door = Door::open().await;
    let held = Showing { on_impression: true, ..showing(1) };
    let url = format!("/i/{}", door.token(&held));
    assert_pixel(&door.ask("GET", &url, &[("user-agent", b"Googlebot/2.1")]).await);
    assert_eq!(door.settled(), []);
    assert!(door.recorded()[0].filtered_by.is_some());
    door.clock.set(NOON_US + 5);
    assert_pixel(&door.get(&url).await);
    assert_eq!(door.settled(), [(true, held, NOON_US + 5)]);
    assert_eq!(door.recorded(), [event(Kind::Impression, held, NOON_US + 5)]);
}

#[tokio::test]
async fn a_click_before_its_impression_is_one_of_each() {
    let door = Door::open().await;
    let token = door.token(&showing(1));
    for url in ["c", "i", "i", "c"] {
        door.get(&format!("/{url}/{token}")).await;
    }
    let recorded = door.recorded();
    let kinds: Vec<_> = recorded.iter().map(|event| event.kind).collect();
    assert_eq!(kinds, [Kind::Click, Kind::Impression, Kind::Impression, Kind::Click]);
    let ids: std::collections::HashSet<_> = recorded.iter().map(Event::id).collect();
    assert_eq!(ids.len(), 2, "repeats are recorded under the id that they count once by");
}

#[tokio::test]
async fn a_conversion_has_an_id_and_a_value() {
    let door = Door::open().await;
    let url = format!("/v/{}", door.token(&showing(1)));
    // Advertisers' servers tell them, by whatever program.
    let agent: [(&str, &[u8]); 1] = [("user-agent", b"curl/8.9.0")];
    assert_pixel(&door.ask("GET", &format!("{url}?id=order%2D7&value=12500000&z=1"), &agent).await);
    assert_pixel(&door.get(&url).await);
    let plain = event(Kind::Conversion, showing(1), NOON_US);
    let told = Event { tag: "order-7".into(), value_micros: 12_500_000, ..plain.clone() };
    assert_eq!(door.recorded(), [told, plain]);
    for bad in ["?value=1.5", "?value=many", "?id=a&id=b", "?id=%0a"] {
        door.get(&format!("{url}{bad}")).await.assert_refused(400);
    }
    door.recorder.is_broken.store(true, Ordering::SeqCst);
    let reply = door.get(&url).await;
    reply.assert_refused(503);
    assert_eq!(reply.header("retry-after"), Some("1"));
    assert_eq!(door.recorded(), []);
    assert_eq!(door.count(Metric::EventCallsRefused), 4);
    assert_eq!(door.count(Metric::EventCallsFailed), 1);
}
