//! Checks of single values; each problem names the field, what is wrong and the limit.

use prost_types::{Duration, Timestamp};
use slotwise_core::model::{Keywords, Size};
use slotwise_proto::v1;

use crate::catalog::problem::Problem;
use crate::limits::{
    AD_KEYWORDS_MAX, ID_BYTES_MAX, KEYWORD_BYTES_MAX, PRICE_MICROS_MAX, SIZE_PIXELS_MAX,
};

/// Instants from here on are past the year 9999, which protobuf's timestamps cannot say.
const TIMESTAMP_SECONDS_END: i64 = 253_402_300_800;
/// The first instant of the year 1.
const TIMESTAMP_SECONDS_MIN: i64 = -62_135_596_800;

/// Gathers the problems of one object.
#[derive(Debug, Default)]
pub struct Checker {
    problems: Vec<Problem>,
}

impl Checker {
    /// `value` when no problem was found.
    ///
    /// # Errors
    /// Every problem, in the order in which it was found.
    pub fn finish<T>(self, value: T) -> Result<T, Vec<Problem>> {
        if self.problems.is_empty() { Ok(value) } else { Err(self.problems) }
    }

    /// Notes that `field` is wrong.
    pub fn refuse(&mut self, field: impl Into<String>, message: impl Into<String>) {
        self.problems.push(Problem::invalid(field, message));
    }

    /// Notes it unless `holds`.
    pub fn require(&mut self, holds: bool, field: &str, message: impl Into<String>) {
        if !holds {
            self.refuse(field, message);
        }
    }

    /// An id: not empty, not long, no control characters.
    pub fn id(&mut self, field: &str, value: &str) {
        self.require(!value.is_empty(), field, "must not be empty");
        self.text(field, value, ID_BYTES_MAX);
    }

    /// A short text: at most `bytes_max` bytes, no control characters.
    pub fn text(&mut self, field: &str, value: &str, bytes_max: usize) {
        if value.len() > bytes_max {
            let len = value.len();
            self.refuse(field, format!("has {len} bytes; the limit is {bytes_max}"));
        }
        if value.chars().any(char::is_control) {
            self.refuse(field, "holds a control character");
        }
    }

    /// A list of short names: not empty ones, at most `len_max` of them.
    pub fn names(&mut self, field: &str, values: &[String], len_max: usize) {
        self.len(field, values.len(), len_max);
        for (at, value) in values.iter().enumerate() {
            self.id(&format!("{field}[{at}]"), value);
        }
    }

    /// A list's length.
    pub fn len(&mut self, field: &str, len: usize, len_max: usize) {
        if len > len_max {
            self.refuse(field, format!("has {len} entries; the limit is {len_max}"));
        }
    }

    /// An amount per thousand, click or conversion, in micros.
    pub fn price_micros(&mut self, field: &str, micros: i64) {
        self.micros(field, micros, PRICE_MICROS_MAX);
    }

    /// An amount in micros: not negative, at most `max`.
    pub fn micros(&mut self, field: &str, micros: i64, max: i64) {
        if micros < 0 {
            self.refuse(field, format!("is {micros}; an amount must not be negative"));
        } else if micros > max {
            self.refuse(field, format!("is {micros}; the limit is {max}"));
        }
    }

    /// A size in pixels.
    pub fn size(&mut self, field: &str, size: &v1::Size) -> Size {
        for (name, pixels) in [("width", size.width), ("height", size.height)] {
            if pixels == 0 || pixels > SIZE_PIXELS_MAX {
                let field = format!("{field}.{name}");
                self.refuse(field, format!("is {pixels}; 1 to {SIZE_PIXELS_MAX} would do"));
            }
        }
        Size { width: size.width, height: size.height }
    }

    /// Keywords of an ad.
    pub fn keywords(&mut self, field: &str, values: &[String]) -> Keywords {
        self.len(field, values.len(), AD_KEYWORDS_MAX);
        for (at, value) in values.iter().enumerate() {
            let field = format!("{field}[{at}]");
            self.text(&field, value, KEYWORD_BYTES_MAX);
            self.require(!value.trim().is_empty(), &field, "must not be empty");
        }
        Keywords::new(values.iter().map(String::as_str))
    }

    /// An instant in microseconds of Unix time; nothing: absent.
    pub fn instant(&mut self, field: &str, value: Option<&Timestamp>) -> Option<i64> {
        let value = value?;
        let in_range = (TIMESTAMP_SECONDS_MIN..TIMESTAMP_SECONDS_END).contains(&value.seconds);
        if !in_range || !(0..1_000_000_000).contains(&value.nanos) {
            self.refuse(field, "is no instant between the years 1 and 9999");
            return None;
        }
        Some(value.seconds * 1_000_000 + i64::from(value.nanos / 1_000))
    }

    /// A length of time in whole seconds, from 1 to `seconds_max`; in microseconds.
    pub fn seconds(&mut self, field: &str, value: Option<&Duration>, seconds_max: i64) -> i64 {
        let Some(value) = value else {
            self.refuse(field, "is missing");
            return 0;
        };
        if value.nanos != 0 {
            self.refuse(field, "must be whole seconds");
        }
        if !(1..=seconds_max).contains(&value.seconds) {
            let seconds = value.seconds;
            self.refuse(field, format!("is {seconds} s; 1 to {seconds_max} s would do"));
            return 0;
        }
        value.seconds * 1_000_000
    }
}
