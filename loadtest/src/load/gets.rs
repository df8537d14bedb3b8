//! Events as browsers tell of them: a click or a pixel is a GET of its own.

use crate::check::Wrong;
use crate::h2::connection::End;
use crate::h2::head::Head;
use crate::lanes::Lane;
use crate::load::common::cut_off;
use crate::load::follow::Showing;
use crate::meter::Meter;

/// What a browser says that it is; a tool's own name is on the list of known bots.
pub(crate) const USER_AGENT: &str =
    "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// `/c/TOKEN`: answered with a redirect to where the ad leads.
    Click,
    /// `/i/TOKEN`: answered with a picture.
    Pixel,
}

/// One GET.
pub(crate) struct Call {
    showing: Showing,
    status: Option<u16>,
    location: Vec<u8>,
    body_bytes: usize,
}

/// Whether it is a click: only these lead somewhere.
pub(crate) fn is_click(call: &Call) -> bool {
    !call.showing.landing_url.is_empty()
}

/// Sends GETs and looks at their answers.
pub(crate) struct Gets {
    what: What,
    pub(crate) meter: Meter,
    /// Answered as they should be: the server has them.
    pub(crate) acknowledged: u64,
    path: Vec<u8>,
    lane: usize,
}

impl Gets {
    pub(crate) fn new(what: What, meter: Meter) -> Self {
        Self { what, meter, acknowledged: 0, path: Vec::new(), lane: 0 }
    }

    /// Sends one over `lanes`; gives it back where none of them has room.
    #[must_use]
    pub(crate) fn send<T: From<Call>>(
        &mut self,
        showing: Showing,
        lanes: &mut [Lane<T>],
    ) -> Option<Showing> {
        for _ in 0..lanes.len() {
            self.lane = (self.lane + 1) % lanes.len();
            let connection = &mut lanes[self.lane].connection;
            if !connection.has_room(0) {
                continue;
            }
            self.path.clear();
            self.path.extend_from_slice(if self.what == What::Click { b"/c/" } else { b"/i/" });
            self.path.extend_from_slice(&showing.token);
            let call = Call { showing, status: None, location: Vec::new(), body_bytes: 0 };
            connection.begin(call.into(), Some(&self.path), &[], true);
            return None;
        }
        Some(showing)
    }

    /// When a call should have been sent.
    pub(crate) fn intended_ns(call: &Call) -> u64 {
        call.showing.due_ns
    }

    pub(crate) fn head(call: &mut Call, head: &Head) {
        call.status = head.status.or(call.status);
        if !head.location.is_empty() {
            call.location.clone_from(&head.location);
        }
    }

    pub(crate) fn data(call: &mut Call, bytes: &[u8]) {
        call.body_bytes += bytes.len();
    }

    pub(crate) fn end(&mut self, call: &Call, end: End, now_ns: u64) {
        if end != End::Whole {
            return cut_off(&mut self.meter, end, now_ns, 1);
        }
        match (self.judge(call), call.status) {
            (Ok(()), _) => {
                self.acknowledged += 1;
                self.meter.answered(call.showing.due_ns, now_ns, 1);
            }
            (Err(_), Some(status @ 429..)) if status == 429 || status >= 500 => {
                self.meter.refused(format!("HTTP {status}"), now_ns, 1);
            }
            (Err(wrong), _) => self.meter.wrong(wrong, now_ns, 1),
        }
    }

    fn judge(&self, call: &Call) -> Result<(), Wrong> {
        match (self.what, call.status) {
            (_, None) => Err("an answer without a status"),
            (What::Click, Some(302)) if call.location != call.showing.landing_url => {
                Err("a click that leads elsewhere")
            }
            (What::Pixel, Some(200)) if call.body_bytes == 0 => Err("a pixel without a picture"),
            (What::Click, Some(302)) | (What::Pixel, Some(200)) => Ok(()),
            (_, Some(404)) => Err("a token that the server itself gave is not known (404)"),
            (_, Some(410)) => Err("a fresh token is over (410)"),
            (What::Click, Some(_)) => Err("a click that is not answered with 302"),
            (What::Pixel, Some(_)) => Err("a pixel that is not answered with 200"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::TOKEN_CHARS;
    use crate::meter::Window;

    fn call(status: u16, location: &str, body_bytes: usize) -> Call {
        let landing_url = b"https://landing.example/a".to_vec();
        let showing = Showing { token: [b'A'; TOKEN_CHARS], due_ns: 1, landing_url };
        Call { showing, status: Some(status), location: location.as_bytes().to_vec(), body_bytes }
    }

    #[test]
    fn a_click_must_lead_where_its_ad_does() {
        let window = Window { from_ns: 0, to_ns: 10 };
        let mut gets = Gets::new(What::Click, Meter::new(window, 100).unwrap());
        gets.end(&call(302, "https://landing.example/a", 0), End::Whole, 5);
        assert_eq!((gets.acknowledged, gets.meter.counts.answered), (1, 1));
        for (status, location, wrong) in [
            (302, "https://landing.example/b", "a click that leads elsewhere"),
            (404, "", "a token that the server itself gave is not known (404)"),
            (410, "", "a fresh token is over (410)"),
            (200, "", "a click that is not answered with 302"),
        ] {
            gets.end(&call(status, location, 0), End::Whole, 5);
            assert_eq!(gets.meter.wrong[wrong], 1);
        }
        gets.end(&call(503, "", 0), End::Whole, 5);
        gets.end(&call(302, "https://landing.example/a", 0), End::Broken, 5);
        assert_eq!((gets.meter.counts.refused, gets.meter.counts.broken), (1, 1));
        assert_eq!(gets.acknowledged, 1);
    }

    #[test]
    fn a_pixel_must_have_a_picture() {
        let window = Window { from_ns: 0, to_ns: 10 };
        let mut gets = Gets::new(What::Pixel, Meter::new(window, 100).unwrap());
        gets.end(&call(200, "", 43), End::Whole, 5);
        gets.end(&call(200, "", 0), End::Whole, 5);
        assert_eq!((gets.acknowledged, gets.meter.counts.wrong), (1, 1));
    }
}
