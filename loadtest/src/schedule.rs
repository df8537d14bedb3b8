//! When requests shall be sent. The instants follow from the rate and the seed alone: whatever the
//! server does, none of them moves.

use rand_core::SeedableRng;
use rand_distr::{Distribution, Exp1};
use rand_xoshiro::Xoshiro256PlusPlus;

/// How the instants lie.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrivals {
    /// At random, as independent callers come
    Poisson,
    /// At equal distances
    Constant,
}

/// Instants, in nanoseconds from the beginning of a run.
pub(crate) struct Schedule {
    gap_ns: f64,
    next_ns: f64,
    count: f64,
    random: Option<Xoshiro256PlusPlus>,
    end_ns: u64,
}

impl Schedule {
    /// `rate` a second, until `end_ns`.
    pub(crate) fn new(arrivals: Arrivals, rate: f64, end_ns: u64, seed: u64) -> Self {
        let random = match arrivals {
            Arrivals::Constant => None,
            Arrivals::Poisson => Some(Xoshiro256PlusPlus::seed_from_u64(!seed)),
        };
        let mut schedule = Self { gap_ns: 1e9 / rate, next_ns: 0.0, count: 0.0, random, end_ns };
        schedule.step();
        schedule
    }

    /// The next instant; none after the end.
    #[inline]
    pub(crate) fn next_ns(&self) -> Option<u64> {
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a time that is not negative"
        )]
        let next = self.next_ns as u64;
        (next < self.end_ns).then_some(next)
    }

    /// Takes the next instant, if it is not after `now_ns`.
    #[inline]
    pub(crate) fn take(&mut self, now_ns: u64) -> Option<u64> {
        let next = self.next_ns().filter(|next| *next <= now_ns)?;
        self.step();
        Some(next)
    }

    #[inline]
    fn step(&mut self) {
        self.count += 1.0;
        match &mut self.random {
            // By multiplication: a sum of many equal gaps would drift.
            None => self.next_ns = self.count * self.gap_ns,
            Some(rng) => {
                let gap: f64 = Exp1.sample(rng);
                self.next_ns += gap * self.gap_ns;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(mut schedule: Schedule) -> Vec<u64> {
        std::iter::from_fn(|| schedule.take(u64::MAX)).collect()
    }

    #[test]
    fn constant_arrivals_are_equally_far_apart_and_do_not_drift() {
        let instants = all(Schedule::new(Arrivals::Constant, 70_000.0, 60_000_000_000, 1));
        // The one at the end is not before it.
        assert_eq!(instants.len(), 60 * 70_000 - 1);
        assert_eq!(instants[6], 100_000);
        assert_eq!(instants[69_999], 1_000_000_000);
        assert_eq!(instants[59 * 70_000 - 1], 59_000_000_000);
    }

    #[test]
    fn poisson_arrivals_have_the_rate_the_spread_and_the_seed() {
        let poisson = |seed| all(Schedule::new(Arrivals::Poisson, 1_000.0, 100_000_000_000, seed));
        let instants = poisson(1);
        // The mean of a Poisson distribution of 100,000, give or take six of its deviations.
        assert!((98_000..=102_000).contains(&instants.len()), "{}", instants.len());
        assert!(instants.is_sorted());
        // Of exponential gaps a share of 1/e is longer than the mean one.
        let long = instants.windows(2).filter(|pair| pair[1] - pair[0] > 1_000_000).count();
        #[allow(clippy::cast_precision_loss)]
        let share = long as f64 / instants.len() as f64;
        assert!((share - (-1.0_f64).exp()).abs() < 0.01, "{share}");
        assert_eq!(instants, poisson(1));
        assert_ne!(instants, poisson(2));
    }

    #[test]
    fn nothing_is_taken_before_its_time() {
        let mut schedule = Schedule::new(Arrivals::Constant, 1_000.0, 3_000_000, 1);
        assert_eq!(schedule.take(999_999), None);
        assert_eq!(schedule.take(1_000_000), Some(1_000_000));
        assert_eq!(schedule.next_ns(), Some(2_000_000));
        assert_eq!(schedule.take(9_000_000), Some(2_000_000));
        assert_eq!((schedule.take(9_000_000), schedule.next_ns()), (None, None));
    }
}
