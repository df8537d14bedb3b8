//! Clicks.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use slotwise_core::model::AdSerial;
use slotwise_server::events::{Event, Kind};
use slotwise_server::telemetry::Metric;
use slotwise_server::tokens::{Showing, TokenKeys};
use tokio::sync::Semaphore;

use crate::bench::{Door, Http1, LANDING, event, key, showing};
use crate::support::NOON_US;

const APPLEBOT: &[u8] = b"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_5) AppleWebKit/605.1.15 \
(KHTML, like Gecko) Version/13.1.1 Safari/605.1.15 (Applebot/0.1; +http://www.apple.com/go/applebot)";
const CUBOT: &[u8] = b"Mozilla/5.0 (Linux; Android 9; CUBOT_P30) AppleWebKit/537.36 (KHTML, like \
Gecko) Chrome/80.0.3987.99 Mobile Safari/537.36";

/// Where a click by `token` on the known ad leads.
fn landing(token: &str) -> String {
    LANDING.replace("{click_token}", token)
}

#[tokio::test]
async fn a_click_is_durable_before_it_leads_to_the_landing_page() {
    let door = Door::open().await;
    let token = door.token(&showing(1));
    let gate = Arc::new(Semaphore::new(0));
    *door.recorder.gate.lock().unwrap() = Some(Arc::clone(&gate));
    let mut browser = Http1::connect(door.addr).await;
    browser.send("GET", &format!("/c/{token}"), &[], b"").await;
    door.recorder.begun.notified().await;
    assert!(!browser.is_answered(), "the log does not have it yet");
    assert_eq!(door.recorded(), []);
    gate.add_permits(1);
    let reply = browser.read(false).await;
    reply.assert_leads_to(&landing(&token));
    assert_eq!(reply.body, b"");
    assert_eq!(door.recorded(), [event(Kind::Click, showing(1), NOON_US)]);
}

#[tokio::test]
async fn nothing_in_the_request_changes_where_a_click_leads() {
    let door = Door::open().await;
    let token = door.token(&showing(1));
    let headers: [(&str, &[u8]); 3] = [
        ("referer", b"https://evil.example/"),
        ("x-forwarded-host", b"evil.example"),
        ("x-original-url", b"/evil"),
    ];
    for more in
        ["?url=https://evil.example", "?", "?click_token=x&u=//evil.example", "?a=%0d%0aX:y"]
    {
        let reply = door.ask("GET", &format!("/c/{token}{more}"), &headers).await;
        reply.assert_leads_to(&landing(&token));
    }
    for more in ["/", "/https://evil.example", "//evil.example", "%20", "."] {
        door.get(&format!("/c/{token}{more}")).await.assert_refused(404);
    }
}

#[tokio::test]
async fn a_bad_token_leads_nowhere_and_is_not_recorded() {
    let door = Door::open().await;
    let token = door.token(&showing(1));
    let foreign = TokenKeys::new(&[key(9)]).unwrap().seal(&showing(1));
    let forged = TokenKeys::new(&[(1, [9; 32])]).unwrap().seal(&showing(1));
    let mut bad = vec![foreign, forged, String::new(), "x".into(), format!("{token}A")];
    for at in 0..token.len() {
        let mut flipped = token.clone().into_bytes();
        flipped[at] = if flipped[at] == b'A' { b'B' } else { b'A' };
        bad.push(String::from_utf8(flipped).unwrap());
        if at % 13 == 0 {
            bad.push(token[..at].to_owned());
            bad.push(token[at + 1..].to_owned());
        }
    }
    let mut browser = Http1::connect(door.addr).await;
    for bad in &bad {
        for url in ["c", "i", "v"] {
            let reply = browser.ask("GET", &format!("/{url}/{bad}"), &[], b"").await;
            reply.assert_refused(404);
        }
    }
    assert_eq!(door.recorded(), []);
    assert_eq!(door.count(Metric::EventCallsRefused), 3 * bad.len() as u64);
    assert_eq!(door.count(Metric::EventCallsTaken), 0);
}

#[tokio::test]
async fn a_token_holds_to_the_end_of_its_life_and_not_a_second_longer() {
    let door = Door::open().await;
    let token = door.token(&showing(1));
    let landing = landing(&token);
    for (url, life_s, kind) in [
        ("i", 3_600, Kind::Impression),
        ("c", 86_400, Kind::Click),
        ("v", 30 * 86_400, Kind::Conversion),
    ] {
        let url = format!("/{url}/{token}");
        let end_us = NOON_US + life_s * 1_000_000;
        door.clock.set(end_us);
        let reply = door.get(&url).await;
        assert_eq!(reply.status, if kind == Kind::Click { 302 } else { 200 }, "{url}");
        assert_eq!(reply.header("location").is_some(), kind == Kind::Click);
        assert_eq!(door.recorded(), [event(kind, showing(1), end_us)]);
        door.clock.set(end_us + 1_000_000);
        for method in ["GET", "HEAD"] {
            door.ask(method, &url, &[]).await.assert_refused(410);
        }
        assert_eq!(door.recorded(), []);
    }
    // A token of a node whose clock is ahead.
    door.clock.set(NOON_US - 2_000_000);
    door.get(&format!("/c/{token}")).await.assert_leads_to(&landing);
}

#[tokio::test]
async fn bots_and_heads_are_led_on_and_not_counted() {
    let door = Door::open().await;
    let token = door.token(&showing(1));
    let url = format!("/c/{token}");
    door.ask("GET", &url, &[("user-agent", APPLEBOT)]).await.assert_leads_to(&landing(&token));
    for _ in 0..3 {
        let reply = door.ask("HEAD", &url, &[]).await;
        reply.assert_leads_to(&landing(&token));
    }
    let recorded = door.recorded();
    let [Event { filtered_by: Some(list), .. }] = &recorded[..] else { panic!("{recorded:?}") };
    let (name, version) = list.split_once(' ').unwrap();
    assert_eq!(name, "crawler-user-agents");
    assert!(version.starts_with(|first: char| first.is_ascii_digit()), "{version}");
    assert_eq!(door.count(Metric::EventCallsUncounted), 3);
    assert_eq!((door.count(Metric::EventsFiltered), door.count(Metric::EventsAccepted)), (1, 0));
}

#[tokio::test]
async fn whatever_the_user_agent_is_the_visitor_is_led_on() {
    let door = Door::open().await;
    let token = door.token(&showing(1));
    let url = format!("/c/{token}");
    let long = vec![b'x'; 64 << 10];
    let agents: [Option<&[u8]>; 5] =
        [None, Some(b""), Some(&long), Some(b"\xff\xfe\xc3\x28 Mozilla"), Some(CUBOT)];
    for agent in agents {
        let headers: Vec<_> = agent.map(|agent| ("user-agent", agent)).into_iter().collect();
        door.ask("GET", &url, &headers).await.assert_leads_to(&landing(&token));
        assert_eq!(door.recorded(), [event(Kind::Click, showing(1), NOON_US)]);
    }
    // More than any header may be: refused, and not by a fault of ours.
    let huge = vec![b'x'; 1 << 20];
    let reply = door.ask("GET", &url, &[("user-agent", &huge)]).await;
    assert_eq!(reply.status, 431);
}

#[tokio::test]
async fn looking_ahead_is_no_click() {
    let door = Door::open().await;
    let token = door.token(&showing(1));
    let ahead: [(&str, &[u8]); 4] = [
        ("sec-purpose", b"prefetch"),
        ("sec-purpose", b"prefetch;prerender"),
        ("purpose", b"prefetch"),
        ("x-moz", b"prefetch"),
    ];
    for header in ahead {
        let reply = door.ask("GET", &format!("/c/{token}"), &[header]).await;
        reply.assert_leads_to(&landing(&token));
    }
    assert_eq!(door.recorded(), []);
    door.get(&format!("/c/{token}")).await.assert_leads_to(&landing(&token));
    assert_eq!(door.recorded().len(), 1, "then it is one");
}

#[tokio::test]
async fn a_visitor_is_led_on_where_the_click_is_lost() {
    let door = Door::open().await;
    door.recorder.is_broken.store(true, Ordering::SeqCst);
    let token = door.token(&showing(1));
    door.get(&format!("/c/{token}")).await.assert_leads_to(&landing(&token));
    assert_eq!(door.count(Metric::EventCallsFailed), 1);
    assert_eq!(door.count(Metric::EventsAccepted), 0);
}

/// Several ads in one answer, and two showings that are alike in all but the decision.
#[tokio::test]
async fn each_token_credits_its_own_showing() {
    let door = Door::open().await;
    let of = |decision, slot, ad| Showing { slot, ad: AdSerial(ad), ..showing(decision) };
    let showings = [of(1, 0, 8), of(1, 1, 9), of(1, 2, 8), of(2, 0, 8)];
    for (showing, landing) in
        showings.iter().zip(["https://8/", "https://9/", "https://8/", "https://8/"])
    {
        let reply = door.get(&format!("/c/{}", door.token(showing))).await;
        reply.assert_leads_to(landing);
    }
    let recorded = door.recorded();
    let expected = showings.map(|showing| event(Kind::Click, showing, NOON_US));
    assert_eq!(recorded, expected);
    let ids: std::collections::HashSet<_> = recorded.iter().map(Event::id).collect();
    assert_eq!(ids.len(), 4);
}

#[tokio::test]
async fn the_key_before_is_taken_and_the_one_before_that_is_not() {
    let door = Door::open().await;
    let token = door.token(&showing(1));
    door.keys.store(Arc::new(TokenKeys::new(&[key(2), key(1)]).unwrap()));
    door.get(&format!("/c/{token}")).await.assert_leads_to(&landing(&token));
    door.keys.store(Arc::new(TokenKeys::new(&[key(3), key(2)]).unwrap()));
    door.get(&format!("/c/{token}")).await.assert_refused(404);
}

#[tokio::test]
async fn the_store_is_asked_for_an_ad_that_this_node_has_not_heard_of() {
    let door = Door::open().await;
    let url = async |ad| {
        let token = door.token(&Showing { ad, ..showing(1) });
        door.get(&format!("/c/{token}")).await
    };
    // The store begins to number at 1, where this node knows nobody.
    let new = door.put_unheard("new", "https://new.example/?a=1").await;
    url(new).await.assert_leads_to("https://new.example/?a=1");
    let gone = door.put_unheard("gone", "https://gone.example/").await;
    door.delete("gone").await;
    url(gone).await.assert_leads_to("https://gone.example/");
    // Made again under its id: the old tokens lead where they led.
    let again = door.put_unheard("gone", "https://again.example/").await;
    url(again).await.assert_leads_to("https://again.example/");
    url(gone).await.assert_leads_to("https://gone.example/");
    // What no check would have let in leads nowhere.
    let bad = door.put_unheard("bad", "javascript:alert(1)").await;
    url(bad).await.assert_refused(404);
    let recorded = door.recorded().len();
    url(AdSerial(4_000)).await.assert_refused(404);
    assert_eq!(door.recorded(), [], "nobody knows it: nothing is recorded");
    assert_eq!(recorded, 4);
}
