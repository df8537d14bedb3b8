//! Values and how they are told.

use std::time::Duration;

/// Values of one kind, measured one by one.
#[derive(Default)]
pub(crate) struct Sample(Vec<f64>);

impl FromIterator<f64> for Sample {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        Self(values.into_iter().collect())
    }
}

impl Sample {
    pub(crate) fn push(&mut self, value: f64) {
        self.0.push(value);
    }

    pub(crate) fn extend(&mut self, values: Vec<f64>) {
        self.0.extend(values);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn median(&self) -> f64 {
        self.percentile(50)
    }

    /// The value that so many hundredths of all are not above.
    pub(crate) fn percentile(&self, hundredths: usize) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let rank = (sorted.len() * hundredths).div_ceil(100).max(1);
        sorted[rank - 1]
    }

    /// The median, the middle half and the ends.
    pub(crate) fn spread(&self) -> String {
        let [least, low, median, high, most] =
            [0, 25, 50, 75, 100].map(|hundredths| self.percentile(hundredths));
        format!("{median:.3}, half of them {low:.3} to {high:.3}, all {least:.3} to {most:.3}")
    }
}

/// A share in hundredths.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

pub(crate) fn micros(took: Duration) -> f64 {
    took.as_secs_f64() * 1e6
}

/// A time given in microseconds, in the unit that suits it, to about three figures.
pub(crate) fn time(us: f64) -> String {
    let (value, unit) = match us {
        us if us < 1e3 => (us, "us"),
        us if us < 1e6 => (us / 1e3, "ms"),
        us => (us / 1e6, "s"),
    };
    let places = match value {
        value if value < 10.0 => 2,
        value if value < 100.0 => 1,
        _ => 0,
    };
    format!("{value:.places$} {unit}")
}

/// A number with its thousands set apart.
pub(crate) fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
